//! What a job's extern step records: itself, and that it has failed. For slurmstepd alone.

use super::{Entry, LedgerError, Locked, Witness};
use crate::job::JobKey;

/// Records the process that lives as long as a start of a job: the slurmstepd of its extern step. Does nothing for a
/// start that is over.
///
/// # Errors
/// The entry can't be read or written.
pub fn note(locked: &Locked, key: JobKey, witness: Witness) -> Result<(), LedgerError> {
    match locked.ledger.find(key.id)? {
        Some(entry) if entry.key == key => locked.record(&Entry { witness: Some(witness), ..entry }),
        _ => Ok(()),
    }
}

/// Marks a job as one that can't run here, like [`Locked::fail`]. The extern step doesn't know which start of the job
/// it belongs to (Slurm tells no slurmstepd). With `PrologFlags=RunInJob` the prolog comes after it, and knows the mark
/// by `witness`.
///
/// # Errors
/// As for `fail`.
pub fn fail(
    locked: &Locked,
    witness: Option<Witness>,
    (job_id, user_id): (u32, u32),
    reason: &str,
) -> Result<(), LedgerError> {
    let entry = locked.entry_if(job_id, |entry| entry.user_id == user_id && entry.may_be_of(witness))?;
    let entry = entry.unwrap_or_else(|| Entry::without_gpus(JobKey { id: job_id, restart: 0 }, user_id));
    locked.mark(Entry { witness, ..entry }, reason)
}
