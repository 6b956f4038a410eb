//! The programs that `Prolog=` and `Epilog=` name on this node. slurmd runs all files that a pattern names. It drains
//! the node if one of them isn't a program that it can run, or if there is none. A name without a path is beside
//! slurm.conf, where slurmd puts what slurmctld sends. And squeue, which gpushare-prolog runs.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpushare_node::config::NodeConfig;

use super::finding::Finding;
use crate::requirements::matching;
use crate::slurm::Settings;

/// What slurmd can't run.
pub fn findings(settings: &Settings, slurm_conf: &Path) -> Vec<Finding> {
    let can_run = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
    // Only slurmd knows what other patterns name.
    let is_clear = |path: &&String| {
        !path.contains(['?', '[']) && !path.rsplit_once('/').is_some_and(|(folder, _)| folder.contains('*'))
    };
    let bad = |path: &String| {
        let files = matching(slurm_conf, path);
        let none = files.is_empty().then(|| slurm_conf.with_file_name(path));
        none.or_else(|| files.into_iter().find(|file| !can_run(file)))
    };
    let mut findings = Vec::new();
    for about in ["Prolog", "Epilog"] {
        let Some(path) = settings.all(about).iter().filter(is_clear).find_map(bad) else { continue };
        let bad = path.display().to_string();
        let errors = [path.metadata().err(), path.parent().and_then(|folder| folder.read_dir().err())];
        // Others than root may not see what is there.
        if errors.iter().flatten().any(|error| error.kind() == ErrorKind::PermissionDenied) {
            findings.push(Finding::unknown(about, format!("{bad}: Permission denied; run this as root")));
            continue;
        }
        let fix = match bad.rsplit('/').next() {
            Some(name) if name.contains("gpushare") => {
                "install the package gpushare-slurmd, or make install, on this node"
            }
            Some(name) if name.contains('*') => "put a program there (docs/install.md), or remove the line",
            _ => "make it an executable program, or remove it",
        };
        findings.push(Finding::wrong(
            about,
            format!("slurmd can't run {bad}: the next job drains this node"),
            fix,
        ));
    }
    findings
}

/// Without it no step runs whose job isn't in the ledger, where nothing of Slurm's says whether the job has a share.
pub fn squeue(config: &NodeConfig, found: Option<&Path>) -> Option<Finding> {
    let lacks = !config.shows_shares() && found.is_none();
    let said = "it isn't on this node: gpushare-prolog can't ask what a job requested, and then the job's steps fail";
    lacks.then(|| Finding::wrong("squeue", said, "install Slurm's commands for users on this node"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::check::finding::Status;
    use gpushare_machine::config::Config;

    #[test]
    fn squeue_is_needed_where_slurm_shows_no_share() {
        for (rules, lacks) in [("Placement=own", true), ("ShareGRES=gpushare", true), ("", false)] {
            let config = Config::parse(&format!("{rules}\nUnitsPerGpu=100")).unwrap().of_node("n1").clone();
            assert_eq!(squeue(&config, None).is_some(), lacks, "{rules}");
            assert_eq!(squeue(&config, Some(Path::new("/usr/bin/squeue"))), None);
        }
    }

    #[test]
    fn each_file_that_a_pattern_names_must_be_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, mode| {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir(path("d")).unwrap();
        fs::create_dir(path("none")).unwrap();
        write("d/a", 0o755);
        write("d/.keep", 0o644);
        let bad = |pattern: &str| {
            let settings = Settings::parse(&format!("Prolog[0] = {pattern}\n"));
            let found = findings(&settings, &path("slurm.conf"));
            found.first().map(|finding| finding.said.split([' ', ':']).nth(3).unwrap().to_owned())
        };
        let shown = |name: &str| Some(path(name).display().to_string());
        for (pattern, expected) in [
            ("d/*", None),
            ("d/a", None),
            ("d/b", shown("d/b")),
            ("none/*", shown("none/*")),
            ("d*/*", None),
            ("d/[bc]", None),
            ("d/?", None),
        ] {
            assert_eq!(bad(&path(pattern).display().to_string()), expected, "{pattern}");
        }
        assert_eq!(findings(&Settings::default(), Path::new("/")), []);
        write("d/README", 0o644);
        assert_eq!(bad(&path("d/*").display().to_string()), shown("d/README"));
        // Beside slurm.conf.
        write("site.sh", 0o755);
        assert_eq!((bad("site.sh"), bad("gone.sh")), (None, shown("gone.sh")));
        // Root sees all, so only others can test what they don't see.
        fs::set_permissions(path("d"), fs::Permissions::from_mode(0o000)).unwrap();
        if fs::read_dir(path("d")).is_err() {
            for pattern in ["d/*", "d/a"] {
                let settings = Settings::parse(&format!("Prolog[0] = {}\n", path(pattern).display()));
                assert_eq!(findings(&settings, Path::new("/"))[0].status, Status::Unknown, "{pattern}");
            }
        }
        fs::set_permissions(path("d"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
