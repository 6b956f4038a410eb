//! Who is on which GPU: one small text file for each job under /run/gpushare, which only root writes.
//!
//! Each entry is written to a temporary file and renamed, so that a reader sees all of it or nothing. A file that isn't
//! an entry moves to `garbage/`; it is never trusted and never fatal. An entry of another version of gpushare, or an
//! unreadable one, stays in place, and placement avoids GPUs that it may hold. Changes need a lock, which the kernel
//! releases when its holder dies; reading needs no lock. A reboot empties /run, which is correct: no job survives a
//! reboot.
//!
//! ```text
//! /run/gpushare/lock
//! /run/gpushare/jobs/JOB       the entry of the job's latest start on this node
//! /run/gpushare/balance        the sum of the entries
//! /run/gpushare/failed/JOB     why the job can't run here
//! /run/gpushare/env/JOB        the variables of a job with a share, for ssh sessions
//! /run/gpushare/witness/JOB    the process that lives as long as the job
//! /run/gpushare/reconciled     its date: when the ledger last looked for jobs that are over
//! /run/gpushare/nvml           why NVML has no answer
//! /run/gpushare/limits         the driver can limit GPU memory for a cgroup
//! /run/gpushare/used           when jobs last used their GPUs
//! /run/gpushare/daemons        folders with MPS daemons
//! /run/gpushare/counts         how many shares and GPUs were given since the reboot
//! /run/gpushare/gpustat        where jobstats' files are, if anywhere
//! /run/gpushare/dcgm           where dcgm-exporter's files are, if anywhere
//! /run/gpushare/garbage/…      files that were in the place of one of these
//! /run/gpushare/new            what is being written
//! ```
//!
//! If the lock can't be opened, for example because it is a folder, an administrator must move it: if two processes
//! moved it at once, each could get its own lock.

mod alive;
mod balance;
mod counts;
mod daemons;
mod entry;
mod error;
mod exporters;
mod failure;
mod note;
mod used;
mod variables;

pub use alive::{Witness, is_gone};
pub use balance::{Balance, Row, on_scale};
pub use counts::{Counts, Event};
pub use entry::{Damage, Entry, Holding};
pub use error::LedgerError;
pub(crate) use failure::one_line;
pub(crate) use note::read_note;
pub use used::{Used, after_look};

use crate::config::RUN_DIR;
use gpushare::root_file::{self, FolderError};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::job::JobKey;

/// The folder of entries.
const JOBS: &str = "jobs";
/// No entry is longer; a longer file is garbage.
const LONGEST: u64 = 16 << 10;
/// How often to try again to get a lock that is taken.
const LOCK_PAUSE: Duration = Duration::from_millis(2);
/// How many files of one name `garbage/` keeps; further ones are deleted.
const MOST_ASIDE: u32 = 100;

/// The ledger of a node.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) dir: PathBuf,
}

/// The locked ledger.
#[derive(Debug)]
pub struct Locked<'a> {
    ledger: &'a Ledger,
    known: balance::Known,
    _lock: File,
}

/// The entries, and the files that aren't entries.
#[derive(Debug, Default)]
pub struct Listing {
    /// Sorted by job number.
    pub entries: Vec<Entry>,
    /// Files that aren't entries, or that we can't read.
    pub garbage: Vec<Garbage>,
}

/// The files in the folder of entries that can't be read.
#[derive(Debug, Default)]
pub struct Unread {
    /// Files that aren't entries; moved aside.
    pub garbage: Vec<Garbage>,
    /// Entries of other versions of gpushare, or ones that can't be read now; left in place.
    pub others: Vec<Garbage>,
}

/// A file that can't be read as an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbage {
    /// Its name.
    pub name: String,
    /// Why it can't be read.
    pub damage: Damage,
}

impl Garbage {
    /// Whether it is an entry nevertheless: one of another version, or one that could not be read. Its job may be
    /// running on a GPU.
    pub fn is_entry(&self) -> bool {
        matches!(self.damage, Damage::OtherVersion(_) | Damage::Unreadable(_))
            && entry::job_of(&self.name).is_some()
    }
}

