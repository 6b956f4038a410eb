//! Makes root the owner of a step's directories on cgroup v1. Slurm before 23.02 gives them to the job's user, who
//! could then make directories there. A process of any of the user's jobs could move into a directory below a starting
//! step and open what that step's fence is about to close. A process that left the hierarchy by which Slurm finds a
//! job's processes would outlive its job.
//!
//! So this lets only root into Slurm's directories, from before a job's first step. The step's own directories must
//! belong to root before its tasks run, because a cgroup namespace shows a process its own directory by another path.
//! Later releases of Slurm make root the owner.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::locate::{Hierarchy, mounted};
use super::v1;
use crate::proc::cgroup::{paths, step_of, up_to};

/// The hierarchies that matter: devices, and the one by which Slurm finds a job's processes.
const HIERARCHIES: [Hierarchy; 2] = [Hierarchy::Devices, Hierarchy::Freezer];

/// The directories that only root may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// The directories above those of all users and jobs.
    tops: Vec<PathBuf>,
    /// The step's directories.
    steps: Vec<PathBuf>,
}

/// A directory that could not be restricted to root.
#[derive(Debug)]
pub struct OwnerError {
    folder: PathBuf,
    error: io::Error,
}

impl Folders {
    /// Finds the directories from the texts of /proc/self/cgroup and /proc/self/mountinfo. While the hook `init` runs,
    /// slurmstepd is in the job's freezer cgroup and not yet in the step's cgroup of any hierarchy; the other
    /// hierarchies' directories have the same names.
    pub fn find(cgroup: &str, mountinfo: &str) -> Folders {
        let lines = || HIERARCHIES.iter().flat_map(|hierarchy| paths(cgroup, hierarchy.controller()));
        let everywhere = |found: Option<PathBuf>| -> Vec<PathBuf> {
            let below = |path: PathBuf| {
                HIERARCHIES.iter().filter_map(move |one| mounted(*one, &path, mountinfo).ok())
            };
            found.into_iter().flat_map(below).collect()
        };
        let user = lines().find_map(|path| up_to(path, "uid_"));
        Folders {
            tops: everywhere(user.and_then(|user| Some(user.parent()?.to_owned()))),
            steps: everywhere(lines().find_map(step_of)),
        }
    }

    /// Restricts the directories to root, including those of the step's tasks. Skips directories that don't exist yet
    /// or any more.
    ///
    /// # Errors
    /// The kernel refuses it for a directory.
    pub fn take(&self) -> Result<(), OwnerError> {
        for folder in &self.tops {
            there(folder, fs::set_permissions(folder, Permissions::from_mode(0o700)))?;
        }
        for step in &self.steps {
            for folder in v1::folders(step, "task_").iter().chain([step]) {
                there(folder, chown(folder, Some(0), Some(0)))?;
            }
        }
        Ok(())
    }
}

fn there(folder: &Path, result: io::Result<()>) -> Result<(), OwnerError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(OwnerError { folder: folder.to_owned(), error })
        }
        _ => Ok(()),
    }
}

impl fmt::Display for OwnerError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "can't restrict {} to root: {}", self.folder.display(), self.error)
    }
}

impl std::error::Error for OwnerError {}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "33 32 0:29 / /cg/freezer rw,relatime - cgroup cgroup rw,freezer\n\
        34 32 0:30 / /cg/devices rw,relatime shared:3 - cgroup cgroup rw,devices\n\
        42 32 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    fn found(cgroup: &str) -> (Vec<String>, Vec<String>) {
        let found = Folders::find(cgroup, MOUNTS);
        let text = |paths: Vec<PathBuf>| paths.iter().map(|path| path.display().to_string()).collect();
        (text(found.tops), text(found.steps))
    }

    #[test]
    fn before_the_step_is_there_slurms_folders_are_known_from_the_jobs() {
        let (tops, steps) = found("6:freezer:/slurm_n1/uid_2001/job_7\n5:devices:/\n0::/\n");
        assert_eq!(tops, ["/cg/devices/slurm_n1", "/cg/freezer/slurm_n1"]);
        assert!(steps.is_empty(), "{steps:?}");
    }

    #[test]
    fn the_steps_folders_are_named_the_same_in_both() {
        let text =
            "6:freezer:/slurm/uid_2001/job_7\n5:devices:/slurm/uid_2001/job_7/step_batch/task_0\n0::/\n";
        let (tops, steps) = found(text);
        assert_eq!(tops, ["/cg/devices/slurm", "/cg/freezer/slurm"]);
        let below = "slurm/uid_2001/job_7/step_batch";
        assert_eq!(steps, [format!("/cg/devices/{below}"), format!("/cg/freezer/{below}")]);
    }

    #[test]
    fn nothing_is_touched_where_there_is_no_job() {
        for text in ["", "garbage", "6:freezer:/\n5:devices:/user.slice\n0::/\n", "0::/uid_1/job_7/step_0\n"]
        {
            assert_eq!(found(text), (Vec::new(), Vec::new()), "{text}");
        }
        assert_eq!(Folders::find("5:devices:/slurm/uid_1/job_7/step_0\n", ""), Folders::default());
    }

    #[test]
    fn nobody_else_gets_into_slurms_folders_and_missing_ones_are_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("slurm");
        fs::create_dir(&top).unwrap();
        fs::set_permissions(&top, Permissions::from_mode(0o755)).unwrap();
        let gone = dir.path().join("gone");
        Folders { tops: vec![gone.clone(), top.clone()], steps: vec![gone] }.take().unwrap();
        assert_eq!(top.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Folders { tops: vec![file.join("slurm")], steps: Vec::new() }.take().unwrap_err();
        assert!(error.to_string().contains("file/slurm"), "{error}");
    }
}
