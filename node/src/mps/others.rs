//! MPS control daemons on this node that gpushare didn't start and that are in no job: a site's own, started by a unit,
//! a prolog or by hand. `proc` is /proc except in tests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::process::{LONGEST_ENVIRONMENT, MARK};
use crate::proc::image::Image;
use crate::proc::running::Place;
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

/// A daemon that gpushare didn't start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub user_id: u32,
    /// Its `CUDA_MPS_PIPE_DIRECTORY`.
    pub pipe: PathBuf,
}

/// All such daemons, in order. Only root can see a daemon's user. Omits those that don't show their memory in time: a
/// user can make such a process, with any name.
pub fn others(proc: &Path) -> Vec<Other> {
    let finder = Finder::new(proc);
    let until = Instant::now() + PATIENCE;
    let entries = proc.read_dir().into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Other> = numbers.filter_map(|pid| look(proc, &finder, pid, until)).collect();
    found.sort_unstable_by_key(|other| other.pid);
    found
}

fn look(proc: &Path, finder: &Finder, pid: u32, until: Instant) -> Option<Other> {
    if !stat(proc, pid).ok()??.name.starts_with(NAME) {
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
    if value(MARK).is_some() {
        return None;
    }
    let pipe =
        value("CUDA_MPS_PIPE_DIRECTORY").map_or(Path::new(PIPES), |path| Path::new(OsStr::from_bytes(path)));
    let (user_id, _) = users(proc, pid).ok()??;
    Some(Other { pid, user_id, pipe: pipe.to_owned() })
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
        let other = |pid, user_id, pipe: &str| Other { pid, user_id, pipe: pipe.into() };
        assert_eq!(others(dir.path()), [other(10, 0, "/run/site-mps"), other(11, 2001, PIPES)]);
        assert_eq!(others(Path::new("/no/such/folder")), []);
    }
}
