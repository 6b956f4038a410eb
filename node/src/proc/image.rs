//! What /proc shows of a process's own memory and files: its command line, environment and program. The kernel reads it
//! under the lock of the process's memory map. A user can keep that lock for ever (a FUSE file that never answers, read
//! by one thread and mapped by another), and whoever reads then waits until that process ends.
//!
//! So this process reads it only of processes whose real user is root. For any other process, cat(1) does, until a
//! deadline (`patience`). `tests/lint` lets no other file name these.

use std::io;
use std::path::{Path, PathBuf};

use super::{beginning, real_ids};

/// A file of /proc/PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The program and its arguments, each with a NUL after it; a daemon may have put a title there.
    CommandLine,
    /// Its first environment, each variable with a NUL after it.
    Environment,
}

impl Image {
    pub(super) fn path(self, proc: &Path, pid: u32) -> PathBuf {
        let name = match self {
            Image::CommandLine => "cmdline",
            Image::Environment => "environ",
        };
        proc.join(pid.to_string()).join(name)
    }

    /// The file's beginning, if the process is root's; `None` if it is a user's, or gone.
    ///
    /// # Errors
    /// /proc can't be read.
    pub fn of_roots(self, proc: &Path, pid: u32, most: u64) -> io::Result<Option<Vec<u8>>> {
        match real_ids(proc, pid)? {
            Some((0, _)) => beginning(&self.path(proc, pid), most),
            _ => Ok(None),
        }
    }
}

/// The program that a process of root's runs.
pub fn program_of(proc: &Path, pid: u32) -> Option<PathBuf> {
    let (user, _) = real_ids(proc, pid).ok()??;
    if user == 0 { proc.join(pid.to_string()).join("exe").read_link().ok() } else { None }
}

/// A path as a process of this user and group sees it, from its own root directory; `None` if the process has others.
/// The caller must know that users can't start such a process: theirs may see a file system that never answers.
pub fn path_in(proc: &Path, pid: u32, ids: (u32, u32), path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix("/").ok()?;
    (real_ids(proc, pid).ok()?? == ids).then(|| proc.join(pid.to_string()).join("root").join(below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::patience;
    use std::fs;
    use std::time::{Duration, Instant};

    #[test]
    fn only_roots_are_read_here_and_others_until_a_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        for (pid, user) in [(7, 0), (8, 2001)] {
            let folder = proc.join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            let status = format!("Name:\tx\nUid:\t{user}\t0\t0\t0\nGid:\t{user}\t0\t0\t0\n");
            fs::write(folder.join("status"), status).unwrap();
            fs::write(folder.join("cmdline"), "a\0b\0").unwrap();
        }
        let read = |pid| Image::CommandLine.of_roots(proc, pid, 64).unwrap();
        assert_eq!((read(7), read(8), read(9)), (Some(b"a\0b\0".to_vec()), None, None));
        let soon = || Instant::now() + Duration::from_secs(20);
        let read = |pid, most| patience::read(Image::CommandLine, proc, pid, most, soon());
        assert_eq!((read(7, 64), read(8, 64)), (Some(b"a\0b\0".to_vec()), Some(b"a\0b\0".to_vec())));
        assert_eq!((read(7, 1), read(9, 64)), (Some(b"a".to_vec()), None));
        assert_eq!(program_of(proc, 8), None);
        let (shm, seen) = (Path::new("/dev/shm"), |ids| path_in(proc, 8, ids, Path::new("/dev/shm")));
        assert_eq!(seen((2001, 65534)), None);
        assert_eq!(seen((2001, 2001)), Some(proc.join("8/root").join(shm.strip_prefix("/").unwrap())));
        // A pipe that nobody writes to is read for ever.
        let waits = proc.join("8/environ");
        assert!(std::process::Command::new("mkfifo").arg(&waits).status().unwrap().success());
        let until = Instant::now() + Duration::from_millis(50);
        assert_eq!(patience::read(Image::Environment, proc, 8, 64, until), None);
        assert_eq!(Image::Environment.of_roots(proc, 8, 64).unwrap(), None);
    }
}
