//! The variables that tell a job's programs which GPU they have, and how much of it. Pure: made from the ledger's
//! entry.

pub mod agree;
pub mod inherited;

use crate::config::{FrameworkEnv, NodeConfig, VisibleDevices};
use crate::ledger::{Entry, Given, Holding};
use crate::mps::service::{self, Daemon};

/// PyTorch's allocator reads all its settings from this variable; the user's own must stay.
pub const PYTORCH: &str = "PYTORCH_CUDA_ALLOC_CONF";

/// Slurm sets this too, for an mps share of its own.
pub const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
const MEMORY: &str = "GPUSHARE_MEM_MIB";
const MPS_MEMORY: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

/// What an entry and gpushare.conf say about what the job's steps need.
pub fn given(entry: &Entry, config: &NodeConfig) -> Given {
    let daemon = Daemon::of(entry, config.mps).map(|daemon| daemon.folder(&config.mps_dir));
    Given { daemon, variables: variables(entry, config), ..Given::default() }
}

/// What the steps of a job need to reach the daemon of its whole GPUs.
pub fn given_whole(entry: &Entry, config: &NodeConfig) -> Given {
    let daemon = Daemon::of_whole(entry);
    let variables = folders(daemon, config).map(|(name, value)| (name.to_owned(), value)).into();
    Given { daemon: Some(daemon.folder(&config.mps_dir)), variables, ..Given::default() }
}

