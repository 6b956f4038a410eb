//! What this process may open according to its device cgroup, and what it has open. Opens nothing itself.
#![allow(unsafe_code, reason = "calls of the kernel that std lacks")]

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::fence::Access;
use crate::gpu::DeviceNumber;

/// What this process's cgroup answers for reading and writing `device`. access(2) runs the same device check of the
/// kernel as open(2), but wakes no driver and powers up no GPU.
pub fn of(device: &Path) -> Access {
    let Ok(path) = CString::new(device.as_os_str().as_bytes()) else { return Access::Unclear(libc::EINVAL) };
    // SAFETY: a C string, and flags that access(2) knows.
    if unsafe { libc::access(path.as_ptr(), libc::R_OK | libc::W_OK) } == 0 {
        return Access::Open;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM) => Access::Closed,
        errno => Access::Unclear(errno.unwrap_or(0)),
    }
}

/// The devices that this process has open. Checks every number up to the size of the kernel's table, which takes a
/// tenth of the time of reading /proc/self/fd.
///
/// # Errors
/// The kernel doesn't report the size of that table.
pub fn held() -> io::Result<Vec<DeviceNumber>> {
    let mut status = String::with_capacity(4096);
    File::open("/proc/self/status")?.take(1 << 16).read_to_string(&mut status)?;
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")?.trim().parse().ok());
    let size: c_int = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no FDSize"))?;
    Ok((0..size).filter_map(device).collect())
}

/// The device that is open under a number; also `None` if nothing is open there.
fn device(descriptor: c_int) -> Option<DeviceNumber> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat(2) takes any number, and writes to a place of the right size.
    let code = unsafe { libc::fstat(descriptor, found.as_mut_ptr()) };
    if code != 0 {
        return None;
    }
    // SAFETY: filled by fstat(2), which succeeded.
    let found = unsafe { found.assume_init() };
    let number = DeviceNumber { major: libc::major(found.st_rdev), minor: libc::minor(found.st_rdev) };
    (found.st_mode & libc::S_IFMT == libc::S_IFCHR).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_device_is_open_to_who_may_read_and_write_it() {
        assert_eq!(of(Path::new("/dev/null")), Access::Open);
        assert_eq!(of(Path::new("/dev/no-such-gpu")), Access::Unclear(libc::ENOENT));
        assert_eq!(of(Path::new("/dev/null\0")), Access::Unclear(libc::EINVAL));
        let file = tempfile::NamedTempFile::new().unwrap();
        for mode in [0o400, 0o200] {
            std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let is_root = Path::new("/proc/self").metadata().unwrap().uid() == 0;
            let expected = if is_root { Access::Open } else { Access::Unclear(libc::EACCES) };
            assert_eq!(of(file.path()), expected, "{mode:o}");
        }
    }

    #[test]
    fn open_devices_are_found_whatever_their_numbers() {
        let full = DeviceNumber { major: 1, minor: 7 };
        assert!(!held().unwrap().contains(&full));
        let file = File::open("/dev/full").unwrap();
        assert!(held().unwrap().contains(&full));
        assert_eq!((device(file.as_raw_fd()), device(-1)), (Some(full), None));
        // SAFETY: fcntl(2) makes a new number for an open file.
        let far = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 600) };
        assert!(far >= 600);
        drop(file);
        assert!(held().unwrap().contains(&full));
        // SAFETY: nothing else uses this number.
        assert_eq!(unsafe { libc::close(far) }, 0);
        assert!(!held().unwrap().contains(&full));
    }
}
