//! gpushare.conf: reads the whole file or nothing, as each program needs it.
//!
//! Three kinds of programs read the file, and each declares the keys that it needs as a [`Section`]: slurmctld's plugin
//! the rules of submission ([`rules`]), a node's plugins and programs the settings of nodes (`gpushare_node::config`),
//! and `gpushare qos` the settings of the database (`gpushare_qos::config`). The command `gpushare` has all three.
//! `lines` is the parser that they share, and `names` has the names of all keys, so that an unknown key is an error
//! everywhere while a value is checked by those who need it. Half a configuration is never used: an error names the
//! line, the key and the allowed values. The caller decides which file to read ([`find`]).

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub mod last_good;
mod lines;
pub mod names;
pub mod nodes;
pub mod rules;
pub mod units;
pub mod values;

pub use lines::{Section, read};

/// No real file is longer; a daemon must not read without a limit.
const LONGEST: u64 = 1 << 20;

/// Why a text isn't a valid configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Counted from 1; `None` if no single line is wrong.
    pub line: Option<usize>,
    /// What is wrong and what is allowed.
    pub problem: Problem,
}

crate::errors! {
    /// What is wrong with a line, or with the whole file.
    #[derive(Debug, PartialEq, Eq)]
    pub enum Problem {
        NoValue(line: String) => "'{}' is not of the form Key=Value", line.escape_debug();
        /// The key doesn't exist; the key that it resembles.
        UnknownKey(name: String, meant: Option<&'static str>) =>
            "unknown key '{}' here; {}gpushare.conf(5) lists the keys", name.escape_debug(),
            meant.map(|key| format!("did you mean {key}? ")).unwrap_or_default();
        BadValue { key: &'static str, value: String, allowed: &'static str } =>
            "{key} can't be '{}'; allowed is {allowed}", value.escape_debug();
        /// `first` is the line that has it first; `None` for the same line.
        Twice { key: &'static str, first: Option<usize> } => "{key} is given twice{}",
            first.map(|first| format!(", first in line {first}")).unwrap_or_default();
        /// The value of one key requires another key.
        Missing { key: &'static str, because: &'static str } => "{because} needs {key}";
        /// One setting doesn't work with another.
        Against { setting: &'static str, needs: &'static str } => "{setting} needs {needs}";
        /// A line sets the limit of a TRES in two ways.
        SaidTwice { field: &'static str, tres: String } => "{field} of {tres} is given twice";
        SameQos(qos: String, first: usize) => "the owner or limits of QOS '{qos}' are already in line {first}";
        NotText => "bytes that are not UTF-8";
        /// A disk was full, or an editor is still writing.
        Empty => "the file is empty; for the defaults, leave a comment in it";
    }
}

crate::errors! {
    /// Why a file isn't a valid configuration.
    #[derive(Debug)]
    pub enum LoadError {
        Read(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        TooLong(path: PathBuf) => "{}: longer than {LONGEST} bytes", path.display();
        /// The name of this node is unknown.
        Nameless(path: PathBuf) =>
            "{}: it has NodeName= lines, but SLURMD_NODENAME doesn't say which node this is", path.display();
        /// The file was named explicitly, or a node has placed jobs by it.
        Missing(path: PathBuf) => "{}: there is no such file", path.display();
        Content(path: PathBuf, error: ConfigError) => "{}: {error}", path.display();
    }
}

/// Where the configuration is if it isn't in slurm.conf's directory: a configless slurmd keeps its slurm.conf in a
/// directory that it makes itself, and fetches no other files.
pub const FALLBACK: &str = "/etc/slurm/gpushare.conf";

/// The configuration's path: in the directory of the running slurm.conf if anything has that name there, otherwise
/// `fallback`.
pub fn find(slurm_conf: &Path, fallback: &Path) -> PathBuf {
    let beside = slurm_conf.with_file_name("gpushare.conf");
    if beside.symlink_metadata().is_ok() { beside } else { fallback.to_owned() }
}

/// Reads a file and what its text says; also returns the text. `None` if there is no file. A dangling link is an error,
/// not "no file".
///
/// # Errors
/// The file can't be read, or has a mistake.
pub fn load<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, ConfigError>,
) -> Result<Option<(T, String)>, LoadError> {
    let Some(text) = text(path)? else { return Ok(None) };
    let parsed = parse(&text).map_err(|error| LoadError::Content(path.to_owned(), error))?;
    Ok(Some((parsed, text)))
}

fn text(path: &Path) -> Result<Option<String>, LoadError> {
    if let Err(error) = path.symlink_metadata()
        && error.kind() == io::ErrorKind::NotFound
    {
        return Ok(None);
    }
    let unreadable = |error| LoadError::Read(path.to_owned(), error);
    let mut bytes = Vec::with_capacity(4096);
    // Opening a pipe would make a daemon wait for its other end.
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        return Err(LoadError::TooLong(path.to_owned()));
    }
    let wrong = |line, problem| LoadError::Content(path.to_owned(), ConfigError { line, problem });
    if bytes.is_empty() {
        return Err(wrong(None, Problem::Empty));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(Some(line), Problem::NotText)
    })
}

impl Problem {
    /// An error of the whole file.
    pub fn of_file(self) -> ConfigError {
        ConfigError { line: None, problem: self }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.problem),
            None => self.problem.fmt(out),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_beside_slurm_conf_comes_before_the_fallback() {
        let dir = tempfile::tempdir().unwrap();
        let (slurm_conf, fallback) = (dir.path().join("slurm.conf"), Path::new("/other/gpushare.conf"));
        assert_eq!(find(&slurm_conf, fallback), fallback);
        std::os::unix::fs::symlink("nowhere", dir.path().join("gpushare.conf")).unwrap();
        assert_eq!(find(&slurm_conf, fallback), dir.path().join("gpushare.conf"), "broken, but meant");
    }

    #[test]
    fn a_missing_file_is_none_and_everything_else_that_fails_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gpushare.conf");
        let load = |path: &Path| load(path, rules::Rules::parse);
        assert!(load(&path).unwrap().is_none());
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(matches!(load(&path), Err(LoadError::Read(..))));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"# fine\nPlacement=\xff\n").unwrap();
        assert!(load(&path).unwrap_err().to_string().ends_with("line 2: bytes that are not UTF-8"));
        std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(matches!(load(&path), Err(LoadError::TooLong(_))));
        assert!(matches!(load(dir.path()), Err(LoadError::Read(..))));
        std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(matches!(load(&path), Err(LoadError::TooLong(_))));
        std::fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
        assert!(load(&path).unwrap().is_some_and(|(_, text)| text.len() == 1 << 20), "1 MiB is allowed");
        std::fs::write(&path, b"").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("the file is empty"));
    }
}
