//! Who is on which GPU: one small text file a job under /run/gpushare, written by root alone.
//!
//! An entry is written to a temporary file, synced and renamed, so that a reader sees all of it or nothing. What can't be
//! read is set aside under `garbage/`, never trusted and never fatal. Changes happen under a lock that the kernel lets go
//! when its holder dies; reading needs none. A reboot empties /run, which is right: no job survives it either.
//!
//! ```text
//! /run/gpushare/lock
//! /run/gpushare/jobs/JOB.RESTART
//! /run/gpushare/garbage/…
//! ```

mod entry;

pub use entry::{Damage, Entry, Holding};

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::job::JobKey;

/// Where the ledger is on a node.
pub const RUN_DIR: &str = "/run/gpushare";

/// No entry is longer; a file that is, is garbage.
const LONGEST: u64 = 16 << 10;
/// How often a taken lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The ledger of a node.
#[derive(Clone, Debug)]
pub struct Ledger {
    dir: PathBuf,
}

/// The ledger while nobody else changes it.
#[derive(Debug)]
pub struct Locked<'a> {
    ledger: &'a Ledger,
    _lock: File,
}

/// The entries, and what was found in their place.
#[derive(Debug, Default)]
pub struct Listing {
    /// In the order of job numbers.
    pub entries: Vec<Entry>,
    /// Files that are no entries.
    pub garbage: Vec<Garbage>,
}

/// A file that is no entry.
#[derive(Debug)]
pub struct Garbage {
    /// Its name.
    pub name: String,
    /// Why it can't be one.
    pub damage: Damage,
}

/// Why the ledger can't be used: what was done, to which path, and what the kernel said.
#[derive(Debug)]
pub enum LedgerError {
    /// Making or looking at a folder.
    Folder(PathBuf, io::Error),
    /// A folder that others than root could change.
    Unsafe(PathBuf),
    /// Opening or taking the lock.
    Lock(PathBuf, io::Error),
    /// The lock was not to be had in this time.
    Busy(PathBuf, Duration),
    /// Listing or reading entries.
    Read(PathBuf, io::Error),
    /// Writing an entry.
    Write(PathBuf, io::Error),
    /// Removing an entry.
    Remove(PathBuf, io::Error),
}

impl Ledger {
    /// The ledger in `dir`, which need not exist yet; [`RUN_DIR`] outside of tests.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Ledger { dir: dir.into() }
    }

    fn jobs(&self) -> PathBuf {
        self.dir.join("jobs")
    }

    fn path_of(&self, key: JobKey) -> PathBuf {
        self.jobs().join(key.to_string())
    }

    /// Takes the lock, making the folders first; gives up after `wait`.
    pub fn lock(&self, wait: Duration) -> Result<Locked<'_>, LedgerError> {
        self.make_folder(&self.dir)?;
        let path = self.dir.join("lock");
        let failed = |error| LedgerError::Lock(path.clone(), error);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if start.elapsed() >= wait => {
                    return Err(LedgerError::Busy(path, wait));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
        let locked = Locked { ledger: self, _lock: file };
        match self.make_folder(&self.jobs()) {
            Err(LedgerError::Unsafe(path)) if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) => {
                locked.set_aside("jobs", &path);
                self.make_folder(&path)?;
            }
            result => result?,
        }
        Ok(locked)
    }

    /// Makes a folder that only its owner can change, or checks that it is one.
    fn make_folder(&self, path: &Path) -> Result<(), LedgerError> {
        let failed = |error| LedgerError::Folder(path.to_owned(), error);
        match fs::create_dir(path) {
            // Whatever the umask: users' steps and `gpushare status` read the ledger.
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let found = path.symlink_metadata().map_err(failed)?;
        let others_may_write = found.mode() & 0o022 != 0;
        // Our own files' owner is root on a node and the test's user in a test.
        let foreign = found.uid() != 0 && Some(found.uid()) != own_user_id();
        if !found.is_dir() || others_may_write || foreign {
            return Err(LedgerError::Unsafe(path.to_owned()));
        }
        Ok(())
    }

    /// Every entry; changes nothing.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let jobs = self.jobs();
        let failed = |error| LedgerError::Read(jobs.clone(), error);
        let mut listing = Listing::default();
        let folder = match jobs.read_dir() {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            Err(error) => return Err(failed(error)),
        };
        for found in folder {
            let path = found.map_err(failed)?.path();
            match read(&path) {
                Ok(entry) => listing.entries.push(entry),
                Err(Damage::Gone) => {}
                Err(damage) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    listing.garbage.push(Garbage { name, damage });
                }
            }
        }
        listing.entries.sort_by_key(|entry| entry.key);
        Ok(listing)
    }

    /// The entry of a job's latest start. A damaged one is an error here: its job has a share that nobody knows.
    pub fn find(&self, job_id: u32) -> Result<Option<Entry>, LedgerError> {
        let Some(key) = self.keys(job_id)?.into_iter().max() else { return Ok(None) };
        let path = self.path_of(key);
        match read(&path) {
            Ok(entry) => Ok(Some(entry)),
            Err(Damage::Gone) => Ok(None),
            Err(damage) => {
                Err(LedgerError::Read(path, io::Error::new(io::ErrorKind::InvalidData, damage.to_string())))
            }
        }
    }

    /// The starts of a job that have entries, damaged ones included.
    pub fn keys(&self, job_id: u32) -> Result<Vec<JobKey>, LedgerError> {
        let jobs = self.jobs();
        let failed = |error| LedgerError::Read(jobs.clone(), error);
        match jobs.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
            Ok(folder) => {
                let mut keys = Vec::new();
                for found in folder {
                    let name = found.map_err(failed)?.file_name();
                    keys.extend(name.to_str().and_then(entry::key_of).filter(|key| key.id == job_id));
                }
                Ok(keys)
            }
        }
    }
}

