//! What a job must not open: all other GPUs, and those GPUs' other device nodes.
//!
//! slurmstepd needs this for each step, so it reads as little as possible: neither UUIDs nor Slurm's order.

use std::io;
use std::path::Path;

use super::device::{Device, DeviceNumber, Gpu, numbered_nodes};
use super::roots::Roots;
use super::{driver, drm, mig};
use crate::config::GpuFiles;

/// Devices of other GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The GPUs' own device nodes.
    pub gpus: Vec<Device>,
    /// Capability nodes of their MIG parts, and DRM nodes if requested. They need not exist.
    pub attached: Vec<Device>,
}

impl Foreign {
    /// What a job with these GPUs must not open: the other GPUs that the configuration lists, and any other
    /// /dev/nvidiaN; with `drm`, DRM nodes too (`FenceDrm`).
    ///
    /// # Errors
    /// /dev can't be listed.
    pub fn to(own: &[Gpu], files: &GpuFiles, drm: bool, roots: &Roots) -> io::Result<Foreign> {
        let mut gpus: Vec<Device> = Vec::new();
        let numbered = numbered_nodes(&roots.dev)?;
        let listed = match files {
            GpuFiles::Listed(paths) => paths.as_slice(),
            GpuFiles::Auto => &[],
        };
        for device in listed.iter().chain(&numbered).filter_map(|path| device(path)) {
            let known = gpus.iter().map(|known| known.number).chain(own.iter().map(|gpu| gpu.number));
            if known.into_iter().all(|number| number != device.number) {
                gpus.push(device);
            }
        }
        let known = if drm { driver::known(roots) } else { Vec::new() };
        let mut attached = Vec::new();
        for minor in gpus.iter().map(|device| device.number.minor) {
            attached.extend(mig::parts(roots, minor));
            if let Some(gpu) = known.iter().find(|gpu| gpu.minor == minor) {
                attached.extend(drm::nodes(roots, &gpu.pci));
            }
        }
        Ok(Foreign { gpus, attached })
    }
}

fn device(path: &Path) -> Option<Device> {
    Some(Device { number: DeviceNumber::of(&path.metadata().ok()?)?, path: path.to_owned() })
}
