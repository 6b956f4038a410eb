//! The GPUs of a node: Slurm's index, device node, device number, UUID.
//!
//! Slurm counts GPUs in the order of gres.conf's `File=`; NVIDIA's minor is another number and CUDA's order a third. The
//! device number is read from the device node itself, the UUID from /proc/driver/nvidia, so no numbering is assumed.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// More GPUs than any node has: bounds what a configuration or a folder can make us do.
const MOST: usize = 256;

/// One GPU of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Position in `File=` order, which is Slurm's index.
    pub index: u32,
    /// Device node, such as `/dev/nvidia0`.
    pub path: PathBuf,
    /// Its device number.
    pub number: DeviceNumber,
    /// `GPU-…`, where the NVIDIA driver says.
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
    #[must_use]
    pub fn device(&self) -> Device {
        Device { path: self.path.clone(), number: self.number }
    }
}

/// A character device's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    /// 195 for NVIDIA GPUs.
    pub major: u32,
    /// Which GPU, to the driver.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}:{}", self.major, self.minor)
    }
}

/// `GpuFile`: which device nodes are GPUs, in Slurm's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuFiles {
    /// Every `/dev/nvidiaN`, by number.
    #[default]
    Auto,
    /// These, in this order.
    Listed(Vec<PathBuf>),
}

/// Why the GPUs of a node can't be told.
#[derive(Debug)]
pub enum DeviceError {
    /// /dev can't be listed.
    List(PathBuf, io::Error),
    /// A device node can't be looked at.
    Look(PathBuf, io::Error),
    /// A listed path is no character device.
    NoDevice(PathBuf),
    /// Nothing was found.
    None,
}

impl GpuFiles {
    /// Reads `auto`, or paths separated by commas, each with at most one `[…]` of numbers and ranges as in gres.conf.
    #[must_use]
    pub fn parse(value: &str) -> Option<GpuFiles> {
        if value.eq_ignore_ascii_case("auto") {
            return Some(GpuFiles::Auto);
        }
        let mut paths = Vec::new();
        for part in split_outside_brackets(value) {
            paths.extend(expand(part)?);
        }
        let unique =
            paths.iter().enumerate().all(|(at, path)| !paths.iter().take(at).any(|other| other == path));
        (unique && paths.len() <= MOST).then_some(GpuFiles::Listed(paths))
    }
}

/// The node's GPUs. `dev` and `proc_nvidia` are /dev and /proc/driver/nvidia outside of tests.
pub fn inventory(files: &GpuFiles, dev: &Path, proc_nvidia: &Path) -> Result<Vec<Gpu>, DeviceError> {
    let paths = match files {
        GpuFiles::Auto => numbered_nodes(dev)?,
        GpuFiles::Listed(paths) => paths.clone(),
    };
    if paths.is_empty() {
        return Err(DeviceError::None);
    }
    let uuids = uuids(proc_nvidia);
    let mut gpus = Vec::with_capacity(paths.len());
    for (index, path) in (0..).zip(paths) {
        let number = device_number(&path)?;
        let uuid = uuids.iter().find(|(minor, _)| *minor == number.minor).map(|(_, uuid)| uuid.clone());
        gpus.push(Gpu { index, path, number, uuid });
    }
    Ok(gpus)
}

fn device_number(path: &Path) -> Result<DeviceNumber, DeviceError> {
    let metadata = path.metadata().map_err(|error| DeviceError::Look(path.to_owned(), error))?;
    if !metadata.file_type().is_char_device() {
        return Err(DeviceError::NoDevice(path.to_owned()));
    }
    Ok(DeviceNumber { major: libc::major(metadata.rdev()), minor: libc::minor(metadata.rdev()) })
}

/// `nvidia0`, `nvidia1`, … and not `nvidiactl` or `nvidia-uvm`.
fn numbered_nodes(dev: &Path) -> Result<Vec<PathBuf>, DeviceError> {
    let failed = |error| DeviceError::List(dev.to_owned(), error);
    let mut found = Vec::new();
    for entry in dev.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix("nvidia")).unwrap_or_default();
        if digits.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = digits.parse::<u32>()
            && found.len() < MOST
        {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Minor and UUID of every GPU that the NVIDIA driver knows; empty where there is no driver. The file is
/// `gpus/<PCI address>/information`, with lines `GPU UUID: GPU-…` and `Device Minor: 0`.
fn uuids(proc_nvidia: &Path) -> Vec<(u32, String)> {
    let Ok(entries) = proc_nvidia.join("gpus").read_dir() else { return Vec::new() };
    entries
        .take(MOST)
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.ok()?.path().join("information")).ok()?;
            let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
            let uuid = value("GPU UUID:")?;
            let well_formed = uuid.starts_with("GPU-")
                && uuid.len() <= 64
                && uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            well_formed.then_some((value("Device Minor:")?.parse().ok()?, uuid.to_owned()))
        })
        .collect()
}

fn split_outside_brackets(value: &str) -> Vec<&str> {
    let mut inside = false;
    value
        .split(|c| {
            match c {
                '[' => inside = true,
                ']' => inside = false,
                _ => {}
            }
            c == ',' && !inside
        })
        .map(str::trim)
        .collect()
}

