//! The fence of a step in whichever cgroup version the node runs: found when the step is read, put up by slurmstepd as root.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gpushare::fence::locate::{StepCgroup, step_cgroup, usual_step_cgroup};
use gpushare::fence::{Fence, v1, v2};
use gpushare_slurm::bpf::Bpf;

/// No machine has more mounts than fit in here.
const LONGEST: u64 = 16 << 20;

/// A fence and the step's cgroup.
pub struct StepFence {
    fence: Fence,
    /// slurmstepd leaves it before the `exit` hook, so it is looked up early.
    cgroup: Result<StepCgroup, String>,
}

impl StepFence {
    /// In `user_init`, or in the extern step `task_post_fork`, slurmstepd is in the step's cgroup.
    pub fn of(fence: Fence) -> StepFence {
        StepFence { fence, cgroup: find() }
    }

    /// The job's cgroup, which all of its steps are in; on v2 only.
    pub fn job(&self) -> Option<&Path> {
        match &self.cgroup {
            Ok(StepCgroup::V2(step)) => step.parent(),
            _ => None,
        }
    }

    /// After Slurm's own rules for the step's last task.
    pub fn put_up(&self) -> Result<(), String> {
        match self.try_to_put_up() {
            // One configuration may be for nodes with GPUs and without, whatever their cgroups are.
            Err(_) if self.fence.closed.is_empty() && self.fence.open.is_empty() => Ok(()),
            result => result,
        }
    }

    fn try_to_put_up(&self) -> Result<(), String> {
        match self.cgroup.as_ref().map_err(Clone::clone)? {
            StepCgroup::V1(step) => v1::put_up(step, &self.fence).map_err(|error| error.to_string()),
            StepCgroup::V2(step) => v2::put_up(&Bpf, step, &self.fence).map_err(|error| error.to_string()),
        }
    }

    /// On v1 Slurm's rules for the job, which close what we open, would stay after a step that ended before its fence was up.
    pub fn open_again(&self) -> Result<(), String> {
        match &self.cgroup {
            Ok(StepCgroup::V1(step)) if self.fence.widens => {
                let open = |path: &PathBuf| {
                    self.fence.open.iter().try_for_each(|device| v1::open(path, device.number))
                };
                open(step).map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }
}

fn find() -> Result<StepCgroup, String> {
    let text = |path: &str| read(path).map_err(|error| format!("{path}: {error}"));
    let cgroup = text("/proc/self/cgroup")?;
    match usual_step_cgroup(&cgroup, is_own) {
        Some(step) => Ok(step),
        None => step_cgroup(&cgroup, &text("/proc/self/mountinfo")?).map_err(|error| error.to_string()),
    }
}

/// Whether this process is in the cgroup.
fn is_own(cgroup: &Path) -> bool {
    let id = std::process::id().to_string();
    read(cgroup.join("cgroup.procs")).is_ok_and(|processes| processes.lines().any(|line| line == id))
}

/// In one piece: files in /proc say that they are empty, and would be read in many small ones.
fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(16 << 10);
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}
