//! A line in Slurm's log, for those who can't use the crate `log`: its logger may not be set yet.

use std::ffi::CString;
use std::fmt::Display;

/// A C string for a call. Cuts the text at a NUL, since C would not see the rest either.
pub fn c_string(text: impl AsRef<[u8]>) -> CString {
    let seen = text.as_ref().split(|byte| *byte == 0).next();
    CString::new(seen.unwrap_or_default()).unwrap_or_default()
}

/// Slurm drops a line on its way to a standard error that is a socket, such as the journal's, if errno is still that of
/// any earlier call (src/common/log.c: `_fd_writeable`, where `rc` gets the result of a comparison; 22.05).
#[doc(alias = "__errno_location")]
pub(crate) fn forget_errno() {
    // SAFETY: the C library's pointer to this thread's errno; valid for as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else has this thread's.
    unsafe { *errno = 0 }
}

/// Logs an error without the logger.
#[doc(alias = "slurm_error")]
pub(crate) fn error(line: impl Display) {
    let line = c_string(line.to_string());
    forget_errno();
    // SAFETY: printf-like; one %s and one C string.
    unsafe { slurm_sys::slurm_error(c"%s".as_ptr(), line.as_ptr()) }
}
