//! What the fence needs from bpf(2), as safe calls; [`crate::fence::bpf`] makes the system call.

use std::fmt;
use std::io;
use std::path::Path;

use crate::fence::filter::program::Instruction;

/// The device programs of the kernel. Folders are directories of a mounted cgroup2 file system.
pub trait Kernel {
    /// A loaded program that is kept open.
    type Program;

    /// Which programs are attached to `folder` itself.
    ///
    /// # Errors
    /// EBADF for a directory that is no cgroup.
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
    /// The answer, and the verifier's words.
    fn load(&self, program: &[Instruction]) -> Result<Self::Program, Refused>;

    /// Attaches a program to `folder`: beside what is there with [`Flags::Multi`], in its place otherwise.
    ///
    /// # Errors
    /// What bpf(2) answers.
    fn attach(&self, folder: &Path, program: &Self::Program, flags: Flags) -> io::Result<()>;

    /// Puts a program in the place of `old`, both with [`Flags::Multi`], so that there is always one of them.
    ///
    /// # Errors
    /// What bpf(2) answers; `old` is still there then.
    fn replace(&self, folder: &Path, program: &Self::Program, old: &Self::Program) -> io::Result<()>;

    /// Takes a program away that was attached with [`Flags::Multi`].
    ///
    /// # Errors
    /// What bpf(2) answers.
    fn detach(&self, folder: &Path, program: &Self::Program) -> io::Result<()>;
}

/// What is attached to a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// How; [`Flags::None`] where nothing is.
    pub flags: Flags,
    /// Numbers of the programs.
    pub programs: Vec<u32>,
}

/// What a program lets cgroups below do (linux/bpf.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flags {
    /// Nothing may be attached below.
    #[default]
    None,
    /// `BPF_F_ALLOW_OVERRIDE`: what is attached below replaces it there.
    Override,
    /// `BPF_F_ALLOW_MULTI`: what is attached below is asked too.
    Multi,
}

/// The kernel did not load a program.
#[derive(Debug)]
pub struct Refused {
    /// Its answer.
    pub error: io::Error,
    /// The end of what its verifier said; empty if it said nothing.
    pub verifier: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.error)?;
        if self.verifier.is_empty() { Ok(()) } else { write!(out, ": {}", self.verifier) }
    }
}
