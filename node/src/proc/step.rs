//! Which step a process is in, as /proc shows it: gpushare-nvml reports this for each process of a GPU. `proc` is /proc
//! except in tests.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::proc::cgroup::job_folder;
use crate::proc::running::{Place, Running};
use crate::proc::{STEPD, Stat, beginning, ids, stat, status, step_daemons};

/// How the kernel truncates the names of NVIDIA's MPS server and its control daemon.
const MPS: &[u8] = b"nvidia-cuda-mps";
/// Usually more ancestors than there are between a task and its slurmstepd.
const MOST_ANCESTORS: usize = 32;
const LONGEST_CGROUP: u64 = 16 << 10;

/// Finds out about processes.
#[derive(Debug)]
pub struct Finder<'a> {
    proc: &'a Path,
    folders: OnceCell<HashMap<PathBuf, u32>>,
}

impl<'a> Finder<'a> {
    /// Makes a finder; reads nothing yet.
    pub fn new(proc: &'a Path) -> Self {
        Finder { proc, folders: OnceCell::new() }
    }

    /// The process with that number, if it started before `asked`. If it started later, another process may have got
    /// the number, so nothing else is known about it.
    pub fn process(&self, pid: u32, asked: u64) -> Running {
        self.look(pid, asked).unwrap_or(Running { pid, ..Running::default() })
    }

    fn look(&self, pid: u32, asked: u64) -> Option<Running> {
        let found = stat(self.proc, pid).ok()??;
        if found.start >= asked || "ZX".contains(found.state) {
            return None;
        }
        let (user, _) = users(self.proc, pid).ok()??;
        let cgroup = self.cgroup(pid)?;
        let place = match job_folder(&cgroup) {
            Some(folder) => self.job_of(&folder).map_or(Place::Untold, Place::Job),
            // No daemon of a site's is in a user's session, where anybody may take its name. In root's, only root may.
            None if found.name.starts_with(MPS) && !is_in_session(&cgroup) => Place::Mps,
            None if self.is_below_stepd(&found) => Place::Untold,
            None => Place::Nowhere,
        };
        Some(Running { pid, start: found.start, busy: 0, memory: None, user, session: found.session, place })
    }

    /// The text of its cgroups; `None` if that can't be read.
    fn cgroup(&self, pid: u32) -> Option<String> {
        let path = self.proc.join(pid.to_string()).join("cgroup");
        let text = beginning(&path, LONGEST_CGROUP).ok()??;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// The job of this directory. Up to 25.11 the directory's name has the number. 26.05 names it differently, but the
    /// job's slurmstepds, which are also in the directory, have the number in their titles.
    fn job_of(&self, folder: &Path) -> Option<u32> {
        let name = folder.file_name()?.to_str()?;
        match name.strip_prefix("job_") {
            Some(number) => number.parse().ok(),
            None => self.folders.get_or_init(|| self.folders()).get(folder).copied(),
        }
    }

    fn folders(&self) -> HashMap<PathBuf, u32> {
        let daemons = step_daemons(self.proc).unwrap_or_default();
        let of = |(pid, job): (u32, u32)| {
            // A user may name a program of theirs like this.
            let cgroup = self.is_roots(pid).then(|| self.cgroup(pid))??;
            job_folder(&cgroup).map(|folder| (folder, job))
        };
        daemons.into_iter().filter_map(of).collect()
    }

    /// Whether a slurmstepd started the process: if Slurm puts jobs into no cgroups, this identifies a job's processes.
    fn is_below_stepd(&self, process: &Stat) -> bool {
        let mut parent = process.parent;
        for _ in 0..MOST_ANCESTORS {
            let Ok(Some(above)) = stat(self.proc, parent) else { return false };
            if above.name.starts_with(STEPD) && self.is_roots(parent) {
                return true;
            }
            parent = above.parent;
        }
        false
    }

    fn is_roots(&self, pid: u32) -> bool {
        users(self.proc, pid).is_ok_and(|users| users == Some((0, 0)))
    }
}

/// The lowest and the highest of its users: real, effective, saved and for files. They differ if the process has
/// changed its user.
///
/// # Errors
/// /proc can't be read.
pub(crate) fn users(proc: &Path, pid: u32) -> io::Result<Option<(u32, u32)>> {
    let status = status(proc, pid)?;
    Ok(ids(&status, "Uid:").min().zip(ids(&status, "Uid:").max()))
}

/// Whether a process is in the session of a user other than root, by the text of its cgroups.
fn is_in_session(cgroup: &str) -> bool {
    let is_others = |path: &str| {
        path.strip_prefix("/user.slice/").is_some_and(|below| !below.starts_with("user-0.slice/"))
    };
    cgroup.lines().any(|line| line.splitn(3, ':').nth(2).is_some_and(is_others))
}

#[cfg(test)]
mod tests;
