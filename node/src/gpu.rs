//! The GPUs of a node: Slurm's index, device node, device number, UUID, PCI address, NUMA node, and what is wrong with
//! one that can't be shared.
//!
//! Slurm counts GPUs in its own order, mostly that of gres.conf's `File=` ([`gres_conf`]). NVIDIA's minor is a second
//! number, and CUDA's order a third. This reads the device number from the device node itself, and the rest from
//! /proc/driver/nvidia and /sys by that number, so it assumes no numbering. [`inventory`](inventory()) puts it
//! together; [`mig`] and [`drm`] find a GPU's other device nodes, for a fence. It opens only text files, so it wakes no
//! driver.

mod device;
pub mod drained;
pub mod driver;
pub mod drm;
pub mod foreign;
pub mod gres_conf;
mod inventory;
pub mod mig;
pub mod pci;
mod roots;

use std::io;
use std::path::PathBuf;

use crate::config::{NodeConfig, units as units_of};

pub use device::{Device, DeviceNumber, Gpu, is_same_pci, may_be_any};
pub use drained::Drain;
pub use driver::{is_in_mig_mode, is_loaded, is_uuid, known_to_the_driver};
pub use gres_conf::{Files, GresConfError};
pub use inventory::{Detail, Inventory, Unfit, inventory};
pub use roots::Roots;

/// The units of each GPU in Slurm's order, 0 for one that takes no share. `None` if `UnitsPerGpu` is a list of another
/// length.
pub fn units_of(config: &NodeConfig, gpus: &Inventory) -> Option<Vec<u32>> {
    let units = config.units_per_gpu.as_ref()?;
    let fits = units_of::listed(units).is_none_or(|listed| listed == gpus.count());
    let of =
        |gpu: &Detail| units_of::of_gpu(units, gpu.index, gpu.gres_type.as_deref(), gpu.model.as_deref());
    fits.then(|| gpus.details.iter().map(of).collect())
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
        None => "no /dev/nvidiaN on this node; load its driver, or name the GPUs with GpuFile=";
    } from { GresConf(GresConfError) }
}
