//! Why putting up a fence on cgroup v2 failed, and where an administrator can look.

use std::io;
use std::path::{Path, PathBuf};

use super::kernel::Refused;
use crate::fence::filter::program::ProgramError;
use crate::fence::filter::unblind::Strange;

gpushare::errors! {
    /// The operation that failed, and the cgroup's directory.
    #[derive(Debug)]
    pub enum V2Error {
        DeviceRules(error: ProgramError) => "{error}";
        Query(folder: PathBuf, error: io::Error) =>
            "listing the device programs of {}: {error}{}", folder.display(), remedy(error);
        Taken(folder: PathBuf) =>
            "{} has a device program that is not gpushare's; {}", folder.display(), look(folder);
        Exclusive(folder: PathBuf) =>
            "{} has a device program that allows no others below it; {}", folder.display(), look(folder);
        Several(folder: PathBuf, count: usize) =>
            "{} has {count} device programs where Slurm attaches one; {}", folder.display(), look(folder);
        /// The program is below the step, and would keep forbidding.
        Shared(folder: PathBuf) =>
            "{} has a device program that is not Slurm's; {}", folder.display(), look(folder);
        Open(folder: PathBuf, id: u32, error: io::Error) =>
            "opening device program {id} of {}: {error}{}", folder.display(), remedy(error);
        Read(folder: PathBuf, error: io::Error) =>
            "reading the device program of {}: {error}{}", folder.display(), remedy(error);
        Unreadable(folder: PathBuf) =>
            "{}: Placement=override must copy its device program, but the kernel won't show it, because of \
             net.core.bpf_jit_harden=2 and kernel.kptr_restrict=2; lower one of the two",
            folder.display();
        Strange(folder: PathBuf, strange: Strange) =>
            "{}: its device program can't be copied: {strange}; net.core.bpf_jit_harden=1 makes that possible",
            folder.display();
        List(folder: PathBuf, error: io::Error) => "{}: {error}", folder.display();
        Load(folder: PathBuf, refused: Refused) =>
            "loading the device program for {}: {refused}{}", folder.display(),
            if refused.verifier.is_empty() { remedy(&refused.error) } else { "" };
        Attach(folder: PathBuf, whose: Whose, error: io::Error) =>
            "{} does not accept {} device program: {error}; {}", folder.display(), whose.name(), look(folder);
        Detach(folder: PathBuf, error: io::Error) =>
            "removing a device program from {}: {error}{}", folder.display(), remedy(error);
    }
}

/// Whose program could not be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The fence's program.
    Ours,
    /// Slurm's program of the job, at the step.
    Slurms,
}

/// How to see which programs are attached but should not be.
fn look(folder: &Path) -> String {
    format!("'bpftool cgroup tree {}' shows what is attached", folder.display())
}

impl Whose {
    fn name(self) -> &'static str {
        match self {
            Whose::Ours => "gpushare's",
            Whose::Slurms => "Slurm's",
        }
    }
}

/// The likely cause of an error of bpf(2), if the error itself says little.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "; this kernel has no bpf(2): it needs CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF"
        }
        Some(libc::EPERM) => {
            "; slurmstepd may not use bpf(2): a user namespace (CLONE_NEWUSER in Slurm's namespace.yaml), a seccomp \
             filter, a security module or a container without CAP_SYS_ADMIN forbids it; before Linux 5.11 the limit \
             on locked memory may too"
        }
        Some(libc::EINVAL) => "; a kernel before 4.15 or without CONFIG_CGROUP_BPF gives this error",
        Some(libc::EBADF) => "; it is not a directory of a mounted cgroup2 file system",
        _ => "",
    }
}
