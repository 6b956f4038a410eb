//! Who is on which GPU: one small text file a job under /run/gpushare, written by root alone.
//!
//! An entry is written to a temporary file and renamed, so that a reader sees all of it or nothing. What is no entry is
//! set aside under `garbage/`, never trusted and never fatal; an entry of another version of gpushare, or one that the
//! kernel doesn't let be read, stays where it is, and no share is placed beside what it may hold. Changes happen under a
//! lock that the kernel lets go when its holder dies; reading needs none. A reboot empties /run, which is right: no job
//! survives it either.
//!
//! ```text
//! /run/gpushare/lock
//! /run/gpushare/jobs/JOB       an entry, of the job's latest start on this node
//! /run/gpushare/balance        the entries' sum
//! /run/gpushare/failed/JOB     why the job can't run here
//! /run/gpushare/env/JOB        the variables of a job with a share, for ssh sessions
//! /run/gpushare/witness/JOB    the process that lives as long as the job
//! /run/gpushare/reconciled     its date: when entries of jobs that are over were last looked for
//! /run/gpushare/nvml           why NVML has no answer
//! /run/gpushare/limits         the driver can limit GPU memory for a cgroup
//! /run/gpushare/used           when jobs last used their GPUs
//! /run/gpushare/daemons        folders with MPS daemons
//! /run/gpushare/counts         how many shares and GPUs were given since the reboot
//! /run/gpushare/gpustat        where jobstats' files are, if anywhere
//! /run/gpushare/dcgm           where dcgm-exporter's files are, if anywhere
//! /run/gpushare/garbage/…      what stood in the place of one of these
//! /run/gpushare/new            what is being written
//! ```
//!
//! A lock that can't be opened, a folder for example, is an administrator's to move: two who did it at once could each
//! have a lock of their own.

mod alive;
mod balance;
mod counts;
mod daemons;
mod entry;
mod error;
mod failure;

mod exporters;
mod note;

mod used;
mod variables;

pub use alive::{Witness, is_gone};
pub use balance::{Balance, Row, on_scale};
pub use counts::{Counts, Event};
pub use entry::{Damage, Entry, Holding};
pub use error::LedgerError;
pub(crate) use failure::one_line;
pub use used::{Used, after_look};

use gpushare::config::RUN_DIR;
use gpushare::root_file::{self, FolderError};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::job::JobKey;

/// No entry is longer; a file that is, is garbage.
const LONGEST: u64 = 16 << 10;
/// How often a taken lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(2);
/// So many things of one name are kept aside; what comes then is removed.
const MOST_ASIDE: u32 = 100;

/// The ledger of a node.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) dir: PathBuf,
}

/// The ledger while nobody else changes it.
#[derive(Debug)]
pub struct Locked<'a> {
    ledger: &'a Ledger,
    known: balance::Known,
    _lock: File,
}

/// The entries, and what was found in their place.
#[derive(Debug, Default)]
pub struct Listing {
    /// In the order of job numbers.
    pub entries: Vec<Entry>,
    /// Files that are no entries, or not ours to read.
    pub garbage: Vec<Garbage>,
}

/// What is in the entries' place and can't be read.
#[derive(Debug, Default)]
pub struct Unread {
    /// No entries; set aside.
    pub garbage: Vec<Garbage>,
    /// Entries of other versions of gpushare, and such as can't be read now; left where they are.
    pub others: Vec<Garbage>,
}

/// A file that can't be read as an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbage {
    /// Its name.
    pub name: String,
    /// Why it can't be one.
    pub damage: Damage,
}

impl Garbage {
    /// It is one all the same, of another version, or one that could not be read: its job may be running and have its GPU.
    #[must_use]
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
    /// That of this machine.
    #[must_use]
    pub fn system() -> Ledger {
        Ledger::at(RUN_DIR)
    }

