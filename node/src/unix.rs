//! Calls of the C library for which std has no safe equivalent.
#![allow(unsafe_code, reason = "each is one call whose arguments are numbers or memory of this function")]

pub mod mender;

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Makes sure that programs started from now on inherit only the first three files. If a daemon kept slurmd's pipes,
/// slurmd would wait for it.
#[doc(alias = "close_range")]
pub fn keep_files_private() {
    let (first, last, flags) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // Called by number, because C libraries before 2.34 (RHEL 8) have no function for it.
    // SAFETY: close_range(2) with CLOSE_RANGE_CLOEXEC closes nothing; it only marks files, and takes only numbers.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 {
        return;
    }
    // Linux before 5.11 needs it one by one. If /proc can't be read, nothing else works either.
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = names.filter_map(|name| name.file_name().to_str()?.parse::<libc::c_int>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // SAFETY: fcntl(2) with F_SETFD only marks a file, and takes only numbers; a file that is already closed is an
        // error.
        let _ = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The process that holds a write lock on the file by fcntl(2), if any.
///
/// # Errors
/// fcntl(2) refuses.
#[doc(alias = "F_GETLK")]
pub fn lock_holder(file: &File) -> io::Result<Option<u32>> {
    let write_lock = libc::c_short::try_from(libc::F_WRLCK).unwrap_or_default();
    let start = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    let mut lock = libc::flock { l_type: write_lock, l_whence: start, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: fcntl(2) with F_GETLK reads and writes one flock, which lives until the call is over; the file is open.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let unlocked = libc::c_int::from(lock.l_type) == libc::F_UNLCK;
    // A holder in another pid namespace is shown as process 0, and the holder of an open file description's lock as -1.
    Ok(u32::try_from(lock.l_pid).ok().filter(|pid| !unlocked && *pid > 0))
}

/// The receiver of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One process.
    Process(u32),
    /// All processes of a group.
    Group(u32),
}

/// Kills processes (SIGKILL); `false` if there is no such process.
///
/// # Errors
/// The number can't be that of a process or group (`InvalidInput`), or kill(2) refuses.
pub fn kill(to: To) -> io::Result<bool> {
    let number = match to {
        To::Process(number) | To::Group(number) => i32::try_from(number).unwrap_or(0),
    };
    // 1 is init, 0 means our own group and -1 all processes.
    if number <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let target = if matches!(to, To::Group(_)) { -number } else { number };
    // SAFETY: kill(2) takes numbers only.
    match unsafe { libc::kill(target, libc::SIGKILL) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            error => Err(error),
        },
    }
}

/// Which of the two processes this is after [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The new one.
    Child,
    /// The old one, with the new one's number.
    Parent(u32),
}

/// Goes on in two processes. The new one has only this thread.
///
/// # Errors
/// There are too many processes, or there is no memory.
pub fn fork() -> io::Result<Side> {
    // SAFETY: fork(2) takes nothing. Of other threads the child has only locks: glibc frees its own, and our callers'
    // children take no lock that another thread could hold.
    match unsafe { libc::fork() } {
        0 => Ok(Side::Child),
        pid => u32::try_from(pid).map(Side::Parent).map_err(|_| io::Error::last_os_error()),
    }
}

