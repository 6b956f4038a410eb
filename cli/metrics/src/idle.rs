//! When jobs last used their GPUs: each run by root looks once at NVML's samples and saves the result in the ledger's
//! directory. Users are notified about their jobs only if the administrator asks for it, and the jobs continue.

use std::time::Duration;

use gpushare::text::time;
use gpushare_node::foreign::{Jobs, usage};
use gpushare_node::gpu::Gpu;
use gpushare_node::ledger::Ledger;
use gpushare_node::ledger::figures::{self, Used, after_look};
use gpushare_node::nvml::answer::GpuState;

use super::{Facts, MetricsError};
use gpushare_slurm_run::run::{self, ProgramError};
use gpushare_terminal::complain;

use gpushare_machine::local;

/// Prologs hold the ledger's lock for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const SCONTROL_WAIT: Duration = Duration::from_secs(5);
/// All notes must be sent within the time of a run, so others follow at the next run.
const MOST_NOTES: usize = 4;

/// Parses the time of `--idle-note`.
///
/// # Errors
/// The text isn't a time.
pub fn time(text: &str) -> Result<u64, MetricsError> {
    time::seconds(text).filter(|seconds| *seconds > 0).ok_or(MetricsError::NoTime)
}

/// The state after this check. If root runs it, the state is saved.
pub fn look<'a>(ledger: &Ledger, jobs: &Jobs, state: impl Fn(&Gpu) -> Option<&'a GpuState>) -> Vec<Used> {
    let known = figures::used(ledger);
    if gpushare_node::user_id() != Some(0) {
        return known;
    }
    let used = after_look(&known, jobs.entries, |gpu| usage::busy(jobs, gpu, state(gpu)?), local::now());
    remember(ledger, &known, &used);
    used
}

fn remember(ledger: &Ledger, known: &[Used], used: &[Used]) {
    if known != used
        && let Err(error) = figures::note_used(ledger, used, LOCK_WAIT)
    {
        complain(format!("can't record when jobs used their GPUs: {error}"));
    }
}

/// Notifies each job that hasn't used a GPU for that long; only once, until the job has used it again.
pub fn tell(facts: &mut Facts, ledger: &Ledger, after: Option<u64>) {
    let (Some(after), Some(node)) = (after, &mut facts.node) else { return };
    if gpushare_node::user_id() != Some(0) {
        return;
    }
    let known = node.used.clone();
    let idle = node.used.iter_mut().filter(|used| !used.told && used.idle() >= after);
    for used in idle.take(MOST_NOTES) {
        let index = node.gpus.iter().find(|total| total.gpu.number.minor == used.minor);
        let Some(index) = index.map(|total| total.gpu.index) else { continue };
        let note = format!(
            "gpushare: GPU {index} of job {} has not been used for {}",
            used.key.id,
            time::text(used.idle())
        );
        match notify(used.key.id, &note) {
            Ok(()) => used.told = true,
            Err(why) => {
                complain(format!("can't notify job {} that it does not use its GPU: {why}", used.key.id))
            }
        }
    }
    remember(ledger, &known, &node.used);
}

fn notify(job: u32, note: &str) -> Result<(), ProgramError> {
    let words = ["notify", &job.to_string(), note];
    run::within(SCONTROL_WAIT, "scontrol", &words).map(|_| ())
}
