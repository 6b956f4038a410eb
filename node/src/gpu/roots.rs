//! Where the kernel and the NVIDIA driver show a node's devices, and where gpushare keeps what outlives a reboot.

use std::path::{Path, PathBuf};

/// More GPUs than any node has; limits what a configuration or a folder can make us do.
pub(super) const MOST: usize = 256;

/// The folders in which to look up a node's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// /dev
    pub dev: PathBuf,
    /// /proc
    pub proc: PathBuf,
    /// /sys
    pub sys: PathBuf,
    /// /var/lib/gpushare
    pub state: PathBuf,
}

impl Roots {
    /// This machine's folders.
    pub fn system() -> Roots {
        Roots::at(Path::new("/"))
    }

    /// The same in a folder, for tests.
    pub fn at(folder: &Path) -> Roots {
        Roots {
            dev: folder.join("dev"),
            proc: folder.join("proc"),
            sys: folder.join("sys"),
            state: folder.join("var/lib/gpushare"),
        }
    }
}
