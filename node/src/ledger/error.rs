//! Why the ledger can't be used.

use gpushare::root_file::FolderError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::Damage;

gpushare::errors! {
    /// The operation that failed, the path, and the kernel's error.
    #[derive(Debug)]
    pub enum LedgerError {
        Lock(path: PathBuf, error: io::Error) => "lock {}: {error}", path.display();
        Busy(path: PathBuf, wait: Duration) =>
            "lock {} was held by others for {} s", path.display(), wait.as_secs();
        Read(path: PathBuf, error: io::Error) => "reading {}: {error}", path.display();
        Entry(path: PathBuf, damage: Damage) => "reading {}: {damage}", path.display();
        Write(path: PathBuf, error: io::Error) => "writing {}: {error}", path.display();
        Remove(path: PathBuf, error: io::Error) => "removing {}: {error}", path.display();
    } from { Folder(FolderError) }
}
