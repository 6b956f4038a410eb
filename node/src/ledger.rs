//! Who is on which GPU: one small text file for each job under /run/gpushare, which only root writes. `cat` shows all
//! that is true of a job here: its GPUs, its programs' variables, the process that lives as long as it, and why it
//! fails, if it does ([`entry`]).
//!
//! Each entry is written to a temporary file and renamed, so that a reader sees all of it or nothing. A file that isn't
//! an entry moves to `garbage/`; it is never trusted and never fatal. An entry of another version of gpushare, or an
//! unreadable one, stays in place, and placement avoids GPUs that it may hold. Changes need a lock, which the kernel
//! releases when its holder dies; reading needs no lock. A reboot empties /run, which is correct: no job survives a
//! reboot.
//!
//! ```text
//! /run/gpushare/lock
//! /run/gpushare/jobs/JOB       the entry of the job's latest start on this node, under `own` of any job; empty if
//!                              there was no room for that of a share
//! /run/gpushare/mender-JOB     the socket of what opens a job's GPU again (cgroup v1)
//! /run/gpushare/reconciled     its date: when the ledger last looked for jobs that are over
//! /run/gpushare/nvml           why NVML has no answer
//! /run/gpushare/limits         the driver can limit GPU memory for a cgroup
//! /run/gpushare/used           when jobs last used their GPUs
//! /run/gpushare/daemons        directories with MPS daemons
//! /run/gpushare/counts         how many shares and GPUs were given since the reboot
//! /run/gpushare/gpustat        where jobstats' files are, if anywhere
//! /run/gpushare/dcgm           where dcgm-exporter's files are, if anywhere
//! /run/gpushare/garbage/…      files that were in the place of one of these
//! /run/gpushare/new            what is being written
//! ```
//!
//! If the lock can't be opened, for example because it is a directory, an administrator must move it: if two processes
//! moved it at once, each could get its own lock.

mod alive;
mod count;
mod entry;
pub mod extern_step;
pub mod figures;
mod lock;
mod note;

pub use alive::{extern_step_above, is_gone};
pub use count::Event;
pub(crate) use entry::one_line;
pub use entry::{Damage, Entry, Given, Holding, Witness};
pub(crate) use lock::take_lock;
pub(crate) use note::read_note;

use crate::config::{NodeConfig, RUN_DIR};
use gpushare::config::LoadError;
use gpushare::{root_file, root_folder, root_folder::FolderError};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::job::JobKey;

/// The directory of entries.
const JOBS: &str = "jobs";
/// No entry is longer; a longer file is garbage.
const LONGEST: u64 = 16 << 10;
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
    _lock: File,
}

