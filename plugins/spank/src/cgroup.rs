//! The fence of a step, in the node's cgroup version: found when the step is read, and put up by slurmstepd as root.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use gpushare_node::fence::bpf::Bpf;
use gpushare_node::fence::locate::{StepCgroup, step_cgroup, usual_step_cgroup, v1_job};
use gpushare_node::fence::owner::Folders;
use gpushare_node::fence::v1::{self, RuleError};
use gpushare_node::fence::v2::early::{self, Early};
use gpushare_node::fence::{Fence, v2};
use gpushare_slurm::daemon::USERS_OWN_CGROUPS;

use crate::error::{CgroupError, FindError};

/// No machine has more mounts than fit in here.
const LONGEST: u64 = 16 << 20;

/// A fence and the step's cgroup.
pub struct StepFence {
    fence: Fence,
    /// slurmstepd leaves it before the `exit` hook, so it is looked up early.
    cgroup: Result<StepCgroup, FindError>,
    /// What Slurm gives to the job's user and must be root's; nothing on most releases.
    folders: Folders,
    /// What stands in for the fence until it is up.
    early: Option<Early<Bpf>>,
}

/// In `init`, before Slurm makes the step's device cgroup: keeps users out of its folders where they would own them.
///
/// # Errors
/// /proc can't be read, or a folder can't be made root's alone.
pub fn close_to_users() -> Result<(), CgroupError> {
    if !USERS_OWN_CGROUPS {
        return Ok(());
    }
    let (cgroup, mountinfo) = texts()?;
    Ok(Folders::find(&cgroup, &mountinfo).take()?)
}

/// In `init`: closes what the fence closes from the step's start on, for what other plugins run in it as the user. On
/// v1 slurmstepd isn't in the step's device cgroup yet, whose folder begins with that name.
///
/// # Errors
/// /proc can't be read, or the kernel refuses what closes a GPU.
pub fn close_early(fence: &Fence, folder: &str) -> Result<Option<Early<Bpf>>, CgroupError> {
    match find() {
        _ if fence.closed.is_empty() => Ok(None),
        Ok(StepCgroup::V2(step)) => Ok(Some(early::close(&Bpf, &step, fence)?)),
        Ok(StepCgroup::V1(_)) | Err(_) => {
            let (cgroup, mounts) = texts()?;
            let Some((tracked, job)) = v1_job(&cgroup, &mounts) else { return Ok(None) };
            v1::close_early((&tracked, &job), folder, fence)?;
            Ok(None)
        }
    }
}

impl StepFence {
    /// In `user_init`, or in the extern step `task_post_fork`, slurmstepd is in the step's cgroup.
    pub fn of(fence: Fence) -> StepFence {
        let (cgroup, folders) = if USERS_OWN_CGROUPS {
            let texts = texts();
            let folders =
                texts.as_ref().map(|(cgroup, mounts)| Folders::find(cgroup, mounts)).unwrap_or_default();
            let step =
                |(cgroup, mounts): (String, String)| step_cgroup(&cgroup, &mounts).map_err(FindError::from);
            (texts.and_then(step), folders)
        } else {
            (find(), Folders::default())
        };
        StepFence { fence, cgroup, folders, early: None }
    }

    /// Takes the place of what stands in for it.
    pub fn replaces(&mut self, early: Option<Early<Bpf>>) {
        self.early = early;
    }

    /// The job's cgroup, which all of its steps are in; on v2 only.
    pub fn job(&self) -> Option<&Path> {
        match &self.cgroup {
            Ok(StepCgroup::V2(step)) => step.parent(),
            _ => None,
        }
    }

    /// After Slurm's own rules for the step's last task.
    ///
    /// # Errors
    /// The step's cgroup was not found, or the kernel refuses a rule or a program.
    pub fn put_up(&self) -> Result<(), CgroupError> {
        match self.try_to_put_up() {
            // One configuration may be for nodes with GPUs and without, whatever their cgroups are.
            Err(_) if self.fence.closed.is_empty() && self.fence.open.is_empty() => Ok(()),
            result => result,
        }
    }

    fn try_to_put_up(&self) -> Result<(), CgroupError> {
        self.folders.take()?;
        match self.cgroup.as_ref().map_err(Clone::clone)? {
            StepCgroup::V1(step) => v1::put_up(step, &self.fence)?,
            StepCgroup::V2(step) => match &self.early {
                Some(early) => early.replace(&Bpf, step, &self.fence)?,
                None => v2::put_up(&Bpf, step, &self.fence)?,
            },
        }
        Ok(())
    }

    /// On v1 Slurm's rules for the job, which close what we open, would stay after a step that ended before its fence
    /// was up.
    ///
    /// # Errors
    /// The kernel refuses a rule.
    pub fn open_again(&self) -> Result<(), RuleError> {
        match &self.cgroup {
            Ok(StepCgroup::V1(step)) if self.fence.widens => {
                self.fence.open.iter().try_for_each(|device| v1::open(step, device.number))
            }
            _ => Ok(()),
        }
    }
}

/// What tells where all folders of the step are, also those of other hierarchies.
fn texts() -> Result<(String, String), FindError> {
    Ok((text("/proc/self/cgroup")?, text("/proc/self/mountinfo")?))
}

fn text(path: &'static str) -> Result<String, FindError> {
    read(path).map_err(|error| FindError::Read(path, Arc::new(error)))
}

fn find() -> Result<StepCgroup, FindError> {
    let cgroup = text("/proc/self/cgroup")?;
    match usual_step_cgroup(&cgroup, is_own) {
        Some(step) => Ok(step),
        None => Ok(step_cgroup(&cgroup, &text("/proc/self/mountinfo")?)?),
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