impl fmt::Display for Garbage {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "'{}': {}", self.name.escape_debug(), self.damage)
    }
}

impl Ledger {
    /// This machine's ledger.
    pub fn system() -> Ledger {
        Ledger::at(RUN_DIR)
    }

    /// The ledger in `dir`, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Ledger { dir: dir.into() }
    }

    /// Takes the lock, after it makes the folders; gives up after `wait`.
    ///
    /// # Errors
    /// The lock is still taken then, or the folder can't be made or doesn't belong to root.
    pub fn lock(&self, wait: Duration) -> Result<Locked<'_>, LedgerError> {
        root_file::make_folder(&self.dir)?;
        let path = self.dir.join("lock");
        let failed = |error| LedgerError::Lock(path.clone(), error);
        let file = root_file::open(&path).map_err(failed)?;
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
        let locked = Locked { ledger: self, known: balance::Known::default(), _lock: file };
        locked.make_folder(JOBS)?;
        Ok(locked)
    }

    /// Whether a job has had a GPU since the node booted.
    pub fn is_there(&self) -> bool {
        self.dir.join(JOBS).symlink_metadata().is_ok()
    }

    /// The names in one of the ledger's folders; empty if the folder doesn't exist yet.
    fn names(&self, folder: &Path) -> Result<Vec<String>, LedgerError> {
        let failed = |error| LedgerError::Read(folder.to_owned(), error);
        let name = |found: io::Result<fs::DirEntry>| {
            found.map(|found| found.file_name().to_string_lossy().into_owned()).map_err(failed)
        };
        match folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
            Ok(folder) => folder.map(name).collect(),
        }
    }

    /// Lists every entry; changes nothing.
    ///
    /// # Errors
    /// A folder can't be read.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let jobs = self.dir.join(JOBS);
        let mut listing = Listing::default();
        for name in self.names(&jobs)? {
            match read(&jobs.join(&name)) {
                Ok(entry) => listing.entries.push(entry),
                Err(Damage::Gone) => {}
                Err(damage) => listing.garbage.push(Garbage { name, damage }),
            }
        }
        listing.entries.sort_by_key(|entry| entry.key);
        Ok(listing)
    }

    /// The entry of a job's latest start.
    ///
    /// # Errors
    /// The entry is damaged or can't be read.
    pub fn find(&self, job_id: u32) -> Result<Option<Entry>, LedgerError> {
        let path = self.of_job(JOBS, job_id);
        match read(&path) {
            Ok(entry) => Ok(Some(entry)),
            Err(Damage::Gone) => Ok(None),
            Err(damage) => Err(LedgerError::Entry(path, damage)),
        }
    }

    /// Whether the ledger has anything about a job: an entry (damaged or not), a failure mark, a witness, or variables.
    pub fn knows(&self, job_id: u32) -> bool {
        let exists = |path: PathBuf| match path.symlink_metadata() {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let folders = [JOBS, failure::FOLDER, alive::FOLDER, variables::FOLDER];
        folders.into_iter().any(|folder| exists(self.of_job(folder, job_id)))
    }
}

