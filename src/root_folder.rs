//! Directories that only root can change, such as the ledger's.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

crate::errors! {
    /// Why a directory can't be used.
    #[derive(Debug)]
    pub enum FolderError {
        Io(path: PathBuf, error: io::Error) => "directory {}: {error}", path.display();
        Unsafe(path: PathBuf) => "{} must be a directory that only root can change", path.display();
    }
}

/// The user as whom this process acts.
#[doc(alias = "geteuid")]
pub fn user_id() -> Option<u32> {
    Path::new("/proc/self").metadata().ok().map(|process| process.uid())
}

/// Makes a directory that all users can read and only its owner can change, or checks an existing one.
///
/// # Errors
/// The directory can't be made, or users other than root could change it.
pub fn make(path: &Path) -> Result<(), FolderError> {
    let failed = |error| FolderError::Io(path.to_owned(), error);
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let found = path.symlink_metadata().map_err(failed)?;
    let others_may_write = found.mode() & 0o022 != 0;
    // Our own files belong to root on a node, and to the test's user in a test.
    let foreign = found.uid() != 0 && Some(found.uid()) != user_id();
    if !found.is_dir() || others_may_write || foreign {
        return Err(FolderError::Unsafe(path.to_owned()));
    }
    // A strict umask made it so, but users' steps and `gpushare status` read here. This also repairs a directory whose
    // maker was killed. A directory in use keeps the mode that an administrator gave it.
    if found.mode() & 0o055 != 0o055 && path.read_dir().map_err(failed)?.next().is_none() {
        fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn an_empty_directory_that_a_strict_umask_closed_is_opened() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("ledger");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        make(&path).unwrap();
        assert_eq!(mode(&path), 0o755);
        fs::write(path.join("entry"), "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        make(&path).unwrap();
        assert_eq!(mode(&path), 0o700, "one in use keeps its mode");
    }
}
