//! Finds entries of jobs that are over, left because the epilog was killed or never ran.
//!
//! An entry's witness is the slurmstepd of the job's extern step. The slurmstepd notes itself, or the prolog that it
//! runs does (`PrologFlags=RunInJob`). An entry is dropped if that process is gone and no process on the machine has
//! the title that a slurmstepd of any release uses for a step of the job. For a job without a witness, only slurmctld
//! can say that it is over: slurmd was killed before the extern step, or there is no extern step. The entry of a job
//! without GPUs, failed or not, is dropped an hour after it was written, if no step of the job runs then. If the
//! process that drops entries is killed, the next pass handles what it left.

use gpushare::root_file;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Entry, Ledger, LedgerError, Listing, Locked, Witness};
use crate::job::JobKey;
use crate::proc::image::Image;
use crate::proc::{LONGEST_TITLE, STEPD, Stat, start_time, stat, step_daemons};

/// How often to search the ledger when no job needs room.
const INTERVAL: Duration = Duration::from_secs(60);
/// When to doubt an entry of a job without GPUs, which has no witness. If its job lives, its next step asks slurmctld.
const OLD: Duration = Duration::from_secs(3600);
/// More ancestors than there are between a prolog and its slurmstepd: a shell or two.
const MOST_ANCESTORS: usize = 16;

/// The slurmstepd of the job's extern step, if process `pid` descends from it: a prolog with `PrologFlags=RunInJob`.
/// Otherwise the extern step will note itself.
pub fn extern_step_above(proc: &Path, pid: u32, job_id: u32) -> Option<Witness> {
    let mut pid = pid;
    for _ in 0..MOST_ANCESTORS {
        let Stat { name, parent, start, .. } = stat(proc, pid).ok()??;
        if name.starts_with(STEPD) {
            let found = Image::CommandLine.of_roots(proc, pid, LONGEST_TITLE).ok()??;
            // One that manages the job's steps is `[7.extern stepmgr]` (src/slurmd/slurmstepd/slurmstepd.c).
            if found.starts_with(format!("slurmstepd: [{job_id}.extern").as_bytes()) {
                return Some(Witness { pid, start });
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

/// Whether a file was written that long before `now`; also if it is missing. A date as far in the future is from before
/// the clock was set back. One that is nearer may have been written since `now` was read.
fn is_older(path: &Path, age: Duration, now: u64) -> bool {
    let written = path.symlink_metadata().and_then(|found| found.modified());
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    written.map_or(true, |then| now.duration_since(then).unwrap_or_else(|early| early.duration()) >= age)
}

impl Ledger {
    /// The file whose date says when the ledger was last searched.
    fn stamp(&self) -> PathBuf {
        self.dir.join("reconciled")
    }
}

impl Locked<'_> {
    /// Whether `Locked::reconcile` has not run for a while. `now` is in seconds since 1970.
    pub fn is_reconcile_due(&self, now: u64) -> bool {
        is_older(&self.ledger.stamp(), INTERVAL, now)
    }

    /// Drops entries older than `grace` whose job is over. Returns their starts. `proc` is /proc except in tests.
    ///
    /// # Errors
    /// `proc` can't be read or shows only some processes, the entries can't be read, or one can't be removed.
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
        let is_suspect = |entry: &Entry| entry.witness.is_some_and(|witness| is_gone(proc, &witness));
        let Listing { entries: mut suspects, mut without, .. } = self.ledger.list()?;
        suspects.retain(is_suspect);
        without.retain(|entry| is_older(&self.ledger.of_job(entry.key.id), OLD, now));
        suspects.extend(without);
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let steps = step_daemons(proc).map_err(failed)?;
        let running: HashSet<u32> = steps.into_iter().map(|(_, job)| job).collect();
        // One of the future was written before the clock was set back.
        suspects
            .retain(|entry| !running.contains(&entry.key.id) && now.abs_diff(entry.since) >= grace.as_secs());
        let dropped = suspects.into_iter().map(|Entry { key, .. }| self.forget(key.id, Some(key.restart)));
        dropped.filter_map(Result::transpose).collect()
    }

    fn note_reconcile(&self, now: u64) {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        // If this fails, the ledger is searched more often.
        let _ = root_file::open(&self.ledger.stamp()).and_then(|file| file.set_modified(then));
    }
}