fn folders(daemon: Daemon, config: &NodeConfig) -> [(&'static str, String); 2] {
    let (pipe, log) = (daemon.pipe(&config.mps_dir), daemon.log(&config.mps_dir));
    [("CUDA_MPS_PIPE_DIRECTORY", pipe), ("CUDA_MPS_LOG_DIRECTORY", log)]
        .map(|(name, path)| (name, path.to_string_lossy().into_owned()))
}

/// The variables of every task, batch script and shell of a job with a share. A job with whole GPUs gets none
/// here. `CUDA_VISIBLE_DEVICES` is `0` under every placement: CUDA counts only the GPUs that it can
/// open, and the fence leaves one; clients of an MPS daemon count the daemon's GPUs (NVIDIA's MPS documentation), and
/// it has one; a container that uses `NVIDIA_VISIBLE_DEVICES` has one. With `VisibleDevices=uuid` it is the UUID, if
/// the driver reports it.
pub fn variables(entry: &Entry, config: &NodeConfig) -> Vec<(String, String)> {
    let (Holding::Share { units, capacity, memory, .. }, Some(gpu)) = (&entry.holding, entry.share_gpu())
    else {
        return Vec::new();
    };
    let index = gpu.index.to_string();
    let fraction = fraction(*units, *capacity);
    let mut variables = vec![
        (PERCENTAGE, service::threads((*units, *capacity), config).to_string()),
        ("GPUSHARE_GPU", index.clone()),
        ("GPUSHARE_UNITS", units.to_string()),
        ("GPUSHARE_CAPACITY", capacity.to_string()),
        ("GPUSHARE_FRACTION", fraction.clone()),
        ("SLURM_JOB_GPUS", index),
    ];
    let named = gpu.uuid.as_ref().filter(|_| config.visible_devices == VisibleDevices::Uuid);
    variables.push(("CUDA_VISIBLE_DEVICES", named.map_or_else(|| "0".to_owned(), String::clone)));
    // This variable is also read outside the fence, where GPUs have other numbers.
    variables.extend(gpu.uuid.clone().map(|uuid| ("NVIDIA_VISIBLE_DEVICES", uuid)));
    variables.extend(memory.map(|mib| (MEMORY, mib.to_string())));
    if let Some(daemon) = Daemon::of(entry, config.mps) {
        variables.extend(folders(daemon, config));
        // The program sees only GPU 0. A limit for a GPU that it doesn't see would cancel all limits.
        variables.extend(memory.map(|mib| (MPS_MEMORY, format!("0={mib}M"))));
    }
    if config.framework_env >= FrameworkEnv::Yes {
        variables.push(("TF_FORCE_GPU_ALLOW_GROWTH", "true".to_owned()));
        variables.push(("XLA_PYTHON_CLIENT_MEM_FRACTION", fraction.clone()));
    }
    if config.framework_env == FrameworkEnv::Pytorch {
        variables.push((PYTORCH, pytorch(&fraction)));
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn pytorch(fraction: &str) -> String {
    format!("per_process_memory_fraction:{fraction}")
}

/// The share as a number from 0.001 to 1 with three digits, rounded down.
fn fraction(units: u32, capacity: u32) -> String {
    let thousandths =
        (u64::from(units) * 1000).checked_div(u64::from(capacity)).unwrap_or(1000).clamp(1, 1000);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mps;
    use crate::fake::{self, gpu, share};
    use crate::gpu::Gpu;

    pub(super) fn entry(units: u32, uuid: Option<&str>) -> Entry {
        let gpu = Gpu { uuid: uuid.map(str::to_owned), ..gpu(3) };
        Entry { holding: share(units, None), ..fake::entry(1, vec![gpu]) }
    }

    fn value(entry: &Entry, name: &str) -> Option<String> {
        value_with(VisibleDevices::Index, entry, name)
    }

    fn value_with(visible_devices: VisibleDevices, entry: &Entry, name: &str) -> Option<String> {
        let framework_env = FrameworkEnv::Pytorch;
        let config = NodeConfig { framework_env, visible_devices, ..NodeConfig::default() };
        variables(entry, &config).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[test]
    fn the_gpu_is_the_only_one_and_named_by_uuid_where_that_is_asked_for_and_known() {
        assert_eq!(value(&entry(40, Some("GPU-a")), "CUDA_VISIBLE_DEVICES").as_deref(), Some("0"));
        for (uuid, expected) in [(Some("GPU-a"), "GPU-a"), (None, "0")] {
            let found = value_with(VisibleDevices::Uuid, &entry(40, uuid), "CUDA_VISIBLE_DEVICES");
            assert_eq!(found.as_deref(), Some(expected));
        }
        assert_eq!(value(&entry(40, Some("GPU-a")), "NVIDIA_VISIBLE_DEVICES").as_deref(), Some("GPU-a"));
        assert_eq!(value(&entry(40, None), "CUDA_VISIBLE_DEVICES").as_deref(), Some("0"));
        assert_eq!(value(&entry(40, None), "NVIDIA_VISIBLE_DEVICES"), None);
        assert_eq!(value(&entry(40, None), "SLURM_JOB_GPUS").as_deref(), Some("3"));
    }

    #[test]
    fn the_percentage_relates_to_the_gpu_that_the_job_has() {
        for (units, percentage, fraction) in [
            (80, "100", "1.000"),
            (40, "50", "0.500"),
            (20, "25", "0.250"),
            (1, "1", "0.012"),
            (160, "100", "1.000"),
        ] {
            let entry = entry(units, None);
            let found = value(&entry, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
            assert_eq!(found.as_deref(), Some(percentage), "{units} of 80");
            assert_eq!(value(&entry, "GPUSHARE_FRACTION").as_deref(), Some(fraction));
            assert_eq!(value(&entry, "XLA_PYTHON_CLIENT_MEM_FRACTION").as_deref(), Some(fraction));
        }
    }

    #[test]
    fn a_daemon_and_limits_are_named_only_where_they_are() {
        let share = Entry { holding: share(40, Some(23_034)), ..entry(40, Some("GPU-a")) };
        let value = |mps, name: &str| {
            let config = NodeConfig { mps, ..NodeConfig::default() };
            variables(&share, &config).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        assert_eq!(value(Mps::Off, "GPUSHARE_MEM_MIB").as_deref(), Some("23034"));
        let named = ["CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"];
        assert_eq!(named.map(|name| value(Mps::Off, name)), [None, None, None]);
        let expected = ["/run/gpushare/mps/3.2001/pipe", "/run/gpushare/mps/3.2001/log", "0=23034M"];
        assert_eq!(named.map(|name| value(Mps::PerUser, name).unwrap()), expected);
        assert_eq!(value(Mps::Multiuser, named[0]).as_deref(), Some("/run/gpushare/mps/3.all/pipe"));
    }

    #[test]
    fn frameworks_are_told_only_where_that_is_asked_for_and_whole_gpus_are_slurms() {
        let share = entry(40, None);
        let names: Vec<_> =
            variables(&share, &NodeConfig::default()).into_iter().map(|(name, _)| name).collect();
        assert!(!names.iter().any(|name| name == "TF_FORCE_GPU_ALLOW_GROWTH"), "{names:?}");
        let yes = NodeConfig { framework_env: FrameworkEnv::Yes, ..NodeConfig::default() };
        assert!(!variables(&share, &yes).iter().any(|(name, _)| name == PYTORCH));
        assert_eq!(value(&share, PYTORCH).as_deref(), Some("per_process_memory_fraction:0.500"));
        let whole = Entry { holding: Holding::Whole, ..share };
        assert!(variables(&whole, &NodeConfig::default()).is_empty());
    }

    #[test]
    fn every_variable_is_in_the_manual_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../man/spank_gpushare.8");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once("\n.SH ENVIRONMENT\n").unwrap();
        let section = rest.split_once("\n.SH ").unwrap().0;
        let names = section.lines().filter(|line| line.starts_with(".B") && line.contains('_'));
        let mut there: Vec<&str> = names
            .flat_map(|line| line.split([' ', '"', ',']).skip(1))
            .filter(|word| !word.is_empty())
            .collect();
        let share = Entry { holding: share(40, Some(1)), ..entry(40, Some("GPU-a")) };
        let config =
            NodeConfig { mps: Mps::PerUser, framework_env: FrameworkEnv::Pytorch, ..NodeConfig::default() };
        let mut names: Vec<String> = variables(&share, &config).into_iter().map(|(name, _)| name).collect();
        there.sort_unstable();
        names.sort_unstable();
        assert_eq!(there, names);
    }
}