    /// The ledger in `dir`, which need not exist yet.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Ledger { dir: dir.into() }
    }

    fn jobs(&self) -> PathBuf {
        self.dir.join("jobs")
    }

    fn path_of(&self, job_id: u32) -> PathBuf {
        self.jobs().join(job_id.to_string())
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join("new")
    }

    /// Takes the lock, making the folders first; gives up after `wait`.
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
        locked.make_folder("jobs", &self.jobs())?;
        Ok(locked)
    }

    /// Whether there ever was a job with a GPU since the node booted.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.jobs().symlink_metadata().is_ok()
    }

    /// The names in one of the ledger's folders; none where it was not made yet.
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

    /// Every entry; changes nothing.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let jobs = self.jobs();
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

    /// The entry of a job's latest start. A damaged one is an error here: its job has a share that nobody knows.
    pub fn find(&self, job_id: u32) -> Result<Option<Entry>, LedgerError> {
        let path = self.path_of(job_id);
        match read(&path) {
            Ok(entry) => Ok(Some(entry)),
            Err(Damage::Gone) => Ok(None),
            Err(damage) => {
                Err(LedgerError::Read(path, io::Error::new(io::ErrorKind::InvalidData, damage.to_string())))
            }
        }
    }

    /// Whether there is anything of a job: an entry, be it damaged, the mark of a failure, a witness, or variables.
    #[must_use]
    pub fn knows(&self, job_id: u32) -> bool {
        let exists = |path: PathBuf| match path.symlink_metadata() {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        exists(self.path_of(job_id))
            || exists(self.failure_path(job_id))
            || exists(self.witness_path(job_id))
            || exists(self.variables_path(job_id))
    }
}

impl Locked<'_> {
    /// Every entry; files that are none are moved out of the way.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let listing = self.ledger.list()?;
        for garbage in listing.garbage.iter().filter(|garbage| !garbage.is_entry()) {
            self.set_aside(&garbage.name, &self.ledger.jobs().join(&garbage.name));
        }
        Ok(listing)
    }

    /// Writes an entry in the place of whatever the job had, a mark of its failure and a witness included: those are of
    /// an earlier start, or of an old job of the same number.
    pub fn record(&self, entry: &Entry) -> Result<(), LedgerError> {
        let path = self.ledger.path_of(entry.key.id);
        let mut draft = self.draft()?;
        let old = read(&path);
        if !matches!(old, Ok(_) | Err(Damage::Gone)) {
            // What a damaged one was counted as is not known any more.
            draft.forget();
            self.clear(&path);
        }
        self.drop_marks(entry.key.id, None)?;
        self.withdraw(entry.key.id)?;
        root_file::replace(&self.ledger.temporary(), &path, &entry.to_string())
            .map_err(|error| LedgerError::Write(path, error))?;
        self.settle_record(draft, old.ok().as_ref(), entry);
        Ok(())
    }

    /// Removes the entry of a job, if it is of the start `up_to` or an earlier one, or of any where that is not known.
    /// Gives its start; that of a damaged one is not known and taken for `up_to`.
    pub fn remove(&self, job_id: u32, up_to: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
        let path = self.ledger.path_of(job_id);
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
        // Whatever else stands there, a folder for example, is no entry.
        self.clear(&path);
        root_file::remove(&path).map_err(|error| LedgerError::Remove(path, error))?;
        match &old {
            Ok(entry) => self.settle_removal(draft, entry),
            Err(_) => draft.forget(),
        }
        Ok(Some(key))
    }

    /// Removes all that there is of a job's start `up_to` and earlier ones, or of any where that is not known. Gives the
    /// start that had an entry.
    pub fn forget(&self, job_id: u32, up_to: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
        let removed = self.remove(job_id, up_to)?;
        self.drop_marks(job_id, up_to)?;
        if self.ledger.path_of(job_id).symlink_metadata().is_err() {
            self.withdraw(job_id)?;
        }
        Ok(removed)
    }

    /// The mark of a failure and the witness; both begin with the start that they are of.
    fn drop_marks(&self, job_id: u32, up_to: Option<u32>) -> Result<(), LedgerError> {
        for path in [self.ledger.failure_path(job_id), self.ledger.witness_path(job_id)] {
            if up_to.is_some() && restart_in(&path) > up_to {
                continue;
            }
            if let Err(error) = root_file::remove(&path) {
                self.clear(&path);
                if path.symlink_metadata().is_ok() {
                    return Err(LedgerError::Remove(path, error));
                }
            }
        }
        Ok(())
    }

    /// A folder of the ledger; what else stands in its place is set aside.
    fn make_folder(&self, name: &str, path: &Path) -> Result<(), LedgerError> {
        match root_file::make_folder(path) {
            Err(FolderError::Unsafe(_)) if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) => {
                self.set_aside(name, path);
                Ok(root_file::make_folder(path)?)
            }
            result => Ok(result?),
        }
    }

    /// Sets aside what is not a regular file.
    fn clear(&self, path: &Path) {
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.set_aside(&name, path);
        }
    }

    /// Moves something out of the way. Failing to do so only means that it is met again.
    fn set_aside(&self, name: &str, path: &Path) {
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
    let bytes = root_file::read(path, 16).ok()??;
    std::str::from_utf8(&bytes).ok()?.split(' ').next()?.parse().ok()
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
