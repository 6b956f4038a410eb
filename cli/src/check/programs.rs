//! The programs that `Prolog=` and `Epilog=` name on this node. slurmd runs all files that a pattern names. It drains
//! the node if one of them isn't a program that it can run, or if there is none. A name without a path is beside
//! slurm.conf, where slurmd puts what slurmctld sends. And squeue, which gpushare-prolog runs.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpushare_node::config::NodeConfig;
use gpushare_node::proc::image::program_of;
use gpushare_node::squeue;

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
        let fix = match bad.rsplit('/').next().unwrap_or_default() {
            it if it.contains("gpushare") => {
                "install the package gpushare-slurmd, or make install, on this node"
            }
            it if it.contains('*') => "put a program there (docs/install.md), or remove the line",
            _ => "make it an executable program, or remove it",
        };
        let said = format!("slurmd can't run {bad}: the next job drains this node");
        findings.push(Finding::wrong(about, said, fix));
    }
    findings
}

/// Whether gpushare-prolog finds squeue, which it looks for beside the program of `slurmd`, the process that runs it.
pub fn squeue(config: &NodeConfig, proc: &Path, slurmd: Option<u32>) -> Option<Finding> {
    let found = squeue::path(proc, slurmd.unwrap_or_default());
    let unseen = unseen(proc, slurmd);
    lacking(config, found.as_deref(), unseen, &std::env::var_os("PATH").unwrap_or_default())
}

/// Why slurmd's program is unknown.
fn unseen(proc: &Path, slurmd: Option<u32>) -> Option<&'static str> {
    match slurmd {
        None => Some("slurmd doesn't run"),
        Some(slurmd) => program_of(proc, slurmd).is_none().then_some("only root can see where slurmd is"),
    }
}

/// Without squeue no step runs whose job isn't in the ledger, where nothing of Slurm's says whether the job has a
/// share. If slurmd's program is unknown, a squeue in `path` may be the one beside it.
fn lacking(config: &NodeConfig, found: Option<&Path>, unseen: Option<&str>, path: &OsStr) -> Option<Finding> {
    if config.shows_shares() || found.is_some() {
        return None;
    }
    let Some(why) = unseen else {
        let said = "it isn't on this node: gpushare-prolog can't ask what a job requested, and then the job's steps \
                    fail";
        return Some(Finding::wrong("squeue", said, "install Slurm's commands for users on this node"));
    };
    let mut folders = std::env::split_paths(path);
    let said = format!("not found; gpushare-prolog also looks beside slurmd, but {why}");
    (!folders.any(|folder| folder.join("squeue").is_file())).then(|| Finding::unknown("squeue", said))
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
            assert_eq!(lacking(&config, None, None, OsStr::new("")).is_some(), lacks, "{rules}");
            assert_eq!(lacking(&config, Some(Path::new("/usr/bin/squeue")), None, OsStr::new("")), None);
        }
    }

    #[test]
    fn squeue_may_be_beside_a_slurmd_that_cannot_be_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, proc) = (dir.path().join("bin"), dir.path().join("proc"));
        fs::create_dir_all(proc.join("9")).unwrap();
        let beside = dir.path().join("beside");
        for folder in [&bin, &beside] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(beside.join("squeue"), "").unwrap();
        let config = Config::parse("Placement=own\nUnitsPerGpu=100").unwrap().of_node("n1").clone();
        fs::write(proc.join("9/status"), "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").unwrap();
        for (slurmd, why) in [(None, "slurmd doesn't run"), (Some(9), "only root can see where slurmd is")] {
            let of = |path: &Path| lacking(&config, None, unseen(&proc, slurmd), path.as_os_str());
            let found = of(&bin).unwrap();
            assert!(found.status == Status::Unknown && found.said.ends_with(why), "{found:?}");
            assert_eq!(of(&beside), None);
        }
        std::os::unix::fs::symlink(bin.join("slurmd"), proc.join("9/exe")).unwrap();
        assert_eq!(unseen(&proc, Some(9)), None);
        let found = lacking(&config, None, None, beside.as_os_str()).unwrap();
        assert!(matches!(found.status, Status::Wrong(_)), "a prolog may have no PATH: {found:?}");
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
