//! The processes of a daemon: whether they exist, and how to end them. A daemon leads its own session and its servers
//! stay in it, so this ends the session. The start time reveals a reused process number.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::proc::image::Image;
use crate::proc::{self, Stat, patience};

use super::error::MpsError;
use super::record::Process;
use crate::unix::{self, To};

const PROC: &str = "/proc";
const PAUSE: Duration = Duration::from_millis(1);
/// This variable has the path of the pipe directory. It identifies a daemon that doesn't hold its lock yet, and the
/// programs that talk to a daemon. A job's programs don't have it.
pub const MARK: &str = "GPUSHARE_MPS_DAEMON";
/// No daemon's environment is longer.
pub const LONGEST_ENVIRONMENT: u64 = 1 << 16;

/// The process that holds the lock of a pipe directory, if it belongs to the user: the file is the user's, so any
/// program of that user might lock it. Nothing that is mounted there is touched.
pub fn holder(pipe: &Path, user_id: u32) -> Option<Process> {
    let above = unix::folder(pipe.parent()?).ok()?;
    let name = CString::new(pipe.file_name()?.as_bytes()).ok()?;
    let seen = unix::look_at(&unix::look_at(&above, &name).ok()?, c"control_lock").ok()?;
    if !seen.metadata().ok()?.is_file() {
        return None;
    }
    // fcntl(2): F_GETLK of a write lock needs no permission to write.
    let file = unix::open(&seen).ok()?;
    let process = of(unix::lock_holder(&file).ok()??)?;
    let owner = Path::new(PROC).join(process.pid.to_string()).metadata().ok()?.uid();
    (owner == user_id && !is_dead(process.pid)).then_some(process)
}

/// The process with that number.
fn of(pid: u32) -> Option<Process> {
    Some(Process { pid, start: stat(pid)?.start })
}

fn stat(pid: u32) -> Option<Stat> {
    proc::stat(Path::new(PROC), pid).ok()?
}

/// Whether the process is dead. A process also counts as dead if its parent hasn't waited for it yet, or if its last
/// thread is still ending and holds its files.
fn is_dead(pid: u32) -> bool {
    stat(pid).is_none_or(|stat| "ZX".contains(stat.state))
}

/// The state of a process that can't answer: stopped, traced or dead.
pub fn is_stuck(pid: u32) -> Option<char> {
    stat(pid).map(|stat| stat.state).filter(|state| "TtZX".contains(*state))
}

/// The daemon, if it lives, and the living processes of its session. Empty if another session has the same number now.
fn session_of(daemon: &Process) -> Vec<u32> {
    match of(daemon.pid) {
        Some(found) if found != *daemon => return Vec::new(),
        // The kernel doesn't reuse the number of a dead leader while its session has members (pid_namespaces(7),
        // setsid(2)).
        _ => {}
    }
    let lives =
        |pid: &u32| stat(*pid).is_some_and(|stat| stat.session == daemon.pid && !"ZX".contains(stat.state));
    processes().filter(lives).collect()
}

/// The numbers of all processes.
fn processes() -> impl Iterator<Item = u32> {
    let names = fs::read_dir(PROC).into_iter().flatten().flatten();
    names.filter_map(|found| found.file_name().to_str()?.parse().ok())
}

