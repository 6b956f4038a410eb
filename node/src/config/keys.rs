//! The keys of a node's settings: on separate lines for all nodes, or on a `NodeName=` line for some.

use std::path::PathBuf;
use std::time::Duration;

use gpushare::config::nodes::{MEM_PER_UNIT, mem_per_unit};
use gpushare::config::units::UNITS_PER_GPU;
use gpushare::config::values::{Key, SHARE_GRES, keys, number, off_or_path, path, share_gres};
use gpushare::word::Word;

use super::{
    ComputeMode, ForeignProcesses, FrameworkEnv, GpuFiles, Mps, NodeConfig, Nvml, OnCollision, OnMpsFailure,
    Overcommit, Packing, Placement, RUN_DIR, UnitsPerGpu, UserMix, VisibleDevices,
};

/// What is the same on all nodes.
pub(super) const FOR_ALL: &[Key<NodeConfig>] = keys! { "ShareGRES": SHARE_GRES => share_gres = share_gres; };

pub(super) const KEYS: &[Key<NodeConfig>] = keys! {
    "Placement": Placement::ALLOWED => placement = Placement::read;
    "UnitsPerGpu": UNITS_PER_GPU => units_per_gpu = UnitsPerGpu::parse;
    "GpuFile": "auto, or paths as in gres.conf's File=, such as /dev/nvidia[0-3]" => gpu_files = GpuFiles::parse;
    "Packing": Packing::ALLOWED => packing = Packing::read;
    "UserMix": UserMix::ALLOWED => user_mix = UserMix::read;
    "OnCollision": OnCollision::ALLOWED => on_collision = OnCollision::read;
    "FenceDrm": bool::ALLOWED => fence_drm = bool::read;
    "VisibleDevices": VisibleDevices::ALLOWED => visible_devices = VisibleDevices::read;
    "FrameworkEnv": FrameworkEnv::ALLOWED => framework_env = FrameworkEnv::read;
    "MemPerUnit": MEM_PER_UNIT => mem_per_unit = mem_per_unit;
    "Nvml": "auto, off, or the path of libnvidia-ml.so.1" => nvml = nvml;
    "NvmlTimeout": "milliseconds, from 10 to 10000" => nvml_timeout = |text| milliseconds(text, 10, 10_000);
    "Mps": Mps::ALLOWED => mps = Mps::read;
    "MpsWholeGpus": bool::ALLOWED => mps_whole_gpus = bool::read;
    "MpsControl": "the path of nvidia-cuda-mps-control" => mps_control = path;
    "MpsDir": "the path of a directory, at most 60 characters long" => mps_dir = mps_dir;
    "MpsTimeout": "milliseconds, from 100 to 60000" => mps_timeout = |text| milliseconds(text, 100, 60_000);
    "OnMpsFailure": OnMpsFailure::ALLOWED => on_mps_failure = OnMpsFailure::read;
    "ComputeMode": ComputeMode::ALLOWED => compute_mode = ComputeMode::read;
    "Overcommit": Overcommit::ALLOWED => overcommit = Overcommit::read;
    "ForeignProcesses": ForeignProcesses::ALLOWED => foreign_processes = ForeignProcesses::read;
    "JobstatsDir": EXPORTER_DIR => jobstats_dir = exporter_dir;
    "DcgmJobMappingDir": EXPORTER_DIR => dcgm_dir = exporter_dir;
};

const EXPORTER_DIR: &str = "off, or an absolute path that is not gpushare's own /run/gpushare";

/// Parses a number of milliseconds within limits.
fn milliseconds(value: &str, least: u32, most: u32) -> Option<Duration> {
    number(value, least, most).map(|number| Duration::from_millis(number.into()))
}

fn mps_dir(value: &str) -> Option<PathBuf> {
    path(value).filter(|path| path.as_os_str().len() <= 60)
}

/// In that directory, files that are named by numbers could be the ledger's.
fn exporter_dir(value: &str) -> Option<Option<PathBuf>> {
    off_or_path(value).filter(|folder| !folder.as_ref().is_some_and(|folder| folder.starts_with(RUN_DIR)))
}

fn nvml(value: &str) -> Option<Nvml> {
    if value.eq_ignore_ascii_case("auto") {
        return Some(Nvml::Auto);
    }
    off_or_path(value).map(|path| path.map_or(Nvml::Off, Nvml::At))
}
