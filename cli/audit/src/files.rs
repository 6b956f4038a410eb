//! slurmctld's log: which files, including rotated ones, and their lines one by one. It keeps little in memory, however
//! long a file or a line is.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flate2::bufread::MultiGzDecoder;

use gpushare_terminal::FileError;

/// No line of gpushare's is longer; longer lines are ignored.
const LONGEST: u64 = 1 << 14;
const BUFFER: usize = 1 << 18;

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

/// A log and the files that logrotate has made of it since a time, the oldest first; then those that can't be read
/// here.
///
/// # Errors
/// The log or its folder can't be examined.
pub fn with_rotated(path: &Path, since: u32) -> Result<(Vec<LogFile>, Vec<PathBuf>), FileError> {
    let (mut files, mut packed) = (vec![LogFile::at(path)?], Vec::new());
    let (name, folder) =
        (path.file_name().unwrap_or_default(), path.parent().unwrap_or_else(|| Path::new("/")));
    let there = folder.read_dir().map_err(FileError::of(folder))?;
    for found in there.flatten() {
        let file_name = found.file_name();
        let rest = file_name.to_str().zip(name.to_str()).and_then(|(found, name)| found.strip_prefix(name));
        let Some(is_packed) = rest.and_then(rotated) else { continue };
        // A file that was deleted in the meantime is no problem.
        let Ok(file) = LogFile::at(&found.path()) else { continue };
        match is_packed {
            _ if file.written < since => {}
            true => packed.push(file.path),
            false => files.push(file),
        }
    }
    files.sort();
    packed.sort();
    Ok((files, packed))
}

/// Whether the text after the log's name is logrotate's, such as `.1`, `-20261031` or `.2.gz`; if so, whether another
/// program than gzip has compressed the file.
fn rotated(rest: &str) -> Option<bool> {
    let number = rest.strip_prefix(['.', '-'])?;
    let (number, ending) = number.split_once('.').unwrap_or((number, ""));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let packed = match ending {
        "" | "gz" => Some(false),
        "xz" | "zst" | "bz2" => Some(true),
        _ => None,
    };
    packed.filter(|_| digits)
}

/// Shows every line, without its end. Uncompresses a file in gzip's format, whatever its name is.
///
/// # Errors
/// The file can't be read to its end.
pub fn lines(path: &Path, show: impl FnMut(&[u8])) -> Result<(), FileError> {
    let said = FileError::of(path);
    if path == Path::new("-") {
        return each(std::io::stdin().lock(), show).map_err(said);
    }
    let mut file = BufReader::with_capacity(BUFFER, File::open(path).map_err(&said)?);
    let is_gzip = file.fill_buf().map_err(&said)?.starts_with(&[0x1f, 0x8b]);
    let all = match is_gzip {
        true => each(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)), show),
        false => each(file, show),
    };
    all.map_err(said)
}

fn each(mut from: impl BufRead, mut show: impl FnMut(&[u8])) -> std::io::Result<()> {
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
    use std::io::Write;

    use super::*;

    fn read(path: &Path) -> Result<Vec<String>, FileError> {
        let mut found = Vec::new();
        lines(path, |line| found.push(String::from_utf8_lossy(line).into_owned())).map(|()| found)
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text).unwrap();
        out.finish().unwrap()
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
    fn files_of_gzip_are_read_and_broken_ones_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.1.gz");
        std::fs::write(&path, [packed(b"one\ntwo\n"), packed(b"three\n")].concat()).unwrap();
        assert_eq!(read(&path).unwrap(), ["one", "two", "three"]);
        let cut = packed(b"one\n");
        std::fs::write(&path, &cut[..cut.len() - 3]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("log.1.gz"));
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn what_logrotate_has_put_aside_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "ctld.log",
            "ctld.log.1",
            "ctld.log.2.gz",
            "ctld.log-20261031",
            "ctld.log-2026-10-30.gz",
            "ctld.log.3.xz",
            "ctld.log.old",
            "ctld.log.1.swp",
            "ctld.logs",
            "other.log.1",
            "ctld.log.",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let (files, packed) = with_rotated(&folder.path().join("ctld.log"), 0).unwrap();
        let mut found: Vec<_> =
            files.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            ["ctld.log", "ctld.log-2026-10-30.gz", "ctld.log-20261031", "ctld.log.1", "ctld.log.2.gz"]
        );
        assert_eq!(packed, [folder.path().join("ctld.log.3.xz")]);
        let (files, packed) = with_rotated(&folder.path().join("ctld.log"), u32::MAX).unwrap();
        assert_eq!((files.len(), packed.len()), (1, 0), "what is older than the period is not read");
        assert!(with_rotated(&folder.path().join("none"), 0).is_err());
    }
}
