//! What is in the ledger of a job before its prolog places it.

use std::fs;
use std::path::Path;

use super::{LOCK_WAIT, Node, release};
use crate::gpu::gres_conf::lines::include;
use crate::gpu::may_be_any;
use crate::job::NodeJob;
use crate::ledger::{Entry, LedgerError, extern_step_above};

/// A job without GPUs here needs no entry; that of its part on another slurmd of this machine stays. Where nothing of
/// Slurm's tells a step of a share, an entry says that there is none: without one the step would ask slurmctld.
///
/// # Errors
/// The ledger can't be changed.
pub(super) fn has_none(node: Node, job: &NodeJob, now: u64) -> Result<(), LedgerError> {
    let found = node.ledger.find(job.key.id).ok().flatten().filter(|entry| entry.key == job.key);
    let of = found.and_then(|entry| entry.node);
    if node.name.zip(of).is_none_or(|(own, of)| own == of) {
        release(node.ledger, job.key.id, None)?;
        let is_silent = !node.config.shows_shares() && may_be_any(&node.config.gpu_files, node.roots);
        if is_silent && notes_shares(node.slurm_conf) {
            let entry = Entry { since: now, ..Entry::without_gpus(job.key, job.user_id) };
            node.ledger.lock(LOCK_WAIT)?.record(&entry)?;
        }
    }
    Ok(())
}

/// Whether slurm.conf has job_submit_gpushare.so, which notes shares for prologs. If not, or if that is unknown, a job
/// without a note may have a share, and its steps ask slurmctld.
fn notes_shares(slurm_conf: &Path) -> bool {
    let text = fs::read_to_string(slurm_conf).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split('#').next());
    lines.any(|line| match include(line) {
        Some(name) => notes_shares(&slurm_conf.with_file_name(name)),
        None => line.split_once('=').is_some_and(|(key, plugins)| {
            key.trim().eq_ignore_ascii_case("JobSubmitPlugins") && plugins.contains("gpushare")
        }),
    })
}

/// With `PrologFlags=RunInJob` the job's extern step comes before the prolog. If it could not be fenced, it has marked
/// the job, and the mark stays.
pub(super) fn failed(node: Node, job_id: u32) -> Option<Entry> {
    let entry = node.ledger.find(job_id).ok()??;
    let witness = entry.witness.filter(|_| entry.failure.is_some())?;
    let above = extern_step_above(&node.roots.proc, std::process::id(), job_id);
    (above == Some(witness)).then_some(entry)
}
