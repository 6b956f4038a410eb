//! Which daemon was started for a directory and with which limits, in a file beside its pipes that its user can't
//! write.
//!
//! ```text
//! gpushare-mps 1
//! boot=5a0cb6a4-7c3d-4f52-8d6e-5f2b3c1d0e9f
//! memory=23034
//! percent=50
//! starting=yes
//! ending=yes
//! exclusive=GPU-9a40c0de-0000-4000-8000-0000000000a0
//! shm=25 1
//! process=4711 123456
//! end
//! ```

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use gpushare::root_file;

use crate::mps::service::Limits;
pub use crate::proc::Process;

const FIRST_LINE: &str = "gpushare-mps 1";
const LAST_LINE: &str = "end";
/// No state file is longer.
const LONGEST: u64 = 4096;
/// How many daemons of one directory to remember. A daemon that dies may leave servers to its jobs, but few daemons
/// die.
const MOST: usize = 16;

/// What is known about a directory's daemons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonRecord {
    /// The machine's boot in which it was written; `None` by an older gpushare.
    pub boot: Option<String>,
    /// The limits that the daemon was given last; `None` after a daemon with unknown limits was found.
    pub limits: Option<Limits>,
    /// A daemon is being started, or its start was interrupted: it may appear at any moment.
    pub starting: bool,
    /// The daemon is being ended, or that was interrupted: a program that was sent to end it may still do so.
    pub ending: bool,
    /// The GPU that was put into compute mode `EXCLUSIVE_PROCESS` for the daemon.
    pub exclusive: Option<String>,
    /// The device and inode number of the latest daemon's /dev/shm, which may differ from the reader's.
    pub shm: Option<(u64, u64)>,
    /// The daemons, the latest last; each leads its own session, so its number is the session's too. New programs reach
    /// only that; servers of the others may live.
    pub processes: Vec<Process>,
}

impl DaemonRecord {
    /// What is known about the daemon of a directory, whether the directory is locked or not.
    pub fn of(folder: &Path) -> DaemonRecord {
        let bytes = root_file::read(&folder.join("state"), LONGEST).ok().flatten().unwrap_or_default();
        let record = String::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        record.map(|record: DaemonRecord| record.in_boot(boot())).unwrap_or_default()
    }

    /// What of it holds in that boot. `MpsDir` may outlive a boot, and processes don't: their numbers, and the sessions
    /// with these numbers, are now others'.
    fn in_boot(self, boot: Option<String>) -> DaemonRecord {
        let is_other = self.boot.is_some() && boot.is_some() && self.boot != boot;
        if is_other { DaemonRecord { exclusive: self.exclusive, ..DaemonRecord::default() } } else { self }
    }

    /// Adds a daemon; if it is already there, it becomes the latest. Returns those that no longer fit in the record and
    /// must be ended: a user may kill daemons, or pose as one, any number of times.
    #[must_use]
    pub fn add(&mut self, process: Process) -> Vec<Process> {
        self.processes.retain(|known| *known != process);
        self.processes.push(process);
        let surplus = self.processes.len().saturating_sub(MOST);
        self.processes.drain(..surplus).collect()
    }
}

impl fmt::Display for DaemonRecord {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}")?;
        if let Some(boot) = &self.boot {
            writeln!(out, "boot={boot}")?;
        }
        if let Some(Limits { memory, percent }) = self.limits {
            writeln!(out, "memory={}", memory.map(|memory| memory.to_string()).unwrap_or_default())?;
            writeln!(out, "percent={percent}")?;
        }
        if self.starting {
            writeln!(out, "starting=yes")?;
        }
        if self.ending {
            writeln!(out, "ending=yes")?;
        }
        if let Some(uuid) = &self.exclusive {
            writeln!(out, "exclusive={uuid}")?;
        }
        if let Some((device, number)) = self.shm {
            writeln!(out, "shm={device} {number}")?;
        }
        self.processes.iter().try_for_each(|process| writeln!(out, "process={process}"))?;
        writeln!(out, "{LAST_LINE}")
    }
}

impl FromStr for DaemonRecord {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let body = text.strip_prefix(FIRST_LINE).and_then(|rest| rest.strip_suffix("\nend\n")).ok_or(())?;
        let mut state = DaemonRecord::default();
        for line in body.lines().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once('=').ok_or(())?;
            match name {
                "boot" => state.boot = Some(value.to_owned()),
                "memory" => {
                    state.limits.get_or_insert_default().memory =
                        if value.is_empty() { None } else { Some(number(value)?) };
                }
                "percent" => state.limits.get_or_insert_default().percent = number(value)?,
                // Of an older gpushare.
                "checked" => {}
                "starting" => state.starting = value == "yes",
                "ending" => state.ending = value == "yes",
                "exclusive" => state.exclusive = Some(value.to_owned()),
                "shm" => {
                    let (device, found) = value.split_once(' ').ok_or(())?;
                    state.shm = Some((number(device)?, number(found)?));
                }
                "process" => state.processes.push(value.parse()?),
                _ => return Err(()),
            }
        }
        Ok(state)
    }
}

/// This boot (random(4)).
pub fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> DaemonRecord {
        DaemonRecord {
            boot: Some("one".to_owned()),
            limits: Some(Limits { memory: Some(23_034), percent: 50 }),
            starting: true,
            ending: true,
            exclusive: Some("GPU-a".to_owned()),
            shm: Some((25, 1)),
            processes: vec![Process { pid: 7, start: 1 }, Process { pid: 4711, start: 123_456 }],
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let unlimited = DaemonRecord { limits: Some(Limits { memory: None, percent: 100 }), ..state() };
        for state in [state(), unlimited, DaemonRecord::default()] {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
    }

    #[test]
    fn processes_of_another_boot_are_forgotten() {
        let boot = |name: &str| Some(name.to_owned());
        assert_eq!(state().in_boot(boot("one")), state());
        let mode = DaemonRecord { exclusive: Some("GPU-a".to_owned()), ..DaemonRecord::default() };
        assert_eq!(state().in_boot(boot("two")), mode);
        let older = DaemonRecord { boot: None, ..state() };
        assert_eq!((older.clone().in_boot(boot("two")), state().in_boot(None)), (older, state()));
        assert!(super::boot().is_some());
    }

    #[test]
    fn what_is_torn_is_no_state() {
        let text = state().to_string();
        for end in 0..text.len() {
            assert!(text[..end].parse::<DaemonRecord>().is_err(), "{end}");
        }
        for (old, new) in [("process=7", "process=x"), ("shm=", "shn=")] {
            assert!(text.replace(old, new).parse::<DaemonRecord>().is_err(), "{new}");
        }
    }

    #[test]
    fn old_daemons_are_forgotten_when_there_are_many() {
        let mut state = state();
        for pid in 0..40 {
            let forgotten = state.add(Process { pid, start: 1 });
            assert!(pid < 20 || forgotten == [Process { pid: pid - 16, start: 1 }], "{pid}: {forgotten:?}");
        }
        assert_eq!((state.processes.len(), state.processes.last().unwrap().pid), (MOST, 39));
        assert_eq!(state.add(Process { pid: 30, start: 1 }), []);
        assert_eq!((state.processes.len(), state.processes.last().unwrap().pid), (MOST, 30));
    }
}
