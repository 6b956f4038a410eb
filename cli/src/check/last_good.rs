//! Which rules slurmctld uses: those of this gpushare.conf, of another controller's, or the copy of an earlier one
//! because the file is broken or missing. Reads the file and the copy in `StateSaveLocation`, which all controllers
//! share.

use std::io;
use std::path::Path;

use gpushare::config::last_good::{self, LastGood, NoCopy};
use gpushare::config::rules::Rules;
use gpushare::config::{self, LoadError};

use super::finding::Finding;
use crate::slurm::Settings;
use gpushare_machine::local::now;

pub const ABOUT: &str = "slurmctld's rules";

/// The finding on a controller. `None` if the file is right, and this is the only controller.
pub fn finding(settings: &Settings, slurm_conf: &Path, is_only: bool) -> Option<Finding> {
    let path = config::find(slurm_conf, Path::new(config::FALLBACK));
    of(&path, Path::new(settings.get("StateSaveLocation")), is_only)
}

fn of(path: &Path, state: &Path, is_only: bool) -> Option<Finding> {
    let copy = last_good::read(state);
    let usable = copy.and_then(|copy| copy.rules().map(|_| copy));
    match config::load(path, Rules::parse) {
        Ok(Some((_, text))) => compare(path, &text, usable, is_only),
        Ok(None) if matches!(usable, Ok(_) | Err(NoCopy::Read(..))) => {
            let because = format!("{} does not exist", path.display());
            Some(judge(&because, "put the file back, or make one with only a comment", usable))
        }
        Ok(None) => None,
        Err(LoadError::Content(_, error)) => Some(judge(&error.to_string(), "correct the file", usable)),
        Err(error) => Some(judge(&error.to_string(), "correct the file", usable)),
    }
}

/// Compares a right file with the copy, which a controller in control writes when it has read its own.
fn compare(path: &Path, text: &str, copy: Result<LastGood, NoCopy>, is_only: bool) -> Option<Finding> {
    match copy {
        Ok(copy) if copy.text == text => {
            (!is_only).then(|| Finding::ok(ABOUT, format!("the same as in {}, in force", copy.source)))
        }
        Ok(copy) if !is_only && copy.is_of_another(text) => {
            let LastGood { path: kept, source, read_at, .. } = copy;
            let (path, kept, time) = (path.display(), kept.display(), time(read_at));
            let said = format!("{path} differs from {source}, whose rules of {time} are in force");
            let fix = format!(
                "make gpushare.conf the same on all controllers (if it is, slurmctld reads it with the next request); \
                 the rules in force are in {kept}"
            );
            Some(Finding::wrong(ABOUT, said, fix))
        }
        Ok(copy) => {
            let (path, time) = (path.display(), time(copy.read_at));
            Some(Finding::unknown(ABOUT, format!("of {time}; slurmctld reads {path} with the next request")))
        }
        Err(NoCopy::Read(kept, error)) if !is_only => Some(unreadable(&kept, &error)),
        Err(_) => None,
    }
}

