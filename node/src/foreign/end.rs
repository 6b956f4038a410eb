//! Ends processes that are in no job and should not be on a GPU.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::foreign::Foreign;
use crate::proc::cgroup::job_folder;
use crate::proc::{beginning, stat};

use crate::unix;

/// How long a program may need to save its work.
const TERM: Duration = Duration::from_secs(5);
/// How long the kernel may need to release the process's GPU.
const KILL: Duration = Duration::from_secs(2);

const LONGEST_CGROUP: u64 = 16 << 10;

/// Ends those of a GPU's foreign processes that are in no job, and returns those that are left. Before it ends a
/// process, it opens it, so that the number can't be reused, and then checks its start time, user and cgroup again.
#[must_use]
pub fn end(proc: &Path, processes: &[Foreign]) -> Vec<Foreign> {
    let mut held = Vec::new();
    for process in processes {
        if process.job.is_none()
            && let Ok(file) = unix::hold(process.pid)
        {
            held.push((process, file));
        }
    }
    for (signal, patience) in [(libc::SIGTERM, TERM), (libc::SIGKILL, KILL)] {
        held.retain(|(process, _)| is_same(proc, process));
        for (_, file) in &held {
            unix::signal(file, signal);
        }
        let until = Instant::now() + patience;
        for (_, file) in &held {
            wait(file, until);
        }
    }
    let mut left = Vec::new();
    for process in processes {
        if is_there(proc, process) {
            left.push(*process);
        }
    }
    left
}

/// Whether the process still exists: not if it is dead, or if another process now has its number.
fn is_there(proc: &Path, process: &Foreign) -> bool {
    let found = stat(proc, process.pid).ok().flatten();
    found.is_some_and(|found| found.start == process.start && !"ZX".contains(found.state))
}

/// Whether it still is the same process, of that user and in no job's cgroup. `false` if that can't be read, or if the
/// process has more rights than its user: its directory then belongs to root (proc(5)).
fn is_same(proc: &Path, process: &Foreign) -> bool {
    let folder = proc.join(process.pid.to_string());
    // Below user.slice, users make directories of any name.
    let is_in_step = |text: &[u8]| job_folder(&String::from_utf8_lossy(text)).is_some();
    is_there(proc, process)
        && folder.metadata().is_ok_and(|found| found.uid() == process.user_id)
        && matches!(beginning(&folder.join("cgroup"), LONGEST_CGROUP), Ok(Some(text)) if !is_in_step(&text))
}

/// Waits until the process is gone: a file of pidfd_open(2) is then readable.
fn wait(file: &OwnedFd, until: Instant) {
    let time = until.saturating_duration_since(Instant::now());
    // A signal to this process ends the wait early, and the next signal to the other process then comes earlier too.
    let _ = unix::wait_readable([Some(file.as_fd()), None], time);
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const PROC: &str = "/proc";

    fn sleeping() -> (Child, Foreign) {
        let child = Command::new("sleep").arg("300").spawn().unwrap();
        let (pid, user_id) = (child.id(), crate::user_id().unwrap());
        let start = stat(Path::new(PROC), pid).unwrap().unwrap().start;
        (child, Foreign { pid, start, user_id, job: None })
    }

    #[test]
    fn only_that_very_process_is_ended() {
        let (mut child, process) = sleeping();
        let in_a_job = Foreign { job: Some(7), ..process };
        let of_others = Foreign { user_id: process.user_id + 1, ..process };
        let later = Foreign { start: process.start + 1, ..process };
        assert_eq!(end(Path::new(PROC), &[in_a_job, of_others, later]), [in_a_job, of_others]);
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(end(Path::new(PROC), &[process]), []);
        assert!(!child.wait().unwrap().success());
    }
}