/// The entries, and the files that aren't entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Those of jobs that have GPUs, sorted by job number.
    pub entries: Vec<Entry>,
    /// Those of jobs that have none.
    pub without: Vec<Entry>,
    /// The jobs that can't run here, with GPUs or without, and why; sorted by job number.
    pub failures: Vec<(u32, String)>,
    /// Files that aren't entries, or that we can't read.
    pub garbage: Vec<Garbage>,
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

    /// Takes the lock, after it makes the directories; gives up after `wait`.
    ///
    /// # Errors
    /// The lock is still taken then, or the directory can't be made or doesn't belong to root.
    pub fn lock(&self, wait: Duration) -> Result<Locked<'_>, LedgerError> {
        root_folder::make(&self.dir)?;
        let path = self.dir.join("lock");
        let failed = |error| LedgerError::Lock(path.clone(), error);
        let file = root_file::open(&path).map_err(failed)?;
        if !take_lock(&file, Instant::now() + wait).map_err(failed)? {
            return Err(LedgerError::Busy(path, wait));
        }
        let locked = Locked { ledger: self, _lock: file };
        locked.make_folder(JOBS)?;
        Ok(locked)
    }

    /// Whether a job has had a GPU since the node booted.
    pub fn is_there(&self) -> bool {
        self.dir.join(JOBS).symlink_metadata().is_ok()
    }

    /// The node's rules. Without the file gpushare shares no GPUs here; but where jobs have had some, the file is lost.
    ///
    /// # Errors
    /// It is, or can't be read, or has a mistake; or it has lines for single nodes, and `node` is unknown.
    pub fn rules(&self, path: &Path, node: Option<&str>) -> Result<NodeConfig, LoadError> {
        match NodeConfig::load(path, node)? {
            None if self.is_there() => Err(LoadError::Missing(path.to_owned())),
            rules => Ok(rules.unwrap_or_default()),
        }
    }

    /// Lists every entry; changes nothing.
    ///
    /// # Errors
    /// A directory can't be read.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let mut listing = Listing::default();
        let folder = self.dir.join(JOBS);
        let all =
            |found: fs::ReadDir| found.map(|file| Ok(file?.file_name())).collect::<io::Result<Vec<_>>>();
        let names = match folder.read_dir().and_then(all) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            names => names.map_err(|error| LedgerError::Read(folder, error))?,
        };
        for name in names {
            let name = name.to_string_lossy().into_owned();
            match self.read(&name) {
                Ok(entry) => listing.add(entry),
                Err(Damage::Gone) => {}
                Err(damage) => listing.garbage.push(Garbage { name, damage }),
            }
        }
        listing.entries.sort_by_key(|entry| entry.key);
        listing.failures.sort();
        Ok(listing)
    }

    /// The entry of a job's latest start.
    ///
    /// # Errors
    /// The entry is damaged or can't be read.
    pub fn find(&self, job_id: u32) -> Result<Option<Entry>, LedgerError> {
        match self.read(&job_id.to_string()) {
            Ok(entry) => Ok(Some(entry)),
            Err(Damage::Gone) => Ok(None),
            Err(damage) => Err(LedgerError::Entry(self.of_job(job_id), damage)),
        }
    }

    /// Whether the ledger has anything about a job, damaged or not.
    pub fn knows(&self, job_id: u32) -> bool {
        !matches!(self.read(&job_id.to_string()), Err(Damage::Gone))
    }

    /// Marks a job whose prolog wasn't done, if that has recorded this start of it: the job's steps would take the rest
    /// as done. Drops an earlier start's entry, which they would take as theirs. Returns whether the job is marked;
    /// gives up after `wait`.
    ///
    /// # Errors
    /// The entry can't be read, the lock is taken, or the mark can't be written.
    pub fn fail_recorded(&self, key: JobKey, reason: &str, wait: Duration) -> Result<bool, LedgerError> {
        if self.find(key.id)?.is_none() {
            return Ok(false);
        }
        let locked = self.lock(wait)?;
        // The epilog may have run in the meantime.
        match self.find(key.id)? {
            Some(entry) if entry.key != key => locked.forget(key.id, Some(key.restart)).map(|_| false),
            Some(entry) if entry.has_gpus() => locked.fail(key, entry.user_id, reason).map(|()| true),
            _ => Ok(false),
        }
    }

    fn of_job(&self, job_id: u32) -> PathBuf {
        self.dir.join(format!("{JOBS}/{job_id}"))
    }

    fn read(&self, name: &str) -> Result<Entry, Damage> {
        let text = match root_file::read(&self.dir.join(JOBS).join(name), LONGEST) {
            Ok(bytes) => String::from_utf8(bytes.ok_or(Damage::NoFile)?).map_err(|_| Damage::Foreign)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Damage::Gone),
            Err(error) => return Err(Damage::Unreadable(error.kind())),
        };
        let entry = match text.as_str() {
            "" => Entry::unwritten(entry::job_of(name).unwrap_or(0)),
            text => text.parse()?,
        };
        if entry::job_of(name) == Some(entry.key.id) { Ok(entry) } else { Err(Damage::Misnamed) }
    }
}

impl Listing {
    fn add(&mut self, entry: Entry) {
        self.failures.extend(entry.failure.clone().map(|reason| (entry.key.id, reason)));
        if entry.has_gpus() { &mut self.entries } else { &mut self.without }.push(entry);
    }
}

