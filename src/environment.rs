//! The variables that tell a job's programs which GPU they have and how much of it: pure, from the ledger's entry.

use crate::config::NodeConfig;
use crate::ledger::{Entry, Holding};

/// Variables of every task, batch script and shell of a job with a share; none for one with whole GPUs, whose variables
/// are Slurm's. `CUDA_VISIBLE_DEVICES` is the UUID, which is right whatever CUDA's own order; where the driver doesn't
/// tell it, `0`, because CUDA counts only the GPUs that it can open.
#[must_use]
pub fn variables(entry: &Entry, config: &NodeConfig) -> Vec<(&'static str, String)> {
    let (Holding::Share { units, capacity, .. }, Some(gpu)) = (&entry.holding, entry.share_gpu()) else {
        return Vec::new();
    };
    let index = gpu.index.to_string();
    let fraction = fraction(*units, *capacity);
    let mut variables = vec![
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage(*units, *capacity).to_string()),
        ("GPUSHARE_GPU", index.clone()),
        ("GPUSHARE_UNITS", units.to_string()),
        ("GPUSHARE_CAPACITY", capacity.to_string()),
        ("GPUSHARE_FRACTION", fraction.clone()),
        ("SLURM_JOB_GPUS", index),
    ];
    match &gpu.uuid {
        Some(uuid) => {
            variables.push(("CUDA_VISIBLE_DEVICES", uuid.clone()));
            variables.push(("NVIDIA_VISIBLE_DEVICES", uuid.clone()));
        }
        None => variables.push(("CUDA_VISIBLE_DEVICES", "0".to_owned())),
    }
    if config.framework_env {
        variables.push(("TF_FORCE_GPU_ALLOW_GROWTH", "true".to_owned()));
        variables.push(("XLA_PYTHON_CLIENT_MEM_FRACTION", fraction));
    }
    variables
}

/// The same as lines for a shell to read: an ssh session gets none of a step's variables.
#[must_use]
pub fn shell_lines(entry: &Entry, config: &NodeConfig) -> String {
    let line = |(name, value): (&str, String)| format!("export {name}='{}'\n", value.replace('\'', "'\\''"));
    variables(entry, config).into_iter().map(line).collect()
}

/// The share in whole percent of the GPU that the job really has, at least 1 and at the most 100. Slurm's own value
/// relates to the GPU that it charged, which may count for the whole node.
fn percentage(units: u32, capacity: u32) -> u64 {
    (u64::from(units) * 100).checked_div(u64::from(capacity)).unwrap_or(100).clamp(1, 100)
}

/// The share as a number from 0.001 to 1, with three digits, rounded down.
fn fraction(units: u32, capacity: u32) -> String {
    let thousandths =
        (u64::from(units) * 1000).checked_div(u64::from(capacity)).unwrap_or(1000).clamp(1, 1000);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceNumber, Gpu};
    use crate::job::JobKey;

    fn entry(units: u32, uuid: Option<&str>) -> Entry {
        let number = DeviceNumber { major: 195, minor: 3 };
        let gpu = Gpu { index: 3, path: "/dev/nvidia3".into(), number, uuid: uuid.map(str::to_owned) };
        Entry {
            key: JobKey { id: 1, restart: 0 },
            user_id: 0,
            holding: Holding::Share { units, capacity: 80, charged: None },
            gpus: vec![gpu],
            since: 0,
        }
    }

    fn value(entry: &Entry, name: &str) -> Option<String> {
        let config = NodeConfig { framework_env: true, ..NodeConfig::default() };
        variables(entry, &config).into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    #[test]
    fn the_gpu_is_named_by_uuid_where_it_is_known() {
        assert_eq!(value(&entry(40, Some("GPU-a")), "CUDA_VISIBLE_DEVICES").as_deref(), Some("GPU-a"));
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
    fn frameworks_are_told_only_where_that_is_asked_for_and_whole_gpus_are_slurms() {
        let share = entry(40, None);
        let names: Vec<_> =
            variables(&share, &NodeConfig::default()).into_iter().map(|(name, _)| name).collect();
        assert!(!names.contains(&"TF_FORCE_GPU_ALLOW_GROWTH"), "{names:?}");
        let whole = Entry { holding: Holding::Whole, ..share };
        assert!(variables(&whole, &NodeConfig::default()).is_empty());
    }

    #[test]
    fn a_shell_reads_the_lines_as_they_are_meant() {
        let lines = shell_lines(&entry(40, Some("GPU-a")), &NodeConfig::default());
        assert!(lines.contains("export CUDA_VISIBLE_DEVICES='GPU-a'\n"), "{lines}");
        let lines = shell_lines(&entry(40, Some("a'b")), &NodeConfig::default());
        assert!(lines.contains("'a'\\''b'"), "{lines}");
    }
}
