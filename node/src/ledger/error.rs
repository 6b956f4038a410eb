//! Why the ledger can't be used.

use gpushare::root_file::FolderError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What was done, to which path, and what the kernel said.
#[derive(Debug)]
pub enum LedgerError {
    /// One of its folders.
    Folder(FolderError),
    /// Opening or taking the lock.
    Lock(PathBuf, io::Error),
    /// The lock was not to be had in this time.
    Busy(PathBuf, Duration),
    /// Listing or reading entries.
    Read(PathBuf, io::Error),
    /// Writing an entry, or the mark of a failure or a witness.
    Write(PathBuf, io::Error),
    /// Removing one.
    Remove(PathBuf, io::Error),
}

impl fmt::Display for LedgerError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LedgerError::Folder(error) => error.fmt(out),
            LedgerError::Lock(path, error) => write!(out, "lock {}: {error}", path.display()),
            LedgerError::Busy(path, wait) => {
                write!(out, "lock {} was held by others for {} s", path.display(), wait.as_secs())
            }
            LedgerError::Read(path, error) => write!(out, "reading {}: {error}", path.display()),
            LedgerError::Write(path, error) => write!(out, "writing {}: {error}", path.display()),
            LedgerError::Remove(path, error) => write!(out, "removing {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for LedgerError {}

impl From<FolderError> for LedgerError {
    fn from(error: FolderError) -> LedgerError {
        LedgerError::Folder(error)
    }
}
