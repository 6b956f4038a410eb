//! Whether slurmctld uses the current gpushare.conf, or the copy of an earlier one because the current one is broken.
//! Reads the file and the copy in `StateSaveLocation`.

use std::path::Path;

use gpushare::config::last_good::{self, LastGood, NoCopy};
use gpushare::config::{self, Config, LoadError};

use super::finding::Finding;
use crate::period;
use crate::slurm::Settings;

/// The finding on a controller; `None` if the file is right.
pub fn finding(settings: &Settings, slurm_conf: &Path) -> Option<Finding> {
    let error = Config::load(&config::find(slurm_conf, Path::new(config::FALLBACK))).err()?;
    Some(judge(&error, last_good::read(Path::new(settings.get("StateSaveLocation")))))
}

fn judge(error: &LoadError, copy: Result<LastGood, NoCopy>) -> Finding {
    let about = "slurmctld's rules";
    let because = match error {
        LoadError::Content(_, error) => error.to_string(),
        _ => error.to_string(),
    };
    match copy.and_then(|copy| copy.config().map(|_| copy)) {
        Ok(LastGood { path, read_at, source, .. }) => {
            let said = format!("slurmctld uses the rules of {}, because {because}", time(read_at));
            let fix = format!("correct {}; the rules in force are in {}", source.display(), path.display());
            Finding::wrong(about, said, fix)
        }
        Err(NoCopy::Read(path, error)) => Finding::unknown(
            about,
            format!("can't tell which rules slurmctld uses: {}: {error}; run this as root", path.display()),
        ),
        Err(no_copy) => {
            let said = format!("slurmctld would not start again, because {because}, and {no_copy}");
            Finding::wrong(about, said, "correct the line before you restart or reconfigure slurmctld")
        }
    }
}

fn time(seconds: u64) -> String {
    u32::try_from(seconds).map_or_else(|_| "an unknown time".to_owned(), period::second)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::*;
    use crate::check::finding::Status;

    fn broken() -> LoadError {
        LoadError::Content("/etc/slurm/gpushare.conf".into(), Config::parse("#\nMode=x\n").unwrap_err())
    }

    fn copy(text: &str) -> LastGood {
        LastGood {
            path: "/state/gpushare_last_good".into(),
            read_at: 1_764_014_400,
            source: "/etc/slurm/gpushare.conf".into(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn the_copy_that_is_in_force_is_named() {
        let Finding { said, status, .. } = judge(&broken(), Ok(copy("")));
        let start = "slurmctld uses the rules of 2025-11-2";
        assert!(said.starts_with(start) && said.contains(", because line 2: Mode can't be 'x'"), "{said}");
        let fix = "correct /etc/slurm/gpushare.conf; the rules in force are in /state/gpushare_last_good";
        assert_eq!(status, Status::Wrong(fix.to_owned()));
    }

    #[test]
    fn without_a_copy_to_go_by_slurmctld_would_not_start() {
        let bad = PathBuf::from("/state/gpushare_last_good");
        for copy in [Err(NoCopy::None), Err(NoCopy::Damaged(bad)), Ok(copy("Mode=y\n"))] {
            let Finding { said, status, .. } = judge(&broken(), copy);
            let start = "slurmctld would not start again, because line 2: Mode can't be 'x'";
            assert!(said.starts_with(start) && matches!(status, Status::Wrong(_)), "{said}");
        }
    }

    #[test]
    fn a_user_is_not_told_what_they_cannot_read() {
        let denied = NoCopy::Read("/state".into(), io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(judge(&broken(), Err(denied)).status, Status::Unknown);
    }
}
