//! Versions of Slurm as its programs and daemons print them, and how each release's clients spell a GRES.

use std::fmt;

use gpushare::submit::grammar::Spelling;

gpushare::errors! {
    /// The release is unknown here.
    #[derive(Debug)]
    pub enum ReleaseError {
        None(said: Vec<u8>) =>
            "sbatch --version says '{}', which is not a release", said.trim_ascii().escape_ascii();
        Old(release: Release) => "Slurm {release} is older than gpushare knows; 22.05 is the oldest";
    }
}

/// Year and month, such as 24.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u8, pub u8);

impl Release {
    /// Parses the output of `sbatch --version`: `slurm-wlm 24.11.5` on Debian, `slurm 24.11.5` elsewhere.
    ///
    /// # Errors
    /// The text isn't a release, or the release is too old.
    pub fn parse(said: &[u8]) -> Result<Release, ReleaseError> {
        let version = str::from_utf8(said).ok().and_then(Version::parse);
        let release = version.ok_or_else(|| ReleaseError::None(said.to_vec()))?.release;
        if release < Release(22, 5) { Err(ReleaseError::Old(release)) } else { Ok(release) }
    }

    /// How this release's clients write a GRES.
    pub fn spelling(self) -> Spelling {
        if self >= Release(23, 11) { Spelling::Slash } else { Spelling::Colon }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}.{:02}", self.0, self.1)
    }
}

/// A version: 24.11.5, or 24.11 if the micro release is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Its release.
    pub release: Release,
    /// The last number.
    pub micro: Option<u8>,
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
        let release = Release(number(parts.next()?)?, number(parts.next()?)?);
        let micro = match parts.next() {
            Some(part) => Some(number(part)?),
            None => None,
        };
        Some(Version { release, micro })
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
        (Release(first.0, first.1)..=Release(last.0, last.1)).contains(&self.release)
    }

    /// The release, such as 24.11 of 24.11.5.
    pub fn release(self) -> Version {
        Version { micro: None, ..self }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.release)?;
        self.micro.map_or(Ok(()), |micro| write!(out, ".{micro}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_sbatch_prints_them() {
        for (text, expected) in [
            ("slurm-wlm 22.05.8\n", Some(Release(22, 5))),
            ("slurm-wlm 24.11.5\n", Some(Release(24, 11))),
            ("slurm-wlm 26.05.5\n", Some(Release(26, 5))),
            ("slurm 25.05.0-0rc1\n", Some(Release(25, 5))),
            ("slurm 21.08.8\n", None),
            ("slurm\n", None),
            ("", None),
            ("slurm x.y", None),
        ] {
            assert_eq!(Release::parse(text.as_bytes()).ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_spelling_changed_with_23_11() {
        assert_eq!(Release(23, 2).spelling(), Spelling::Colon);
        assert_eq!(Release(23, 11).spelling(), Spelling::Slash);
    }

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
            assert_eq!(version(one).release == version(two).release, release, "{one} {two}");
            assert_eq!(version(one).is(version(two)), micro, "{one} {two}");
        }
    }
}
