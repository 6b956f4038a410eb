//! Why a fence could not be put up on cgroup v2, each with where an administrator may look.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::kernel::Refused;
use crate::fence::filter::program::ProgramError;
use crate::fence::filter::unblind::Strange;

/// The step that failed, and the cgroup's directory.
#[derive(Debug)]
pub enum V2Error {
    /// The fence can't be a program.
    DeviceRules(ProgramError),
    /// Which programs are attached can't be asked.
    Query(PathBuf, io::Error),
    /// The step's directory has a program that lets no other stand beside it.
    Taken(PathBuf),
    /// A directory above has a program that lets none be attached below.
    Exclusive(PathBuf),
    /// Several programs where Slurm attaches one.
    Several(PathBuf, usize),
    /// A program below the step that is not Slurm's, and would go on forbidding.
    Shared(PathBuf),
    /// A program can't be opened by its number.
    Open(PathBuf, u32, io::Error),
    /// Slurm's program can't be read.
    Read(PathBuf, io::Error),
    /// The kernel won't show Slurm's program.
    Unreadable(PathBuf),
    /// The kernel shows Slurm's program in a form that can't be loaded.
    Strange(PathBuf, Strange),
    /// The directories of the tasks can't be listed.
    List(PathBuf, io::Error),
    /// The kernel refuses the program that is for this directory.
    Load(PathBuf, Refused),
    /// The kernel refuses to attach a program.
    Attach(PathBuf, Whose, io::Error),
    /// The kernel refuses to take a program away.
    Detach(PathBuf, io::Error),
}

/// Which program could not be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The fence's.
    Ours,
    /// Slurm's program of the job, at the step.
    Slurms,
}

impl fmt::Display for V2Error {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            V2Error::DeviceRules(error) => write!(out, "{error}"),
            V2Error::Query(folder, error) => answer(out, "asking for the device programs of", folder, error),
            V2Error::Taken(folder) => in_the_way(out, folder, "has a device program that is not gpushare's"),
            V2Error::Exclusive(folder) => {
                in_the_way(out, folder, "has a device program that allows none below it")
            }
            V2Error::Several(folder, count) => {
                in_the_way(out, folder, &format!("has {count} device programs where Slurm attaches one"))
            }
            V2Error::Shared(folder) => in_the_way(out, folder, "has a device program that is not Slurm's"),
            V2Error::Open(folder, id, error) => {
                answer(out, &format!("opening device program {id} of"), folder, error)
            }
            V2Error::Read(folder, error) => answer(out, "reading the device program of", folder, error),
            V2Error::Unreadable(folder) => write!(out, "{}{UNREADABLE}", folder.display()),
            V2Error::Strange(folder, strange) => {
                let hint = "net.core.bpf_jit_harden=1 leaves it as it is";
                write!(out, "{}: its device program can't be copied: {strange}; {hint}", folder.display())
            }
            V2Error::List(folder, error) => write!(out, "{}: {error}", folder.display()),
            V2Error::Load(folder, refused) if refused.verifier.is_empty() => {
                answer(out, "loading the device program for", folder, &refused.error)
            }
            V2Error::Load(folder, refused) => {
                write!(out, "loading the device program for {}: {refused}", folder.display())
            }
            V2Error::Attach(folder, whose, error) => {
                in_the_way(out, folder, &format!("does not take {} device program: {error}", whose.name()))
            }
            V2Error::Detach(folder, error) => answer(out, "taking a device program from", folder, error),
        }
    }
}

const UNREADABLE: &str = ": the kernel won't show its device program, which Placement=override has to copy; \
    net.core.bpf_jit_harden=2 and kernel.kptr_restrict=2 together forbid it, one of them must be lower";

/// An answer of the kernel's.
fn answer(out: &mut fmt::Formatter, what: &str, folder: &Path, error: &io::Error) -> fmt::Result {
    write!(out, "{what} {}: {error}{}", folder.display(), remedy(error))
}

/// Programs that are there and should not be.
fn in_the_way(out: &mut fmt::Formatter, folder: &Path, what: &str) -> fmt::Result {
    let folder = folder.display();
    write!(out, "{folder} {what}; 'bpftool cgroup tree {folder}' shows what is attached")
}

impl std::error::Error for V2Error {}

impl Whose {
    fn name(self) -> &'static str {
        match self {
            Whose::Ours => "gpushare's",
            Whose::Slurms => "Slurm's",
        }
    }
}

/// What an answer of bpf(2) may come from, for the answers that say little.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "; this kernel has no bpf(2): it needs CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF"
        }
        Some(libc::EPERM) => {
            "; slurmstepd may not use bpf(2): a user namespace (CLONE_NEWUSER in Slurm's namespace.yaml), a seccomp filter, \
             a security module or a container without CAP_SYS_ADMIN forbids it, or before Linux 5.11 the limit on locked memory"
        }
        Some(libc::EINVAL) => "; a kernel before 4.15 or without CONFIG_CGROUP_BPF answers this",
        Some(libc::EBADF) => "; it is no directory of a mounted cgroup2 file system",
        _ => "",
    }
}
