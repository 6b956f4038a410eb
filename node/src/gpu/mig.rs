//! GPUs in MIG mode, and the device nodes of their parts.
//!
//! A GPU in MIG mode has a directory for every GPU instance and compute instance (NVIDIA MIG User Guide, "Device Nodes
//! and Capabilities"): `/proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<n>/ci<n>`. Each has a file `access` whose
//! line `DeviceFileMinor:` has the minor of `/dev/nvidia-caps/nvidia-cap<minor>`. To use a part, a process must be able
//! to open the capability devices of its two instances and the GPU's own device node.

use std::path::PathBuf;

use super::device::{Device, DeviceNumber};
use super::driver::{self, gpu_instances, numbered};
use super::roots::Roots;

/// The capability devices of every part of the GPU with this minor. Their device nodes may not exist yet: the driver
/// makes them on demand.
pub fn parts(roots: &Roots, minor: u32) -> Vec<Device> {
    let gpu_instances = gpu_instances(roots, minor);
    if gpu_instances.is_empty() {
        return Vec::new();
    }
    let Some(major) = major(roots) else { return Vec::new() };
    let device = |instance: &PathBuf| {
        let text = driver::read(&instance.join("access"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:"))?;
        let minor = line.trim().parse().ok()?;
        let path = roots.dev.join(format!("nvidia-caps/nvidia-cap{minor}"));
        Some(Device { path, number: DeviceNumber { major, minor } })
    };
    let compute_instances = gpu_instances.iter().flat_map(|instance| numbered(instance, "ci"));
    gpu_instances.iter().cloned().chain(compute_instances).filter_map(|instance| device(&instance)).collect()
}

/// The major number of the capability devices, which the kernel chooses at boot.
fn major(roots: &Roots) -> Option<u32> {
    let text = driver::read(&roots.proc.join("devices"))?;
    let characters = text.split("Block devices:").next()?;
    characters.lines().find_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        (name == "nvidia-caps").then(|| major.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::driver::is_in_mig_mode;
    use crate::gpu::inventory::fake::{Fake, write};

    fn numbers(devices: &[Device]) -> Vec<String> {
        devices
            .iter()
            .map(|device| format!("{} {}", device.path.file_name().unwrap().display(), device.number))
            .collect()
    }

    #[test]
    fn the_parts_of_a_gpu_are_found_with_their_device_numbers() {
        let fake = Fake::new();
        let proc = &fake.roots.proc;
        write(
            &proc.join("devices"),
            "Character devices:\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n  8 sd\n",
        );
        for (place, minor) in [("gi1", 12), ("gi1/ci0", 13), ("gi2", 21), ("gi2/ci0", 22)] {
            fake.capability(0, place, &format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n"));
        }
        fake.capability(0, "gi3", "nonsense");
        fake.capability(0, "gi4", "DeviceFileMinor: -1\n");
        fake.capability(0, "config", "DeviceFileMinor: 1\n");
        fake.capability(1, "config", "DeviceFileMinor: 1\n");
        let expected =
            ["nvidia-cap12 237:12", "nvidia-cap21 237:21", "nvidia-cap13 237:13", "nvidia-cap22 237:22"];
        assert_eq!(numbers(&parts(&fake.roots, 0)), expected);
        assert!(is_in_mig_mode(&fake.roots, 0));
        assert!(!is_in_mig_mode(&fake.roots, 1), "MIG is possible there and not used");
        assert!(parts(&fake.roots, 1).is_empty());
        assert!(!is_in_mig_mode(&fake.roots, 2));
    }

    #[test]
    fn without_a_major_there_are_no_parts() {
        for devices in
            ["", "Character devices:\n195 nvidia\nBlock devices:\n237 nvidia-caps\n", "x nvidia-caps\n"]
        {
            let fake = Fake::new();
            write(&fake.roots.proc.join("devices"), devices);
            fake.capability(0, "gi1", "DeviceFileMinor: 12\n");
            assert!(parts(&fake.roots, 0).is_empty(), "{devices:?}");
            assert!(is_in_mig_mode(&fake.roots, 0));
        }
    }
}
