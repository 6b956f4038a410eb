//! Removes a user's files as root, however deep and wide the tree is, whatever is mounted there, and even while the
//! user creates more. It first renames everything into a directory of root's, one level at a time. So no path leads
//! through a place that a user can change, depth needs no stack or open files, and the name is free at once. There is a
//! deadline; the next call removes the rest.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::unix;

/// Where files go before they are removed. The paths are in a directory that only root can change.
#[derive(Debug)]
pub struct Bin {
    folder: PathBuf,
    end: Instant,
    next: u64,
}

impl Bin {
    /// The bin at that path, which need not exist yet, with a deadline.
    pub fn at(folder: PathBuf, end: Instant) -> Bin {
        Bin { folder, end, next: 0 }
    }

    /// Moves a name out of a directory of root's into the bin, whatever kind of file it is.
    ///
    /// # Errors
    /// It can't be removed or moved, or the time is over (`TimedOut`).
    pub fn take(&mut self, path: &Path) -> io::Result<()> {
        if !self.unlink(path)? {
            match DirBuilder::new().mode(0o700).create(&self.folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            self.hide(path)?;
        }
        Ok(())
    }

    /// Removes everything in the bin, including files from earlier calls.
    ///
    /// # Errors
    /// Something can't be removed, or the time is over (`TimedOut`).
    pub fn empty(mut self) -> io::Result<()> {
        loop {
            let mut was_empty = true;
            for found in match fs::read_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                read => read?,
            } {
                was_empty = false;
                let path = found?.path();
                if !self.unlink(&path)? {
                    self.flatten(&path)?;
                    fs::remove_dir(&path)?;
                }
            }
            if was_empty {
                return fs::remove_dir(&self.folder);
            }
        }
    }

    /// Moves a directory's contents up into the bin, after making sure that its user can add nothing more, not even
    /// through a file that they have open.
    fn flatten(&mut self, folder: &Path) -> io::Result<()> {
        lchown(folder, Some(0), Some(0)).or_else(only_root_can)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        for found in fs::read_dir(folder)? {
            let path = found?.path();
            if !self.unlink(&path)? {
                self.hide(&path)?;
            }
        }
        Ok(())
    }

    /// Removes anything but a directory.
    fn unlink(&self, path: &Path) -> io::Result<bool> {
        self.persist(path, || match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn hide(&mut self, path: &Path) -> io::Result<()> {
        let free = loop {
            let free = self.folder.join(self.next.to_string());
            self.next += 1;
            if free.symlink_metadata().is_err() {
                break free;
            }
        };
        self.persist(path, || match fs::rename(path, &free) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        })
    }

    /// Repeats `act` until the path is no longer a mount point or the deadline has passed.
    fn persist<T>(&self, path: &Path, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match act() {
                _ if Instant::now() >= self.end => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    if !unix::detach(path)? {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }
}

/// A test has only its own user.
fn only_root_can(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::PermissionDenied { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn bin(top: &Path, patience: Duration) -> Bin {
        Bin::at(top.join("gone"), Instant::now() + patience)
    }

    #[test]
    fn what_is_taken_goes_with_all_that_is_in_it_and_nothing_that_it_points_to() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        fs::write(path("precious"), "").unwrap();
        fs::create_dir_all(path("pipe/a/b")).unwrap();
        fs::create_dir_all(path("pipe/0/1")).unwrap();
        fs::write(path("pipe/a/file"), "").unwrap();
        std::os::unix::fs::symlink(path("precious"), path("pipe/a/b/link")).unwrap();
        fs::set_permissions(path("pipe/a/b"), Permissions::from_mode(0o777)).unwrap();
        // A leftover of a process that was killed.
        fs::create_dir_all(path("gone/0/x")).unwrap();
        fs::write(path("gone/1"), "").unwrap();
        let mut bin = bin(top.path(), Duration::from_secs(20));
        bin.take(&path("pipe")).unwrap();
        bin.take(&path("missing")).unwrap();
        assert!(!path("pipe").exists());
        bin.empty().unwrap();
        let left: Vec<_> =
            fs::read_dir(top.path()).unwrap().map(|found| found.unwrap().file_name()).collect();
        assert_eq!(left, ["precious"]);
    }

    #[test]
    fn it_ends_in_time() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("pipe/a")).unwrap();
        let error = bin(top.path(), Duration::ZERO).take(&top.path().join("pipe")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
