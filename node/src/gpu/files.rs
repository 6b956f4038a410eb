//! Which of a node's device nodes are GPUs, in Slurm's order.

use std::path::{Path, PathBuf};

use crate::config::GpuFiles;

use super::GresConfError;
use super::gres_conf::{self, Counted};

/// Which device nodes are GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// Every `/dev/nvidiaN`, by number.
    All,
    /// The listed ones, in this order.
    Listed(Vec<PathBuf>),
    /// The ones in gres.conf.
    Counted(Counted),
}

impl Files {
    /// What `GpuFile` means here. Where Slurm's indices count, `auto` is the order of gres.conf, if it names this
    /// node's GPUs. `gres_conf` is the file's path; without a path, or if the file doesn't exist, `auto` is every GPU.
    /// `node` is Slurm's name for this node (SLURMD_NODENAME).
    ///
    /// # Errors
    /// gres.conf can't be read with certainty.
    pub fn of(
        config: &GpuFiles,
        gres_conf: Option<&Path>,
        node: Option<&str>,
    ) -> Result<Files, GresConfError> {
        match (config, gres_conf) {
            (GpuFiles::Listed(paths), _) => Ok(Files::Listed(paths.clone())),
            (GpuFiles::Auto, Some(path)) => {
                Ok(gres_conf::load(path, node)?.map_or(Files::All, Files::Counted))
            }
            (GpuFiles::Auto, None) => Ok(Files::All),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_order_of_gres_conf_only_where_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gres.conf");
        let here = |files: &GpuFiles| Files::of(files, Some(&path), Some("n1")).unwrap();
        assert_eq!(here(&GpuFiles::Auto), Files::All);
        std::fs::write(&path, "Name=gpu File=/dev/nvidia[1,0]\n").unwrap();
        assert!(matches!(here(&GpuFiles::Auto), Files::Counted(_)));
        assert_eq!(Files::of(&GpuFiles::Auto, None, Some("n1")).unwrap(), Files::All);
        let listed = GpuFiles::parse("/dev/nvidia0").unwrap();
        assert_eq!(
            here(&listed),
            Files::Listed(vec!["/dev/nvidia0".into()]),
            "what the administrator lists counts"
        );
        std::fs::write(&path, "Name=gpu File=/dev/nvidia[1,0\n").unwrap();
        assert!(Files::of(&GpuFiles::Auto, Some(&path), Some("n1")).is_err());
    }
}
