//! What is in the ledger of a job before its prolog places it.

use super::{Node, release};
use crate::job::NodeJob;
use crate::ledger::{Entry, LedgerError, extern_step_above};

/// A job without GPUs here needs no entry; that of its part on another slurmd of this machine stays.
///
/// # Errors
/// The entry can't be removed.
pub(super) fn drop_old(node: Node, job: &NodeJob) -> Result<(), LedgerError> {
    let found = node.ledger.find(job.key.id).ok().flatten().filter(|entry| entry.key == job.key);
    let of = found.and_then(|entry| entry.node);
    if node.name.zip(of).is_none_or(|(own, of)| own == of) {
        release(node.ledger, job.key.id, None)?;
    }
    Ok(())
}

/// With `PrologFlags=RunInJob` the job's extern step comes before the prolog. If it could not be fenced, it has marked
/// the job, and the mark stays.
pub(super) fn failed(node: Node, job_id: u32) -> Option<Entry> {
    let entry = node.ledger.find(job_id).ok()??;
    let witness = entry.witness.filter(|_| entry.failure.is_some())?;
    let above = extern_step_above(&node.roots.proc, std::process::id(), job_id);
    (above == Some(witness)).then_some(entry)
}
