//! What gpushare wrote before format 5: a job's marks in directories of their own. Jobs that run while gpushare is
//! upgraded have such files until they end or something about them changes; then one entry takes their place. Nothing
//! else reads or writes them.
//!
//! ```text
//! jobs/JOB      the entry in format 4: as today's, without the lines `state`, `env` and `witness`
//! failed/JOB    why the job can't run here, `RESTART REASON`; some have no entry
//! witness/JOB   the process that lives as long as the job, `RESTART PID STARTTIME`
//! env/JOB       variables, which only shells read
//! balance       a sum of the entries
//! ```

use std::fs;
use std::io;
use std::path::PathBuf;

use gpushare::root_file;

use super::entry::{FIRST_LINE, job_of};
use super::{Damage, Entry, Ledger, LedgerError, Locked, Witness, one_line, read_note};
use crate::job::JobKey;

const FAILED: &str = "failed";
const WITNESS: &str = "witness";
const ENV: &str = "env";
pub(super) const FOLDERS: [&str; 3] = [ENV, WITNESS, FAILED];
/// No mark is longer.
const LONGEST: u64 = 2048;
/// The reason to report if a mark can't be read.
const GENERIC: &str = "this start of the job failed on this node; the reason is in the node's syslog";

/// An entry in format 4, as one in today's; `None` for any other text.
pub(super) fn text(text: &str) -> Option<String> {
    let rest = text.strip_prefix("gpushare-ledger 4\n")?;
    Some(format!("{FIRST_LINE}\n{}", rest.replacen("\nuser=", "\nstate=placed\nuser=", 1)))
}

impl Ledger {
    fn old(&self, folder: &str, job_id: u32) -> PathBuf {
        self.dir.join(format!("{folder}/{job_id}"))
    }

    /// The jobs that have only a mark.
    pub(super) fn old_marks(&self, known: &[String]) -> Vec<String> {
        let names = self.names(&self.dir.join(FAILED)).unwrap_or_default();
        names.into_iter().filter(|name| job_of(name).is_some() && !known.contains(name)).collect()
    }

    /// The entry of a job that has only a mark.
    ///
    /// # Errors
    /// It has no mark either.
    pub(super) fn old_mark(&self, name: &str) -> Result<Entry, Damage> {
        let id = job_of(name).ok_or(Damage::Gone)?;
        let (restart, reason) = self.old_failure(id).ok_or(Damage::Gone)?;
        let without = Entry::without_gpus(JobKey { id, restart }, 0);
        Ok(Entry { failure: Some(reason), ..without })
    }

    /// An entry in format 4 with its job's marks.
    pub(super) fn with_old_marks(&self, mut entry: Entry) -> Entry {
        let JobKey { id, restart } = entry.key;
        entry.failure = self.old_failure(id).map(|(_, reason)| reason);
        entry.witness = self.old_witness(id).filter(|(of, _)| *of == restart).map(|(_, witness)| witness);
        entry
    }

    /// The start that failed, and why: one printable line, whatever the mark contains.
    fn old_failure(&self, job_id: u32) -> Option<(u32, String)> {
        let bytes = match root_file::read(&self.old(FAILED, job_id), LONGEST) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return None;
            }
            bytes => bytes.ok().flatten().unwrap_or_default(),
        };
        let text = String::from_utf8(bytes).unwrap_or_default();
        let words = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let read = words.and_then(|(restart, reason)| Some((restart.parse().ok()?, one_line(reason))));
        Some(read.filter(|(_, reason)| !reason.is_empty()).unwrap_or_else(|| (0, GENERIC.to_owned())))
    }

    fn old_witness(&self, job_id: u32) -> Option<(u32, Witness)> {
        let text = read_note(&self.old(WITNESS, job_id))?;
        let (restart, witness) = text.strip_suffix('\n')?.split_once(' ')?;
        Some((restart.parse().ok()?, witness.parse().ok()?))
    }
}

impl Locked<'_> {
    /// Removes a job's marks, and its entry before the one that names a job by itself: whoever ends in between leaves
    /// what the next finds.
    ///
    /// # Errors
    /// One can't be removed.
    pub(super) fn drop_with_old_marks(&self, job_id: u32) -> Result<(), LedgerError> {
        self.drop_old_marks(job_id, &[ENV, WITNESS])?;
        self.remove_note(&self.ledger.of_job(job_id))?;
        // Left by an extern step that was killed.
        let _ = std::fs::remove_file(self.ledger.dir.join(format!("mender-{job_id}")));
        self.drop_old_marks(job_id, &[FAILED])
    }

    /// Removes a job's marks of these directories.
    ///
    /// # Errors
    /// One can't be removed.
    pub(super) fn drop_old_marks(&self, job_id: u32, folders: &[&str]) -> Result<(), LedgerError> {
        for path in folders.iter().map(|folder| self.ledger.old(folder, job_id)) {
            // If the directory isn't there, or isn't a directory, there is no mark in it.
            if path.symlink_metadata().is_ok() {
                self.remove_note(&path)?;
            }
        }
        Ok(())
    }

    /// Removes what no job needs any more.
    pub(super) fn drop_old_folders(&self) {
        let _ = fs::remove_file(self.ledger.dir.join("balance"));
        for folder in FOLDERS {
            // Fails if there are still marks in it.
            let _ = fs::remove_dir(self.ledger.dir.join(folder));
        }
    }
}
