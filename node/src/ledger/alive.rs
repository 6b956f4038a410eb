//! Finds entries of jobs that are over, left because the epilog was killed or never ran.
//!
//! `witness/JOB` records the slurmstepd of a job's extern step in one line, `RESTART PID STARTTIME`. The slurmstepd
//! writes the line itself, or the prolog that it runs does (`PrologFlags=RunInJob`). An entry is dropped if that
//! process is gone and no process on the machine has the title that a slurmstepd of any release uses for a step of the
//! job. For a job without a witness, only slurmctld can say that it is over: slurmd was killed before the extern step,
//! or there is no extern step. If the process that drops entries is killed, the next pass handles what it left.

use gpushare::root_file;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::note::read_note;
use super::{Damage, JOBS, Ledger, LedgerError, Locked, entry, read};
use crate::job::JobKey;
use crate::proc::image::Image;
use crate::proc::{LONGEST_TITLE, STEPD, Stat, start_time, stat, step_daemons};

pub(super) const FOLDER: &str = "witness";
/// How often to search the ledger when no job needs room.
const INTERVAL: Duration = Duration::from_secs(60);
/// More ancestors than there are between a prolog and its slurmstepd: a shell or two.
const MOST_ANCESTORS: usize = 16;

/// The process that lives as long as a job's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which of the job's starts.
    pub restart: u32,
    /// The process's number.
    pub pid: u32,
    /// When it started, in ticks since the machine booted. A process number can be reused, but not together with the
    /// same start time.
    pub start: u64,
}

/// The slurmstepd of the job's extern step, if process `pid` descends from it: its number and its start time.
fn extern_step_above(proc: &Path, pid: u32, job_id: u32) -> Option<(u32, u64)> {
    let title = format!("slurmstepd: [{job_id}.extern]");
    let mut pid = pid;
    for _ in 0..MOST_ANCESTORS {
        let Stat { name, parent, start, .. } = stat(proc, pid).ok()??;
        if name.starts_with(STEPD) {
            let found = Image::CommandLine.of_roots(proc, pid, LONGEST_TITLE).ok()??;
            if found.starts_with(title.as_bytes()) {
                return Some((pid, start));
            }
        }
        pid = parent;
    }
    None
}

/// Whether that process is gone. If that is unknown, it counts as alive.
pub fn is_gone(proc: &Path, witness: &Witness) -> bool {
    match start_time(proc, witness.pid) {
        Ok(found) => found != Some(witness.start),
        Err(_) => false,
    }
}

/// The jobs that have a slurmstepd.
fn jobs_with_steps(proc: &Path) -> io::Result<HashSet<u32>> {
    Ok(step_daemons(proc)?.into_iter().map(|(_, job)| job).collect())
}

impl Ledger {
    /// Records the slurmstepd of a job's extern step, which lives as long as the job. Takes no lock: only one process
    /// writes about this start, and an incomplete line is ignored.
    ///
    /// # Errors
    /// The witness can't be written.
    pub fn witness(&self, key: JobKey, pid: u32, start_time: u64) -> Result<(), LedgerError> {
        root_file::make_folder(&self.dir)?;
        root_file::make_folder(&self.dir.join(FOLDER))?;
        let path = self.of_job(FOLDER, key.id);
        let text = format!("{} {pid} {start_time}\n", key.restart);
        let write = |mut file: fs::File| {
            file.set_len(0)?;
            file.write_all(text.as_bytes())
        };
        root_file::open(&path).and_then(write).map_err(|error| LedgerError::Write(path, error))
    }

    /// The same as [`Ledger::witness`], if that slurmstepd started process `pid`, a prolog with `PrologFlags=RunInJob`.
    /// Otherwise does nothing: the extern step will record itself.
    ///
    /// # Errors
    /// The same as for [`Ledger::witness`].
    pub(crate) fn witness_above(&self, key: JobKey, proc: &Path, pid: u32) -> Result<(), LedgerError> {
        match extern_step_above(proc, pid, key.id) {
            Some((stepd, start)) => self.witness(key, stepd, start),
            None => Ok(()),
        }
    }

    fn read_witness(&self, job_id: u32) -> Option<Witness> {
        let text = read_note(&self.of_job(FOLDER, job_id))?;
        let mut words = text.strip_suffix('\n')?.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let witness = Witness {
            restart: number()?.try_into().ok()?,
            pid: number()?.try_into().ok()?,
            start: number()?,
        };
        words.next().is_none().then_some(witness)
    }

    /// Whether a witness is recorded for this start of a job, whether it is alive or not.
    pub fn is_witnessed(&self, key: JobKey) -> bool {
        self.read_witness(key.id).is_some_and(|witness| witness.restart == key.restart)
    }

    /// The file whose date says when the ledger was last searched.
    fn stamp(&self) -> PathBuf {
        self.dir.join("reconciled")
    }
}

impl Locked<'_> {
    /// Whether `Locked::reconcile` has not run for a while. `now` is in seconds since 1970.
    pub fn is_reconcile_due(&self, now: u64) -> bool {
        let stamp = self.ledger.stamp().symlink_metadata().and_then(|found| found.modified());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        // A stamp in the future was written before the clock was set back, and is ignored.
        stamp.map_or(true, |then| now.duration_since(then).map_or(true, |age| age >= INTERVAL))
    }

    /// Drops entries older than `grace` whose job is over, and all else that the ledger has about such jobs. Returns
    /// the entries' starts. `proc` is /proc except in tests.
    ///
    /// # Errors
    /// `proc` can't be read or shows only some processes, the folder of witnesses can't be read, or something of such a
    /// job can't be removed.
    pub(crate) fn reconcile(
        &self,
        proc: &Path,
        now: u64,
        grace: Duration,
    ) -> Result<Vec<JobKey>, LedgerError> {
        // Noted first, so that not every later caller tries again at once if this process is killed or fails.
        self.note_reconcile(now);
        let failed = |error| LedgerError::Read(proc.to_owned(), error);
        // A /proc that is missing, or shows only our own processes, would make every witness look gone.
        if start_time(proc, 1).map_err(failed)?.is_none() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let suspects = self.suspects(proc)?;
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let running = jobs_with_steps(proc).map_err(failed)?;
        let mut dropped = Vec::new();
        for (id, witness) in suspects.into_iter().filter(|(id, _)| !running.contains(id)) {
            let found = read(&self.ledger.of_job(JOBS, id));
            match &found {
                Ok(entry) if now.saturating_sub(entry.since) < grace.as_secs() => continue,
                Ok(_) | Err(Damage::Gone | Damage::OtherVersion(_)) => {}
                Err(_) => continue,
            }
            // An entry of a start later than the witness's stays.
            let removed = self.forget(id, Some(witness.restart))?;
            dropped.extend(removed.filter(|_| found != Err(Damage::Gone)));
        }
        Ok(dropped)
    }

    /// Jobs whose witness is gone.
    fn suspects(&self, proc: &Path) -> Result<Vec<(u32, Witness)>, LedgerError> {
        let names = self.ledger.names(&self.ledger.dir.join(FOLDER))?;
        let ids = names.iter().filter_map(|name| entry::job_of(name));
        let witnessed = ids.filter_map(|id| Some((id, self.ledger.read_witness(id)?)));
        Ok(witnessed.filter(|(_, witness)| is_gone(proc, witness)).collect())
    }

    fn note_reconcile(&self, now: u64) {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        // If this fails, the ledger is searched more often.
        let _ = root_file::open(&self.ledger.stamp()).and_then(|file| file.set_modified(then));
    }
}
