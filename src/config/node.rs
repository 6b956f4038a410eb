//! How GPUs are shared on a node: what an administrator can choose.

use std::path::PathBuf;
use std::time::Duration;

use super::Problem;
use super::gpu_files::GpuFiles;
use super::units::UnitsPerGpu;
use crate::word::words;

/// The node's part of gpushare.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// `Placement`
    pub placement: Placement,
    /// `UnitsPerGpu`: units that fill a GPU; given wherever `placement` is not off.
    pub units_per_gpu: Option<UnitsPerGpu>,
    /// `ShareGRES`: the GRES whose counts are shares, such as `mps`.
    pub share_gres: String,
    /// `GpuFile`
    pub gpu_files: GpuFiles,
    /// `Packing`
    pub packing: Packing,
    /// `UserMix`
    pub user_mix: UserMix,
    /// `Overcommit`
    pub overcommit: Overcommit,
    /// `OnCollision`
    pub on_collision: OnCollision,
    /// `FenceDrm`: render and card nodes of other GPUs are closed too.
    pub fence_drm: bool,
    /// `VisibleDevices`
    pub visible_devices: VisibleDevices,
    /// `FrameworkEnv`: variables for TensorFlow, JAX and PyTorch.
    pub framework_env: FrameworkEnv,
    /// `MemPerUnit`, in MiB; without it a share gets its part of the memory that NVML reports for the GPU.
    pub mem_per_unit: Option<u32>,
    /// `Nvml`
    pub nvml: Nvml,
    /// `NvmlTimeout`: how long a prolog waits for NVML.
    pub nvml_timeout: Duration,
    /// `Mps`
    pub mps: Mps,
    /// `MpsControl`: NVIDIA's nvidia-cuda-mps-control; nvidia-cuda-mps-server is looked for beside it first.
    pub mps_control: PathBuf,
    /// `MpsDir`: where the daemons' pipes and logs are.
    pub mps_dir: PathBuf,
    /// `MpsTimeout`: how long a daemon may take to start, answer or end.
    pub mps_timeout: Duration,
    /// `OnMpsFailure`
    pub on_mps_failure: OnMpsFailure,
    /// `ComputeMode`
    pub compute_mode: ComputeMode,
    /// `ForeignProcesses`
    pub foreign_processes: ForeignProcesses,
    /// `JobstatsDir`: the folder of jobstats' files.
    pub jobstats_dir: Option<PathBuf>,
    /// `DcgmJobMappingDir`: the folder of dcgm-exporter's files.
    pub dcgm_dir: Option<PathBuf>,
}

impl NodeConfig {
    /// How many units the largest GPU has; `None` if gpushare places no shares here.
    pub fn largest_gpu(&self) -> Option<u64> {
        let units = self.units_per_gpu.as_ref().filter(|_| self.placement != Placement::Off);
        units.map(|units| u64::from(units.most()))
    }

    /// Whether a job that the ledger has no entry of can open no GPU here. Under `own` Slurm closes nothing. Under
    /// `override` it opened the GPU that it allocated to a share, or one that it gave whole and that the next share
    /// would be put on, since nobody has noted it. DRM nodes it leaves open to everybody.
    pub fn closes_without_entry(&self) -> bool {
        match self.placement {
            Placement::Own | Placement::Override => true,
            Placement::Follow => self.fence_drm,
            Placement::Off => false,
        }
    }

    /// Whether one setting goes with the others.
    ///
    /// # Errors
    /// A setting lacks another that it needs, or can't be had with another.
    pub(super) fn is_sound(&self) -> Result<(), Problem> {
        let because = match self.placement {
            Placement::Off => None,
            Placement::Follow => Some("Placement=follow"),
            Placement::Own => Some("Placement=own"),
            Placement::Override => Some("Placement=override"),
        };
        if let (None, Some(because)) = (&self.units_per_gpu, because) {
            return Err(Problem::Missing { key: "UnitsPerGpu", because });
        }
        // Under EXCLUSIVE_PROCESS a GPU takes one MPS server, and a user's own serves that user alone. Where Slurm
        // picks GPUs it mixes users whatever UserMix says.
        if self.compute_mode == ComputeMode::Exclusive
            && self.mps != Mps::Multiuser
            && (self.mps == Mps::Off || self.user_mix != UserMix::Deny || self.placement == Placement::Follow)
        {
            return Err(Problem::Against {
                setting: "ComputeMode=exclusive",
                needs: "Mps=multiuser, or Mps=per-user and UserMix=deny where gpushare picks GPUs (Placement=own or \
                        override)",
            });
        }
        if self.dcgm_dir.is_some() && self.dcgm_dir == self.jobstats_dir {
            return Err(Problem::Against {
                setting: "DcgmJobMappingDir",
                needs: "a folder of its own, not that of JobstatsDir",
            });
        }
        Ok(())
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            placement: Placement::Off,
            units_per_gpu: None,
            share_gres: "mps".to_owned(),
            gpu_files: GpuFiles::Auto,
            packing: Packing::Spread,
            user_mix: UserMix::Allow,
            overcommit: Overcommit::Allow,
            on_collision: OnCollision::Fail,
            fence_drm: false,
            visible_devices: VisibleDevices::Index,
            framework_env: FrameworkEnv::No,
            mem_per_unit: None,
            nvml: Nvml::Auto,
            nvml_timeout: Duration::from_millis(500),
            mps: Mps::Off,
            mps_control: "/usr/bin/nvidia-cuda-mps-control".into(),
            mps_dir: "/run/gpushare/mps".into(),
            mps_timeout: Duration::from_secs(5),
            on_mps_failure: OnMpsFailure::Fail,
            compute_mode: ComputeMode::Keep,
            foreign_processes: ForeignProcesses::Ignore,
            jobstats_dir: None,
            dcgm_dir: None,
        }
    }
}

