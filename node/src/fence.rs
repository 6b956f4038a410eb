//! The fence: which of the node's GPUs the tasks of one step can open, enforced by the step's device cgroup.
//!
//! Slurm has already fenced the step to the GPU that it allocated. A share may have another GPU, so the fence opens
//! that one and closes every other; it touches only GPUs. slurmstepd sets it up as root, after Slurm's own rules and
//! before any task runs, and each task checks it for itself.
//!
//! [`locate`] finds the step's cgroup. On cgroup v1 [`v1`] writes its rules; on cgroup v2 [`v2`] attaches programs,
//! which [`filter`] writes. [`mend`] opens a GPU again that Slurm closed for a step that never came so far. [`owner`]
//! makes root the owner of directories that old releases give to users.

pub mod access;
pub mod bpf;
pub mod filter;
pub mod locate;
pub mod mend;
pub mod owner;
pub mod v1;
pub mod v2;

use std::path::PathBuf;

use crate::gpu::{Device, DeviceNumber, Gpu};

/// What a step may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// The job's GPUs.
    pub open: Vec<Device>,
    /// The node's other GPUs, and their other device nodes.
    pub closed: Vec<Device>,
    /// The fence also opens devices that Slurm closes. Otherwise it only narrows what Slurm allows.
    pub widens: bool,
}

/// What the device cgroup answers for a device node (see [`Fence::fault`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The process can open it for reading and writing.
    Open,
    /// The device cgroup forbids it (EPERM).
    Closed,
    /// Something else prevents it, with this errno; it says nothing about the fence.
    Unclear(i32),
}

gpushare::errors! {
    /// What a task finds although its fence should have prevented it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Fault {
        Closed(path: PathBuf) => "{} is the job's GPU, but can't be opened", path.display();
        Open(path: PathBuf) => "{} is not the job's GPU, but can be opened", path.display();
        Held(path: PathBuf) => "{} is not the job's GPU, but the job has it open as input or output", path.display();
        Unclear(path: PathBuf, errno: i32) =>
            "{}: {}; gpushare can check only device nodes whose mode lets users open them",
            path.display(), std::io::Error::from_raw_os_error(*errno);
    }
}

impl Fence {
    /// The fence of a job that has these GPUs and must not open those devices. It doesn't widen.
    pub fn around(own: &[Gpu], closed: Vec<Device>) -> Fence {
        Fence { open: own.iter().map(Gpu::device).collect(), closed, widens: false }
    }

    /// A device that the task has open but must not open: Slurm opens what `--input`, `--output` and `--error` name
    /// before our fence is set up.
    #[must_use]
    pub fn held(&self, open: &[DeviceNumber]) -> Option<Fault> {
        let held = self.closed.iter().find(|device| open.contains(&device.number));
        held.map(|device| Fault::Held(device.path.clone()))
    }

    /// The same fence for a process with another root directory, where the job's own device nodes may be missing.
    #[must_use]
    pub fn of_what_is_there(&self, access: impl Fn(&std::path::Path) -> Access) -> Fence {
        let mut fence = self.clone();
        fence.open.retain(|device| access(&device.path) != Access::Unclear(libc::ENOENT));
        fence
    }

    /// Asks `access` about every device and returns the first wrong answer.
    pub fn fault(&self, access: impl Fn(&std::path::Path) -> Access) -> Option<Fault> {
        let wrong = self.closed.iter().find_map(|device| match access(&device.path) {
            // The device node is missing, or this user may not open it.
            Access::Closed | Access::Unclear(libc::ENOENT | libc::EACCES) => None,
            Access::Open => Some(Fault::Open(device.path.clone())),
            Access::Unclear(errno) => Some(Fault::Unclear(device.path.clone(), errno)),
        });
        wrong.or_else(|| {
            self.open.iter().find_map(|device| match access(&device.path) {
                Access::Open => None,
                Access::Closed => Some(Fault::Closed(device.path.clone())),
                Access::Unclear(errno) => Some(Fault::Unclear(device.path.clone(), errno)),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::gpu;
    use std::path::Path;

    #[test]
    fn a_fence_is_right_only_if_exactly_the_share_is_open() {
        let all = [gpu(0), gpu(1), gpu(2)];
        let fence = Fence::around(&all[1..2], [&all[0], &all[2]].map(Gpu::device).into());
        let with = |open: &'static [&'static str]| {
            move |path: &Path| {
                if open.contains(&path.to_str().unwrap()) { Access::Open } else { Access::Closed }
            }
        };
        assert_eq!(fence.fault(with(&["/dev/nvidia1"])), None);
        assert_eq!(fence.fault(with(&[])), Some(Fault::Closed("/dev/nvidia1".into())));
        let both = with(&["/dev/nvidia1", "/dev/nvidia2"]);
        assert_eq!(fence.fault(both), Some(Fault::Open("/dev/nvidia2".into())));
        let unclear = |_: &Path| Access::Unclear(libc::EIO);
        assert_eq!(fence.fault(unclear), Some(Fault::Unclear("/dev/nvidia0".into(), libc::EIO)));
        let gone = |_: &Path| Access::Unclear(libc::ENOENT);
        assert_eq!(fence.fault(gone), Some(Fault::Unclear("/dev/nvidia1".into(), libc::ENOENT)));
        assert_eq!(fence.of_what_is_there(gone).fault(gone), None);
        assert_eq!(fence.of_what_is_there(both).fault(both), Some(Fault::Open("/dev/nvidia2".into())));
    }

    #[test]
    fn what_is_open_already_counts_too() {
        let all = [gpu(0), gpu(1), gpu(2)];
        let fence = Fence::around(&all[1..2], [&all[0], &all[2]].map(Gpu::device).into());
        let null = DeviceNumber { major: 1, minor: 3 };
        assert_eq!(fence.held(&[]), None);
        assert_eq!(fence.held(&[null, all[1].number]), None);
        assert_eq!(fence.held(&[null, all[2].number]), Some(Fault::Held("/dev/nvidia2".into())));
    }
}