impl Locked<'_> {
    /// Lists every entry. Moves other files to `garbage/`.
    ///
    /// # Errors
    /// A folder can't be read.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let listing = self.ledger.list()?;
        for garbage in listing.garbage.iter().filter(|garbage| !garbage.is_entry()) {
            self.set_aside(&self.ledger.dir.join(JOBS).join(&garbage.name));
        }
        Ok(listing)
    }

    /// Writes a job's entry and removes all else that the ledger has about the job, such as a failure mark and a
    /// witness: these belong to an earlier start, or to an old job with the same number.
    ///
    /// # Errors
    /// The entry can't be written.
    pub fn record(&self, entry: &Entry) -> Result<(), LedgerError> {
        let path = self.ledger.of_job(JOBS, entry.key.id);
        let mut draft = self.draft()?;
        let old = read(&path);
        if !matches!(old, Ok(_) | Err(Damage::Gone)) {
            // It is unknown how a damaged entry counts in the balance.
            draft.forget();
        }
        self.drop_marks(entry.key.id, None)?;
        self.withdraw(entry.key.id)?;
        self.write_note(&path, &entry.to_string())?;
        self.settle_record(draft, old.ok().as_ref(), entry);
        Ok(())
    }

    /// Removes a job's entry if it belongs to the start `up_to` or an earlier one, or to any start if `up_to` is
    /// `None`. Returns its start. A damaged entry doesn't show its start, so it counts as `up_to`.
    ///
    /// # Errors
    /// The entry can't be removed, or the balance can't be made invalid first.
    pub(crate) fn remove(&self, job_id: u32, up_to: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
        let path = self.ledger.of_job(JOBS, job_id);
        let old = read(&path);
        let key = match &old {
            Err(Damage::Gone) => return Ok(None),
            Ok(entry) => entry.key,
            Err(_) => JobKey { id: job_id, restart: up_to.unwrap_or(0) },
        };
        if up_to.is_some_and(|restart| key.restart > restart) {
            return Ok(None);
        }
        let mut draft = self.draft()?;
        self.remove_note(&path)?;
        match &old {
            Ok(entry) => self.settle_removal(draft, entry),
            Err(_) => draft.forget(),
        }
        Ok(Some(key))
    }

    /// Removes all that the ledger has about a job's start `up_to` and earlier ones, or about any start if `up_to` is
    /// `None`. Returns the start that had an entry.
    ///
    /// # Errors
    /// Something can't be removed.
    pub fn forget(&self, job_id: u32, up_to: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
        let removed = self.remove(job_id, up_to)?;
        self.drop_marks(job_id, up_to)?;
        if self.ledger.of_job(JOBS, job_id).symlink_metadata().is_err() {
            self.withdraw(job_id)?;
        }
        Ok(removed)
    }

    /// Removes the failure mark and the witness. Both begin with the number of their start.
    fn drop_marks(&self, job_id: u32, up_to: Option<u32>) -> Result<(), LedgerError> {
        let mut paths =
            [failure::FOLDER, alive::FOLDER].map(|folder| self.ledger.of_job(folder, job_id)).into_iter();
        paths.try_for_each(|path| match up_to {
            Some(_) if restart_in(&path) > up_to => Ok(()),
            // If the folder isn't a folder, there is no mark in it.
            _ => self.remove_note(&path).or_else(|error| match path.symlink_metadata() {
                Ok(_) => Err(error),
                Err(_) => Ok(()),
            }),
        })
    }

    /// Makes a folder of the ledger. If something else has that name, it moves to `garbage/`.
    fn make_folder(&self, name: &str) -> Result<(), LedgerError> {
        let path = self.ledger.dir.join(name);
        match root_file::make_folder(&path) {
            Err(FolderError::Unsafe(_)) if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) => {
                self.set_aside(&path);
                Ok(root_file::make_folder(&path)?)
            }
            result => Ok(result?),
        }
    }

    /// Moves anything but a regular file to `garbage/`.
    fn clear(&self, path: &Path) {
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            self.set_aside(path);
        }
    }

    /// Moves a file to `garbage/`. If that fails, the next call tries again.
    fn set_aside(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let garbage = self.ledger.dir.join("garbage");
        let taken = |to: &PathBuf| to.symlink_metadata().is_ok();
        let free =
            (0..MOST_ASIDE).map(|number| garbage.join(format!("{name}.{number}"))).find(|to| !taken(to));
        let moved =
            root_file::make_folder(&garbage).is_ok() && free.is_some_and(|to| fs::rename(path, to).is_ok());
        if !moved {
            let _ = fs::remove_file(path);
        }
    }
}

fn restart_in(path: &Path) -> Option<u32> {
    note::read_note(path)?.split(' ').next()?.parse().ok()
}

fn read(path: &Path) -> Result<Entry, Damage> {
    let bytes = root_file::read(path, LONGEST).map_err(Damage::from_io)?.ok_or(Damage::NoFile)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Damage::Foreign)?;
    let entry: Entry = text.parse()?;
    let named = path.file_name().and_then(|name| name.to_str()).and_then(entry::job_of);
    if named == Some(entry.key.id) { Ok(entry) } else { Err(Damage::Misnamed) }
}

#[cfg(test)]
mod tests;
