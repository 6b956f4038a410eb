//! The GPUs and device nodes that others name: plain types, and what a device node's own name and number say.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::driver::{known, position, sort_by};
use super::roots::{MOST, Roots};
use crate::config::GpuFiles;

/// One GPU of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Slurm's index.
    pub index: u32,
    /// The device node, such as `/dev/nvidia0`.
    pub path: PathBuf,
    /// Its device number.
    pub number: DeviceNumber,
    /// `GPU-…`, if the NVIDIA driver reports it.
    pub uuid: Option<String>,
}

/// A device node: what a fence opens and closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Such as `/dev/nvidia0`.
    pub path: PathBuf,
    /// Its number.
    pub number: DeviceNumber,
}

impl Gpu {
    /// Its device node.
    pub fn device(&self) -> Device {
        Device { path: self.path.clone(), number: self.number }
    }
}

/// A character device's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceNumber {
    /// 195 for NVIDIA GPUs.
    pub major: u32,
    /// The GPU's number for the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// The number of a character device; `None` for anything else.
    pub fn of(file: &Metadata) -> Option<DeviceNumber> {
        let number = DeviceNumber { major: libc::major(file.rdev()), minor: libc::minor(file.rdev()) };
        file.file_type().is_char_device().then_some(number)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}:{}", self.major, self.minor)
    }
}

/// Whether two PCI addresses are the same, however many digits they are written with. A missing function counts as 0.
pub fn is_same_pci(one: &str, other: &str) -> bool {
    let position = |pci: &str| position(pci).or_else(|| position(&format!("{pci}.0")));
    position(one).is_some_and(|found| position(other) == Some(found))
}

/// The 3 in `…/nvidia3`, the driver's own name for the device node of minor 3.
pub(super) fn minor_by_name(path: &Path) -> Option<u32> {
    let digits = path.file_name()?.to_str()?.strip_prefix("nvidia")?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// `nvidia0`, `nvidia1`, …, but not `nvidiactl` or `nvidia-uvm`.
///
/// # Errors
/// The directory can't be read.
pub(super) fn numbered_nodes(dev: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in dev.read_dir()? {
        let path = entry?.path();
        if minor_by_name(&path).is_some() && found.len() < MOST {
            found.push(path);
        }
    }
    sort_by_minor(&mut found);
    Ok(found)
}

/// Whether this machine may have GPUs: all of a cluster's may have the same gpushare.conf.
pub fn may_be_any(files: &GpuFiles, roots: &Roots) -> bool {
    let is_listed = matches!(files, GpuFiles::Listed(paths) if paths.iter().any(|path| path.exists()));
    is_listed
        || !known(roots).is_empty()
        || numbered_nodes(&roots.dev).map_or(true, |nodes| !nodes.is_empty())
}

pub(super) fn sort_by_minor(paths: &mut [PathBuf]) {
    sort_by(paths, &|one, other| minor_by_name(one).cmp(&minor_by_name(other)));
}