/// Whether the process ends by itself within `patience`.
pub fn ends_by_itself(process: Process, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        if of(process.pid) != Some(process) || is_dead(process.pid) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills what is left of a daemon, and waits until it is gone.
///
/// # Errors
/// A process of it is still there after `patience`.
pub fn end(daemon: &Process, patience: Duration) -> Result<(), MpsError> {
    let end = Instant::now() + patience;
    loop {
        let left = session_of(daemon);
        if left.is_empty() {
            return Ok(());
        }
        for pid in left {
            // A process that has ended by itself is not an error.
            let _ = unix::kill(To::Process(pid));
        }
        if Instant::now() >= end {
            return Err(MpsError::Undead(daemon.pid));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends processes that are about to become the daemon of that directory, or to talk to it, after the process that
/// started them was killed or gave up. Such a process is root's until it has the daemon's user and group, `ids`; a
/// process of a job never has that group. A process has no environment for a moment while it becomes another program,
/// so one look that finds nothing is not enough. The sessions of `known` daemons are spared: their servers may work for
/// jobs.
///
/// # Errors
/// Such a process is still there after `patience`.
pub fn end_starting(
    pipe: &Path,
    ids: (u32, u32),
    known: &[Process],
    patience: Duration,
) -> Result<(), MpsError> {
    let end = Instant::now() + patience;
    let mark = format!("{MARK}={}", pipe.display());
    let is_marked = |pid: &u32| {
        let proc = Path::new(PROC);
        let bytes = match proc::real_ids(proc, *pid) {
            Ok(Some((user, group))) if user == 0 || (user, group) == ids => {
                patience::read(Image::Environment, proc, *pid, LONGEST_ENVIRONMENT, end)
            }
            _ => None,
        };
        bytes.unwrap_or_default().split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            && stat(*pid).is_some_and(|stat| {
                !"ZX".contains(stat.state) && known.iter().all(|daemon| daemon.pid != stat.session)
            })
    };
    let mut was_clear = false;
    loop {
        let found: Vec<u32> = processes().filter(is_marked).collect();
        for pid in &found {
            let _ = unix::kill(To::Process(*pid));
        }
        match found.last() {
            None if was_clear => return Ok(()),
            Some(last) if Instant::now() >= end => return Err(MpsError::Undead(*last)),
            _ => was_clear = found.is_empty(),
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_session_is_ended_with_all_that_is_in_it() {
        // setsid(1) forks if it leads a group; a shell that it becomes leads its session.
        let mut child =
            Command::new("setsid").args(["sh", "-c", "sleep 300 & sleep 300 & wait"]).spawn().unwrap();
        let pid = child.id();
        let patience = Duration::from_secs(20);
        let until = Instant::now() + patience;
        let mut leader = of(pid).unwrap();
        while session_of(&leader).len() < 3 && Instant::now() < until {
            std::thread::sleep(PAUSE);
            leader = of(pid).unwrap();
        }
        assert_eq!(session_of(&leader).len(), 3);
        let other = Process { start: leader.start + 1, ..leader };
        end(&other, patience).unwrap();
        assert_eq!(session_of(&leader).len(), 3);
        end(&leader, patience).unwrap();
        assert!(session_of(&leader).is_empty());
        let _ = child.wait();
    }

    #[test]
    fn what_is_on_its_way_is_known_by_its_mark() {
        let patience = Duration::from_secs(20);
        let ids = proc::real_ids(Path::new(PROC), std::process::id()).unwrap().unwrap();
        let pipe = tempfile::tempdir().unwrap();
        // Each leads a session of its own, as a daemon does: the leader of the tests' session may have ended.
        let start =
            |path: &Path| Command::new("setsid").args(["sleep", "300"]).env(MARK, path).spawn().unwrap();
        let (mut ours, mut other) = (start(pipe.path()), start(&pipe.path().join("other")));
        // spawn() returns when the new program is loaded, which is before the kernel shows its environment, and before
        // setsid(1) has made the session.
        let environment = Path::new(PROC).join(ours.id().to_string()).join("environ");
        let is_ready = |pid| !fs::read(&environment).unwrap().is_empty() && stat(pid).unwrap().session == pid;
        let until = Instant::now() + patience;
        while !is_ready(ours.id()) && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        let session = of(ours.id()).unwrap();
        end_starting(pipe.path(), ids, &[session], patience).unwrap();
        assert!(ours.try_wait().unwrap().is_none(), "it is a known daemon's");
        end_starting(pipe.path(), ids, &[], patience).unwrap();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn nobody_holds_what_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path(), 0), None);
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("control_lock")).unwrap();
        assert_eq!(holder(dir.path(), 0), None);
    }
}
