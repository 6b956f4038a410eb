//! gres.conf: the order in which Slurm counts this node's GPUs.
//!
//! Slurm numbers them as follows (gres.c `_parse_gres_conf_locked`, `_merge_config`, `gres_node_config_load`;
//! gres_gpu.c `_merge_system_gres_conf`; seen with `slurmd -G` of 22.05, 24.11 and 26.05): all lines that begin with
//! `Name=`, then those that begin with `NodeName=` and have this node in their list, each kind in the file's order,
//! each line's files as listed. Two things change that: if slurm.conf gives GPUs by type, its order of types goes
//! first; and with `AutoDetect` Slurm sorts them by file name or PCI address. If a line can't be read with certainty,
//! that is an error that names the line: a wrong index would give a job a GPU other than the one Slurm means.

mod error;
pub mod lines;
mod reader;

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::config::GpuFiles;
pub use error::{GresConfError, Problem};

/// No real file is longer.
const LONGEST: u64 = 1 << 20;

/// Which of a node's device nodes are GPUs, in Slurm's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// One slot for each index. `None` if no files are named for this node: then every existing GPU counts.
    pub slots: Option<Vec<Slot>>,
    /// How Slurm orders them.
    pub order: Order,
}

impl Files {
    /// What `GpuFile` means here. Where Slurm's indices count, `auto` is the order of gres.conf, if it names this
    /// node's GPUs. `gres_conf` is the file's path; without a path, or if the file doesn't exist, `auto` is every GPU.
    /// `node` is Slurm's name for this node (SLURMD_NODENAME).
    ///
    /// # Errors
    /// gres.conf can't be read with certainty.
    pub fn of(
        config: &GpuFiles,
        gres_conf: Option<&Path>,
        node: Option<&str>,
    ) -> Result<Files, GresConfError> {
        match (config, gres_conf) {
            (GpuFiles::Listed(paths), _) => {
                let slots = paths.iter().cloned().map(Slot::whole).collect();
                Ok(Files { slots: Some(slots), order: Order::Listed })
            }
            (GpuFiles::Auto, Some(path)) => load(path, node),
            (GpuFiles::Auto, None) => Ok(Files::default()),
        }
    }
}

/// What Slurm counts as one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The GPU's device node.
    pub path: PathBuf,
    /// Its `Type=`.
    pub gres_type: Option<String>,
    /// It is a part of that GPU (`MultipleFiles=`, MIG).
    pub part: bool,
}

impl Slot {
    pub(super) fn whole(path: PathBuf) -> Slot {
        Slot { path, gres_type: None, part: false }
    }
}

/// How Slurm orders the GPUs (`AutoDetect`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As listed: no AutoDetect, or off.
    #[default]
    Listed,
    /// By file name: AutoDetect=nvidia, and the values of other makers, which leave NVIDIA's GPUs to the sort by file.
    /// A release that doesn't know the word keeps the listed order (22.05 and `nvidia`, tried), so this is certain only
    /// if both orders are the same.
    Name,
    /// By PCI address, as NVML does: AutoDetect=nvml.
    Pci,
    /// By file name or by PCI address, depending on what slurmd found: AutoDetect=full.
    NameOrPci,
}

/// Reads the file for a node.
///
/// # Errors
/// It can't be read, or Slurm would refuse it.
fn load(path: &Path, node: Option<&str>) -> Result<Files, GresConfError> {
    let text = match read(path) {
        Err(Problem::Unreadable(io::ErrorKind::NotFound)) => return Ok(Files::default()),
        read => read.map_err(|problem| GresConfError { file: path.to_owned(), line: None, problem })?,
    };
    // As in Slurm's get_extra_conf_path(): a name without `/` is relative to the directory of slurm.conf.
    parse(path, &text, node, &|name| read(&path.with_file_name(name)))
}

/// Reads the text of gres.conf for a node. `include` gives the text of a file that an `Include` line names.
///
/// # Errors
/// A line that Slurm would refuse.
pub fn parse(
    file: &Path,
    text: &str,
    node: Option<&str>,
    include: &dyn Fn(&str) -> Result<String, Problem>,
) -> Result<Files, GresConfError> {
    let mut reader = reader::Reader::new(node, include);
    reader.read(file, text, true)?;
    reader.finish().map_err(|problem| GresConfError { file: file.to_owned(), line: None, problem })
}

fn read(path: &Path) -> Result<String, Problem> {
    let unreadable = |error: io::Error| Problem::Unreadable(error.kind());
    let mut bytes = Vec::with_capacity(4096);
    // Opening a pipe would make a prolog wait for its other end.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        return Err(Problem::TooMuch);
    }
    String::from_utf8(bytes).map_err(|_| Problem::NotText)
}

#[cfg(test)]
mod tests;
