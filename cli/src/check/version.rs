//! Which Slurm a plugin was built for, and which one a program belongs to. It reads a plugin's version from its file,
//! since it can't load it.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use object::{Object, ObjectSection, ObjectSymbol};

use crate::slurm::command;
use crate::slurm::run;

/// How long a program may take to report its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// A version of Slurm: 24.11.5, or 24.11 if the micro release is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    release: (u8, u8),
    micro: Option<u8>,
}

impl Version {
    /// Reads `slurm-wlm 24.11.5`, `24.11.5-1` or `24.11`, whatever is before the last blank.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split_whitespace().next_back()?.split('.');
        // A packager's text may follow the digits.
        let number = |part: &str| {
            let digits = part.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
            digits.parse().ok()
        };
        let release = (number(parts.next()?)?, number(parts.next()?)?);
        let micro = match parts.next() {
            Some(part) => Some(number(part)?),
            None => None,
        };
        Some(Version { release, micro })
    }

    /// The number that a plugin gives as `plugin_version`: 24.11.5 is 0x180b05.
    ///
    /// # Errors
    /// The file can't be read, or Slurm can't load it.
    pub fn of_plugin(path: &Path) -> Result<Version, VersionError> {
        let bytes = fs::read(path)?;
        let file = object::File::parse(bytes.as_slice())?;
        let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("plugin_version"));
        let symbol = symbol.ok_or(VersionError::NoSymbol)?;
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let found = section.and_then(|section| section.data_range(symbol.address(), 4).ok().flatten());
        let number = found.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let [micro, month, year, _] = number.ok_or(VersionError::Unreadable)?;
        Ok(Version { release: (year, month), micro: Some(micro) })
    }

    /// The version that a program on this machine reports. Looks in PATH, and where Slurm's daemons are.
    pub fn of_program(name: &str) -> Option<Version> {
        ["", "/usr/sbin/", "/usr/local/sbin/"].iter().find_map(|folder| {
            let answer = run::run(command(&format!("{folder}{name}")).arg("-V"), PATIENCE).ok()?;
            answer.status.success().then(|| Version::parse(&String::from_utf8_lossy(&answer.output)))?
        })
    }

    /// Whether both have the same release, such as 24.11.
    pub fn is_release_of(self, other: Version) -> bool {
        self.release == other.release
    }

    /// Whether both are the same, such as 24.11.5. `None` if they have the same release and one's micro release is
    /// unknown.
    pub fn is(self, other: Version) -> Option<bool> {
        match (self.micro, other.micro) {
            (Some(one), Some(two)) => Some(self.release == other.release && one == two),
            _ => (self.release != other.release).then_some(false),
        }
    }

    /// Whether its release is in the range from `first` to `last`, both (year, month).
    pub fn is_from_to(self, first: (u8, u8), last: (u8, u8)) -> bool {
        (first..=last).contains(&self.release)
    }

    /// The release, such as 24.11 of 24.11.5.
    pub fn release(self) -> Version {
        Version { micro: None, ..self }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (year, month) = self.release;
        write!(out, "{year}.{month:02}")?;
        self.micro.map_or(Ok(()), |micro| write!(out, ".{micro}"))
    }
}

gpushare::errors! {
    /// Why there is no version.
    #[derive(Debug)]
    pub enum VersionError {
        NoSymbol => "it has no plugin_version, so Slurm can't load it";
        Unreadable => "its plugin_version can't be read";
        /// A word on the command line.
        NotOne => "not a version of Slurm, such as 24.11.5";
    } from { Read(io::Error), Elf(object::Error) }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Version, VersionError> {
        Version::parse(text).ok_or(VersionError::NotOne)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn a_version_is_read_as_slurm_and_its_packagers_write_it() {
        for (text, read) in [
            ("24.11.5", Some("24.11.5")),
            ("slurm-wlm 24.11.5\n", Some("24.11.5")),
            ("slurm 22.05.8-1", Some("22.05.8")),
            ("26.05.0-0rc1", Some("26.05.0")),
            ("24.11", Some("24.11")),
            ("24.11.", None),
            ("24", None),
            ("2024.11.5", None),
            ("", None),
        ] {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), read, "{text}");
        }
    }

    #[test]
    fn versions_are_compared_to_the_micro_release_or_to_the_release() {
        for (one, two, release, micro) in [
            ("24.11.5", "24.11.5", true, Some(true)),
            ("24.11.5", "24.11.6", true, Some(false)),
            ("24.11.5", "26.05.5", false, Some(false)),
            ("24.11.5", "24.11", true, None),
            ("24.11.5", "26.05", false, Some(false)),
            ("24.11.5", "25.11.5", false, Some(false)),
        ] {
            assert_eq!(version(one).is_release_of(version(two)), release, "{one} {two}");
            assert_eq!(version(one).is(version(two)), micro, "{one} {two}");
        }
    }

    #[test]
    fn what_is_no_plugin_has_no_version() {
        assert!(Version::of_plugin(Path::new("/proc/self/status")).is_err());
        let own = Version::of_plugin(&std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert_eq!(own, "it has no plugin_version, so Slurm can't load it");
    }

    #[test]
    fn a_program_that_is_none_of_slurms_has_no_version() {
        assert_eq!(Version::of_program("false"), None);
        assert_eq!(Version::of_program("no-such-program-of-slurm"), None);
    }
}
