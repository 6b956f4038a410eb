//! The DRM nodes of a GPU (/dev/dri/cardN, /dev/dri/renderDN), through which graphics programs reach it.
//!
//! The kernel lists them below the PCI device in /sys, each with its device number in a file `dev`
//! (Documentation/ABI/stable/sysfs-dev, admin-guide/sysfs-rules).

use super::device::{Device, DeviceNumber};
use super::driver::{self, position};
use super::pci::folder;
use super::roots::{MOST, Roots};

/// The DRM nodes of the GPU at a PCI address, in order of their names.
pub fn nodes(roots: &Roots, pci: &str) -> Vec<Device> {
    if position(pci).is_none() {
        return Vec::new();
    }
    let Ok(entries) = folder(roots, pci).join("drm").read_dir() else { return Vec::new() };
    let mut nodes: Vec<Device> = entries
        .take(MOST)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str()?.to_owned();
            if !name.starts_with("card") && !name.starts_with("renderD") {
                return None;
            }
            let text = driver::read(&entry.path().join("dev"))?;
            let (major, minor) = text.trim().split_once(':')?;
            let number = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
            Some(Device { path: roots.dev.join("dri").join(name), number })
        })
        .collect();
    nodes.sort_by(|one, other| one.path.cmp(&other.path));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::inventory::fake::{Fake, write};

    #[test]
    fn the_nodes_of_a_gpu_are_those_below_its_pci_device() {
        let fake = Fake::new();
        let drm = fake.roots.sys.join("bus/pci/devices/0000:01:00.0/drm");
        write(&drm.join("renderD128/dev"), "226:128\n");
        write(&drm.join("card1/dev"), "226:1\n");
        write(&drm.join("card2/dev"), "226\n");
        write(&drm.join("card3/other"), "");
        write(&drm.join("version/dev"), "1:2\n");
        write(&fake.roots.sys.join("bus/pci/devices/0000:02:00.0/drm/card9/dev"), "226:9\n");
        let found = nodes(&fake.roots, "0000:01:00.0");
        let found: Vec<String> = found
            .iter()
            .map(|device| {
                let path = device.path.strip_prefix(&fake.roots.dev).unwrap();
                format!("{} {}", path.display(), device.number)
            })
            .collect();
        assert_eq!(found, ["dri/card1 226:1", "dri/renderD128 226:128"]);
        for pci in ["0000:03:00.0", "", "..", "../devices/0000:01:00.0"] {
            assert!(nodes(&fake.roots, pci).is_empty(), "{pci}");
        }
    }
}