impl Ledger {
    /// stub.
    #[allow(missing_docs)]
    pub fn failure(&self, job_id: u32) -> Result<Option<String>, LedgerError> {
        for r in (0..5).rev() {
            if let Ok(t) = fs::read_to_string(self.dir.join("failed").join(format!("{job_id}.{r}"))) {
                return Ok(Some(t));
            }
        }
        Ok(None)
    }
}
impl Locked<'_> {
    /// stub.
    #[allow(missing_docs)]
    pub fn witness(&self, _: JobKey, _: u32) -> Result<(), LedgerError> {
        Ok(())
    }
    /// Every entry; files that are none are moved out of the way.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let listing = self.ledger.list()?;
        for garbage in &listing.garbage {
            self.set_aside(&garbage.name, &self.ledger.jobs().join(&garbage.name));
        }
        Ok(listing)
    }

    /// Writes an entry, replacing one of the same start of the same job.
    pub fn record(&self, entry: &Entry) -> Result<(), LedgerError> {
        let path = self.ledger.path_of(entry.key);
        let temporary = self.ledger.dir.join("new");
        let written =
            write_synced(&temporary, &entry.to_string()).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|error| {
            // What is left of the temporary file is of no use to anyone.
            let _ = fs::remove_file(&temporary);
            LedgerError::Write(path, error)
        })
    }

    /// Removes the entry of one start of a job; `false` where there was none.
    pub fn remove(&self, key: JobKey) -> Result<bool, LedgerError> {
        let path = self.ledger.path_of(key);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // Whatever stands there, a folder for example, is no entry.
            Err(_) if path.symlink_metadata().is_ok_and(|found| !found.is_file()) => {
                self.set_aside(&key.to_string(), &path);
                Ok(true)
            }
            Err(error) => Err(LedgerError::Remove(path, error)),
        }
    }

    /// Marks a start of a job as one that can't run here, and says why.
    pub fn fail(&self, key: JobKey, reason: &str) -> Result<(), LedgerError> {
        let folder = self.ledger.dir.join("failed");
        self.ledger.make_folder(&folder)?;
        let path = folder.join(key.to_string());
        let temporary = self.ledger.dir.join("new");
        write_synced(&temporary, reason)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|error| LedgerError::Write(path, error))
    }

    /// Moves something that is no entry out of the way. Failing to do so only means that it is met again.
    fn set_aside(&self, name: &str, path: &Path) {
        let garbage = self.ledger.dir.join("garbage");
        let free = (0..100).map(|number| garbage.join(format!("{name}.{number}"))).find(|to| !to.exists());
        let moved =
            self.ledger.make_folder(&garbage).is_ok() && free.is_some_and(|to| fs::rename(path, to).is_ok());
        if !moved {
            let _ = fs::remove_file(path);
        }
    }
}

fn own_user_id() -> Option<u32> {
    Path::new("/proc/self").metadata().ok().map(|process| process.uid())
}

fn read(path: &Path) -> Result<Entry, Damage> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(Damage::from_io)?;
    if !file.metadata().map_err(Damage::from_io)?.is_file() {
        return Err(Damage::NoFile);
    }
    let mut text = String::with_capacity(512);
    file.take(LONGEST).read_to_string(&mut text).map_err(Damage::from_io)?;
    let entry: Entry = text.parse()?;
    let named = path.file_name().and_then(|name| name.to_str()).and_then(entry::key_of);
    if named == Some(entry.key) { Ok(entry) } else { Err(Damage::Misnamed) }
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    // A crash may have left one; only the holder of the lock comes here.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

impl fmt::Display for LedgerError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LedgerError::Folder(path, error) => write!(out, "folder {}: {error}", path.display()),
            LedgerError::Unsafe(path) => {
                write!(out, "{} must be a folder that only root can change", path.display())
            }
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

#[cfg(test)]
mod tests;
