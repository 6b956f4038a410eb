//! What one prolog remembers about NVML for the next, so that a node's log reports only once that NVML doesn't answer,
//! and a node without NVML doesn't look for it at every job:
//!
//! - `nvml`: one line, why NVML last gave no answer; the file's date says when. Absent if it gave one.
//! - `limits`: an empty file that exists if the driver can limit GPU memory for a cgroup.

use std::time::{Duration, SystemTime};

use crate::ledger::{Ledger, LedgerError, one_line, read_note};

const SILENCE: &str = "nvml";
const LIMITS: &str = "limits";

/// Why NVML had no answer, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The reason.
    pub reason: String,
    /// How long ago that was; `None` if the clock was set back since.
    pub age: Option<Duration>,
}

impl Ledger {
    /// Why NVML had no answer the last time; `None` if that can't be read.
    pub fn silence(&self) -> Option<Silence> {
        let path = self.dir.join(SILENCE);
        let reason = one_line(&read_note(&path)?);
        let age = path.symlink_metadata().ok()?.modified().ok()?;
        Some(Silence { reason, age: SystemTime::now().duration_since(age).ok() })
    }

    /// Whether the driver can limit GPU memory for a cgroup.
    pub fn has_limits(&self) -> bool {
        self.dir.join(LIMITS).symlink_metadata().is_ok_and(|found| found.is_file())
    }

    /// Remembers that NVML answered, and whether the driver can limit memory. Takes the lock only if that has changed.
    ///
    /// # Errors
    /// The ledger can't be locked, or a file can't be written or removed.
    pub(crate) fn note_answer(&self, limits: bool, wait: Duration) -> Result<(), LedgerError> {
        let (silence, file) = (self.dir.join(SILENCE), self.dir.join(LIMITS));
        if silence.symlink_metadata().is_err() && self.has_limits() == limits {
            return Ok(());
        }
        let locked = self.lock(wait)?;
        locked.remove_note(&silence)?;
        match limits {
            true => locked.write_note(&file, ""),
            false => locked.remove_note(&file),
        }
    }

    /// Remembers why NVML had no answer. Returns `true` if the reason differs from the last one. What is known about
    /// the driver's limits stays.
    ///
    /// # Errors
    /// The ledger can't be locked, or the file can't be written.
    pub(crate) fn note_silence(&self, reason: &str, wait: Duration) -> Result<bool, LedgerError> {
        let locked = self.lock(wait)?;
        let reason = one_line(reason);
        let is_new = self.silence().is_none_or(|last| last.reason != reason);
        locked.write_note(&self.dir.join(SILENCE), &format!("{reason}\n"))?;
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{SOON, ledger};

    #[test]
    fn the_same_reason_is_news_once() {
        let (_dir, ledger) = ledger();
        assert_eq!(ledger.silence(), None);
        assert!(ledger.note_silence("driver not loaded", SOON).unwrap());
        assert!(!ledger.note_silence("driver not loaded\n", SOON).unwrap());
        assert_eq!(ledger.silence().unwrap().reason, "driver not loaded");
        assert!(ledger.note_silence("no answer in 500 ms", SOON).unwrap());
        ledger.note_answer(false, SOON).unwrap();
        assert_eq!(ledger.silence(), None);
        assert!(ledger.note_silence("no answer in 500 ms", SOON).unwrap(), "it was well in between");
    }

    #[test]
    fn an_answer_that_is_no_news_takes_no_lock() {
        let (dir, ledger) = ledger();
        ledger.note_answer(false, SOON).unwrap();
        assert!(!dir.path().join("gpushare").exists());
        ledger.note_answer(true, SOON).unwrap();
        let held = ledger.lock(SOON).unwrap();
        ledger.note_answer(true, SOON).unwrap();
        assert!(ledger.has_limits());
        assert!(matches!(ledger.note_answer(false, SOON), Err(LedgerError::Busy(..))));
        drop(held);
        ledger.note_silence("no answer in 500 ms", SOON).unwrap();
        assert!(ledger.has_limits(), "a driver that doesn't answer still can");
        ledger.note_answer(false, SOON).unwrap();
        assert!(!ledger.has_limits() && ledger.silence().is_none());
    }

    #[test]
    fn what_stands_in_their_place_is_set_aside() {
        let (dir, ledger) = ledger();
        drop(ledger.lock(SOON).unwrap());
        for name in ["nvml", "limits"] {
            std::fs::create_dir(dir.path().join("gpushare").join(name)).unwrap();
        }
        assert!(ledger.silence().is_none() && !ledger.has_limits());
        assert!(ledger.note_silence("driver not loaded", SOON).unwrap());
        ledger.note_answer(true, SOON).unwrap();
        assert!(ledger.silence().is_none() && ledger.has_limits());
    }
}