/// Makes this process, a child, write its standard output and error to `told`, and end with its parent. What doesn't
/// fit into the pipe is lost: nobody reads it meanwhile.
#[doc(alias = "PR_SET_PDEATHSIG")]
pub fn become_worker(told: &impl AsRawFd) {
    for number in [1, 2] {
        // SAFETY: dup2(2) takes numbers only.
        let _ = unsafe { libc::dup2(told.as_raw_fd(), number) };
    }
    // SAFETY: fcntl(2) with F_SETFL takes numbers only.
    let _ = unsafe { libc::fcntl(told.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    // SAFETY: prctl(2) with PR_SET_PDEATHSIG takes a number.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends this process, a child, without what its parent would do at its end.
#[doc(alias = "_exit")]
pub fn leave() -> ! {
    // SAFETY: _exit(2) takes a number and doesn't return.
    unsafe { libc::_exit(0) }
}

/// Waits for the end of a child. Returns the signal that ended it, if one did.
#[doc(alias = "waitpid")]
pub fn reap(pid: u32) -> Option<i32> {
    let mut status = 0;
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: waitpid(2) writes one number, which lives until the call is over.
    let found = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    (found == pid && libc::WIFSIGNALED(status)).then(|| libc::WTERMSIG(status))
}

/// Opens a process, so that signals reach it and never a later process with its number.
///
/// # Errors
/// There is no such process, or pidfd_open(2) refuses: Linux before 5.3 doesn't have it.
#[doc(alias = "pidfd_open")]
pub fn hold(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes numbers only.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) };
    let number = libc::c_int::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: opened above, and nothing else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends a signal to an open process. A process that has ended is not an error.
#[doc(alias = "pidfd_send_signal")]
pub fn signal(process: &OwnedFd, signal: libc::c_int) {
    let (number, info) = (process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: pidfd_send_signal(2) takes numbers, and a pointer to a structure, which is null here.
    let _ = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, number, signal, info, 0_u32) };
}

/// Lets these users enter a directory of root's that no other user may enter or list. Sets an access control list
/// (acl(5)) in the kernel's form (uapi/linux/posix_acl_xattr.h).
///
/// # Errors
/// The path holds a NUL or names no directory, or its file system has no access control lists.
#[doc(alias = "setxattr")]
pub fn let_enter(folder: &Path, users: &[u32]) -> io::Result<()> {
    const NAME: &CStr = c"system.posix_acl_access";
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut sorted = users.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut list = 2_u32.to_le_bytes().to_vec();
    // The tags are ACL_USER_OBJ, ACL_USER, ACL_GROUP_OBJ, ACL_MASK and ACL_OTHER, in that order; 7 is rwx, 1 is x.
    let users = sorted.into_iter().map(|user| (0x02, 1, user));
    let all = [(0x01, 7, u32::MAX)].into_iter().chain(users);
    for (tag, permission, id) in all.chain([(0x04, 0, u32::MAX), (0x10, 1, u32::MAX), (0x20, 0, u32::MAX)]) {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(permission));
        list.extend(u32::to_le_bytes(id));
    }
    // SAFETY: setxattr(2) reads two strings that end with NUL and as many bytes as the list has; all live until the
    // call is over.
    let result = unsafe { libc::setxattr(path.as_ptr(), NAME.as_ptr(), list.as_ptr().cast(), list.len(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts what is mounted there (users may mount FUSE on their own directories), never through a link; `false` if
/// nothing is mounted.
///
/// # Errors
/// The path holds a NUL, or umount2(2) refuses.
#[doc(alias = "umount2")]
pub fn detach(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: umount2(2) reads a string that ends with NUL and lives until the call is over.
    match unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            // EINVAL: it isn't a mount point.
            error if [Some(libc::EINVAL), Some(libc::ENOENT)].contains(&error.raw_os_error()) => Ok(false),
            error => Err(error),
        },
    }
}

/// Looks up a name in a directory without opening it, for places where a user may have mounted their own file system: a
/// FUSE that never answers would block a process that opens something in it, and no signal ends that. The error is
/// `CrossesDevices` if something is mounted there.
///
/// # Errors
/// There is no such name, something is mounted there, or the kernel refuses.
#[doc(alias = "openat")]
pub fn look_at(folder: &File, name: &CStr) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: openat(2) reads a string that ends with NUL; the directory is open.
    let number = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: opened above, and nothing else uses it.
    let found = unsafe { OwnedFd::from_raw_fd(number) };
    if mounted_as(found.as_raw_fd())? == mounted_as(folder.as_raw_fd())? {
        Ok(File::from(found))
    } else {
        Err(io::ErrorKind::CrossesDevices.into())
    }
}

/// A handle of a directory, in which to look up names; the directory isn't opened.
///
/// # Errors
/// It isn't a directory, or is a link to one, or the kernel refuses.
pub fn folder(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY).open(path)
}

