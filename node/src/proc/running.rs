//! A process of a GPU, as gpushare-nvml reports it: [`step`](super::step) finds these out.

/// A process that computes on a GPU, or recently did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The process's number.
    pub pid: u32,
    /// When it started, in ticks since the machine booted. That was before NVML was asked, so no other process has the
    /// number. 0 if the process is gone.
    pub start: u64,
    /// Its highest utilization of the GPU in NVML's last samples, in percent.
    pub busy: u32,
    /// How much of the GPU's memory it uses, in MiB, if NVML reports it.
    pub memory: Option<u32>,
    /// Its user; the lowest if it has several.
    pub user: u32,
    /// Its session.
    pub session: u32,
    /// The job that it is in, if any.
    pub place: Place,
}

/// Whether a process is in a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// That is unknown: the process is gone, or a slurmstepd has started it outside of a job's cgroup.
    #[default]
    Untold,
    /// In this job.
    Job(u32),
    /// In no job, with the name of NVIDIA's MPS daemon or server.
    Mps,
    /// In no job.
    Nowhere,
}
