//! Asks the device cgroup of this process about a device without opening it.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gpushare::fence::Access;

/// What the cgroup of this process answers for reading and writing `device`. access(2) runs the kernel's device check,
/// which open(2) would run, but wakes no driver and powers up no GPU.
#[must_use]
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
