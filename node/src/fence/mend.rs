//! On cgroup v1, a child of slurmstepd that opens the job's GPU again if the step ends before its fence is up, in
//! whatever way. Slurm closes that GPU for the whole job when it starts a step, long before the hook that puts up the
//! fence: without the child, the job's other steps could never open it again.
//!
//! The child waits at a pipe. It is told when the fence is up, or sees that slurmstepd is gone; then it ends.

use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::v1::{self, RuleError};
use crate::gpu::DeviceNumber;
use crate::unix::{self, Side};

/// What is to be opened again, and the child that does it.
#[derive(Debug)]
pub struct Mender {
    job: PathBuf,
    devices: Vec<DeviceNumber>,
    child: Option<(PipeWriter, u32)>,
}

impl Mender {
    /// Starts the child. `job` is the job's directory in the devices hierarchy. If no child can be made, only a
    /// slurmstepd that ends by itself opens the GPU again.
    pub fn start(job: PathBuf, devices: Vec<DeviceNumber>) -> Mender {
        let child = split(&job, &devices).ok();
        Mender { job, devices, child }
    }

    /// The fence is up: nothing is to be done any more.
    pub fn dismiss(self) {
        if let Some((mut pipe, pid)) = self.child {
            let _ = pipe.write_all(b"\n");
            drop(pipe);
            unix::reap(pid);
        }
    }

    /// The step ends without its fence: opens the GPU for the job's other steps.
    ///
    /// # Errors
    /// The kernel refuses a rule.
    pub fn mend(self) -> Result<(), RuleError> {
        let result = mend(&self.job, &self.devices);
        self.dismiss();
        result
    }
}

fn split(job: &Path, devices: &[DeviceNumber]) -> io::Result<(PipeWriter, u32)> {
    let (reader, writer) = io::pipe()?;
    match unix::fork()? {
        Side::Parent(pid) => Ok((writer, pid)),
        Side::Child => {
            drop(writer);
            let mut told = File::from(OwnedFd::from(reader));
            unix::mender::become_mender(&told);
            if told.read_exact(&mut [0]).is_err() {
                let _ = mend(job, devices);
            }
            unix::leave()
        }
    }
}

fn mend(job: &Path, devices: &[DeviceNumber]) -> Result<(), RuleError> {
    devices.iter().try_for_each(|device| v1::open(job, *device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::gpu;
    use std::time::{Duration, Instant};

    /// A job's directory, and what its step may open.
    fn job() -> (tempfile::TempDir, impl Fn() -> String) {
        let job = tempfile::tempdir().unwrap();
        let step = job.path().join("step_0");
        std::fs::create_dir(&step).unwrap();
        for folder in [job.path(), &step] {
            std::fs::write(folder.join("devices.allow"), "").unwrap();
        }
        (job, move || std::fs::read_to_string(step.join("devices.allow")).unwrap())
    }

    fn start(job: &Path) -> Mender {
        Mender::start(job.to_owned(), vec![gpu(1).number])
    }

    #[test]
    fn the_gpu_is_opened_again_unless_the_fence_is_up() {
        let (folder, allowed) = job();
        start(folder.path()).dismiss();
        assert_eq!(allowed(), "");
        start(folder.path()).mend().unwrap();
        assert_eq!(allowed(), "c 195:1 rwm");
    }

    #[test]
    fn it_is_opened_again_by_itself_if_nobody_lives_who_could() {
        let (folder, allowed) = job();
        // As at a SIGKILL: the pipe is closed, and nothing is said.
        drop(start(folder.path()));
        let until = Instant::now() + Duration::from_secs(20);
        while allowed().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(allowed(), "c 195:1 rwm");
    }
}
