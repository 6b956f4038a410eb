//! A look at the node's GPUs: a few samples of NVML, and what they say of each job with GPUs here. In doubt a job is
//! busy: if work can't be attributed to one job, as with MPS, or if its processes have changed.

use std::path::Path;
use std::thread;
use std::time::Duration;

use gpushare_node::foreign::{Jobs, Whose, usage};
use gpushare_node::ledger::{Entry, Ledger, LedgerError};
use gpushare_node::nvml::answer::Measured;
use gpushare_node::nvml::{Nvml, Trouble};

use gpushare_machine::local::{self, LocalError};

use crate::decide::{Look, Usage};

/// How many samples a look takes, and how far apart.
const SAMPLES: usize = 3;
const APART: Duration = Duration::from_secs(1);

gpushare::errors! {
    /// Why nobody is known to be idle.
    #[derive(Debug)]
    pub enum LookError {
        Nvml(trouble: Trouble) => "NVML doesn't answer, so no job counts as idle now: {trouble}";
        Ledger(error: LedgerError) => "{error}";
        Local(error: LocalError) => "{error}";
    }
}

/// What NVML and the ledger said at one moment.
pub struct Sample {
    /// NVML's answer.
    pub measured: Measured,
    /// The jobs, read after it.
    pub entries: Vec<Entry>,
    /// The sessions of the MPS daemons, if known.
    pub mps: Option<Vec<u32>>,
}

/// Looks at all jobs that have GPUs here.
///
/// # Errors
/// NVML doesn't answer, or the node's GPUs or jobs can't be read.
pub fn take(conf: Option<&Path>, ledger: &Ledger) -> Result<Vec<Look>, LookError> {
    let there = local::list_of_one_moment(ledger).map_err(LookError::Ledger)?;
    if !there.entries.iter().any(Entry::has_gpus) {
        return Ok(Vec::new());
    }
    let mut samples = Vec::new();
    for number in 0..SAMPLES {
        if number > 0 {
            thread::sleep(APART);
        }
        let node = local::node(conf, ledger, &mut Vec::new()).map_err(LookError::Local)?;
        let measured = match node.nvml.map(Nvml::measured).transpose() {
            // `Nvml=off`: all are unknown.
            Err(Trouble::Off) => None,
            measured => measured.map_err(LookError::Nvml)?,
        };
        let listed = local::list_of_one_moment(ledger).map_err(LookError::Ledger)?;
        let measured = measured.unwrap_or_default();
        samples.push(Sample { measured, entries: listed.entries, mps: node.sessions });
    }
    Ok(of(&samples))
}

/// What the samples say of the jobs that are in the last one.
pub fn of(samples: &[Sample]) -> Vec<Look> {
    let now = samples.last().map(|sample| sample.entries.as_slice()).unwrap_or_default();
    now.iter().filter(|entry| entry.has_gpus()).map(|entry| of_job(samples, entry)).collect()
}

fn of_job(samples: &[Sample], job: &Entry) -> Look {
    let (mut all, mut processes) = (Vec::new(), Vec::new());
    for sample in samples {
        let entry = sample.entries.iter().find(|one| (one.key, one.since) == (job.key, job.since));
        let (usage, now) = entry.map_or((Usage::Unknown, Vec::new()), |entry| in_sample(sample, entry));
        all.push(usage);
        processes.push(now);
    }
    let changed = processes.windows(2).any(|pair| pair.first() != pair.last());
    let usage = if all.contains(&Usage::Busy) {
        Usage::Busy
    } else if all.contains(&Usage::Unknown) {
        Usage::Unknown
    } else if changed {
        Usage::Busy
    } else {
        Usage::Idle
    };
    let node = job.node.clone();
    Look { key: job.key, node, since: job.since, usage, processes: processes.pop().unwrap_or_default() }
}

fn in_sample(sample: &Sample, entry: &Entry) -> (Usage, Vec<(u32, u64)>) {
    let jobs = Jobs { entries: &sample.entries, mps: sample.mps.as_deref() };
    let (mut result, mut processes) = (Usage::Idle, Vec::new());
    for gpu in &entry.gpus {
        let state = sample.measured.of(gpu);
        let busy = state.and_then(|state| usage::busy(&jobs, gpu, state));
        match busy {
            Some(busy) if busy.contains(&entry.key.id) => result = Usage::Busy,
            None if result == Usage::Idle => result = Usage::Unknown,
            _ => {}
        }
        for process in state.iter().flat_map(|state| &state.running) {
            match jobs.whose(gpu, process) {
                Whose::Job(id) if id != entry.key.id => {}
                _ => processes.push((process.pid, process.start)),
            }
        }
    }
    processes.sort_unstable();
    processes.dedup();
    (result, processes)
}
