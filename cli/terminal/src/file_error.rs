//! Files that commands write, and errors with files.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

gpushare::errors! {
    /// A file or directory, and the kernel's error.
    #[derive(Debug)]
    pub enum FileError {
        Failed(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
    }
}

impl FileError {
    /// For `map_err`.
    pub fn of(path: &Path) -> impl Fn(io::Error) -> FileError {
        |error| FileError::Failed(path.to_owned(), error)
    }
}

/// Writes a file, but not through a link: root may write it where a user left one.
///
/// # Errors
/// It can't be opened or written.
pub fn write_file(path: &Path, text: &str) -> Result<(), FileError> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let open = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(FileError::of(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, link, new) =
            (folder.path().join("kept"), folder.path().join("link"), folder.path().join("new"));
        fs::write(&kept, "kept").unwrap();
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        assert!(write_file(&link, "text").is_err());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        write_file(&kept, "it").unwrap();
        write_file(&new, "new").unwrap();
        assert_eq!([kept, new].map(|path| fs::read_to_string(path).unwrap()), ["it", "new"]);
    }
}
