//! A file with everything that was read: sections with their length, then the jobs with GPUs, then a line that confirms
//! that the file is complete. It is as private as accounting, since it contains users' command lines.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::LeaksError;
use super::source::Facts;
use gpushare_period::Period;
use gpushare_terminal::FileError;

const FIRST: &str = "gpushare leaks 1\n";
/// Longer than the tables of any site.
const LONGEST: u64 = 256 << 20;

/// A file to write. It is removed again if it doesn't become complete.
pub struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    last: Vec<u8>,
    complete: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.complete {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Writer {
    /// Creates the file; never overwrites an existing one.
    ///
    /// # Errors
    /// The file exists, or it can't be written.
    pub fn new(path: &Path, facts: &Facts, delimiter: &[u8]) -> Result<Writer, LeaksError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => LeaksError::Exists(path.to_owned()),
            _ => FileError::of(path)(error).into(),
        })?;
        let (path, out, last) = (path.to_owned(), BufWriter::new(file), end(delimiter));
        let mut writer = Writer { path, out, last, complete: false };
        writer.put(FIRST.as_bytes())?;
        let period = format!("{} {}", facts.period.start, facts.period.end);
        let (tables, remarks) = (&facts.tables, facts.remarks.join("\n"));
        for (name, text) in [
            ("version", facts.version.as_slice()),
            ("cluster", facts.cluster.as_bytes()),
            ("period", period.as_bytes()),
            ("tres", &tables.tres),
            ("qos", &tables.qoses),
            ("accounts", &tables.accounts),
            ("users", &tables.users),
            ("partitions", &tables.partitions),
            ("nodes", facts.nodes.as_bytes()),
            ("remarks", remarks.as_bytes()),
            ("delimiter", delimiter),
        ] {
            writer.put(format!("{name} {}\n", text.len()).as_bytes())?;
            writer.put(text)?;
            writer.put(b"\n")?;
        }
        Ok(writer)
    }

    /// Writes one record.
    ///
    /// # Errors
    /// The record can't be written.
    pub fn job(&mut self, record: &[u8]) -> Result<(), FileError> {
        self.put(record)?;
        self.put(b"\n")
    }

    /// Completes the file, after `read` jobs were read.
    ///
    /// # Errors
    /// The end can't be written.
    pub fn finish(mut self, read: u64) -> Result<(), FileError> {
        let last = std::mem::take(&mut self.last);
        self.put(&last)?;
        self.put(format!("\n{read}\n").as_bytes())?;
        self.out.flush().map_err(FileError::of(&self.path))?;
        self.complete = true;
        Ok(())
    }

    fn put(&mut self, text: &[u8]) -> Result<(), FileError> {
        self.out.write_all(text).map_err(FileError::of(&self.path))
    }
}

/// The line after the last record.
pub fn end(delimiter: &[u8]) -> Vec<u8> {
    [b"end ", delimiter].concat()
}

/// A file to read, with the sections before the jobs.
pub struct Reader {
    pub facts: Facts,
    pub delimiter: Vec<u8>,
    pub jobs: BufReader<File>,
    pub length: u64,
}

impl Reader {
    /// Reads up to the jobs.
    ///
    /// # Errors
    /// The file can't be read, or isn't a dump.
    pub fn open(path: &Path) -> Result<Reader, LeaksError> {
        let said = FileError::of(path);
        let bad = || LeaksError::NoDump(path.to_owned());
        let file = File::open(path).map_err(&said)?;
        let length = file.metadata().map_err(&said)?.len();
        let mut jobs = BufReader::with_capacity(1 << 18, file);
        let mut line = String::new();
        jobs.by_ref().take(100).read_line(&mut line).map_err(|_| bad())?;
        if line != FIRST {
            return Err(bad());
        }
        let mut section = |name: &str| -> Result<Vec<u8>, LeaksError> {
            let mut head = String::new();
            jobs.by_ref().take(100).read_line(&mut head).map_err(|_| bad())?;
            let length = head.trim_end().strip_prefix(name).and_then(|rest| rest.trim_start().parse().ok());
            let length: u64 = length.filter(|length| *length <= LONGEST).ok_or_else(bad)?;
            let mut text = Vec::new();
            jobs.by_ref().take(length + 1).read_to_end(&mut text).map_err(&said)?;
            if text.pop() != Some(b'\n') || text.len() as u64 != length {
                return Err(bad());
            }
            Ok(text)
        };
        let version = section("version")?;
        let words = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let cluster = words(section("cluster")?);
        let period = words(section("period")?);
        let numbers =
            period.split_once(' ').and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
        let (start, end) = numbers.filter(|(start, end)| start < end).ok_or_else(bad)?;
        let tables = gpushare_judge::past::Tables {
            tres: section("tres")?,
            qoses: section("qos")?,
            accounts: section("accounts")?,
            users: section("users")?,
            partitions: section("partitions")?,
        };
        let nodes = words(section("nodes")?);
        let remarks = words(section("remarks")?).lines().map(str::to_owned).collect();
        let delimiter = section("delimiter")?;
        if delimiter.is_empty() {
            return Err(bad());
        }
        let facts = Facts { version, cluster, tables, nodes, period: Period { start, end }, remarks };
        Ok(Reader { facts, delimiter, jobs, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::tables;

    fn facts() -> Facts {
        let (version, cluster) = (b"slurm 24.11.5\n".to_vec(), "lab".to_owned());
        let nodes = "NodeName=a\n".to_owned();
        let remarks = vec!["one".to_owned(), "two".to_owned()];
        Facts { version, cluster, tables: tables(), nodes, period: Period { start: 5, end: 9 }, remarks }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        let mut writer = Writer::new(&path, &facts(), b"@").unwrap();
        writer.job(b"1@u").unwrap();
        drop(writer);
        let mut writer = Writer::new(&path, &facts(), b"@").unwrap();
        writer.job(b"1@u").unwrap();
        writer.finish(3).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!((reader.facts.cluster.as_str(), reader.facts.period), ("lab", facts().period));
        assert_eq!((&reader.facts.tables.users, &reader.facts.remarks), (&tables().users, &facts().remarks));
        let mut rest = String::new();
        reader.jobs.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "1@u\nend @\n3\n");
        assert!(Writer::new(&path, &facts(), b"@").err().unwrap().to_string().contains("exists already"));
    }

    #[test]
    fn any_other_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in [
            "",
            "JobID|User\n",
            FIRST,
            "gpushare leaks 1\nversion 99999999999\n",
            "gpushare leaks 1\nversion 3\nab",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(Reader::open(&path).err().unwrap().to_string().contains("was not written by"), "{text}");
        }
    }
}
