//! How much jobs use their GPUs, for the command `gpushare`.

use std::collections::BTreeMap;

use super::{Jobs, Whose};
use crate::gpu::Gpu;
use crate::nvml::answer::GpuState;

/// How much of a GPU a job's processes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Memory in MiB; `None` if NVML doesn't report it for each of them.
    pub memory: Option<u32>,
    /// Utilization in percent, by NVML's last samples; `None` if they don't say which process it is.
    pub busy: Option<u32>,
}

/// The jobs on a GPU that have just used it; `None` if that is unknown. Use that can't be attributed to one job
/// counts for all: a foreign process may be its user's, started outside of the job's cgroup.
pub fn busy(jobs: &Jobs, gpu: &Gpu, state: &GpuState) -> Option<Vec<u32>> {
    let all = || jobs.entries.iter().filter(|entry| entry.is_on(gpu)).map(|entry| entry.key.id).collect();
    let mut busy = state.running.iter().filter(|process| process.busy > 0).peekable();
    if busy.peek().is_none() {
        return state.utilization.map(|percent| if percent > 0 { all() } else { Vec::new() });
    }
    let mut found = Vec::new();
    for process in busy {
        match jobs.whose(gpu, process) {
            Whose::Job(id) => found.push(id),
            Whose::Foreign(_) | Whose::Untold => return Some(all()),
        }
    }
    Some(found)
}

/// How much each job's processes use of a GPU. Omits jobs that have no process there.
pub fn of_jobs(jobs: &Jobs, gpu: &Gpu, state: &GpuState) -> BTreeMap<u32, Usage> {
    // The work of an MPS server, or of a process that is gone, may be any job's.
    let mut busy = state.running.iter().filter(|process| process.busy > 0).peekable();
    let is_known = if busy.peek().is_none() {
        state.utilization == Some(0)
    } else {
        busy.all(|process| jobs.whose(gpu, process) != Whose::Untold)
    };
    let mut usage: BTreeMap<u32, Usage> = BTreeMap::new();
    for process in &state.running {
        let Whose::Job(id) = jobs.whose(gpu, process) else { continue };
        let none = Usage { memory: Some(0), busy: is_known.then_some(0) };
        let of_job = usage.entry(id).or_insert(none);
        of_job.memory = of_job.memory.zip(process.memory).map(|(sum, more)| sum.saturating_add(more));
        of_job.busy = of_job.busy.map(|sum| sum.saturating_add(process.busy).min(100));
    }
    usage
}