impl Locked<'_> {
    /// The ledger that is locked.
    pub(crate) fn ledger(&self) -> &Ledger {
        self.ledger
    }

    /// Lists every entry. Moves other files to `garbage/`.
    ///
    /// # Errors
    /// A directory can't be read.
    pub fn list(&self) -> Result<Listing, LedgerError> {
        let listing = self.ledger.list()?;
        for garbage in listing.garbage.iter().filter(|garbage| !garbage.is_entry()) {
            self.set_aside(&self.ledger.dir.join(JOBS).join(&garbage.name));
        }
        Ok(listing)
    }

    /// Writes a job's entry in the place of all that the ledger has about the job: of an earlier start, or of an old
    /// job with the same number. A full disk still takes an empty file, which tells the steps of a share why they can't
    /// run. Whole GPUs are Slurm's, and the job has them without an entry.
    ///
    /// # Errors
    /// The entry can't be written.
    pub fn record(&self, entry: &Entry) -> Result<(), LedgerError> {
        let path = self.ledger.of_job(entry.key.id);
        if let Err(error) = self.write_note(&path, &entry.to_string()) {
            let must_be_known = entry.failure.is_some() || entry.share_gpu().is_some();
            if must_be_known && !self.ledger.knows(entry.key.id) {
                let _ = self.write_note(&path, "");
            }
            return Err(error);
        }
        Ok(())
    }

    /// Marks a start of a job as one that can't run here, with the reason; it keeps GPUs that it has. Any of root's
    /// processes may call it: the prolog and slurmstepd do.
    ///
    /// # Errors
    /// The mark can't be written, or the job has an entry of another version.
    pub fn fail(&self, key: JobKey, user_id: u32, reason: &str) -> Result<(), LedgerError> {
        let entry = self.entry_if(key.id, |entry| entry.key == key)?;
        self.mark(entry.unwrap_or_else(|| Entry::without_gpus(key, user_id)), reason)
    }

    /// A job's entry, if it is the wanted one. What isn't an entry counts for nothing.
    ///
    /// # Errors
    /// It may be, but it can't be read.
    fn entry_if(&self, id: u32, wanted: impl Fn(&Entry) -> bool) -> Result<Option<Entry>, LedgerError> {
        match self.ledger.find(id) {
            Err(error @ LedgerError::Entry(_, Damage::OtherVersion(_) | Damage::Unreadable(_))) => Err(error),
            found => Ok(found.ok().flatten().filter(wanted)),
        }
    }

    fn mark(&self, mut entry: Entry, reason: &str) -> Result<(), LedgerError> {
        // The prolog may run twice.
        let is_new = entry.failure.is_none();
        entry.failure = Some(one_line(reason));
        self.record(&entry)?;
        if is_new {
            self.count(&[Event::Failed]);
        }
        Ok(())
    }

    /// Removes all that the ledger has about a job's start `up_to` and earlier ones, or about any start if `up_to` is
    /// `None`. Returns the start that had GPUs. A damaged entry doesn't show its start, so it counts as `up_to`.
    ///
    /// # Errors
    /// Something can't be removed.
    pub fn forget(&self, job_id: u32, up_to: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
        let key = match self.ledger.read(&job_id.to_string()) {
            Err(Damage::Gone) => return Ok(None),
            Ok(entry) if up_to.is_some_and(|restart| entry.key.restart > restart) => return Ok(None),
            Ok(entry) => entry.has_gpus().then_some(entry.key),
            Err(_) => Some(JobKey { id: job_id, restart: up_to.unwrap_or(0) }),
        };
        self.remove_note(&self.ledger.of_job(job_id))?;
        // Left by an extern step that was killed.
        let _ = fs::remove_file(self.ledger.dir.join(format!("mender-{job_id}")));
        Ok(key)
    }

    /// Makes a directory of the ledger. If something else has that name, it moves to `garbage/`.
    fn make_folder(&self, name: &str) -> Result<(), LedgerError> {
        let path = self.ledger.dir.join(name);
        match root_folder::make(&path) {
            Err(FolderError::Unsafe(_)) if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) => {
                self.set_aside(&path);
                Ok(root_folder::make(&path)?)
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
            root_folder::make(&garbage).is_ok() && free.is_some_and(|to| fs::rename(path, to).is_ok());
        if !moved {
            let _ = fs::remove_file(path);
        }
    }
}

gpushare::errors! {
    /// Why the ledger can't be used: what failed, the path, and the kernel's error.
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

#[cfg(test)]
mod tests;
