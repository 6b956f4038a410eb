//! slurmctld's log: its files, and their lines one by one. It keeps little in memory, however long a file or a line is.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use gpushare_terminal::FileError;

/// No line of gpushare's is longer; longer lines are ignored.
const LONGEST: u64 = 1 << 14;
const BUFFER: usize = 1 << 18;
/// How files of gzip, xz, zstd and bzip2 begin.
const PACKED: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh"];

/// A file and the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    pub written: u32,
    pub path: PathBuf,
}

impl LogFile {
    /// # Errors
    /// The file doesn't exist or can't be examined.
    pub fn at(path: &Path) -> Result<LogFile, FileError> {
        let modified = path.metadata().and_then(|data| data.modified()).map_err(FileError::of(path))?;
        let seconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(LogFile { written: u32::try_from(seconds).unwrap_or(u32::MAX), path: path.to_owned() })
    }
}

/// Shows every line, without its end.
///
/// # Errors
/// The file can't be read to its end, or is compressed.
pub fn lines(path: &Path, show: impl FnMut(&[u8])) -> Result<(), FileError> {
    let said = FileError::of(path);
    if path == Path::new("-") {
        return each(std::io::stdin().lock(), show).map_err(said);
    }
    let file = File::open(path).map_err(&said)?;
    each(BufReader::with_capacity(BUFFER, file), show).map_err(said)
}

fn each(mut from: impl BufRead, mut show: impl FnMut(&[u8])) -> std::io::Result<()> {
    // Its lines would all be foreign, and another file's might pass for the whole.
    if PACKED.iter().any(|magic| from.fill_buf().is_ok_and(|start| start.starts_with(magic))) {
        return Err(Error::other("it is compressed: zcat FILE | gpushare audit -"));
    }
    let (mut line, mut begins) = (Vec::new(), true);
    loop {
        line.clear();
        if from.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let ends = line.ends_with(b"\n");
        if begins && (ends || (line.len() as u64) < LONGEST) {
            show(line.strip_suffix(b"\n").unwrap_or(&line));
        }
        // The rest of a long line doesn't count as a line.
        begins = ends;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Result<Vec<String>, FileError> {
        let mut found = Vec::new();
        lines(path, |line| found.push(String::from_utf8_lossy(line).into_owned())).map(|()| found)
    }

    #[test]
    fn the_rest_of_a_long_line_is_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let long = [vec![b'x'; 16_384], b"forged\n".to_vec()].concat();
        std::fs::write(&path, [b"one\n\n".as_slice(), &long, b"two\nlast"].concat()).unwrap();
        assert_eq!(read(&path).unwrap(), ["one", "", "two", "last"]);
    }

    #[test]
    fn a_compressed_file_is_not_taken_for_one_without_requests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.1.gz");
        std::fs::write(&path, b"\x1f\x8b\x08\x00xyz\n").unwrap();
        let said = read(&path).unwrap_err().to_string();
        assert!(said.contains("log.1.gz: it is compressed: zcat FILE | gpushare audit -"), "{said}");
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("No such file"));
    }
}
