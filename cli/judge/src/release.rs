//! The release of this machine's Slurm commands, which determines their options and their spelling of a GRES.

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

/// Year and month, such as 24.11; the micro release makes no difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u16, pub u16);

impl Release {
    /// Parses the output of `sbatch --version`: `slurm-wlm 24.11.5` on Debian, `slurm 24.11.5` elsewhere.
    ///
    /// # Errors
    /// The text isn't a release, or the release is too old.
    pub fn parse(said: &[u8]) -> Result<Release, ReleaseError> {
        let unknown = || ReleaseError::None(said.to_vec());
        let text = std::str::from_utf8(said).map_err(|_| unknown())?;
        let mut parts = text.split_whitespace().next_back().unwrap_or_default().split('.');
        let mut part = || parts.next().and_then(|part| part.parse().ok());
        let release = match (part(), part()) {
            (Some(year), Some(month)) => Release(year, month),
            _ => return Err(unknown()),
        };
        if release < Release(22, 5) {
            return Err(ReleaseError::Old(release));
        }
        Ok(release)
    }

    /// How this release's clients write a GRES.
    pub fn spelling(self) -> Spelling {
        if self >= Release(23, 11) { Spelling::Slash } else { Spelling::Colon }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(out, "{}.{:02}", self.0, self.1)
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
}
