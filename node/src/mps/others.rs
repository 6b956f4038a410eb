//! MPS control daemons on this node that are in no job and that no epilog ends: a site's own, started by a unit, a
//! prolog or by hand; and gpushare's own whose record was removed. `proc` is /proc except in tests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::inspect::TRIED;
use super::process::{LONGEST_ENVIRONMENT, MARK};
use super::record::{DaemonRecord, Process};
use super::service::{Daemon, Serves};
use crate::ledger::Ledger;
use crate::proc::image::Image;
use crate::proc::running::{Place, Running};
use crate::proc::step::{Finder, users};
use crate::proc::{patience, stat};

const PROGRAM: &[u8] = b"nvidia-cuda-mps-control";
/// As much of it as the kernel keeps.
const NAME: &[u8] = b"nvidia-cuda-mps";
/// The time for all of them together.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_COMMAND: u64 = 4096;
/// The directory of a daemon's pipes if no variable names one.
const PIPES: &str = "/tmp/nvidia-mps";

/// A daemon that no epilog ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub user_id: u32,
    /// Its `CUDA_MPS_PIPE_DIRECTORY`.
    pub pipe: PathBuf,
    /// Whose it is.
    pub whose: Whose,
}

/// Who started such a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Not gpushare.
    Site,
    /// gpushare, and what knew of it was removed. Such a daemon leads its session.
    Forgotten {
        /// Whether processes of jobs that it serves are here: they may use it.
        used: bool,
    },
}

/// All such daemons, in order. Only root can see a daemon's user. Omits those that don't show their memory in time: a
/// user can make such a process, with any name.
pub fn others(proc: &Path, ledger: &Ledger) -> Vec<Other> {
    let (finder, folders) = (Finder::new(proc), ledger.daemon_folders());
    let until = Instant::now() + PATIENCE;
    let entries = proc.read_dir().into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    let mut found: Vec<Other> =
        numbers.iter().filter_map(|pid| look(proc, (&finder, &numbers, &folders), *pid, until)).collect();
    found.sort_unstable_by_key(|other| other.pid);
    found
}

fn look(
    proc: &Path,
    (finder, all, folders): (&Finder, &[u32], &[PathBuf]),
    pid: u32,
    until: Instant,
) -> Option<Other> {
    let found = stat(proc, pid).ok()??;
    if !found.name.starts_with(NAME) {
        return None;
    }
    if !matches!(finder.process(pid, u64::MAX).place, Place::Mps | Place::Nowhere) {
        return None;
    }
    if !is_daemon(&patience::read(Image::CommandLine, proc, pid, LONGEST_COMMAND, until)?) {
        return None;
    }
    let environment = patience::read(Image::Environment, proc, pid, LONGEST_ENVIRONMENT, until)?;
    let value = |name: &str| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let path = |name: &str| value(name).map(|path| Path::new(OsStr::from_bytes(path)));
    let (user_id, _) = users(proc, pid).ok()??;
    let other = |pipe: &Path, whose| Some(Other { pid, user_id, pipe: pipe.to_owned(), whose });
    let Some(pipe) = path(MARK) else {
        return other(path("CUDA_MPS_PIPE_DIRECTORY").unwrap_or(Path::new(PIPES)), Whose::Site);
    };
    let folder = pipe.parent()?;
    let known = DaemonRecord::of(folder);
    let process = Process { pid, start: found.start };
    // A directory that the ledger doesn't know is none that an epilog looks into.
    let is_known = folder.parent().is_some_and(|above| folders.iter().any(|known| known == above));
    let daemon: Daemon = folder.file_name()?.to_str()?.parse().ok()?;
    let ends = known.starting || (is_known && known.processes.contains(&process)) || daemon.on == TRIED;
    if ends || found.session != pid {
        return None;
    }
    let is_served = |Running { user, place, .. }: Running| {
        let is_its = match daemon.serves {
            Serves::User(user_id) => user == user_id,
            Serves::All => user != 0,
        };
        is_its && matches!(place, Place::Job(_) | Place::Untold)
    };
    let used = all.iter().any(|pid| is_served(finder.process(*pid, u64::MAX)));
    other(pipe, Whose::Forgotten { used })
}

