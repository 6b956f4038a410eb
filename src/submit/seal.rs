//! The seal at the end of a line in slurmctld's log: only who has a key can have written it. slurmctld's plugin makes
//! the key once and keeps it in `StateSaveLocation`, where SlurmUser and root read it. Slurm writes some texts of
//! users into its log with their line breaks, and what follows one of these can look like any line, but has no seal.
//!
//! ```text
//! job_submit/gpushare: refused GS101 uid=2001 qos='q' seal=64c1f2a3b4c5d-0123456789abcdef
//! ```
//!
//! First a number that no other line has, so that a line can't be counted twice, then SipHash-2-4 of all before the
//! last `-`.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::hash::Hasher;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::root_file;

const FIRST_WORDS: &str = "gpushare-log-key 1 ";
/// What a seal begins with.
const WORD: &str = " seal=";
/// slurmctld's threads write their lines in nearly the order of their numbers.
const WINDOW: u64 = 1024;

/// A key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u64; 2]);

/// Where the key is in a `StateSaveLocation`.
#[must_use]
pub fn path(folder: &Path) -> PathBuf {
    folder.join("gpushare_log_key")
}

/// Reads a key. Only one that root or the owner of its folder wrote, and nobody else can read, is trusted.
///
/// # Errors
/// There is none, or it can't be trusted.
pub fn read(path: &Path) -> io::Result<Key> {
    let file = path.symlink_metadata()?;
    let owner = path.parent().map(Path::metadata).transpose()?.map(|folder| folder.uid());
    if !file.is_file() || (file.uid() != 0 && Some(file.uid()) != owner) || file.mode() & 0o077 != 0 {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "others could have read or written it"));
    }
    let bytes = root_file::read(path, 200)?.unwrap_or_default();
    parse(&bytes).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it is damaged"))
}

/// The key of a folder, made of `random` where there is none yet. Of two who make one at once both have the first.
///
/// # Errors
/// It can't be read or made.
pub fn read_or_make(folder: &Path, random: [u64; 2]) -> io::Result<Key> {
    let path = path(folder);
    match read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return found,
    }
    let temporary = folder.join(format!(".gpushare_log_key.{}", std::process::id()));
    root_file::remove(&temporary)?;
    let linked = write(&temporary, random).and_then(|()| fs::hard_link(&temporary, &path));
    let _ = fs::remove_file(&temporary);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => read(&path),
    }
}

fn write(path: &Path, [first, second]: [u64; 2]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{FIRST_WORDS}{first:016x} {second:016x}")?;
    file.sync_all()
}

fn parse(bytes: &[u8]) -> Option<Key> {
    let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let mut words = line.strip_prefix(FIRST_WORDS)?.split(' ');
    let mut word = || hexadecimal(words.next()?.as_bytes());
    let key = Key([word()?, word()?]);
    words.next().is_none().then_some(key)
}

impl Key {
    /// The line with its seal.
    #[must_use]
    pub fn sealed(&self, line: &str, number: u64) -> String {
        let line = format!("{line}{WORD}{number:x}");
        let tag = self.tag(line.as_bytes());
        format!("{line}-{tag:016x}")
    }

    /// The number of a line that has a seal of this key.
    #[must_use]
    pub fn number(&self, line: &[u8]) -> Option<u64> {
        let (begin, tag) = line.split_at_checked(line.len().checked_sub(17)?)?;
        let tag = hexadecimal(tag.strip_prefix(b"-")?)?;
        let at = begin.windows(WORD.len()).rposition(|window| window == WORD.as_bytes())?;
        let number = hexadecimal(begin.get(at + WORD.len()..)?)?;
        (self.tag(begin) == tag).then_some(number)
    }