words! {
    /// Who picks a share's GPU.
    pub enum Placement: "off, follow, own or override" {
        /// Slurm alone; gpushare leaves the node's jobs as they are.
        #[default]
        Off = "off",
        /// Slurm; gpushare records, verifies and tells the job.
        Follow = "follow",
        /// gpushare, on a node whose GPUs Slurm doesn't know: a count-only GRES, and no `gpu`.
        Own = "own",
        /// gpushare, replacing the GPU that Slurm allocated.
        Override = "override",
    }
}

words! {
    /// Where a share goes if it fits on several GPUs.
    pub enum Packing: "spread or pack" {
        /// To the one with the least assigned.
        #[default]
        Spread = "spread",
        /// To the one with the most assigned, so that whole GPUs stay free.
        Pack = "pack",
    }
}

words! {
    /// Whether shares of different users may be on one GPU.
    pub enum UserMix: "allow, avoid or deny" {
        /// They may.
        #[default]
        Allow = "allow",
        /// Only where the share fits on no GPU that is empty or the user's own.
        Avoid = "avoid",
        /// Never.
        Deny = "deny",
    }
}

words! {
    /// What happens to a share that fits on no GPU.
    pub enum Overcommit: "allow or refuse" {
        /// It goes to the GPU with the least assigned, and the log says so.
        #[default]
        Allow = "allow",
        /// Its job fails.
        Refuse = "refuse",
    }
}

words! {
    /// What happens to a job to which Slurm gave a whole GPU that has shares on it.
    pub enum OnCollision: "fail or run" {
        /// It fails, and the shares go on undisturbed.
        #[default]
        Fail = "fail",
        /// It runs beside them, and the log says so.
        Run = "run",
    }
}

words! {
    /// How a share's programs are told their GPU in `CUDA_VISIBLE_DEVICES`.
    pub enum VisibleDevices: "index or uuid" {
        /// `0`: CUDA counts only the GPUs that it can open, and a share can open one.
        #[default]
        Index = "index",
        /// The GPU's UUID, where it is known.
        Uuid = "uuid",
    }
}

words! {
    /// Which frameworks are told the share by variables of their own.
    #[derive(PartialOrd, Ord)]
    pub enum FrameworkEnv: "no, yes or pytorch" {
        /// None.
        #[default]
        No = "no",
        /// TensorFlow and JAX.
        Yes = "yes",
        /// PyTorch too: its releases that don't know the option refuse to allocate.
        Pytorch = "pytorch",
    }
}

/// Whether NVML is asked what GPUs are doing, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nvml {
    /// The library of the driver, as the loader finds it.
    #[default]
    Auto,
    /// Nobody is asked.
    Off,
    /// The library with this path.
    At(PathBuf),
}

words! {
    /// Who runs NVIDIA's MPS daemons for shares.
    pub enum Mps: "off, per-user or multiuser" {
        /// Not gpushare.
        #[default]
        Off = "off",
        /// One daemon a GPU and user, run as that user.
        PerUser = "per-user",
        /// One daemon a GPU, run as root, which serves several users at once. Needs a driver that can (555 and newer).
        Multiuser = "multiuser",
    }
}

words! {
    /// What a prolog does about processes of no job on the GPU that its job was given.
    pub enum ForeignProcesses: "ignore, warn, fail or end" {
        /// It doesn't look.
        #[default]
        Ignore = "ignore",
        /// The log names them.
        Warn = "warn",
        /// The job fails.
        Fail = "fail",
        /// They are ended.
        End = "end",
    }
}

words! {
    /// What happens to a job whose MPS daemon can't be had.
    pub enum OnMpsFailure: "fail or run" {
        /// It fails, before its program starts.
        #[default]
        Fail = "fail",
        /// It runs without MPS: without limits, its kernels in turn with other processes' kernels.
        Run = "run",
    }
}

words! {
    /// The compute mode of a GPU with shares.
    pub enum ComputeMode: "keep or exclusive" {
        /// As the administrator left it.
        #[default]
        Keep = "keep",
        /// `EXCLUSIVE_PROCESS` from the GPU's first share to its last, then `DEFAULT`: a program that bypasses MPS gets
        /// nothing.
        Exclusive = "exclusive",
    }
}
