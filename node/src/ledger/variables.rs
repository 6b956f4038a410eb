//! The variables of a job's programs in a file for shells: an ssh session that joins the job has none of a step's
//! variables.

use super::{LedgerError, Locked};
use crate::job::JobKey;

pub(super) const FOLDER: &str = "env";

impl Locked<'_> {
    /// Writes the file for a job that has an entry; does nothing for a start that is over.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn publish(&self, key: JobKey, lines: &str) -> Result<(), LedgerError> {
        if self.ledger.find(key.id)?.is_none_or(|entry| entry.key != key) {
            return Ok(());
        }
        self.make_folder(FOLDER)?;
        self.write_note(&self.ledger.of_job(FOLDER, key.id), lines)
    }

    /// Removes the file of a job that has no entry any more, or a new one.
    ///
    /// # Errors
    /// It can't be removed.
    pub(super) fn withdraw(&self, job_id: u32) -> Result<(), LedgerError> {
        self.remove_note(&self.ledger.of_job(FOLDER, job_id))
    }
}
