//! Runs a program's work in a child process, for a bounded time: a worker that hangs in the kernel is killed, and its
//! caller goes on. A lock that the worker holds ends with it, because none of its own children inherits a file.
//!
//! What the worker writes to standard error goes through a pipe, so that nobody who reads that to its end waits for a
//! worker that can't even be killed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::unix::{self, Side, To};

/// How long a prolog or epilog may take. Each wait has its own, shorter bound; this is the bound of their sum, and of a
/// wait that nobody foresaw.
pub const LONGEST: Duration = Duration::from_secs(50);
/// The least `PrologEpilogTimeout`: slurmd drains the node when that is over. A worker may need a second to end, and it
/// may take two until its job is marked as failed.
pub const LEAST_TIMEOUT: Duration = Duration::from_secs(55);
/// How long a killed worker may take to end. One that hangs where no signal reaches it is left alone.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

gpushare::errors! {
    /// Why a worker's work is not done.
    #[derive(Debug)]
    pub enum Unfinished {
        Late(patience: Duration) => "not done after {} s: stopped", patience.as_secs();
        Undead(patience: Duration) =>
            "not done after {} s, and the kernel doesn't let it be stopped", patience.as_secs();
        Killed(signal: i32) => "ended by signal {signal}";
    }
}

/// Does `work` in a child process. If none can be made, does it in this one, without a bound.
///
/// # Errors
/// The child did not end in time, or a signal ended it.
pub fn supervised(patience: Duration, work: impl FnOnce()) -> Result<(), Unfinished> {
    let end = Instant::now() + patience;
    let split = io::pipe().and_then(|pipe| Ok((pipe, unix::fork()?)));
    let Ok(((reader, writer), side)) = split else {
        work();
        return Ok(());
    };
    match side {
        Side::Child => {
            drop(reader);
            unix::become_worker(&writer);
            drop(writer);
            work();
            unix::leave()
        }
        Side::Parent(pid) => {
            drop(writer);
            let mut told = File::from(OwnedFd::from(reader));
            // All files of a process are closed last: it has ended then.
            if pass_on(&mut told, end) {
                return unix::reap(pid).map_or(Ok(()), |signal| Err(Unfinished::Killed(signal)));
            }
            let _ = unix::kill(To::Process(pid));
            if pass_on(&mut told, Instant::now() + LAST_PATIENCE) {
                unix::reap(pid);
                return Err(Unfinished::Late(patience));
            }
            Err(Unfinished::Undead(patience))
        }
    }
}

/// Waits until the worker has ended, then passes on what it has said: to be woken by each line would cost more. Returns
/// whether it has ended.
fn pass_on(told: &mut File, end: Instant) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match unix::wait_closed(told.as_fd(), left) {
            Ok(true) => break,
            Ok(false) if left.is_zero() => return false,
            Ok(false) => {}
            Err(_) => return false,
        }
    }
    let mut said = Vec::new();
    if told.read_to_end(&mut said).is_ok() && !said.is_empty() {
        let _ = io::stderr().write_all(&said);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::path::Path;

    fn open(path: &Path) -> File {
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    #[test]
    fn what_is_done_in_time_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("done");
        let work = || open(&path).write_all(b"it").unwrap();
        assert!(supervised(Duration::from_secs(20), work).is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"it");
    }

    #[test]
    fn what_hangs_is_killed_and_its_lock_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let hangs = || {
            let held = open(&path);
            held.lock().unwrap();
            std::thread::sleep(Duration::from_secs(300));
            drop(held);
        };
        let error = supervised(Duration::from_millis(200), hangs).unwrap_err();
        assert!(matches!(error, Unfinished::Late(_)), "{error}");
        assert!(open(&path).try_lock().is_ok());
    }

    #[test]
    fn a_worker_that_dies_is_told() {
        let dies = || {
            let _ = unix::kill(To::Process(std::process::id()));
            std::thread::sleep(Duration::from_secs(300));
        };
        let error = supervised(Duration::from_secs(20), dies).unwrap_err();
        assert_eq!(error.to_string(), "ended by signal 9");
    }
}
