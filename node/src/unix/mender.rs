//! What the fence's mender calls, which the programs of a prolog don't.

use std::os::fd::AsRawFd;

/// Makes this process, a child, end with its parent, keep no file open but `kept`, and have a name of its own.
#[doc(alias = "PR_SET_NAME")]
pub fn become_mender(kept: &impl AsRawFd) {
    // SAFETY: prctl(2) with PR_SET_PDEATHSIG takes a number.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let own = libc::c_uint::try_from(kept.as_raw_fd()).unwrap_or(libc::c_uint::MAX);
    for (first, last) in [(0, own.saturating_sub(1)), (own.saturating_add(1), libc::c_uint::MAX)] {
        // By number, as in keep_files_private(). Linux before 5.9 has no such call, and the child keeps the files.
        // SAFETY: close_range(2) takes numbers; nothing in this process uses a file other than `kept`.
        let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    // SAFETY: prctl(2) with PR_SET_NAME reads a string that ends with NUL.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, c"gpushare-mender".as_ptr()) };
}
