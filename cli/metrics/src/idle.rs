//! When jobs last used their GPUs: each run by root looks once at NVML's samples and saves the result in the ledger's
//! directory. It only shows that; `gpushare idle` looks for itself, more carefully.

use std::time::Duration;

use gpushare_node::foreign::{Jobs, usage};
use gpushare_node::gpu::Gpu;
use gpushare_node::ledger::Ledger;
use gpushare_node::ledger::figures::{self, Used, after_look};
use gpushare_node::nvml::answer::GpuState;

use gpushare_terminal::complain;

use gpushare_machine::local;

/// Prologs hold the ledger's lock for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);

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
