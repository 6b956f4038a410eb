//! Files that only root can change, such as the ledger's: reads have a limit and never follow a link.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The content of a regular file, up to `longest` bytes; `None` for anything else.
///
/// # Errors
/// The file doesn't exist, or it can't be read.
pub fn read(path: &Path, longest: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        // open(2) with O_NOFOLLOW fails like this for a link, a socket, or a device that doesn't exist.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO | libc::ENODEV)) => {
            return Ok(None);
        }
        result => result?,
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(1024);
    file.take(longest).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a whole file under another name and renames it, so that a reader sees either the old or the new file. A file
/// that can't be completed is removed. All users can read it.
///
/// Syncs the file, so that a file system that notices late that it is full reports that here. Does not sync the
/// directory: that would only matter after a crash of the machine, which empties /run, and elsewhere leaves the
/// previous file.
///
/// # Errors
/// The file can't be written or renamed.
pub fn replace(temporary: &Path, path: &Path, text: &str) -> io::Result<()> {
    replace_with(temporary, path, text, 0o644)
}

/// The same with another mode.
///
/// # Errors
/// As for [`replace`].
pub fn replace_with(temporary: &Path, path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let written = write(temporary, text, mode).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // A killed process may have left it; only the holder of the lock gets here.
    remove(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes a file; `false` if it didn't exist.
///
/// # Errors
/// The file can't be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file to read and write it in place, or makes it if it is missing.
///
/// # Errors
/// The file can't be opened or made, or is a link.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Non-blocking, so that a pipe in its place doesn't make the process wait.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_removed_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!remove(&folder.path().join("missing")).unwrap());
        remove(folder.path()).unwrap_err();
    }
}
