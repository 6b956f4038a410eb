//! The fence of a step, in the node's cgroup version: found when the step is read, and set up by slurmstepd as root.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_node::fence::bpf::Bpf;
use gpushare_node::fence::locate::{StepCgroup, step_cgroup, usual_step_cgroup, v1_job};
use gpushare_node::fence::mend::Closed;
use gpushare_node::fence::owner::Folders;
use gpushare_node::fence::v1;
use gpushare_node::fence::v2::early::{self, Early};
use gpushare_node::fence::{Fence, v2};
use gpushare_node::gpu::{Device, Gpu};
use gpushare_slurm::daemon::USERS_OWN_CGROUPS;

use crate::error::{CgroupError, FindError};

/// No machine's list of mounts is longer.
const LONGEST: u64 = 16 << 20;

/// A fence and the step's cgroup.
pub struct StepFence {
    fence: Fence,
    /// Looked up early, because slurmstepd leaves the cgroup before the `exit` hook.
    cgroup: Result<StepCgroup, FindError>,
    /// Directories that Slurm gives to the job's user but that must belong to root; none on most releases.
    folders: Folders,
    known: Known,
}

/// Runs in `init`, before Slurm makes the step's device cgroup: keeps users out of the step's directories if they would
/// own them.
///
/// # Errors
/// /proc can't be read, or a directory can't be made root's alone.
pub fn close_to_users() -> Result<(), CgroupError> {
    if !USERS_OWN_CGROUPS {
        return Ok(());
    }
    let (cgroup, mountinfo) = texts()?;
    Ok(Folders::find(&cgroup, &mountinfo).take()?)
}

/// What `init` finds out about the step's cgroup. A later hook may run in the job's namespaces, where /proc shows
/// nothing of this process (`SlurmdParameters=contain_spank` with a namespace of processes).
#[derive(Default)]
pub struct Known {
    step: Option<StepCgroup>,
    /// On v1: the job's directory in the devices hierarchy.
    job: Option<PathBuf>,
    /// A temporary fence until the final one is up.
    early: Option<Early<Bpf>>,
    /// On v1: what that closed.
    closed: Vec<Device>,
}

impl Known {
    /// Runs in `init`, as root. On v1 slurmstepd isn't in the step's device cgroup yet; that cgroup's name begins with
    /// `folder`.
    pub fn find(folder: &str) -> Known {
        if let Ok(step @ StepCgroup::V2(_)) = find() {
            return Known { step: Some(step), ..Known::default() };
        }
        let found = texts().ok().and_then(|(cgroup, mounts)| v1_job(&cgroup, &mounts));
        let Some((tracked, job)) = found else { return Known::default() };
        let step = v1::starting(&tracked, &job, folder).map(StepCgroup::V1);
        Known { step, job: Some(job), ..Known::default() }
    }

    /// For a job whose fences open what Slurm closes: on v1, what Slurm closes for the whole job when it starts a step.
    pub fn closed_by_slurm(&self, own: &[Gpu]) -> Option<Closed> {
        let open = Fence::around(own, Vec::new()).open;
        Some(Closed { job: self.job.clone()?, devices: open.iter().map(|device| device.number).collect() })
    }

    /// Runs in `init`: closes from the step's start what the fence closes, because other plugins may run programs in it
    /// as the user, and because the fence may fail.
    ///
    /// # Errors
    /// The kernel refuses what closes a GPU.
    pub fn close(&mut self, fence: &Fence) -> Result<(), CgroupError> {
        match &self.step {
            _ if fence.closed.is_empty() => {}
            Some(StepCgroup::V2(step)) => self.early = Some(early::close(&Bpf, step, fence)?),
            Some(StepCgroup::V1(step)) => {
                v1::close_early(step, fence)?;
                self.closed.clone_from(&fence.closed);
            }
            None => {}
        }
        Ok(())
    }
}

impl StepFence {
    /// Runs in `user_init` or, in the extern step, in `task_post_fork`: slurmstepd is then in the step's cgroup.
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
        StepFence { fence, cgroup, folders, known: Known::default() }
    }

    /// Takes what `init` found out, and replaces the temporary fence.
    pub fn knows(&mut self, known: Known) {
        if let (Err(why), Some(step)) = (&self.cgroup, &known.step)
            && step.stands_in(why.located())
        {
            self.cgroup = Ok(step.clone());
        }
        self.known = known;
    }

    /// The job's cgroup, which contains all of its steps; only on v2.
    pub fn job(&self) -> Option<&Path> {
        match &self.cgroup {
            Ok(StepCgroup::V2(step)) => step.parent(),
            _ => None,
        }
    }

    /// Runs after Slurm's own rules for the step's last task.
    ///
    /// # Errors
    /// The step's cgroup was not found, or the kernel refuses a rule or a program.
    pub fn put_up(&self) -> Result<(), CgroupError> {
        match self.try_to_put_up() {
            // One configuration may be for nodes with and without GPUs, with any kind of cgroups.
            Err(_) if self.fence.closed.is_empty() && self.fence.open.is_empty() => Ok(()),
            result => result,
        }
    }

    fn try_to_put_up(&self) -> Result<(), CgroupError> {
        self.folders.take()?;
        match self.cgroup.as_ref().map_err(Clone::clone)? {
            StepCgroup::V1(step) => v1::replace(step, &self.known.closed, &self.fence)?,
            StepCgroup::V2(step) => match &self.known.early {
                Some(early) => early.replace(&Bpf, step, &self.fence)?,
                None => v2::put_up(&Bpf, step, &self.fence)?,
            },
        }
        Ok(())
    }
}

/// The texts that show where all directories of the step are, including those of other hierarchies.
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

/// Reads in one piece: files in /proc claim to be empty, and would be read in many small pieces.
fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(16 << 10);
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}
