//! Small files of the ledger beside its entries, written and removed under its lock.

use std::path::Path;

use gpushare::root_file;

use super::{LedgerError, Locked};

impl Locked<'_> {
    pub(crate) fn write_note(&self, path: &Path, text: &str) -> Result<(), LedgerError> {
        self.clear(path);
        root_file::replace(&self.ledger.temporary(), path, text)
            .map_err(|error| LedgerError::Write(path.to_owned(), error))
    }

    pub(crate) fn remove_note(&self, path: &Path) -> Result<(), LedgerError> {
        self.clear(path);
        root_file::remove(path).map(|_| ()).map_err(|error| LedgerError::Remove(path.to_owned(), error))
    }
}
