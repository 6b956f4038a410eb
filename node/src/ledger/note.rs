//! Small files of the ledger beside its entries. Anyone can read them; writing and removing needs the lock.

use std::path::{Path, PathBuf};

use gpushare::root_file;

use super::{Ledger, LedgerError, Locked};

/// Longer than any of these files.
const LONGEST: u64 = 1 << 20;

impl Ledger {
    /// The file of a job in one of the ledger's folders.
    pub(super) fn of_job(&self, folder: &str, job_id: u32) -> PathBuf {
        self.dir.join(format!("{folder}/{job_id}"))
    }
}

/// The content of such a file; `None` if it is missing or isn't such a file.
pub(crate) fn read_note(path: &Path) -> Option<String> {
    String::from_utf8(root_file::read(path, LONGEST).ok()??).ok()
}

impl Locked<'_> {
    /// Writes a file, and replaces whatever had its name.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn write_note(&self, path: &Path, text: &str) -> Result<(), LedgerError> {
        self.clear(path);
        root_file::replace(&self.ledger.dir.join("new"), path, text)
            .map_err(|error| LedgerError::Write(path.to_owned(), error))
    }

    /// Removes a file, or whatever else has its name.
    ///
    /// # Errors
    /// It can't be removed.
    pub(crate) fn remove_note(&self, path: &Path) -> Result<(), LedgerError> {
        self.clear(path);
        root_file::remove(path).map(|_| ()).map_err(|error| LedgerError::Remove(path.to_owned(), error))
    }
}
