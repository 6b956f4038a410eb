//! The folders in which gpushare started MPS daemons since boot: `daemons`, one folder per line. An epilog looks only
//! there, whatever gpushare.conf says at that time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::note::read_note;
use super::{Ledger, LedgerError};

const FILE: &str = "daemons";

impl Ledger {
    /// The folders. Empty if no daemon was ever started, or if the file can't be read.
    pub fn daemon_folders(&self) -> Vec<PathBuf> {
        let text = read_note(&self.dir.join(FILE)).unwrap_or_default();
        text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
    }

    /// Remembers a folder, before the first daemon is started there. Takes the lock only if the folder is new.
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
        locked.write_note(&self.dir.join(FILE), &lines)
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
