//! Decides about a process that computes on a GPU: it belongs to a job that has the GPU, it is foreign, or that is
//! unknown.
//!
//! A process belongs to a job if Slurm has put it into the cgroup of one of the job's steps. These are never foreign:
//! processes of root and of system accounts, of MPS daemons, of a slurmstepd, and of a job without an entry in the
//! ledger, because this code doesn't know whether Slurm gave that job the GPU. [`proc::step`](crate::proc::step) finds
//! out where a process is.

mod end;
pub mod usage;

pub use end::end;

use std::fmt::{self, Write};

use crate::gpu::Gpu;
use crate::ledger::Entry;
use crate::nvml::answer::GpuState;
use crate::proc::running::{Place, Running};

/// System accounts have lower numbers (login.defs(5), `UID_MIN`), such as that of nvidia-persistenced.
const FIRST_USER: u32 = 1000;

/// A process that should not be on its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The process's number.
    pub pid: u32,
    /// When it started, in ticks since the machine booted.
    pub start: u64,
    /// Its user.
    pub user_id: u32,
    /// The job that it is in, which has other GPUs.
    pub job: Option<u32>,
}

/// Which job a process on a GPU belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// It belongs to that job, which has the GPU.
    Job(u32),
    /// It belongs to no job that has the GPU.
    Foreign(Foreign),
    /// It is unknown, or the process is gone.
    Untold,
}

/// What is known about the node's jobs.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// The ledger's entries, read after NVML was asked.
    pub entries: &'a [Entry],
    /// The sessions of gpushare's own MPS daemons; if `None`, the daemons are recognized by their names.
    pub mps: Option<&'a [u32]>,
}

impl Jobs<'_> {
    /// The foreign processes of a GPU.
    pub fn foreign(&self, gpu: &Gpu, state: &GpuState) -> Vec<Foreign> {
        let mut found = Vec::new();
        for process in &state.running {
            if let Whose::Foreign(foreign) = self.whose(gpu, process) {
                found.push(foreign);
            }
        }
        found
    }

    /// Which job a process on this GPU belongs to.
    pub fn whose(&self, gpu: &Gpu, process: &Running) -> Whose {
        let job = match process.place {
            Place::Job(id) => match self.entries.iter().find(|entry| entry.key.id == id) {
                None => return Whose::Untold,
                Some(entry) if entry.is_on(gpu) => return Whose::Job(id),
                Some(_) => Some(id),
            },
            Place::Mps if self.mps.is_none() => return Whose::Untold,
            _ if self.mps.is_some_and(|sessions| sessions.contains(&process.session)) => {
                return Whose::Untold;
            }
            Place::Mps | Place::Nowhere => None,
            Place::Untold => return Whose::Untold,
        };
        let Running { pid, start, user: user_id, .. } = *process;
        if user_id < FIRST_USER {
            Whose::Untold
        } else {
            Whose::Foreign(Foreign { pid, start, user_id, job })
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} (user {}", self.pid, self.user_id)?;
        match self.job {
            Some(job) => write!(out, ", job {job})"),
            None => write!(out, ")"),
        }
    }
}

/// `4711 (user 2001), 4712 (user 2002, job 7)`; the first ten.
pub fn listed(processes: &[Foreign]) -> String {
    let mut text = String::new();
    for process in processes.iter().take(10) {
        let between = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{between}{process}");
    }
    text
}
