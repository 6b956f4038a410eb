//! Starts of jobs that can't run here, and why: `failed/JOB` is one line, `RESTART REASON`. The job's steps report the
//! reason to the user and fail. A job has at most one mark, for its latest start.

use std::time::Duration;

use gpushare::root_file;

use super::{Event, Ledger, LedgerError, Locked, entry, restart_in};
use crate::job::JobKey;

/// A reason is cut after this many characters.
const LONGEST_REASON: usize = 300;
/// No mark is longer than this many bytes.
const LONGEST: u64 = 2048;
pub(super) const FOLDER: &str = "failed";
/// The reason to report if a mark can't be read.
const GENERIC: &str = "this start of the job failed on this node; the reason is in the node's syslog";

impl Ledger {
    /// Why the latest start of a job can't run here: one printable line, whatever the mark contains.
    ///
    /// # Errors
    /// The mark can't be read.
    pub fn failure(&self, job_id: u32) -> Result<Option<String>, LedgerError> {
        let path = self.of_job(FOLDER, job_id);
        match root_file::read(&path, LONGEST) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
                Ok(Some(reason(&text).unwrap_or_else(|| GENERIC.to_owned())))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LedgerError::Read(path, error)),
        }
    }

    /// Marks a job whose prolog wasn't done, if that has recorded this start of it: the job's steps would take the rest
    /// as done. Returns whether it is marked; gives up after `wait`.
    ///
    /// # Errors
    /// The entry can't be read, the lock is taken, or the mark can't be written.
    pub fn fail_recorded(&self, key: JobKey, reason: &str, wait: Duration) -> Result<bool, LedgerError> {
        let is_recorded = self.find(key.id)?.is_some_and(|entry| entry.key == key);
        if is_recorded {
            self.lock(wait)?.fail(key, reason)?;
        }
        Ok(is_recorded)
    }

    /// Every job that can't run here, by number, with the reason.
    ///
    /// # Errors
    /// A mark or the folder can't be read.
    pub fn failures(&self) -> Result<Vec<(u32, String)>, LedgerError> {
        let mut failures = Vec::new();
        for name in self.names(&self.dir.join(FOLDER))? {
            if let Some(id) = entry::job_of(&name)
                && let Some(reason) = self.failure(id)?
            {
                failures.push((id, reason));
            }
        }
        failures.sort();
        Ok(failures)
    }
}

impl Locked<'_> {
    /// Marks a start of a job as one that can't run here, with the reason. Any of root's processes may call it: the
    /// prolog and slurmstepd do.
    ///
    /// # Errors
    /// The mark can't be written.
    pub fn fail(&self, key: JobKey, reason: &str) -> Result<(), LedgerError> {
        self.make_folder(FOLDER)?;
        let path = self.ledger.of_job(FOLDER, key.id);
        // The prolog may run twice.
        let is_new = restart_in(&path) != Some(key.restart);
        self.write_note(&path, &format!("{} {}\n", key.restart, one_line(reason)))?;
        if is_new {
            self.count(&[Event::Failed]);
        }
        Ok(())
    }
}

fn reason(text: &str) -> Option<String> {
    let (restart, reason) = text.strip_suffix('\n')?.split_once(' ')?;
    restart.parse::<u32>().ok()?;
    let reason = one_line(reason);
    (!reason.is_empty()).then_some(reason)
}

/// Shortens the text and removes characters that could move a terminal's cursor or forge a line of a log.
pub(crate) fn one_line(text: &str) -> String {
    let printable = |c: char| if c.is_control() || ('\u{200e}'..='\u{202e}').contains(&c) { ' ' } else { c };
    text.trim().chars().take(LONGEST_REASON).map(printable).collect()
}