fn judge(because: &str, fix: &str, copy: Result<LastGood, NoCopy>) -> Finding {
    match copy {
        Ok(LastGood { path, read_at, source, .. }) => {
            let time = time(read_at);
            let said = format!("slurmctld uses the rules of {time}, of {source}, because {because}");
            Finding::wrong(ABOUT, said, format!("{fix}; the rules in force are in {}", path.display()))
        }
        Err(NoCopy::Read(path, error)) => unreadable(&path, &error),
        Err(no_copy) => {
            let said = format!("slurmctld would not start again, because {because}, and {no_copy}");
            Finding::wrong(ABOUT, said, "correct the line before you restart or reconfigure slurmctld")
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Finding {
    let why = format!("{}: {error}; run this as root", path.display());
    Finding::unknown(ABOUT, format!("can't tell which rules slurmctld uses: {why}"))
}

/// How long ago that was.
fn time(seconds: u64) -> String {
    format!("{} ago", gpushare::text::time::text(now().saturating_sub(seconds)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use gpushare::config::last_good::{Source, host_name};

    use super::*;
    use crate::check::finding::Status;

    const TEXT: &str = "GovernedQOS=normal\n";

    /// What is said where this file and this copy, of that host, are there.
    fn said(file: Option<&str>, copy: Option<(&str, &str)>, is_only: bool) -> Option<(char, String, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gpushare.conf");
        if let Some(text) = file {
            fs::write(&path, text).unwrap();
        }
        if let Some((host, text)) = copy {
            let source = Source { host: host.to_owned(), path: "/etc/slurm/gpushare.conf".into() };
            last_good::keep(dir.path(), &source, text, 1_764_014_400).unwrap();
        }
        let Finding { said, status, .. } = of(&path, dir.path(), is_only)?;
        let clean = |text: String| text.replace(&dir.path().display().to_string(), "DIR");
        Some(match status {
            Status::Ok => ('k', clean(said), String::new()),
            Status::Unknown => ('?', clean(said), String::new()),
            Status::Wrong(fix) => ('W', clean(said), clean(fix.to_string())),
        })
    }

    /// The kind of finding, and words of what it says and of the fix.
    #[test]
    fn the_file_is_compared_with_the_copy_of_each_controller() {
        let here = host_name();
        for (file, copy, is_only, expected) in [
            // Right, and in force.
            (Some(TEXT), Some((here.as_str(), TEXT)), true, None),
            (Some(TEXT), None, false, None),
            (None, None, false, None),
            (Some(TEXT), Some(("ctl2", TEXT)), false, Some(('k', "the same as in ctl2:/etc/slurm", ""))),
            // Different.
            (
                Some(TEXT),
                Some(("ctl2", "Mode=audit\n")),
                false,
                Some((
                    'W',
                    "DIR/gpushare.conf differs from ctl2:/etc/slurm/gpushare.conf, whose",
                    "the same on all",
                )),
            ),
            (
                Some(TEXT),
                Some((here.as_str(), "Mode=audit\n")),
                false,
                Some(('?', "with the next request", "")),
            ),
            // A single controller may have another name now.
            (Some(TEXT), Some(("ctl2", "Mode=audit\n")), true, Some(('?', "with the next request", ""))),
            // Missing.
            (
                None,
                Some(("ctl2", TEXT)),
                true,
                Some((
                    'W',
                    "of ctl2:/etc/slurm/gpushare.conf, because DIR/gpushare.conf does not exist",
                    "put",
                )),
            ),
            // Broken.
            (
                Some("#\nMode=x\n"),
                Some(("ctl2", TEXT)),
                true,
                Some((
                    'W',
                    "because line 2: Mode can't be 'x'",
                    "correct the file; the rules in force are in DIR",
                )),
            ),
            (
                Some("#\nMode=x\n"),
                None,
                true,
                Some(('W', "would not start again, because line 2: Mode", "before")),
            ),
            (
                Some("#\nMode=x\n"),
                Some(("ctl2", "Mode=y\n")),
                true,
                Some(('W', "would not start again, because line 2: Mode can't be 'x'", "before")),
            ),
        ] {
            let found = said(file, copy, is_only);
            let is_expected = match (&found, expected) {
                (None, None) => true,
                (Some((kind, said, fix)), Some((status, words, fixes))) => {
                    *kind == status && said.contains(words) && fix.contains(fixes)
                }
                _ => false,
            };
            assert!(is_expected, "{file:?} {copy:?}: {found:?}");
        }
    }

    #[test]
    fn a_user_is_not_told_what_they_cannot_read() {
        let denied =
            || Err(NoCopy::Read(PathBuf::from("/state"), io::Error::from(io::ErrorKind::PermissionDenied)));
        assert_eq!(judge("x", "y", denied()).status, Status::Unknown);
        assert_eq!(compare(Path::new("x"), TEXT, denied(), false).unwrap().status, Status::Unknown);
        assert!(compare(Path::new("x"), TEXT, denied(), true).is_none());
    }
}
