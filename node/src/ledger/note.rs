//! Small files of the ledger beside its entries: anyone can read them; writing and removing needs the lock. One of them
//! is `daemons`: the directories in which gpushare started MPS daemons since boot, one per line. An epilog looks only
//! there, whatever gpushare.conf says at that time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpushare::root_file;

use super::{Ledger, LedgerError, Locked};

/// Longer than any of these files.
const LONGEST: u64 = 1 << 20;
const DAEMONS: &str = "daemons";

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

impl Ledger {
    /// The directories. Empty if no daemon was ever started, or if the file can't be read.
    pub fn daemon_folders(&self) -> Vec<PathBuf> {
        let text = read_note(&self.dir.join(DAEMONS)).unwrap_or_default();
        text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
    }

    /// Remembers a directory, before the first daemon is started there. Takes the lock only if the directory is new.
    ///
    /// # Errors
    /// The ledger can't be locked, or the file can't be written.
    pub(crate) fn note_daemon_folder(&self, folder: &Path, wait: Duration) -> Result<(), LedgerError> {
        if self.daemon_folders().iter().any(|known| known == folder) {
            return Ok(());
        }
        let locked = self.lock(wait)?;
        let mut folders = self.daemon_folders();
        folders.push(folder.to_owned());
        let lines: String = folders.iter().map(|folder| format!("{}\n", folder.display())).collect();
        locked.write_note(&self.dir.join(DAEMONS), &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::ledger;

    #[test]
    fn a_folder_is_remembered_once() {
        let (dir, ledger) = ledger();
        assert!(ledger.daemon_folders().is_empty());
        for folder in ["/run/gpushare/mps", "/srv/mps", "/run/gpushare/mps"] {
            ledger.note_daemon_folder(Path::new(folder), Duration::from_secs(5)).unwrap();
        }
        assert_eq!(ledger.daemon_folders(), [Path::new("/run/gpushare/mps"), Path::new("/srv/mps")]);
        std::fs::write(dir.path().join("gpushare/daemons"), "nonsense\n").unwrap();
        assert!(ledger.daemon_folders().is_empty());
    }
}
