//! Why gres.conf does not tell the order of GPUs, in words for an administrator.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where reading ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GresConfError {
    /// gres.conf, or a file that it includes.
    pub file: PathBuf,
    /// Counted from 1; `None` where no single line is at fault.
    pub line: Option<usize>,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can't be read with certainty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file can't be read.
    Unreadable(io::ErrorKind),
    /// Longer than any gres.conf, or with more GPUs than any node.
    TooMuch,
    /// Bytes that are no text.
    NotText,
    /// Not a line of gres.conf, or with a key that a GPU's line doesn't have.
    Line,
    /// `File=` or `MultipleFiles=` can't be read.
    Files(String),
    /// `NodeName=` can't be read.
    Nodes(String),
    /// There is a `NodeName=`, and this node's own name is not known.
    NodeUnknown,
    /// An `Include` in an included file, or with a pattern in its name.
    Include(String),
    /// A device node is listed twice.
    Twice(PathBuf),
    /// The GPUs are of several types, and slurm.conf's order of types counts.
    SeveralTypes,
    /// Parts of GPUs are listed, and sorted by AutoDetect.
    PartsDetected,
}

impl fmt::Display for GresConfError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(out, " line {line}")?;
        }
        write!(out, ": {}; name the GPUs in Slurm's order with GpuFile= in gpushare.conf", self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Problem::Unreadable(kind) => write!(out, "{kind}"),
            Problem::TooMuch => write!(out, "too long, or too many GPUs"),
            Problem::NotText => write!(out, "bytes that are not text"),
            Problem::Line => write!(out, "it can't be read as a line of gres.conf"),
            Problem::Files(value) => write!(out, "the files '{}' can't be read", value.escape_debug()),
            Problem::Nodes(value) => write!(out, "NodeName='{}' can't be read", value.escape_debug()),
            Problem::NodeUnknown => write!(out, "it is for certain nodes, and this one's name is not known"),
            Problem::Include(name) => write!(out, "Include of '{}' is not followed", name.escape_debug()),
            Problem::Twice(path) => write!(out, "{} is listed twice", path.display()),
            Problem::SeveralTypes => {
                write!(out, "the GPUs have several types, and Slurm's order depends on slurm.conf")
            }
            Problem::PartsDetected => {
                write!(out, "MultipleFiles= and AutoDetect= together can't be followed")
            }
        }
    }
}

impl std::error::Error for GresConfError {}
