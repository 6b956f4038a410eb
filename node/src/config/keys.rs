//! The keys of a node's settings: on separate lines for all nodes, or on a `NodeName=` line for some.

use gpushare::config::nodes::MEM_PER_UNIT;
use gpushare::config::units::UNITS_PER_GPU;
use gpushare::config::values::{
    Key, SHARE_GRES, milliseconds, number, off_or_path, path, share_gres, word_key,
};

use super::{
    ComputeMode, ForeignProcesses, FrameworkEnv, GpuFiles, Mps, NodeConfig, Nvml, OnCollision, OnMpsFailure,
    Overcommit, Packing, Placement, RUN_DIR, UnitsPerGpu, UserMix, VisibleDevices,
};

/// What is the same on all nodes.
pub(super) const FOR_ALL: [Key<NodeConfig>; 1] = [Key {
    name: "ShareGRES",
    allowed: SHARE_GRES,
    take: |node, value| share_gres(value).map(|found| node.share_gres = found),
}];

pub(super) const KEYS: [Key<NodeConfig>; 23] = [
    word_key!("Placement": Placement => placement),
    Key {
        name: "UnitsPerGpu",
        allowed: UNITS_PER_GPU,
        take: |node, value| UnitsPerGpu::parse(value).map(|found| node.units_per_gpu = Some(found)),
    },
    Key {
        name: "GpuFile",
        allowed: "auto, or paths as in gres.conf's File=, such as /dev/nvidia[0-3]",
        take: |node, value| GpuFiles::parse(value).map(|found| node.gpu_files = found),
    },
    word_key!("Packing": Packing => packing),
    word_key!("UserMix": UserMix => user_mix),
    word_key!("OnCollision": OnCollision => on_collision),
    word_key!("FenceDrm": bool => fence_drm),
    word_key!("VisibleDevices": VisibleDevices => visible_devices),
    word_key!("FrameworkEnv": FrameworkEnv => framework_env),
    Key {
        name: "MemPerUnit",
        allowed: MEM_PER_UNIT,
        take: |node, value| number(value, 1, 1_000_000).map(|found| node.mem_per_unit = Some(found)),
    },
    Key {
        name: "Nvml",
        allowed: "auto, off, or the path of libnvidia-ml.so.1",
        take: |node, value| nvml(value).map(|found| node.nvml = found),
    },
    Key {
        name: "NvmlTimeout",
        allowed: "milliseconds, from 10 to 10000",
        take: |node, value| milliseconds(value, 10, 10_000).map(|found| node.nvml_timeout = found),
    },
    word_key!("Mps": Mps => mps),
    word_key!("MpsWholeGpus": bool => mps_whole_gpus),
    Key {
        name: "MpsControl",
        allowed: "the path of nvidia-cuda-mps-control",
        take: |node, value| path(value).map(|found| node.mps_control = found),
    },
    Key {
        name: "MpsDir",
        allowed: "the path of a directory, at most 60 characters long",
        take: |node, value| {
            path(value).filter(|path| path.as_os_str().len() <= 60).map(|found| node.mps_dir = found)
        },
    },
    Key {
        name: "MpsTimeout",
        allowed: "milliseconds, from 100 to 60000",
        take: |node, value| milliseconds(value, 100, 60_000).map(|found| node.mps_timeout = found),
    },
    word_key!("OnMpsFailure": OnMpsFailure => on_mps_failure),
    word_key!("ComputeMode": ComputeMode => compute_mode),
    word_key!("Overcommit": Overcommit => overcommit),
    word_key!("ForeignProcesses": ForeignProcesses => foreign_processes),
    Key {
        name: "JobstatsDir",
        allowed: "off, or an absolute path that is not gpushare's own /run/gpushare",
        take: |node, value| exporter_dir(value).map(|folder| node.jobstats_dir = folder),
    },
    Key {
        name: "DcgmJobMappingDir",
        allowed: "off, or an absolute path that is not gpushare's own /run/gpushare",
        take: |node, value| exporter_dir(value).map(|folder| node.dcgm_dir = folder),
    },
];

/// In that directory, files that are named by numbers could be the ledger's.
fn exporter_dir(value: &str) -> Option<Option<std::path::PathBuf>> {
    off_or_path(value).filter(|folder| !folder.as_ref().is_some_and(|folder| folder.starts_with(RUN_DIR)))
}

fn nvml(value: &str) -> Option<Nvml> {
    if value.eq_ignore_ascii_case("auto") {
        return Some(Nvml::Auto);
    }
    off_or_path(value).map(|path| path.map_or(Nvml::Off, Nvml::At))
}