/// Without an option it only talks to a daemon.
fn is_daemon(command: &[u8]) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let program = words.next().and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    program == Some(PROGRAM) && words.next().is_some_and(|word| word.starts_with(b"-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const UNIT: &str = "0::/system.slice/site-mps.service\n";

    fn make(proc: &Path, pid: u32, user: u32, command: &str, environment: &str, cgroup: &str) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} (nvidia-cuda-mps) S 1 {pid} {pid} {}{pid} 0\n", "0 ".repeat(15));
        fs::write(folder.join("stat"), stat).unwrap();
        let status = format!("Uid:\t{user}\t{user}\t{user}\t{user}\nGid:\t0\t0\t0\t0\n");
        fs::write(folder.join("status"), status).unwrap();
        fs::write(folder.join("cmdline"), command.replace(' ', "\0") + "\0").unwrap();
        fs::write(folder.join("environ"), environment.replace(' ', "\0") + "\0").unwrap();
        fs::write(folder.join("cgroup"), cgroup).unwrap();
    }

    #[test]
    fn a_sites_own_daemons_are_found_and_no_other_process() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = "/usr/bin/nvidia-cuda-mps-control -d";
        let marked = format!("HOME=/ {MARK}=/run/gpushare/mps/0.2001/pipe");
        let in_job = "0::/system.slice/n1_slurmstepd.scope/job_7/step_batch/user/task_0\n";
        for (pid, user, command, environment, cgroup) in [
            (10, 0, daemon, "A=1 CUDA_MPS_PIPE_DIRECTORY=/run/site-mps B=2", UNIT),
            (11, 2001, "nvidia-cuda-mps-control -f", "CUDA_MPS_PIPE=/no", "0::/user.slice\n"),
            (12, 2001, daemon, &marked, "0::/slurmd.service\n"),
            (13, 2001, daemon, "", in_job),
            (14, 0, "/usr/bin/nvidia-cuda-mps-control", "", UNIT),
            (15, 0, "/usr/sbin/nvidia-cuda-mps-server -d", "", UNIT),
            (16, 0, "grep nvidia-cuda-mps-control -d", "", UNIT),
        ] {
            make(dir.path(), pid, user, command, environment, cgroup);
        }
        fs::create_dir(dir.path().join("17")).unwrap();
        fs::create_dir(dir.path().join("sys")).unwrap();
        let other = |pid, user_id, pipe: &str| Other { pid, user_id, pipe: pipe.into(), whose: Whose::Site };
        let mut found = others(dir.path(), &Ledger::at(dir.path()));
        found.retain(|other| other.whose == Whose::Site);
        assert_eq!(found, [other(10, 0, "/run/site-mps"), other(11, 2001, PIPES)]);
        assert_eq!(others(Path::new("/no/such/folder"), &Ledger::at(dir.path())), []);
    }

    #[test]
    fn daemons_whose_record_was_removed_are_found_and_who_may_use_them() {
        let (dir, mps) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let daemon = "/usr/bin/nvidia-cuda-mps-control -d";
        let pipe = |name: &str| mps.path().join(name).join("pipe");
        for (pid, user, name) in [
            (10, 2001, "0.2001"),
            (11, 2002, "0.2002"),
            (12, 2002, "1.2002"),
            (13, 2001, "no-daemon"),
            (14, 0, "2.all"),
        ] {
            let mark = format!("{MARK}={}", pipe(name).display());
            make(dir.path(), pid, user, daemon, &mark, "0::/slurmd.service\n");
        }
        let (_ledger, ledger) = crate::fake::ledger();
        ledger.note_daemon_folder(mps.path(), crate::fake::SOON).unwrap();
        let found = || -> Vec<(u32, bool)> {
            let used = |other: Other| match other.whose {
                Whose::Forgotten { used } => (other.pid, used),
                Whose::Site => panic!("{other:?}"),
            };
            others(dir.path(), &ledger).into_iter().map(used).collect()
        };
        assert_eq!(found(), [(10, false), (11, false), (12, false), (14, false)]);
        // In the directory's record; in that of a later process with its number; while it starts.
        for (name, record) in
            [("0.2001", "process=10 10"), ("0.2002", "process=11 9"), ("1.2002", "starting=yes")]
        {
            fs::create_dir(mps.path().join(name)).unwrap();
            let text = format!("gpushare-mps 1\n{record}\nend\n");
            fs::write(mps.path().join(name).join("state"), text).unwrap();
        }
        assert_eq!(found(), [(11, false), (14, false)]);
        let in_job = "0::/system.slice/n1_slurmstepd.scope/job_7/step_batch/user/task_0\n";
        make(dir.path(), 20, 0, "slurmstepd: [7.batch]", "", in_job);
        assert_eq!(found(), [(11, false), (14, false)]);
        make(dir.path(), 21, 2001, "python train.py", "", in_job);
        assert_eq!(found(), [(11, false), (14, true)]);
        make(dir.path(), 22, 2002, "python train.py", "", in_job);
        assert_eq!(found(), [(11, true), (14, true)]);
        fs::remove_dir_all(&ledger.dir).unwrap();
        assert_eq!(found(), [(10, true), (11, true), (14, true)], "no epilog knows of the directory");
    }
}
