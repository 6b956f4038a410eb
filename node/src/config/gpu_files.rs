//! `GpuFile`: which device nodes are GPUs, in which order.

use std::path::PathBuf;

use gpushare::text::hostlist;

/// Which device nodes are GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuFiles {
    /// Every `/dev/nvidiaN`, by number; where Slurm counts GPUs, in the order of gres.conf.
    #[default]
    Auto,
    /// The listed ones, in this order.
    Listed(Vec<PathBuf>),
}

impl GpuFiles {
    /// Reads `auto`, or paths separated by commas, each with at most one `[…]` of numbers and ranges as in gres.conf.
    pub fn parse(value: &str) -> Option<GpuFiles> {
        if value.eq_ignore_ascii_case("auto") {
            return Some(GpuFiles::Auto);
        }
        let paths = paths(value)?;
        let unique =
            paths.iter().enumerate().all(|(at, path)| !paths.iter().take(at).any(|other| other == path));
        unique.then_some(GpuFiles::Listed(paths))
    }
}

/// The paths that `File=` lists, in gpushare.conf and in gres.conf.
pub fn paths(value: &str) -> Option<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for part in hostlist::split(value) {
        for path in hostlist::whole::expand(part)? {
            if !path.starts_with('/')
                || path.contains(char::is_control)
                || paths.len() >= hostlist::whole::MOST
            {
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
            GpuFiles::Auto => None,
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
}
