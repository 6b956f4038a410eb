//! gpushare.conf itself: whether it is readable, who can change it, and whether it is enforced.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpushare::config::{self, LoadError};
use gpushare::submit::policy::Mode;
use gpushare_machine::config::Config;
use gpushare_node::config::NodeConfig;

use super::finding::Finding;
use super::last_good;
use crate::slurm::Settings;

pub const ABOUT: &str = "gpushare.conf";

/// Reads the keys of a part that the command can be without, and adds their names to the configuration.
pub type Also = fn(&Path, &mut Config) -> Result<(), LoadError>;

type Found = (Vec<Finding>, Config);

/// Reads the file. Returns its findings and its rules; if the file is wrong, the rest is checked against the defaults.
///
/// # Errors
/// The named file doesn't exist.
pub fn read(named: Option<&Path>, slurm_conf: &Path, also: Also) -> Result<Found, LoadError> {
    let path = named.map_or_else(|| config::find(slurm_conf, Path::new(config::FALLBACK)), Path::to_owned);
    let shown = path.display();
    let whole = |mut config: Config| also(&path, &mut config).map(|()| config);
    match (Config::load(&path).and_then(|config| config.map(whole).transpose()), named) {
        (Ok(Some(config)), _) => Ok(([of_file(&path)].into_iter().chain(modes(&config)).collect(), config)),
        (Ok(None), Some(_)) => Err(LoadError::Missing(path)),
        (Ok(None), None) => {
            let said = format!("{shown}: there is no such file; the defaults apply here");
            Ok((vec![Finding::ok(ABOUT, said)], Config::default()))
        }
        (Err(error), _) => {
            let mut fix = format!("correct {shown}");
            // A mistake in a rule, or in a setting of the database, fails no job.
            if NodeConfig::load(&path, Some("")).is_err() {
                fix += "; until then jobs with GPUs or shares fail on nodes";
            }
            Ok((vec![Finding::wrong(ABOUT, error.to_string(), fix)], Config::default()))
        }
    }
}

/// The finding on a node without the file, whose prolog is gpushare's.
pub fn lost(named: Option<&Path>, slurm_conf: &Path, slurm: &Settings, has_hooks: bool) -> Option<Finding> {
    let path = config::find(slurm_conf, Path::new(config::FALLBACK));
    let places = has_hooks || slurm.all("Prolog").iter().any(|path| path.ends_with("/gpushare-prolog"));
    (places && named.is_none() && path.symlink_metadata().is_err()).then(|| {
        let lost = "there is no such file on this node: its jobs have no fence, or can open no GPU";
        let fix = "copy the controller's gpushare.conf there: Slurm sends it to no node";
        Finding::wrong(ABOUT, format!("{}: {lost}", path.display()), fix)
    })
}

/// Without a file here, it isn't the defaults that the cluster uses.
pub fn say_once(findings: &mut Vec<Finding>) {
    let of_rules = |found: &Finding| [ABOUT, last_good::ABOUT].contains(&&*found.about);
    if findings.iter().any(|found| of_rules(found) && found.is_wrong()) {
        findings.retain(|found| found.about != ABOUT || found.is_wrong());
    }
}

/// On nodes, root runs the programs that `MpsControl` and `Nvml` name. An owner other than root, such as SlurmUser on
/// the controller, is the site's choice.
fn of_file(path: &Path) -> Finding {
    let shown = path.display();
    let by_others = |it: Metadata| it.mode() & 0o002 != 0 || (it.mode() & 0o020 != 0 && it.gid() != 0);
    if path.metadata().is_ok_and(by_others) {
        let names = "which names programs that root runs on nodes";
        let said = format!("users other than its owner can change {shown}, {names}");
        return Finding::wrong(ABOUT, said, format!("chmod go-w {shown}"));
    }
    Finding::ok(ABOUT, shown.to_string())
}

/// Reports rules that refuse nothing: a trial that somebody may have forgotten.
fn modes(config: &Config) -> Vec<Finding> {
    let policy = &config.policy;
    let of_records = policy.records.iter().filter_map(|record| {
        let names: Vec<&str> = record.names.iter().collect();
        Some((format!("QOS={} ", names.join(",")), record.mode?))
    });
    let all = std::iter::once((String::new(), policy.mode)).chain(of_records);
    all.filter_map(|(whose, mode)| {
        let (word, effect) = match mode {
            Mode::Enforce | Mode::Default => return None,
            Mode::Warn => ("warn", "gpushare refuses nothing and only warns the user"),
            Mode::Audit => ("audit", "gpushare refuses nothing and only writes to slurmctld's log"),
        };
        let said = format!("{whose}Mode={word}: {effect}; Mode=enforce in {ABOUT} ends that");
        Some(Finding::unknown("Mode", said))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_configuration_that_others_can_change_is_wrong() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_root = file.path().metadata().unwrap().uid() == 0;
        for (mode, group, wrong) in
            [(0o644, 0, false), (0o600, 1, false), (0o646, 0, true), (0o664, 1, true), (0o664, 0, false)]
        {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            if is_root {
                chown(file.path(), None, Some(group)).unwrap();
            } else if group == 0 && mode == 0o664 {
                continue; // Only root can give a file to group root.
            }
            let finding = of_file(file.path());
            assert_eq!(finding.is_wrong(), wrong, "{mode:o} {group}");
        }
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let gone = Path::new("/nonexistent/gpushare.conf");
        assert_eq!(
            read(Some(gone), gone, |_, _| Ok(())).unwrap_err().to_string(),
            "/nonexistent/gpushare.conf: there is no such file"
        );
        assert!(read(None, Path::new("/nonexistent/slurm.conf"), |_, _| Ok(())).is_ok());
    }

    #[test]
    fn a_mode_that_refuses_nothing_is_shown() {
        for (text, shown) in [
            ("Mode=enforce", vec![]),
            ("Mode=default", vec![]),
            ("Mode=audit", vec!["Mode=audit: "]),
            (
                "Mode=warn\nQOS=a,b* Mode=audit\nQOS=c Mode=enforce\nQOS=d Mode=warn",
                vec!["Mode=warn: ", "QOS=a,b* Mode=audit: ", "QOS=d Mode=warn: "],
            ),
        ] {
            let found = modes(&Config::parse(text).unwrap());
            assert_eq!(found.len(), shown.len(), "{text}");
            for (finding, begins) in found.iter().zip(shown) {
                assert!(finding.said.starts_with(begins) && finding.status == Status::Unknown, "{finding:?}");
            }
        }
    }
}
