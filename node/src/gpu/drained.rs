//! GPUs that an administrator has taken out of service, `gpushare gpu drain`: a line each in /var/lib/gpushare/drained,
//! which outlives a reboot and which only root writes.
//!
//! ```text
//! GPU-9a40c0de-… 0000:c1:00.0 1793000000 root the fan is broken
//! ```
//!
//! The words are UUID, PCI address, seconds since 1970, user and reason. The UUID decides: a replaced card is another
//! GPU, and PCI addresses change if a card disappears. Until something initialises a GPU after boot, the driver has no
//! UUID for it; then the address decides. Without a driver it is the device node's name.

use std::io;
use std::path::{Path, PathBuf};

use gpushare::root_file;

use super::{DeviceError, Roots};

/// Longer than any such file.
const LONGEST: u64 = 1 << 20;

/// A GPU that is out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// `GPU-…`, or `-` if it wasn't known.
    pub uuid: String,
    /// Its PCI address, or such as `nvidia2`.
    pub place: String,
    /// Seconds since 1970.
    pub since: u64,
    /// Who did it.
    pub user: String,
    /// Why.
    pub reason: String,
}

/// The file's path.
pub fn path(roots: &Roots) -> PathBuf {
    roots.state.join("drained")
}

/// All of them. Of a line that someone has edited, the first two words count.
///
/// # Errors
/// The file is there and can't be read: then any GPU may be out of service.
pub fn drained(roots: &Roots) -> Result<Vec<Drain>, DeviceError> {
    let regular = |bytes: Option<Vec<u8>>| bytes.ok_or(io::ErrorKind::InvalidInput.into());
    let bytes = match root_file::read(&path(roots), LONGEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.and_then(regular).map_err(|error| DeviceError::List(path(roots), error))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let read = |line: &str| {
        let mut words = line.splitn(5, ' ');
        let mut one = || words.next().unwrap_or_default().to_owned();
        Drain { uuid: one(), place: one(), since: one().parse().unwrap_or(0), user: one(), reason: one() }
    };
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(read).collect())
}

impl Drain {
    /// Whether it is the GPU with these names.
    pub fn is_of(&self, uuid: Option<&str>, pci: Option<&str>, node: &Path) -> bool {
        match uuid {
            Some(uuid) if self.uuid != "-" => self.uuid == uuid,
            _ => [pci, node.file_name().and_then(|name| name.to_str())].contains(&Some(&self.place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_drained_by_its_uuid_and_without_one_by_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::at(dir.path());
        assert_eq!(drained(&roots).unwrap(), []);
        std::fs::create_dir_all(&roots.state).unwrap();
        let lines =
            "GPU-a 0000:01:00.0 1793000000 root the fan  is broken\n\n- nvidia2 x\n- 0000:03:00.0 7 al hot\n";
        std::fs::write(path(&roots), lines).unwrap();
        let found = drained(&roots).unwrap();
        assert_eq!(
            (found[0].since, &*found[0].user, &*found[0].reason),
            (1_793_000_000, "root", "the fan  is broken")
        );
        assert_eq!((found.len(), found[1].since, &*found[1].reason), (3, 0, ""));
        for (uuid, pci, node, expected) in [
            (Some("GPU-a"), Some("0000:01:00.0"), "/dev/nvidia0", true),
            (Some("GPU-a"), Some("0000:02:00.0"), "/dev/nvidia0", true),
            // Another card in its slot.
            (Some("GPU-b"), Some("0000:01:00.0"), "/dev/nvidia0", false),
            // Nothing has initialised it since boot.
            (None, Some("0000:01:00.0"), "/dev/nvidia0", true),
            (None, Some("0000:02:00.0"), "/dev/nvidia0", false),
            (None, None, "/dev/nvidia2", true),
            // A driver that knows it now.
            (Some("GPU-c"), Some("0000:04:00.0"), "/dev/nvidia2", true),
            (Some("GPU-c"), Some("0000:03:00.0"), "/dev/nvidia3", true),
            (None, None, "/dev/nvidia3", false),
        ] {
            let is_it = found.iter().any(|drain| drain.is_of(uuid, pci, Path::new(node)));
            assert_eq!(is_it, expected, "{uuid:?} {pci:?} {node}");
        }
        std::fs::remove_file(path(&roots)).unwrap();
        std::fs::create_dir(path(&roots)).unwrap();
        assert!(drained(&roots).is_err(), "then any GPU may be out of service");
    }
}
