//! What the fence needs from bpf(2), as safe calls; [`crate::fence::bpf`] makes the system call.

use std::fmt;
use std::io;
use std::path::Path;

use crate::fence::filter::program::Instruction;

/// The kernel's device programs. Directories are directories of a mounted cgroup2 file system.
pub trait Kernel {
    /// A loaded program that is kept open.
    type Program;

    /// Which programs are attached to `folder` itself.
    ///
    /// # Errors
    /// EBADF for a directory that isn't a cgroup.
    fn attached(&self, folder: &Path) -> io::Result<Attached>;

    /// Opens a program by its number.
    ///
    /// # Errors
    /// What bpf(2) answers.
    fn program(&self, id: u32) -> io::Result<Self::Program>;

    /// The program's instructions; `None` if the kernel won't show them.
    ///
    /// # Errors
    /// What bpf(2) answers.
    fn instructions(&self, program: &Self::Program) -> io::Result<Option<Vec<Instruction>>>;

    /// Has the kernel verify and load a device program.
    ///
    /// # Errors
    /// The kernel's error, and the end of the verifier's log.
    fn load(&self, program: &[Instruction]) -> Result<Self::Program, Refused>;

    /// Attaches a program to `folder`: beside the existing ones with [`Flags::Multi`], otherwise in their place.
    ///
    /// # Errors
    /// What bpf(2) answers.
    fn attach(&self, folder: &Path, program: &Self::Program, flags: Flags) -> io::Result<()>;

    /// Replaces `old` by a program, both with [`Flags::Multi`], so that one of them is always attached.
    ///
    /// # Errors
    /// What bpf(2) answers; `old` then stays attached.
    fn replace(&self, folder: &Path, program: &Self::Program, old: &Self::Program) -> io::Result<()>;

    /// Detaches a program that was attached with [`Flags::Multi`].
    ///
    /// # Errors
    /// What bpf(2) answers.
    fn detach(&self, folder: &Path, program: &Self::Program) -> io::Result<()>;
}

/// What is attached to a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The flags; [`Flags::None`] if no program is attached.
    pub flags: Flags,
    /// The programs' numbers.
    pub programs: Vec<u32>,
}

/// What a program allows for cgroups below (linux/bpf.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flags {
    /// Nothing may be attached below.
    #[default]
    None,
    /// `BPF_F_ALLOW_OVERRIDE`: a program attached below replaces it there.
    Override,
    /// `BPF_F_ALLOW_MULTI`: a program attached below must also allow.
    Multi,
}

/// The kernel did not load a program.
#[derive(Debug)]
pub struct Refused {
    /// The kernel's error.
    pub error: io::Error,
    /// The end of the verifier's log; empty if it wrote nothing.
    pub verifier: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.error)?;
        if self.verifier.is_empty() { Ok(()) } else { write!(out, ": {}", self.verifier) }
    }
}
