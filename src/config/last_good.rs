//! The last correct gpushare.conf: slurmctld's plugin keeps a copy of it in Slurm's `StateSaveLocation`, and starts
//! with that copy if gpushare.conf is broken. [`choose`] decides with which rules slurmctld starts; the rest reads and
//! writes the copy.
//!
//! The first line has the format, the time when the text was read, its hash, and its origin. The unchanged text
//! follows:
//!
//! ```text
//! # gpushare-last-good 1 1764014400 2a7c75e4b6abfd06 /etc/slurm/gpushare.conf
//! GovernedQOS=auto
//! ```

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Config, ConfigError, LONGEST, LoadError};
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
    /// The path of the gpushare.conf that was copied.
    pub source: PathBuf,
    /// The text of that file.
    pub text: String,
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
            "{} must be a file with mode 0600 of root or of the owner of its folder", path.display();
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

/// The rules with which slurmctld starts.
#[derive(Debug)]
pub enum Start {
    /// The file's rules; its text must be saved.
    File(Config, String),
    /// The defaults, because there is no file.
    Defaults,
    /// The copy's rules, because the file is broken.
    LastGood(Config, LastGood, LoadError),
}

/// Decides with which rules slurmctld starts. A missing file means the defaults, even if there is a copy: an
/// administrator who removes the file wants the defaults.
///
/// # Errors
/// The file is broken, and there is no usable copy.
pub fn choose(
    found: Result<Option<(Config, String)>, LoadError>,
    copy: impl FnOnce() -> Result<LastGood, NoCopy>,
) -> Result<Start, NoRules> {
    let broken = match found {
        Ok(Some((config, text))) => return Ok(Start::File(config, text)),
        Ok(None) => return Ok(Start::Defaults),
        Err(broken) => broken,
    };
    match copy().and_then(|copy| Ok((copy.config()?, copy))) {
        Ok((config, copy)) => Ok(Start::LastGood(config, copy, broken)),
        Err(no_copy) => Err(NoRules::Broken { file: Box::new(broken), copy: Box::new(no_copy) }),
    }
}

impl LastGood {
    /// The copy's rules.
    ///
    /// # Errors
    /// The copy is invalid for this version of gpushare.
    pub fn config(&self) -> Result<Config, NoCopy> {
        Config::parse(&self.text).map_err(|error| NoCopy::Content(self.path.clone(), error))
    }
}

/// The path of the copy in a `StateSaveLocation`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("gpushare_last_good")
}

/// Reads the copy. Trusts it only if root or the folder's owner (SlurmUser) wrote it and no other user can change it.
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
    let bytes = root_file::read(&path, LONGEST_COPY + 1).map_err(unreadable)?;
    bytes.and_then(|bytes| parse(&path, &bytes)).ok_or(NoCopy::Damaged(path))
}

/// Saves the text of a valid gpushare.conf; returns `false` if the copy already has it. A crash leaves the previous
/// copy.
///
/// # Errors
/// The copy can't be written.
pub fn keep(folder: &Path, source: &Path, text: &str, now: u64) -> io::Result<bool> {
    if read(folder).is_ok_and(|copy| copy.text == text && copy.source == source) {
        return Ok(false);
    }
    let path = path(folder);
    // While slurmctld reconfigures itself, its successor runs for a moment too, and also writes.
    let temporary = folder.join(format!(".gpushare_last_good.{}", std::process::id()));
    let first = format!("{FIRST_WORDS}{now} {} {}\n", number([text.as_bytes()]), source.display());
    root_file::replace_with(&temporary, &path, &(first + text), 0o600)?;
    Ok(true)
}

fn parse(path: &Path, bytes: &[u8]) -> Option<LastGood> {
    let (first, text) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    let mut words = first.strip_prefix(FIRST_WORDS)?.splitn(3, ' ');
    let read_at = words.next()?.parse().ok()?;
    let expected = words.next()?;
    let source = PathBuf::from(words.next()?);
    let is_whole = number([text.as_bytes()]) == expected;
    is_whole.then(|| LastGood { path: path.to_owned(), read_at, source, text: text.to_owned() })
}

#[cfg(test)]
mod tests;