    #[expect(
        deprecated,
        reason = "SipHash-2-4 by its name; what stands for it now may be another one tomorrow"
    )]
    fn tag(&self, text: &[u8]) -> u64 {
        let Key([first, second]) = *self;
        let mut hasher = std::hash::SipHasher::new_with_keys(first, second);
        hasher.write(text);
        hasher.finish()
    }
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let text = std::str::from_utf8(text).ok().filter(|text| text.as_bytes().iter().all(plain))?;
    u64::from_str_radix(text, 16).ok()
}

/// Looks at lines in the order of the log.
pub struct Judge {
    key: Key,
    /// The highest numbers so far.
    recent: BTreeSet<u64>,
}

impl Judge {
    /// By this key.
    #[must_use]
    pub fn new(key: Key) -> Judge {
        Judge { key, recent: BTreeSet::new() }
    }

    /// Whether slurmctld's plugin wrote this line, and it is here for the first time.
    pub fn admits(&mut self, line: &[u8]) -> bool {
        let oldest =
            |recent: &BTreeSet<u64>| recent.last().map_or(0, |highest| highest.saturating_sub(WINDOW));
        let number = self.key.number(line).filter(|number| *number >= oldest(&self.recent));
        let is_new = number.is_some_and(|number| self.recent.insert(number));
        let oldest = oldest(&self.recent);
        while self.recent.first().is_some_and(|number| *number < oldest) {
            self.recent.pop_first();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEY: Key = Key([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
    const LINE: &str = "job_submit/gpushare: refused GS101 uid=1 name='x seal=1-0123456789abcdef'";

    /// The example of the paper on SipHash (Aumasson, Bernstein: "SipHash: a fast short-input PRF", appendix A).
    #[test]
    fn the_hash_is_siphash_2_4() {
        assert_eq!(KEY.tag(&(0..15).collect::<Vec<u8>>()), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn only_the_key_makes_a_seal() {
        let sealed = KEY.sealed(LINE, 0x1a2b);
        assert_eq!(KEY.number(sealed.as_bytes()), Some(0x1a2b));
        assert!(sealed.starts_with(LINE) && sealed[LINE.len()..].starts_with(" seal=1a2b-"), "{sealed}");
        for at in 0..sealed.len() {
            let mut other = sealed.clone().into_bytes();
            assert_eq!(KEY.number(&other[..at]), None, "cut at {at}");
            other[at] ^= 1;
            assert_eq!(KEY.number(&other), None, "changed at {at}");
        }
        let other = Key([1, 2]);
        assert_eq!(other.number(sealed.as_bytes()), None);
        assert_eq!(KEY.number(format!("{sealed} ").as_bytes()), None);
        assert_eq!(KEY.number(sealed.to_uppercase().as_bytes()), None);
    }

    #[test]
    fn a_line_counts_once() {
        let mut judge = Judge::new(KEY);
        assert!(!judge.admits(LINE.as_bytes()));
        for (number, expected) in [
            (5000, true),
            (5000, false),
            (5002, true),
            (5001, true),
            (3000, false),
            (90_000, true),
            (5001, false),
            (89_999, true),
            (90_000, false),
        ] {
            assert_eq!(judge.admits(KEY.sealed(LINE, number).as_bytes()), expected, "{number}");
        }
        assert!(judge.recent.len() <= 2);
    }

    #[test]
    fn a_key_is_made_once_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read_or_make(folder.path(), [1, 2]).unwrap() == Key([1, 2]));
        assert!(read_or_make(folder.path(), [3, 4]).unwrap() == Key([1, 2]));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        let path = path(folder.path());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read(&path).err().unwrap().kind(), ErrorKind::PermissionDenied);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for damaged in
            ["", "gpushare-log-key 1 1\n", "gpushare-log-key 1 1 2 3\n", "gpushare-log-key 2 1 2\n"]
        {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path).err().unwrap().kind(), ErrorKind::InvalidData, "{damaged}");
        }
        // One that is damaged is not made anew: lines that it sealed would count no more.
        assert!(read_or_make(folder.path(), [3, 4]).is_err());
    }
}
