//! Why gres.conf doesn't determine the order of GPUs, in words for an administrator.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where reading stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GresConfError {
    /// gres.conf, or a file that it includes.
    pub file: PathBuf,
    /// Counted from 1; `None` if no single line is wrong.
    pub line: Option<usize>,
    /// What is wrong there.
    pub problem: Problem,
}

gpushare::errors! {
    /// What can't be read with certainty.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Problem {
        Unreadable(kind: io::ErrorKind) => "{kind}";
        /// It is longer than any gres.conf, or has more GPUs than any node.
        TooMuch => "too long, or too many GPUs";
        NotText => "bytes that are not text";
        /// Also for a key that a GPU's line can't have.
        Line => "it can't be read as a line of gres.conf";
        Files(value: String) => "the files '{}' can't be read", value.escape_debug();
        Nodes(value: String) => "NodeName='{}' can't be read", value.escape_debug();
        NodeUnknown => "it is for certain nodes, and this node's name is unknown";
        /// The Include is in an included file, or its name has a pattern.
        Include(name: String) => "gpushare does not read the included file '{}'", name.escape_debug();
        Twice(path: PathBuf) => "{} is listed twice", path.display();
        SeveralTypes => "the GPUs have several types, and Slurm's order depends on slurm.conf";
        PartsDetected => "gpushare can't follow MultipleFiles= together with AutoDetect=";
    }
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

impl std::error::Error for GresConfError {}
