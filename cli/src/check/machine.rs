//! What must be the same on all machines: versions, and the contents of files, each as a hash. A machine reports only
//! itself; [`super::fleet`] compares machines.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gpushare::config;
use gpushare::text::number;
use serde::{Deserialize, Serialize};

use super::plugins;
use super::plugstack::Plugstack;
use crate::slurm::file::ConfFile;
use crate::slurm::{self, Settings};
use gpushare_machine::local::now;

/// The value for a file that doesn't exist.
pub const ABSENT: &str = "absent";

/// The facts of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Slurm's name for it.
    pub node: String,
    /// The time of the report, in seconds since 1970.
    pub time: u64,
    /// By name: `gpushare` and `Slurm`.
    pub versions: BTreeMap<String, String>,
    /// By name: a number that differs if the contents do, or [`ABSENT`].
    pub files: BTreeMap<String, String>,
}

/// The facts of this machine.
pub fn here(conf: Option<&Path>, slurm_conf: &Path, settings: &Settings) -> Machine {
    let mut versions = BTreeMap::from([("gpushare".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let installed = ["slurmd", plugins::OF_USERS].into_iter().find_map(super::version::of_program);
    versions.extend(installed.map(|version| ("Slurm".to_owned(), version.to_string())));
    let rules = conf.map_or_else(|| config::find(slurm_conf, Path::new(config::FALLBACK)), Path::to_owned);
    let mut files = BTreeMap::from([("gpushare.conf".to_owned(), of_files(&[rules]))]);
    for name in ["gres.conf", "cgroup.conf"] {
        let path = slurm_conf.with_file_name(name);
        let read = ConfFile::read(&path).map_or_else(|_| vec![path], |conf| conf.files);
        files.insert(name.to_owned(), of_files(&read));
    }
    let stack = Plugstack::read(settings.get("PlugStackConfig"), slurm_conf);
    // It doesn't matter which of the included files has a line.
    let said = format!("{:?}{:?}{}", stack.fence, stack.hooks, stack.pyxis_after);
    files.insert("plugstack.conf".to_owned(), number([said.as_bytes()]));
    for (name, path) in plugins::files(settings, slurm_conf) {
        files.insert(name.to_owned(), of_files(&[path]));
    }
    Machine { node: slurm::host(), time: now(), versions, files }
}

fn of_files(paths: &[PathBuf]) -> String {
    let texts: Option<Vec<Vec<u8>>> = paths.iter().map(|path| fs::read(path).ok()).collect();
    texts.map_or_else(|| ABSENT.to_owned(), |texts| number(texts.iter().map(Vec::as_slice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_number_that_changes_with_it_and_none_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let look = || here(None, &path("slurm.conf"), &Settings::default()).files;
        assert_eq!(look()["cgroup.conf"], ABSENT);
        fs::write(path("gpushare.conf"), "Mode=audit\n").unwrap();
        fs::write(path("gres.conf"), "Include more.conf\n").unwrap();
        fs::write(path("more.conf"), "Name=gpu\n").unwrap();
        let before = look();
        fs::write(path("more.conf"), "Name=gpu File=/dev/nvidia0\n").unwrap();
        fs::write(path("plugstack.conf"), "required spank_gpushare.so\n").unwrap();
        let after = look();
        let changed: Vec<&String> = after.keys().filter(|name| before[*name] != after[*name]).collect();
        assert_eq!(changed, ["gres.conf", "plugstack.conf"]);
    }
}
