//! The GPUs of a node: Slurm's index, device node, device number, UUID, PCI address, NUMA node, and what is wrong with
//! one that can't be shared.
//!
//! Slurm counts GPUs in its own order, mostly that of gres.conf's `File=` ([`gres_conf`]). NVIDIA's minor is a second
//! number, and CUDA's order a third. This reads the device number from the device node itself, and the rest from
//! /proc/driver/nvidia and /sys by that number, so it assumes no numbering. [`inventory`](inventory()) puts it
//! together; [`mig`] and [`drm`] find a GPU's other device nodes, for a fence. It opens only text files, so it wakes no
//! driver.

pub mod driver;
pub mod drm;
mod files;
mod foreign;
pub mod gres_conf;
mod inventory;
pub mod mig;
mod roots;

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use crate::config::NodeConfig;

pub use driver::{is_in_mig_mode, is_loaded, is_uuid, known_to_the_driver};
pub use files::Files;
pub use foreign::Foreign;
pub use gres_conf::GresConfError;
pub use inventory::{Detail, Inventory, Unfit, inventory};
use roots::MOST;
pub use roots::Roots;

/// The GPU's address on the PCI bus, such as `0000:c1:00.0`, if the NVIDIA driver knows it.
pub fn pci_address(gpu: &Gpu, roots: &Roots) -> Option<String> {
    driver::known(roots).into_iter().find(|known| known.minor == gpu.number.minor).map(|known| known.pci)
}

/// Whether two PCI addresses are the same, however many digits they are written with. A missing function counts as 0.
pub fn is_same_pci(one: &str, other: &str) -> bool {
    let position = |pci: &str| driver::position(pci).or_else(|| driver::position(&format!("{pci}.0")));
    position(one).is_some_and(|found| position(other) == Some(found))
}

/// The units of each GPU in Slurm's order, 0 for one that takes no share. `None` if `UnitsPerGpu` is a list of another
/// length.
pub fn units_of(config: &NodeConfig, gpus: &Inventory) -> Option<Vec<u32>> {
    let units = config.units_per_gpu.as_ref()?;
    let fits = units.listed().is_none_or(|listed| listed == gpus.count());
    let of = |gpu: &Detail| units.of_gpu(gpu.index, gpu.gres_type.as_deref(), gpu.model.as_deref());
    fits.then(|| gpus.details.iter().map(of).collect())
}

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

gpushare::errors! {
    /// Why the GPUs of a node can't be determined.
    #[derive(Debug)]
    pub enum DeviceError {
        List(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        Order =>
            "gres.conf has AutoDetect=, so gpushare can't tell in which order Slurm counts the GPUs; name them in \
             Slurm's order with GpuFile= in gpushare.conf";
        Parts =>
            "gres.conf has AutoDetect=, and GPUs have MIG enabled: Slurm counts their parts, so no GPU of this node \
             takes shares; to leave them to Slurm, set Placement=off, or follow without FenceDrm";
        /// The first of them, and what is wrong with it.
        NoneThere(path: PathBuf, unfit: Unfit) =>
            "no GPU of this node can be used; {}: {unfit}", path.display();
        None => "no /dev/nvidiaN on this node; name the GPUs with GpuFile=";
    } from { GresConf(GresConfError) }
}
