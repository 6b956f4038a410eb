//! What /proc shows about a process (proc(5)). `proc` is /proc except in tests.

pub mod cgroup;
pub mod image;
pub(crate) mod patience;
pub mod running;
pub mod step;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use image::Image;

/// How slurmstepd names itself, as in `slurmstepd: [7.extern]` (src/slurmd/slurmstepd/mgr.c, `setproctitle`).
const TITLE: &[u8] = b"slurmstepd: [";
/// Its name in the kernel.
pub(crate) const STEPD: &[u8] = b"slurmstepd";
/// Longer than the beginning of any title with a job number.
pub(crate) const LONGEST_TITLE: u64 = 64;

/// No /proc/PID/stat is longer.
const LONGEST_STAT: u64 = 4096;

/// A process that is remembered: a number can be reused, but not together with the same start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process's number.
    pub pid: u32,
    /// When it started, in ticks since the machine booted.
    pub start: u64,
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} {}", self.pid, self.start)
    }
}

impl FromStr for Process {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, start) = text.split_once(' ').ok_or(())?;
        Ok(Process { pid: pid.parse().map_err(|_| ())?, start: start.parse().map_err(|_| ())? })
    }
}

/// Values from /proc/PID/stat, with the numbers of the fields in proc_pid_stat(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// 2: the program's name, at most 15 bytes.
    pub name: Vec<u8>,
    /// 3: `R`, `S`, `T`…
    pub state: char,
    /// 4: its parent, or the process that adopted it.
    pub parent: u32,
    /// 6: its session.
    pub session: u32,
    /// 22: when it started, in ticks since the machine booted.
    pub start: u64,
}

/// The values of a process; `None` if there is no such process.
///
/// # Errors
/// /proc can't be read.
pub fn stat(proc: &Path, pid: u32) -> io::Result<Option<Stat>> {
    let Some(bytes) = beginning(&proc.join(pid.to_string()).join("stat"), LONGEST_STAT)? else {
        return Ok(None);
    };
    let read = parse(&bytes);
    read.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not as proc_pid_stat(5) has it"))
}

fn parse(bytes: &[u8]) -> Option<Stat> {
    // The name is in parentheses, and may hold spaces and parentheses itself.
    let from = bytes.iter().position(|byte| *byte == b'(')?;
    let to = bytes.iter().rposition(|byte| *byte == b')')?;
    let name = bytes.get(from + 1..to)?.to_owned();
    let mut fields = std::str::from_utf8(bytes.get(to + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat { name, state, parent, session, start })
}

/// The start time of a process; `None` if there is no such process.
///
/// # Errors
/// /proc can't be read.
pub fn start_time(proc: &Path, pid: u32) -> io::Result<Option<u64>> {
    Ok(stat(proc, pid)?.map(|stat| stat.start))
}

/// Its real user and group. A program that a user starts keeps that user, whatever rights it has.
///
/// # Errors
/// /proc can't be read.
pub(crate) fn real_ids(proc: &Path, pid: u32) -> io::Result<Option<(u32, u32)>> {
    let status = status(proc, pid)?;
    Ok(ids(&status, "Uid:").next().zip(ids(&status, "Gid:").next()))
}

/// The kernel makes this text without a look at the process's memory map.
fn status(proc: &Path, pid: u32) -> io::Result<String> {
    let bytes = beginning(&proc.join(pid.to_string()).join("status"), LONGEST_STAT)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Real, effective, saved, and for files.
fn ids(status: &str, line: &str) -> impl Iterator<Item = u32> {
    let numbers = status.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_default();
    numbers.split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

/// The beginning of a file. `None` if it doesn't exist or, in /proc, if its process ended while it was read.
///
/// # Errors
/// The file can't be read.
pub fn beginning(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Every process of root's that calls itself a slurmstepd, and the job in its title. A user may call a program so.
///
/// # Errors
/// /proc can't be read.
pub(crate) fn step_daemons(proc: &Path) -> io::Result<Vec<(u32, u32)>> {
    let mut daemons = Vec::new();
    for found in proc.read_dir()? {
        let found = found?;
        let Some(pid) = found.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Cheaper than the title, and most processes end here.
        if fs::read(found.path().join("comm")).is_ok_and(|name| !name.starts_with(STEPD)) {
            continue;
        }
        let title = Image::CommandLine.of_roots(proc, pid, LONGEST_TITLE)?;
        daemons.extend(title.and_then(|title| Some((pid, job_in(&title)?))));
    }
    Ok(daemons)
}

fn job_in(title: &[u8]) -> Option<u32> {
    let rest = title.strip_prefix(TITLE)?;
    let digits = rest.split(|byte| *byte == b'.').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::step::users;
    use super::*;

    #[test]
    fn each_field_is_the_one_that_the_manual_names() {
        // The values are 3 and 4, the group, 6, and so on to 22.
        let read = parse(b"7 (a) (b) T 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n");
        let expected = Stat { name: b"a) (b".to_vec(), state: 'T', parent: 4, session: 6, start: 22 };
        assert_eq!(read, Some(expected));
        for broken in ["", "7 (a", "7 a) T 4", "7 )a( T 4 5 6", "7 (a) T 4 5 6 7", "7 (a) T -4 5 6"] {
            assert_eq!(parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn our_own_stat_is_ours() {
        let own = stat(Path::new("/proc"), std::process::id()).unwrap().unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        use std::os::unix::fs::MetadataExt;
        let user = Path::new("/proc/self").metadata().unwrap().uid();
        assert_eq!(users(Path::new("/proc"), std::process::id()).unwrap(), Some((user, user)));
        assert_eq!(users(Path::new("/proc"), u32::MAX).unwrap(), None);
        assert_eq!(real_ids(Path::new("/proc"), std::process::id()).unwrap().map(|ids| ids.0), Some(user));
        assert_eq!(real_ids(Path::new("/proc"), u32::MAX).unwrap(), None);
    }
}
