//! The programs that `Prolog=` and `Epilog=` name on this node. slurmd runs all files that a pattern names. It drains
//! the node if one of them isn't a program that it can run, or if there is none.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::finding::Finding;
use crate::requirements::matching;
use crate::slurm::Settings;

/// What slurmd can't run.
pub fn findings(settings: &Settings) -> Vec<Finding> {
    let can_run = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
    // Only slurmd knows what other patterns name.
    let is_clear = |path: &&String| {
        !path.contains(['?', '[']) && !path.rsplit_once('/').is_some_and(|(folder, _)| folder.contains('*'))
    };
    let bad = |path: &String| {
        let files = matching(Path::new("/"), path);
        let none = files.is_empty().then(|| path.clone());
        none.or_else(|| files.iter().find(|file| !can_run(file)).map(|file| file.display().to_string()))
    };
    let mut findings = Vec::new();
    for about in ["Prolog", "Epilog"] {
        let Some(bad) = settings.all(about).iter().filter(is_clear).find_map(bad) else { continue };
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
            let found =
                findings(&Settings::parse(&format!("Prolog[0] = {}/{pattern}\n", dir.path().display())));
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
            assert_eq!(bad(pattern), expected, "{pattern}");
        }
        assert_eq!(findings(&Settings::default()), []);
        write("d/README", 0o644);
        assert_eq!(bad("d/*"), shown("d/README"));
    }
}
