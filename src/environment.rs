//! The variables that tell a job's programs which GPU they have and how much of it: pure, from the ledger's entry.

use crate::ledger::Entry;

/// Variables of every task, batch script and shell of the job. `CUDA_VISIBLE_DEVICES` is the UUID, which is right
/// whatever CUDA's own order; where the driver doesn't tell it, `0`, because CUDA counts only the GPUs that it can open.
#[must_use]
pub fn variables(entry: &Entry) -> Vec<(&'static str, String)> {
    let index = entry.gpu.index.to_string();
    let mut variables = vec![
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage(entry).to_string()),
        ("GPUSHARE_GPU", index.clone()),
        ("GPUSHARE_UNITS", entry.units.to_string()),
        ("GPUSHARE_CAPACITY", entry.capacity.to_string()),
        ("SLURM_JOB_GPUS", index),
    ];
    match &entry.gpu.uuid {
        Some(uuid) => {
            variables.push(("CUDA_VISIBLE_DEVICES", uuid.clone()));
            variables.push(("NVIDIA_VISIBLE_DEVICES", uuid.clone()));
        }
        None => variables.push(("CUDA_VISIBLE_DEVICES", "0".to_owned())),
    }
    variables
}

/// The share in whole percent of the GPU that the job really has, at least 1 and at the most 100. Slurm's own value
/// relates to the GPU that it charged, which counts for the whole node.
fn percentage(entry: &Entry) -> u64 {
    (u64::from(entry.units) * 100).checked_div(u64::from(entry.capacity)).unwrap_or(100).clamp(1, 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceNumber, Gpu};
    use crate::job::JobKey;

    fn entry(units: u32, uuid: Option<&str>) -> Entry {
        Entry {
            key: JobKey { id: 1, restart: 0 },
            user_id: 0,
            units,
            capacity: 80,
            gpu: Gpu {
                index: 3,
                path: "/dev/nvidia3".into(),
                number: DeviceNumber { major: 195, minor: 3 },
                uuid: uuid.map(str::to_owned),
            },
            since: 0,
        }
    }

    fn value(entry: &Entry, name: &str) -> Option<String> {
        variables(entry).into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
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
        for (units, expected) in [(80, "100"), (40, "50"), (20, "25"), (1, "1"), (160, "100")] {
            let found = value(&entry(units, None), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
            assert_eq!(found.as_deref(), Some(expected), "{units} of 80");
        }
    }
}
