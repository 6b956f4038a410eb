//! Errors with files, for all commands.

use std::io;
use std::path::{Path, PathBuf};

gpushare::errors! {
    /// A file or directory, and the kernel's error.
    #[derive(Debug)]
    pub enum FileError {
        Failed(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
    }
}

impl FileError {
    /// For `map_err`.
    pub fn of(path: &Path) -> impl Fn(io::Error) -> FileError {
        |error| FileError::Failed(path.to_owned(), error)
    }
}
