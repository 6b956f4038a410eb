//! A daemon's directory. Only root can change it, and only the user can enter its pipe and log directories. It is
//! locked while something about the daemon changes, and removed with the daemon.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpushare::{root_file, root_folder};

use crate::ledger::{LedgerError, take_lock};
use crate::mps::service::Daemon;

use super::error::MpsError;
use super::record::{self, DaemonRecord};
use super::remove::Bin;
use crate::unix;

/// The minimum time for that, however short `patience` is.
const LEAST: Duration = Duration::from_secs(5);

/// A daemon's locked directory.
#[derive(Debug)]
pub struct Locked {
    folder: PathBuf,
    /// The maximum time for removing a user's files.
    patience: Duration,
    _lock: File,
}

/// Makes a daemon's directory if needed and takes its lock; gives up after `wait`. `patience` is for removing files.
///
/// # Errors
/// A directory can't be made, users other than root can change it or one above it, or the lock can't be opened or is
/// still taken after `wait`.
pub fn lock(mps_dir: &Path, daemon: Daemon, wait: Duration, patience: Duration) -> Result<Locked, MpsError> {
    check_above(mps_dir)?;
    make_folders(mps_dir)?;
    let folder = daemon.folder(mps_dir);
    let end = Instant::now() + wait;
    loop {
        root_folder::make(&folder).map_err(LedgerError::Folder)?;
        if let Some(locked) = try_lock(&folder, end, (wait, patience))? {
            return Ok(locked);
        }
        if Instant::now() >= end {
            return Err(MpsError::Busy(folder, wait));
        }
    }
}

/// The same as [`lock`] for an existing directory; `None` if it doesn't exist.
///
/// # Errors
/// The directory can't be examined, or the lock can't be opened or is still taken after `patience`.
pub fn lock_existing(mps_dir: &Path, daemon: Daemon, patience: Duration) -> Result<Option<Locked>, MpsError> {
    let folder = daemon.folder(mps_dir);
    match folder.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(MpsError::File(folder, error)),
        Ok(_) => try_lock(&folder, Instant::now() + patience, (patience, patience)),
    }
}

/// `None` if the directory was removed in the meantime, together with the lock.
fn try_lock(
    folder: &Path,
    end: Instant,
    (wait, patience): (Duration, Duration),
) -> Result<Option<Locked>, MpsError> {
    let path = folder.join("lock");
    let failed = |error| MpsError::File(path.clone(), error);
    let lock = match root_file::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    if !take_lock(&lock, end).map_err(failed)? {
        return Err(MpsError::Busy(path, wait));
    }
    let ours = lock.metadata().map_err(failed)?;
    let there = path.symlink_metadata();
    let same = there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
    let locked = || Locked { folder: folder.to_owned(), patience: patience.max(LEAST), _lock: lock };
    Ok(same.then(locked))
}

/// How long ago a try failed to set back a GPU's compute mode, if nothing else is left to do about the directory.
pub fn left_with_mode(folder: &Path) -> Option<Duration> {
    let left = DaemonRecord::of(folder);
    let is_left = left.exclusive.is_some() && left.processes.is_empty() && !left.starting && !left.ending;
    let written = folder.join("state").symlink_metadata().ok().filter(|_| is_left)?.modified().ok()?;
    Some(written.elapsed().unwrap_or(Duration::MAX))
}

/// Every directory above must belong to root (or, in a test, to the tester): users get the pipes by path.
fn check_above(mps_dir: &Path) -> Result<(), MpsError> {
    let own = crate::user_id();
    for folder in mps_dir.ancestors().skip(1) {
        let Ok(found) = folder.symlink_metadata() else { continue };
        let others_may_write = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
        let foreign = found.uid() != 0 && Some(found.uid()) != own;
        if !found.is_dir() || others_may_write || foreign {
            return Err(MpsError::Unsafe(folder.to_owned()));
        }
    }
    Ok(())
}

/// Makes `MpsDir` and any missing directories above it.
fn make_folders(mps_dir: &Path) -> Result<(), MpsError> {
    if let Some(above) = mps_dir.parent()
        && above.symlink_metadata().is_err()
    {
        make_folders(above)?;
    }
    Ok(root_folder::make(mps_dir).map_err(LedgerError::Folder)?)
}

