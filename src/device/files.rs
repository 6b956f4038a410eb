//! `GpuFile`: which device nodes are GPUs, in which order.

use std::path::{Path, PathBuf};

use super::gres_conf::{self, Counted};
use super::{GresConfError, MOST, hostlist};

/// Which device nodes are GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuFiles {
    /// Every `/dev/nvidiaN`, by number.
    #[default]
    Auto,
    /// These, in this order.
    Listed(Vec<PathBuf>),
    /// As gres.conf has them.
    Counted(Counted),
}

impl GpuFiles {
    /// Reads `auto`, or paths separated by commas, each with at most one `[…]` of numbers and ranges as in gres.conf.
    #[must_use]
    pub fn parse(value: &str) -> Option<GpuFiles> {
        if value.eq_ignore_ascii_case("auto") {
            return Some(GpuFiles::Auto);
        }
        let paths = paths(value)?;
        let unique =
            paths.iter().enumerate().all(|(at, path)| !paths.iter().take(at).any(|other| other == path));
        unique.then_some(GpuFiles::Listed(paths))
    }

    /// Settles what `auto` means where Slurm's indices count: the order of gres.conf, if it names this node's GPUs.
    /// `gres_conf` is the file's path; without one, or without a file there, `auto` stays as it is. `node` is what Slurm
    /// calls this node (SLURMD_NODENAME).
    pub fn resolve(&self, gres_conf: Option<&Path>, node: Option<&str>) -> Result<GpuFiles, GresConfError> {
        match (self, gres_conf) {
            (GpuFiles::Auto, Some(path)) => {
                Ok(gres_conf::load(path, node)?.map_or(GpuFiles::Auto, GpuFiles::Counted))
            }
            (files, _) => Ok(files.clone()),
        }
    }
}

/// What `File=` lists.
pub(super) fn paths(value: &str) -> Option<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for part in hostlist::split(value) {
        for path in hostlist::expand(part)? {
            if !path.starts_with('/') || path.contains(char::is_control) || paths.len() >= MOST {
                return None;
            }
            paths.push(PathBuf::from(path));
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(value: &str) -> Option<Vec<String>> {
        match GpuFiles::parse(value)? {
            GpuFiles::Listed(paths) => Some(paths.iter().map(|path| path.display().to_string()).collect()),
            _ => None,
        }
    }

    #[test]
    fn files_are_written_as_in_gres_conf() {
        assert_eq!(GpuFiles::parse("auto"), Some(GpuFiles::Auto));
        for (value, expected) in [
            ("/dev/nvidia0", vec!["/dev/nvidia0"]),
            ("/dev/nvidia[0-2,5]", vec!["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia5"]),
            ("/dev/nvidia1,/dev/nvidia0", vec!["/dev/nvidia1", "/dev/nvidia0"]),
            ("/dev/g[08-10]x", vec!["/dev/g08x", "/dev/g09x", "/dev/g10x"]),
        ] {
            assert_eq!(paths(value).unwrap(), expected, "{value}");
        }
        for value in [
            "",
            "nvidia0",
            "/dev/nvidia[",
            "/dev/nvidia[]",
            "/dev/nvidia[3-1]",
            "/dev/nvidia[0-999999]",
            "/dev/n[0]x[1]",
            "/dev/nvidia0,",
            "/dev/nvidia0,/dev/nvidia0",
            "/dev/nvidia[a]",
            "/dev/nvidia]",
        ] {
            assert_eq!(GpuFiles::parse(value), None, "{value}");
        }
    }

    #[test]
    fn auto_is_the_order_of_gres_conf_only_where_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gres.conf");
        let resolved = |files: &GpuFiles| files.resolve(Some(&path), Some("n1")).unwrap();
        assert_eq!(resolved(&GpuFiles::Auto), GpuFiles::Auto);
        std::fs::write(&path, "Name=gpu File=/dev/nvidia[1,0]\n").unwrap();
        assert!(matches!(resolved(&GpuFiles::Auto), GpuFiles::Counted(_)));
        assert_eq!(GpuFiles::Auto.resolve(None, Some("n1")).unwrap(), GpuFiles::Auto);
        let listed = GpuFiles::parse("/dev/nvidia0").unwrap();
        assert_eq!(resolved(&listed), listed, "what the administrator lists counts");
        std::fs::write(&path, "Name=gpu File=/dev/nvidia[1,0\n").unwrap();
        assert!(GpuFiles::Auto.resolve(Some(&path), Some("n1")).is_err());
    }
}
