//! What a job's programs are told, as a file for shells: an ssh session is adopted into the job without a step's variables.

use gpushare::root_file;
use std::path::PathBuf;

use super::{Ledger, LedgerError, Locked};
use crate::job::JobKey;

impl Ledger {
    pub(super) fn variables_path(&self, job_id: u32) -> PathBuf {
        self.dir.join("env").join(job_id.to_string())
    }
}

impl Locked<'_> {
    /// Writes the file of a job that has an entry; of a start that is over there is nothing to tell.
    pub fn publish(&self, key: JobKey, lines: &str) -> Result<(), LedgerError> {
        if self.ledger.find(key.id)?.is_none_or(|entry| entry.key != key) {
            return Ok(());
        }
        let path = self.ledger.variables_path(key.id);
        self.make_folder("env", &self.ledger.dir.join("env"))?;
        self.clear(&path);
        root_file::replace(&self.ledger.temporary(), &path, lines)
            .map_err(|error| LedgerError::Write(path, error))
    }

    /// Removes the file of a job that has no entry any more, or a new one.
    pub(super) fn withdraw(&self, job_id: u32) -> Result<(), LedgerError> {
        let path = self.ledger.variables_path(job_id);
        self.clear(&path);
        root_file::remove(&path).map(|_| ()).map_err(|error| LedgerError::Remove(path, error))
    }
}
