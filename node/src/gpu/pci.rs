//! A PCI device in /sys. A file of its own, because a prolog doesn't look there.

use std::path::PathBuf;

use super::driver::read;
use super::roots::Roots;

/// The device's directory.
pub(super) fn folder(roots: &Roots, pci: &str) -> PathBuf {
    roots.sys.join("bus/pci/devices").join(pci)
}

/// The NUMA node of a PCI device; the kernel writes -1 if it has no NUMA node.
pub fn numa(roots: &Roots, pci: &str) -> Option<u32> {
    read(&folder(roots, pci).join("numa_node"))?.trim().parse().ok()
}
