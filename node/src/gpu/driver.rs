//! What the NVIDIA driver and the kernel say about GPUs, in small text files. Omits missing or odd values.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::roots::{MOST, Roots};

/// None of these files is longer.
const LONGEST: u64 = 1 << 16;

/// A GPU in /proc/driver/nvidia/gpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) minor: u32,
    pub(super) pci: String,
    pub(super) uuid: Option<String>,
    pub(super) model: Option<String>,
    /// Excluded by `NVreg_ExcludedGpus`: its device node can't be opened, and NVML doesn't count it.
    pub(super) excluded: bool,
}

/// Every GPU that the driver knows, in order of PCI address; empty if there is no driver. The file is
/// `gpus/<PCI address>/information`, with lines `Model: …`, `GPU UUID: GPU-…` and `Device Minor: 0`.
pub(super) fn known(roots: &Roots) -> Vec<Known> {
    let Ok(entries) = roots.proc.join("driver/nvidia/gpus").read_dir() else { return Vec::new() };
    let mut known: Vec<Known> = entries
        .take(MOST)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let (domain, bus, device, function) = position(entry.file_name().to_str()?)?;
            // The form that /sys uses; nvidia-smi writes eight digits for the domain, and capitals.
            let pci = format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}");
            let text = read(&entry.path().join("information"))?;
            let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
            let minor = value("Device Minor:")?.parse().ok()?;
            let uuid = value("GPU UUID:").filter(|uuid| is_uuid(uuid)).map(str::to_owned);
            let model = value("Model:").filter(|model| is_plain(model)).map(str::to_owned);
            // Drivers before 450 call it "Blacklisted".
            let excluded = ["GPU Excluded:", "Blacklisted:"].into_iter().any(|key| value(key) == Some("Yes"));
            Some(Known { minor, pci, uuid, model, excluded })
        })
        .collect();
    known.sort_by_key(|gpu| position(&gpu.pci));
    known
}

/// The UUID, if it is known, and the minor of every GPU that the NVIDIA driver uses, including one that no longer
/// answers.
pub fn known_to_the_driver(roots: &Roots) -> Vec<(Option<String>, u32)> {
    let used = known(roots).into_iter().filter(|gpu| !gpu.excluded);
    used.map(|gpu| (gpu.uuid, gpu.minor)).collect()
}

/// Whether the kernel has the driver's devices, `195 nvidia` in /proc/devices (older drivers: `nvidia-frontend`).
/// Without them no device node leads to it. True if that can't be read.
pub fn is_loaded(roots: &Roots) -> bool {
    let is_its = |line: &str| line.split_whitespace().nth(1).is_some_and(|name| name.starts_with("nvidia"));
    read(&roots.proc.join("devices")).is_none_or(|text| text.lines().any(is_its))
}

/// Whether MIG is enabled on the GPU with this minor.
pub fn is_in_mig_mode(roots: &Roots, minor: u32) -> bool {
    !gpu_instances(roots, minor).is_empty()
}

/// The directories of the GPU instances of the GPU with this minor.
pub(super) fn gpu_instances(roots: &Roots, minor: u32) -> Vec<PathBuf> {
    numbered(&roots.proc.join(format!("driver/nvidia/capabilities/gpu{minor}/mig")), "gi")
}

/// Directories such as `gi1`, in order of their names.
pub(super) fn numbered(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = parent.read_dir() else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .take(MOST)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let digits = entry.file_name().to_str()?.strip_prefix(prefix)?.to_owned();
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| entry.path())
        })
        .collect();
    sort_by(&mut found, &Path::cmp);
    found
}

/// The only place that sorts paths: every further one would add some kilobytes to the plugins.
pub(super) fn sort_by(paths: &mut [PathBuf], order: &dyn Fn(&Path, &Path) -> std::cmp::Ordering) {
    paths.sort_by(|one, other| order(one, other));
}

/// The numbers in `0000:c1:00.0`: domain, bus, device, function. NVML counts GPUs in this order.
pub(super) fn position(pci: &str) -> Option<(u32, u32, u32, u32)> {
    let (bus, function) = pci.split_once('.')?;
    let mut parts = bus.split(':').map(hexadecimal);
    let position = (parts.next()??, parts.next()??, parts.next()??, hexadecimal(function)?);
    parts.next().is_none().then_some(position)
}

/// Reads a short text file; `None` for anything else. Never waits for the other end of a pipe.
pub(super) fn read(path: &Path) -> Option<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    // Files in /proc and /sys claim to be empty, so they would be read in many small pieces.
    let mut text = String::with_capacity(2048);
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn hexadecimal(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// Whether it is a GPU's UUID, and not the `GPU-????????-…` of one that nothing has initialised since boot.
pub fn is_uuid(uuid: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    uuid.starts_with("GPU-") && uuid.len() <= 64 && uuid.bytes().all(plain)
}

fn is_plain(model: &str) -> bool {
    !model.is_empty()
        && model.len() <= 64
        && model.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_read_and_nothing_else() {
        for (text, expected) in [
            ("0000:c1:00.0", Some((0, 0xc1, 0, 0))),
            ("10000:01:1f.7", Some((0x10000, 1, 0x1f, 7))),
            ("0000:c1:00", None),
            ("c1:00.0", None),
            ("0:0:0:0.0", None),
            ("../../x:0:0.0", None),
            ("0000:+1:00.0", None),
            (":::.", None),
            ("0000:c1:00.", None),
        ] {
            assert_eq!(position(text), expected, "{text}");
        }
    }

    #[test]
    fn the_driver_is_loaded_if_the_kernel_has_its_devices() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: dir.path().to_owned(), ..Roots::system() };
        assert!(is_loaded(&roots), "it can't be read");
        for (driver, expected) in [
            ("", false),
            ("195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n", true),
            ("195 nvidia-frontend\n", true),
            ("234 nvidia-caps\n", true),
            ("240 not-nvidia\n", false),
        ] {
            let text = format!("Character devices:\n  1 mem\n{driver}248 ttyS\n\nBlock devices:\n  7 loop\n");
            std::fs::write(dir.path().join("devices"), text).unwrap();
            assert_eq!(is_loaded(&roots), expected, "{driver}");
        }
    }

    #[test]
    fn the_minor_is_in_the_drivers_own_names_only() {
        for (path, expected) in [
            ("/dev/nvidia12", Some(12)),
            ("/dev/nvidiactl", None),
            ("/dev/nvidia", None),
            ("/dev/nvidia-uvm", None),
            ("/dev/nvidia+1", None),
            ("/dev/dri/card0", None),
        ] {
            assert_eq!(super::super::device::minor_by_name(Path::new(path)), expected, "{path}");
        }
    }
}
