//! Locks of files, for a bounded time: the ledger's and those of MPS daemons' directories. The kernel releases a lock
//! when its holder dies.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

/// How often to try again to get a lock that is taken.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Takes the lock of a file, which ends with the file; `false` if it is still taken at `end`.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn take_lock(file: &File, end: Instant) -> io::Result<bool> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}