/// `/dev/nvidia[0-2,5]` → four paths, zero padding kept as hostlists keep it.
fn expand(part: &str) -> Option<Vec<PathBuf>> {
    let (head, tail) = match part.split_once('[') {
        None => ("", part),
        Some((head, rest)) => (head, rest),
    };
    let whole = |text: &str| {
        (text.starts_with('/') && !text.contains(['[', ']']) && !text.contains(char::is_control))
            .then(|| PathBuf::from(text))
    };
    if head.is_empty() {
        return Some(vec![whole(tail)?]);
    }
    let (ranges, end) = tail.split_once(']')?;
    let mut paths = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let width = first.len();
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        if last < first || last - first >= MOST {
            return None;
        }
        for value in first..=last {
            paths.push(whole(&format!("{head}{value:0width$}{end}"))?);
        }
    }
    Some(paths)
}

fn number(digits: &str) -> Option<usize> {
    (!digits.is_empty() && digits.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

impl fmt::Display for DeviceError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DeviceError::List(path, error) | DeviceError::Look(path, error) => {
                write!(out, "{}: {error}", path.display())
            }
            DeviceError::NoDevice(path) => write!(out, "{} is not a character device", path.display()),
            DeviceError::None => write!(out, "no /dev/nvidiaN on this node; name the GPUs with GpuFile="),
        }
    }
}

impl std::error::Error for DeviceError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(value: &str) -> Option<Vec<String>> {
        match GpuFiles::parse(value)? {
            GpuFiles::Auto => None,
            GpuFiles::Listed(paths) => Some(paths.iter().map(|path| path.display().to_string()).collect()),
        }
    }

    #[test]
    fn files_are_written_as_in_gres_conf() {
        assert_eq!(GpuFiles::parse("auto"), Some(GpuFiles::Auto));
        for (value, expected) in [
            ("/dev/nvidia0", vec!["/dev/nvidia0"]),
            ("/dev/nvidia[0-2,5]", vec!["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia5"]),
            ("/dev/nvidia1,/dev/nvidia0", vec!["/dev/nvidia1", "/dev/nvidia0"]),
            ("/dev/g[08-10]x", vec!["/dev/g08x", "/dev/g09x", "/dev/g10x"]),
        ] {
            assert_eq!(paths(value).unwrap(), expected, "{value}");
        }
        for value in [
            "",
            "nvidia0",
            "/dev/nvidia[",
            "/dev/nvidia[]",
            "/dev/nvidia[3-1]",
            "/dev/nvidia[0-999999]",
            "/dev/n[0]x[1]",
            "/dev/nvidia0,",
            "/dev/nvidia0,/dev/nvidia0",
            "/dev/nvidia[a]",
            "/dev/nvidia]",
        ] {
            assert_eq!(GpuFiles::parse(value), None, "{value}");
        }
    }

    #[test]
    fn device_numbers_come_from_the_device_nodes() {
        let null = GpuFiles::parse("/dev/zero,/dev/null").unwrap();
        let gpus = inventory(&null, Path::new("/dev"), Path::new("/nonexistent")).unwrap();
        let numbers: Vec<String> = gpus.iter().map(|gpu| gpu.number.to_string()).collect();
        assert_eq!(numbers, ["1:5", "1:3"]);
        assert_eq!(gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn uuids_are_found_by_minor() {
        let proc = tempfile::tempdir().unwrap();
        for (pci, minor, uuid) in [
            ("0000:01:00.0", 3, "GPU-aaaa-1"),
            ("0000:02:00.0", 5, "GPU-bbbb-2"),
            ("0000:03:00.0", 7, "../x"),
        ] {
            let dir = proc.path().join("gpus").join(pci);
            std::fs::create_dir_all(&dir).unwrap();
            let text = format!("Model: \t\t NVIDIA A40\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
            std::fs::write(dir.join("information"), text).unwrap();
        }
        let files = GpuFiles::parse("/dev/zero,/dev/null,/dev/full").unwrap();
        let gpus = inventory(&files, Path::new("/dev"), proc.path()).unwrap();
        let found: Vec<Option<&str>> = gpus.iter().map(|gpu| gpu.uuid.as_deref()).collect();
        assert_eq!(found, [Some("GPU-bbbb-2"), Some("GPU-aaaa-1"), None]);
    }

    #[test]
    fn what_is_no_gpu_is_an_error() {
        let empty = tempfile::tempdir().unwrap();
        let none = inventory(&GpuFiles::Auto, empty.path(), empty.path());
        assert!(matches!(none, Err(DeviceError::None)));
        let file = GpuFiles::Listed(vec!["/etc/passwd".into()]);
        assert!(matches!(inventory(&file, empty.path(), empty.path()), Err(DeviceError::NoDevice(_))));
        let gone = GpuFiles::Listed(vec!["/dev/no-such-gpu".into()]);
        assert!(matches!(inventory(&gone, empty.path(), empty.path()), Err(DeviceError::Look(..))));
    }
}