/// Opens for reading the file that was looked up, even if its name now belongs to another file.
///
/// # Errors
/// The kernel refuses to open it.
pub fn open(seen: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", seen.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Which mount the file is in; before Linux 5.8, which device.
fn mounted_as(number: libc::c_int) -> io::Result<(bool, u64, u64)> {
    let found = stat_unasked(number)?;
    Ok(if found.stx_mask & libc::STATX_MNT_ID == 0 {
        (false, found.stx_dev_major.into(), found.stx_dev_minor.into())
    } else {
        (true, found.stx_mnt_id, 0)
    })
}

/// The device of a file that was looked up: the same through every bind mount.
///
/// # Errors
/// statx(2) refuses.
pub fn device(seen: &File) -> io::Result<(u32, u32)> {
    stat_unasked(seen.as_raw_fd()).map(|found| (found.stx_dev_major, found.stx_dev_minor))
}

/// What the kernel knows about a file, without asking the file system.
#[doc(alias = "statx")]
fn stat_unasked(number: libc::c_int) -> io::Result<libc::statx> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: this C structure has only numbers, so all zeros are a valid value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: statx(2) reads an empty string and writes one structure; both live until the call is over.
    let result = unsafe {
        libc::statx(number, c"".as_ptr(), flags, libc::STATX_TYPE | libc::STATX_MNT_ID, &raw mut found)
    };
    if result == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// Waits until one of two files can be read or has ended. Returns which; both `false` if the time is over.
///
/// # Errors
/// poll(2) refuses. A signal isn't an error: neither file can be read yet then.
pub fn wait_readable(files: [Option<BorrowedFd>; 2], time: Duration) -> io::Result<[bool; 2]> {
    poll(files, libc::POLLIN, time)
}

/// Waits until nobody can write to a pipe any more, and isn't woken by what is written. Returns whether that is so.
///
/// # Errors
/// poll(2) refuses. A signal isn't an error.
pub fn wait_closed(pipe: BorrowedFd, time: Duration) -> io::Result<bool> {
    // With no event asked for, poll(2) still tells of POLLHUP.
    poll([Some(pipe)], 0, time).map(|[is_closed]| is_closed)
}

/// Waits for one of these events, or an end, in each file. Returns in which it came; a signal ends the wait too.
fn poll<const N: usize>(
    files: [Option<BorrowedFd>; N],
    events: libc::c_short,
    time: Duration,
) -> io::Result<[bool; N]> {
    // poll(2) ignores negative numbers.
    let number = |file: Option<BorrowedFd>| file.map_or(-1, |file| file.as_raw_fd());
    let mut polled = files.map(|file| libc::pollfd { fd: number(file), events, revents: 0 });
    // Rounded up, because 0 would not wait at all.
    let milliseconds = i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(N).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: poll(2) reads and writes as many pollfds as the array has, and the array lives until the call is over.
    if unsafe { libc::poll(polled.as_mut_ptr(), count, milliseconds) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(polled.map(|file| file.revents != 0))
}

/// For tests: a file that can be opened, and that the kernel lets nobody write to (EPERM).
#[cfg(test)]
pub(crate) fn unwritable() -> OwnedFd {
    // SAFETY: memfd_create(2) takes a C string; the number that it gives is nobody else's.
    let number = unsafe { libc::memfd_create(c"unwritable".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(number >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the number was just made.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: fcntl(2) with F_ADD_SEALS takes only numbers.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
    assert_eq!(sealed, 0, "{}", io::Error::last_os_error());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_locks_has_no_holder() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(lock_holder(&file).unwrap(), None);
    }

    #[test]
    fn nobody_signals_everybody() {
        for number in [0, 1, u32::MAX] {
            assert!(kill(To::Group(number)).is_err() && kill(To::Process(number)).is_err(), "{number}");
        }
    }
}
