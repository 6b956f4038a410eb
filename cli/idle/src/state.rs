//! What is kept from one look to the next: a [`History`] as JSON for each idle job in /run/gpushare/idle, replaced all
//! at once.
//!
//! A file of another form is ignored, and the job's idle time begins anew.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gpushare::root_file;
use gpushare::root_folder::{self, FolderError};

use crate::decide::{History, Now};

/// Longer than any of these files.
const LONGEST: u64 = 1 << 18;

gpushare::errors! {
    /// Why nothing can be kept.
    #[derive(Debug)]
    pub enum StateError {
        Lock(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Taken => "another `gpushare idle` runs on this node";
        Read(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Time(error: io::Error) => "the time since boot is unknown: {error}";
    } from {
        Folder(FolderError)
    }
}

/// The directory.
pub struct State {
    folder: PathBuf,
}

impl State {
    /// The one in the directory of gpushare's own files.
    pub fn at(run: &Path) -> State {
        State { folder: run.join("idle") }
    }

    /// Makes the directory, and keeps other runs away until the file is dropped.
    ///
    /// # Errors
    /// Another one runs, or the directory can't be used.
    pub fn lock(&self) -> Result<File, StateError> {
        root_folder::make(&self.folder)?;
        let path = self.folder.join("lock");
        let file = root_file::open(&path).map_err(|error| StateError::Lock(path.clone(), error))?;
        file.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => StateError::Taken,
            fs::TryLockError::Error(error) => StateError::Lock(path, error),
        })?;
        Ok(file)
    }

    /// What is known of every job, and the names of files that can't be used.
    ///
    /// # Errors
    /// The directory can't be read.
    pub fn read(&self) -> Result<(Vec<History>, Vec<String>), StateError> {
        let (mut known, mut garbage) = (Vec::new(), Vec::new());
        let names = match self.folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((known, garbage)),
            read => read.map_err(|error| StateError::Read(self.folder.clone(), error))?,
        };
        for name in names.flatten().map(|name| name.file_name().to_string_lossy().into_owned()) {
            let Ok(id) = name.parse::<u32>() else { continue };
            let bytes = root_file::read(&self.folder.join(&name), LONGEST).ok().flatten();
            let read: Option<History> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            match read.filter(|history| history.job.0 == id) {
                Some(history) => known.push(history),
                None => garbage.push(name),
            }
        }
        Ok((known, garbage))
    }

    /// Replaces a job's file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, history: &History) -> io::Result<()> {
        let path = self.path(history.job.0);
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&path)?;
        }
        root_file::replace(&self.folder.join("new"), &path, &serde_json::to_string(history)?)
    }

    /// Removes a job's file.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(&self, id: u32) -> io::Result<()> {
        root_file::remove(&self.path(id)).map(|_| ())
    }

    fn path(&self, id: u32) -> PathBuf {
        self.folder.join(id.to_string())
    }
}

/// The time of this look, from what is below /proc.
///
/// # Errors
/// /proc doesn't say it.
pub fn now(proc: &Path) -> Result<Now, StateError> {
    let read = |name: &str| fs::read_to_string(proc.join(name)).map_err(StateError::Time);
    let (boot, uptime) = (read("sys/kernel/random/boot_id")?, read("uptime")?);
    let seconds = uptime.split('.').next().and_then(|seconds| seconds.parse().ok());
    let odd = || StateError::Time(io::ErrorKind::InvalidData.into());
    Ok(Now { boot: boot.trim().to_owned(), seconds: seconds.ok_or_else(odd)? })
}
