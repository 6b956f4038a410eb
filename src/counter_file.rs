//! Counts that only grow, for `gpushare metrics`: a small text file with one line per count, all of the same length.
//!
//! Each increase is one pwrite(2) of the count's line, so a crash leaves either the old or the new value, and readers
//! never wait. If a file of counts is damaged or has other names, it is rewritten from 0. A file that isn't gpushare's
//! is not touched. Only one process at a time may write; the caller must ensure that.
//!
//! ```text
//! gpushare-tally 1
//! share                00000000000000000012
//! ```

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::root_file;

const FIRST_LINE: &str = "gpushare-tally 1\n";
/// How files of all versions begin.
const FIRST_WORD: &str = "gpushare-tally ";
/// The width of a name, padded with blanks. A blank, the number and the end of the line follow.
const NAME: usize = 20;
const LINE: usize = NAME + 1 + 20 + 1;
/// No file of counts is longer.
const LONGEST: u64 = 16 << 10;

/// An open file of counts.
#[derive(Debug)]
pub struct CounterFile {
    file: File,
    counts: Vec<u64>,
    names: Vec<String>,
}

impl CounterFile {
    /// Opens the file, or makes it if it is missing. Continues from its counts. Never waits, and follows no link.
    ///
    /// # Errors
    /// The file can't be opened or written; `InvalidData` if it isn't gpushare's.
    pub fn open(path: &Path, names: &[impl AsRef<str>]) -> io::Result<CounterFile> {
        let file = root_file::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let names: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        let mut bytes = vec![0; length(names.len()) + 1];
        let read = file.read_at(&mut bytes, 0)?;
        let bytes = bytes.get(..read).unwrap_or_default();
        if let Some(counts) = parse(bytes, &names) {
            return Ok(CounterFile { file, counts, names });
        }
        if !bytes.is_empty() && !bytes.starts_with(FIRST_WORD.as_bytes()) {
            return Err(foreign());
        }
        let counters = CounterFile { file, counts: vec![0; names.len()], names };
        let lines: String = counters.names.iter().map(|name| line(name, 0)).collect();
        let text = FIRST_LINE.to_owned() + &lines;
        counters.file.set_permissions(Permissions::from_mode(0o644))?;
        counters.file.write_all_at(text.as_bytes(), 0)?;
        counters.file.set_len(text.len() as u64)?;
        Ok(counters)
    }

    /// Adds 1 to the count with that name. Ignores unknown names.
    ///
    /// # Errors
    /// The count can't be written.
    pub fn add(&mut self, name: &str) -> io::Result<()> {
        let Some(index) = self.names.iter().position(|known| *known == name) else { return Ok(()) };
        let Some(count) = self.counts.get_mut(index) else { return Ok(()) };
        *count = count.saturating_add(1);
        self.file.write_all_at(line(name, *count).as_bytes(), length(index) as u64)
    }
}

/// The counts, in the order of the names.
///
/// # Errors
/// The file doesn't exist, or doesn't have these counts.
pub fn read(path: &Path, names: &[impl AsRef<str>]) -> io::Result<Vec<u64>> {
    let bytes = root_file::read(path, LONGEST)?;
    let counts = bytes.and_then(|bytes| parse(&bytes, names));
    counts.ok_or_else(foreign)
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a file of gpushare's counts")
}

/// The length of a file with this many counts.
fn length(counts: usize) -> usize {
    FIRST_LINE.len() + counts * LINE
}

fn line(name: &str, count: u64) -> String {
    format!("{name:NAME$} {count:020}\n")
}

fn parse(bytes: &[u8], names: &[impl AsRef<str>]) -> Option<Vec<u64>> {
    let mut lines = std::str::from_utf8(bytes).ok()?.strip_prefix(FIRST_LINE)?.lines();
    let mut count = |name: &str| {
        let (found, number) = lines.next()?.split_at_checked(NAME + 1)?;
        let digits = number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit());
        (digits && found.trim_end() == name).then(|| number.parse().ok())?
    };
    let counts = names.iter().map(|name| count(name.as_ref())).collect::<Option<Vec<u64>>>()?;
    (bytes.len() == length(names.len())).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["one", "GS101 refused", "three"];

    fn place() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counts");
        (dir, path)
    }

    #[test]
    fn what_was_counted_goes_on_when_it_is_opened_again() {
        let (_dir, path) = place();
        for expected in 1..=12 {
            let mut counters = CounterFile::open(&path, &NAMES).unwrap();
            counters.add("GS101 refused").unwrap();
            counters.add("of no name").unwrap();
            assert_eq!(read(&path, &NAMES).unwrap(), [0, expected, 0]);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().nth(2), Some("GS101 refused        00000000000000000012"));
    }

    #[test]
    fn a_file_that_cannot_be_right_counts_from_0() {
        let (_dir, path) = place();
        let mut counters = CounterFile::open(&path, &NAMES).unwrap();
        counters.add("three").unwrap();
        let good = std::fs::read(&path).unwrap();
        let text = String::from_utf8(good.clone()).unwrap();
        for bytes in [
            Vec::new(),
            good[..good.len() - 1].to_vec(),
            [good.clone(), b"\n".to_vec()].concat(),
            [good.clone(), good.clone()].concat(),
            text.replace("tally 1", "tally 2").into_bytes(),
            text.replace("three", "seven").into_bytes(),
            text.replace("0001", "-001").into_bytes(),
            text.replace("0001", "\u{e9}01").into_bytes(),
            [good.clone(), vec![b'x'; 1 << 20]].concat(),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            assert!(read(&path, &NAMES).is_err(), "{bytes:.80?}");
            CounterFile::open(&path, &NAMES).unwrap().add("one").unwrap();
            assert_eq!(read(&path, &NAMES).unwrap(), [1, 0, 0], "{bytes:.80?}");
        }
    }

    #[test]
    fn somebody_elses_file_is_left_as_it_is() {
        let (_dir, path) = place();
        for text in ["x", "Placement=own\n", "gpushare-ledger 4\njob=1\n", "\0\0\0"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(CounterFile::open(&path, &NAMES).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_file_is_an_error_and_nobody_waits() {
        let (dir, path) = place();
        assert_eq!(read(&path, &NAMES).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::create_dir(&path).unwrap();
        assert!(CounterFile::open(&path, &NAMES).is_err() && read(&path, &NAMES).is_err());
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(dir.path().join("decoy"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path().join("decoy"), &path).unwrap();
        assert!(CounterFile::open(&path, &NAMES).is_err() && read(&path, &NAMES).is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("decoy")).unwrap(), "x");
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(CounterFile::open(&path, &NAMES).is_err() && read(&path, &NAMES).is_err());
        assert!(CounterFile::open(&dir.path().join("missing/counts"), &NAMES).is_err());
    }

    #[test]
    fn a_count_stays_at_its_largest() {
        let (_dir, path) = place();
        drop(CounterFile::open(&path, &NAMES).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("00000000000000000000", &u64::MAX.to_string())).unwrap();
        CounterFile::open(&path, &NAMES).unwrap().add("one").unwrap();
        assert_eq!(read(&path, &NAMES).unwrap(), [u64::MAX; 3]);
        std::fs::write(&path, text.replace("00000000000000000000", "99999999999999999999")).unwrap();
        assert!(read(&path, &NAMES).is_err(), "more than any count");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_counts_or_none(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse(&bytes, &NAMES);
            let _ = parse(&[FIRST_LINE.as_bytes(), &bytes].concat(), &NAMES);
        }
    }
}
