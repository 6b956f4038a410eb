//! The last correct gpushare.conf: slurmctld's plugin keeps a copy of it in Slurm's `StateSaveLocation`, and uses that
//! copy if gpushare.conf is broken or missing. [`choose`] decides which rules are in force; the rest reads and writes
//! the copy.
//!
//! Controllers share `StateSaveLocation`, so the copy is the cluster's, and only the controller in control writes it.
//!
//! The first line has the format, the time when the text was read, its hash, and its origin. The unchanged text
//! follows:
//!
//! ```text
//! # gpushare-last-good 1 1764014400 2a7c75e4b6abfd06 ctl1:/etc/slurm/gpushare.conf
//! GovernedQOS=auto
//! ```

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::rules::Rules;
use super::{ConfigError, LONGEST, LoadError};
use crate::root_file;
use crate::text::number;

const FIRST_WORDS: &str = "# gpushare-last-good 1 ";
/// The first line may have a long path.
const LONGEST_COPY: u64 = LONGEST + (8 << 10);

/// The copy in `StateSaveLocation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastGood {
    /// The copy's path.
    pub path: PathBuf,
    /// When its text was read from gpushare.conf, in seconds since 1970.
    pub read_at: u64,
    /// Where it was read.
    pub source: Source,
    /// The text of that file.
    pub text: String,
}

/// A gpushare.conf of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The machine's name; empty if the copy doesn't have it.
    pub host: String,
    /// The file's path there.
    pub path: PathBuf,
}

impl Source {
    /// A file of this machine.
    pub fn here(path: &Path) -> Source {
        Source { host: host_name(), path: path.to_owned() }
    }

    /// Reads `HOST:PATH`, or a path alone.
    fn parse(text: &str) -> Source {
        let (host, path) = text.split_once(':').filter(|(host, _)| !host.contains('/')).unwrap_or(("", text));
        Source { host: host.to_owned(), path: PathBuf::from(path) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let colon = if self.host.is_empty() { "" } else { ":" };
        write!(out, "{}{colon}{}", self.host, self.path.display())
    }
}

crate::errors! {
    /// Why there is no usable copy.
    #[derive(Debug)]
    pub enum NoCopy {
        /// Slurm has no `StateSaveLocation`, or nothing has been saved there yet.
        None => "there is no copy of an earlier gpushare.conf";
        Read(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        /// Other users could have written it, or can read it.
        NotOurs(path: PathBuf) =>
            "{} must be a file with mode 0600 of root or of the owner of its directory", path.display();
        Damaged(path: PathBuf) => "{} is damaged, or another version of gpushare wrote it", path.display();
        /// It isn't a valid configuration for this version.
        Content(path: PathBuf, error: ConfigError) => "{}, below its first line: {error}", path.display();
    }
}

crate::errors! {
    /// Why slurmctld can't start: without rules, nothing would show which jobs bypass them.
    #[derive(Debug)]
    pub enum NoRules {
        Broken { file: Box<LoadError>, copy: Box<NoCopy> } => "{file}; {copy}";
    }
}

/// Whose the rules in force are.
#[derive(Debug)]
pub enum Origin {
    /// The file's; its text must be saved.
    File(String),
    /// The defaults, because there is no file and no usable copy.
    Defaults(NoCopy),
    /// The copy's, because the file is broken, or missing.
    LastGood(LastGood, Option<LoadError>),
}

/// Decides which rules are in force when slurmctld starts or takes control. A missing file doesn't mean the defaults if
/// there is a copy: nobody can know whether it was removed on purpose or is lost. A file with only a comment means the
/// defaults.
///
/// # Errors
/// The file is broken, and there is no usable copy.
pub fn choose(
    found: Result<Option<(Rules, String)>, LoadError>,
    copy: Result<LastGood, NoCopy>,
) -> Result<(Rules, Origin), NoRules> {
    let broken = match found {
        Ok(Some((rules, text))) => return Ok((rules, Origin::File(text))),
        Ok(None) => None,
        Err(broken) => Some(broken),
    };
    match (copy.and_then(|copy| Ok((copy.rules()?, copy))), broken) {
        (Ok((rules, copy)), broken) => Ok((rules, Origin::LastGood(copy, broken))),
        (Err(no_copy), None) => Ok((Rules::default(), Origin::Defaults(no_copy))),
        (Err(no_copy), Some(broken)) => {
            Err(NoRules::Broken { file: Box::new(broken), copy: Box::new(no_copy) })
        }
    }
}

impl LastGood {
    /// Whether another machine's file had other rules than this text.
    pub fn is_of_another(&self, text: &str) -> bool {
        let host = &self.source.host;
        !host.is_empty() && *host != host_name() && self.text != text
    }

    /// The copy's rules.
    ///
    /// # Errors
    /// The copy is invalid for this version of gpushare.
    pub fn rules(&self) -> Result<Rules, NoCopy> {
        Rules::parse(&self.text).map_err(|error| NoCopy::Content(self.path.clone(), error))
    }
}

/// This machine's name without its domain, as Slurm compares it with `SlurmctldHost` (src/common/read_config.c:
/// `gethostname_short`). Empty if /proc isn't mounted.
pub fn host_name() -> String {
    let name =
        root_file::read(Path::new("/proc/sys/kernel/hostname"), 256).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&name).trim().split('.').next().unwrap_or_default().to_owned()
}

/// The path of the copy in a `StateSaveLocation`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("gpushare_last_good")
}

/// Reads the copy. Trusts it only if root or the directory's owner (SlurmUser) wrote it and no other user can change
/// it.
///
/// # Errors
/// There is no copy, or it can't be trusted.
pub fn read(folder: &Path) -> Result<LastGood, NoCopy> {
    let path = path(folder);
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => NoCopy::None,
        _ => NoCopy::Read(path.clone(), error),
    };
    let file = path.symlink_metadata().map_err(unreadable)?;
    let owner = folder.metadata().map_err(unreadable)?.uid();
    if !file.is_file() || (file.uid() != 0 && file.uid() != owner) || file.mode() & 0o077 != 0 {
        return Err(NoCopy::NotOurs(path));
    }
    let bytes = root_file::read(&path, LONGEST_COPY).map_err(unreadable)?;
    bytes.and_then(|bytes| parse(&path, &bytes)).ok_or(NoCopy::Damaged(path))
}

/// Saves the text of a valid gpushare.conf; returns `false` if the copy already has it. A crash leaves the previous
/// copy.
///
/// # Errors
/// The copy can't be written.
pub fn keep(folder: &Path, source: &Source, text: &str, now: u64) -> io::Result<bool> {
    if read(folder).is_ok_and(|copy| copy.text == text && copy.source == *source) {
        return Ok(false);
    }
    let path = path(folder);
    // Nobody else writes now, but a process that was killed while it wrote may have left its file.
    let temporary = folder.join(format!(".gpushare_last_good.{}", std::process::id()));
    let first = format!("{FIRST_WORDS}{now} {} {}\n", number([text.as_bytes()]), source);
    root_file::replace_with(&temporary, &path, &(first + text), 0o600)?;
    Ok(true)
}

fn parse(path: &Path, bytes: &[u8]) -> Option<LastGood> {
    let (first, text) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    let mut words = first.strip_prefix(FIRST_WORDS)?.splitn(3, ' ');
    let read_at = words.next()?.parse().ok()?;
    let expected = words.next()?;
    let source = Source::parse(words.next()?);
    let is_whole = number([text.as_bytes()]) == expected;
    is_whole.then(|| LastGood { path: path.to_owned(), read_at, source, text: text.to_owned() })
}

#[cfg(test)]
mod tests;
