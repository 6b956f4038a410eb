//! The kernel's limit of GPU memory for a cgroup: the `dmem` controller of cgroup v2 (Linux 6.14 and newer, with a
//! driver that supports it). Pure: it works on the texts of the controller's files, as in
//! Documentation/admin-guide/cgroup-v2.rst.
//!
//! ```text
//! /sys/fs/cgroup/dmem.capacity      drm/0000:03:00.0/vram0 8514437120
//!                                   nvidia/0000:c1:00/vidmem 102641958912
//! /sys/fs/cgroup/…/job_7/dmem.max   drm/0000:03:00.0/vram0 max
//!                                   nvidia/0000:c1:00/vidmem max
//! ```
//!
//! Each driver chooses the names of its regions; all contain the PCI address. The last part says what the region is:
//! `vram0` and `vidmem` are a GPU's memory, while `stolen` for example belongs to the machine. NVIDIA's name is from
//! Slurm 26.11's gres.conf(5), without the PCI function, and from "Per-GPU Compute and Memory Limits with MPS" (NVIDIA
//! Dynamo's documentation, driver 615), with it.

use crate::gpu::is_same_pci;

/// A file of every cgroup but the root, if the controller is enabled for the cgroup.
pub const LIMIT_FILE: &str = "dmem.max";
/// A file of the root cgroup.
pub const CAPACITY_FILE: &str = "dmem.capacity";

/// The lines that limit a cgroup to `mib` MiB of a GPU's memory; write each to `dmem.max` by itself. Empty if the
/// kernel doesn't know the GPU's memory.
pub fn limit_lines(capacity: &str, pci: &str, mib: u32) -> Vec<String> {
    regions(capacity, pci).map(|(name, _)| format!("{name} {}\n", u64::from(mib) << 20)).collect()
}

/// Whether the text of a cgroup's `dmem.max` already limits a GPU's memory.
pub fn is_limited(limits: &str, pci: &str) -> bool {
    regions(limits, pci).any(|(_, limit)| limit != "max")
}

/// The regions that are a GPU's memory, and the value of each in the text.
fn regions<'a>(text: &'a str, pci: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_memory = |name: &str| {
        let mut parts = name.split('/').skip(1);
        parts.next().is_some_and(|address| is_same_pci(address, pci))
            && parts.next().is_some_and(|kind| kind.starts_with("vram") || kind.starts_with("vidmem"))
    };
    text.lines().filter_map(|line| line.rsplit_once(' ')).filter(move |(name, _)| is_memory(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: &str = "drm/0000:03:00.0/vram0 8514437120\ndrm/0000:03:00.0/stolen 67108864\n\
        nvidia/00000000:c1:00.0/vidmem 85899345920\ndrm/0000:C2:00.0/vram0 1\nodd\n\n a b c\n\
        nvidia/0000:c5:00/vidmem 85899345920\n";

    #[test]
    fn a_gpus_own_memory_is_limited_and_nothing_else() {
        for (pci, expected) in [
            ("0000:03:00.0", &["drm/0000:03:00.0/vram0 2147483648\n"][..]),
            ("0000:c1:00.0", &["nvidia/00000000:c1:00.0/vidmem 2147483648\n"]),
            // The form that nvidia-smi writes.
            ("00000000:C1:00.0", &["nvidia/00000000:c1:00.0/vidmem 2147483648\n"]),
            ("0000:c2:00.0", &["drm/0000:C2:00.0/vram0 2147483648\n"]),
            ("0000:c5:00.0", &["nvidia/0000:c5:00/vidmem 2147483648\n"]),
            ("0000:c5:00.1", &[]),
            ("0000:04:00.0", &[]),
            ("", &[]),
        ] {
            assert_eq!(limit_lines(CAPACITY, pci, 2048), expected, "{pci}");
        }
        assert!(limit_lines("", "0000:03:00.0", 2048).is_empty());
    }

    #[test]
    fn a_limit_that_somebody_else_set_is_seen() {
        let limits = "drm/0000:03:00.0/vram0 max\nnvidia/00000000:c1:00.0/vidmem 1048576\n";
        assert!(is_limited(limits, "0000:c1:00.0"));
        assert!(!is_limited(limits, "0000:03:00.0") && !is_limited(limits, "0000:04:00.0"));
        assert!(!is_limited("", "0000:c1:00.0"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_lines_or_none(capacity in "\\PC{0,200}", pci in "\\PC{0,20}") {
            let _ = (limit_lines(&capacity, &pci, u32::MAX), is_limited(&capacity, &pci));
        }
    }
}