impl Locked {
    /// `CUDA_MPS_PIPE_DIRECTORY`
    pub fn pipe(&self) -> PathBuf {
        self.folder.join("pipe")
    }

    /// `CUDA_MPS_LOG_DIRECTORY`
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// What is known about the daemon; nothing if the file is missing or damaged.
    pub fn state(&self) -> DaemonRecord {
        DaemonRecord::of(&self.folder)
    }

    /// Writes what is known about the daemon.
    ///
    /// # Errors
    /// It can't be written.
    pub fn keep(&self, state: &DaemonRecord) -> Result<(), MpsError> {
        let path = self.folder.join("state");
        let state = DaemonRecord { boot: record::boot(), ..state.clone() };
        root_file::replace(&self.folder.join("new"), &path, &state.to_string())
            .map_err(|error| MpsError::File(path, error))
    }

    /// Makes a new pipe directory, and a log directory unless it already belongs to the user: a killed daemon cleans
    /// nothing up, and its files would disturb the next one.
    ///
    /// # Errors
    /// The old directory can't be removed in time, or the new directory can't be made or given to the user.
    pub fn make_pipes(&self, user_id: u32, group_id: u32) -> Result<(), MpsError> {
        self.remove_pipes()?;
        make_private(&self.pipe(), user_id, group_id)?;
        let log = self.log();
        let fits =
            |found: fs::Metadata| found.is_dir() && found.uid() == user_id && found.mode() & 0o777 == 0o700;
        let there = unix::folder(&self.folder).and_then(|folder| unix::look_at(&folder, c"log"));
        if there.and_then(|log| log.metadata()).is_ok_and(fits) {
            return Ok(());
        }
        self.take(&["log"])?;
        make_private(&log, user_id, group_id)
    }

    /// Lets these users into the pipe directory of a daemon that runs as root.
    ///
    /// # Errors
    /// The directory is missing, or its file system has no access control lists.
    pub fn admit(&self, users: &[u32]) -> Result<(), MpsError> {
        unix::let_enter(&self.pipe(), users).map_err(|error| MpsError::File(self.pipe(), error))
    }

    /// Removes the pipes, so that programs run without MPS instead of waiting for a daemon that doesn't answer.
    ///
    /// # Errors
    /// They can't be removed in time.
    pub fn remove_pipes(&self) -> Result<(), MpsError> {
        self.take(&["pipe"])
    }

    /// Frees these names. Large contents may be removed later.
    fn take(&self, names: &[&str]) -> Result<(), MpsError> {
        let bin = self.bin(names)?;
        let _ = bin.empty();
        Ok(())
    }

    fn bin(&self, names: &[&str]) -> Result<Bin, MpsError> {
        let mut bin = Bin::at(self.folder.join("gone"), Instant::now() + self.patience);
        for path in names.iter().map(|name| self.folder.join(name)) {
            bin.take(&path).map_err(|error| MpsError::File(path, error))?;
        }
        Ok(bin)
    }

    /// Removes everything but the lock.
    ///
    /// # Errors
    /// Something can't be removed in time.
    pub fn clear(&self) -> Result<(), MpsError> {
        // The first two make room for the directory that the others go through, if a user has filled the file system.
        let bin = self.bin(&["state", "new", "pipe", "log"])?;
        bin.empty().map_err(|error| MpsError::File(self.folder.join("gone"), error))
    }

    /// Removes the whole directory, the lock last.
    ///
    /// # Errors
    /// Something can't be removed in time.
    pub fn remove(self) -> Result<(), MpsError> {
        self.clear()?;
        self.bin(&["lock"])?;
        match fs::remove_dir(&self.folder) {
            // Another process needs the directory and has made its own lock.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            result => result.map_err(|error| MpsError::File(self.folder.clone(), error)),
        }
    }
}

/// Makes a directory that only its user can enter. Its parent belongs to root, so no user can replace it.
fn make_private(path: &Path, user_id: u32, group_id: u32) -> Result<(), MpsError> {
    let failed = |error| MpsError::File(path.to_owned(), error);
    DirBuilder::new().mode(0o700).create(path).map_err(failed)?;
    // Sets the mode that the umask may have reduced.
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)?;
    let found = path.symlink_metadata().map_err(failed)?;
    if (found.uid(), found.gid()) == (user_id, group_id) {
        return Ok(());
    }
    lchown(path, Some(user_id), Some(group_id)).map_err(failed)
}
