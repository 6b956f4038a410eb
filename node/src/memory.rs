//! Limits the GPU memory of a whole job, not only of each of its programs, where the machine offers that: by the driver,
//! through NVML (615 and newer), else by the kernel's dmem controller. Both want cgroup v2.
//!
//! The driver comes first, because NVIDIA wants it so where it is offered ("Always set limits through nvidia-smi or NVML
//! rather than writing the dmem.* files directly", MPS documentation, Memory Partitioning). Nothing is reserved, so nothing
//! must be undone: the limit goes with the cgroup.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpushare::config::NodeConfig;
use gpushare::device::{self, Roots};
use gpushare::dmem::{CAPACITY_FILE, LIMIT_FILE, limit_lines};
use gpushare::ledger::{Entry, Holding, Ledger};

use crate::nvml::{self, Trouble};

/// Who limits a job's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Limited {
    /// The driver.
    ByDriver,
    /// The kernel.
    ByKernel,
    /// Nobody: the machine offers nothing, or the job has no limit.
    Not,
}

/// Why a limit that is offered can't be set.
#[derive(Debug)]
pub enum MemoryError {
    /// NVML knows GPUs by UUID, and this one's isn't known.
    NoUuid,
    /// NVML refused.
    Nvml(Trouble),
    /// The file can't be read or written.
    File(PathBuf, io::Error),
}

/// Limits what the processes in a job's cgroup, `cgroup`, can have of their share's GPU.
pub fn limit(
    config: &NodeConfig,
    ledger: &Ledger,
    roots: &Roots,
    (entry, cgroup): (&Entry, &Path),
) -> Result<Limited, MemoryError> {
    let Holding::Share { memory: Some(mib), .. } = entry.holding else { return Ok(Limited::Not) };
    let Some(gpu) = entry.share_gpu() else { return Ok(Limited::Not) };
    if ledger.has_limits() && config.nvml != gpushare::config::Nvml::Off {
        let uuid = gpu.uuid.as_deref().ok_or(MemoryError::NoUuid)?;
        return nvml::limit_memory(config, uuid, cgroup, mib)
            .map(|()| Limited::ByDriver)
            .map_err(MemoryError::Nvml);
    }
    match device::pci_address(gpu, roots) {
        Some(pci) => by_kernel(cgroup, &pci, mib),
        None => Ok(Limited::Not),
    }
}

fn by_kernel(cgroup: &Path, pci: &str, mib: u32) -> Result<Limited, MemoryError> {
    let file = cgroup.join(LIMIT_FILE);
    // Without it the controller isn't enabled for the job's cgroup, and enabling it is Slurm's affair and the site's.
    let root = cgroup.ancestors().skip(1).find(|folder| folder.join(CAPACITY_FILE).is_file());
    let Some(root) = root.filter(|_| file.is_file()) else { return Ok(Limited::Not) };
    let capacity = root.join(CAPACITY_FILE);
    let capacity = fs::read_to_string(&capacity).map_err(|error| MemoryError::File(capacity, error))?;
    let lines = limit_lines(&capacity, pci, mib);
    for line in &lines {
        let written =
            OpenOptions::new().write(true).open(&file).and_then(|mut open| open.write_all(line.as_bytes()));
        written.map_err(|error| MemoryError::File(file.clone(), error))?;
    }
    Ok(if lines.is_empty() { Limited::Not } else { Limited::ByKernel })
}

impl fmt::Display for MemoryError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            MemoryError::NoUuid => write!(out, "the UUID of its GPU is not known"),
            MemoryError::Nvml(trouble) => trouble.fmt(out),
            MemoryError::File(path, error) => write!(out, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for MemoryError {}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare::device::{DeviceNumber, Gpu};
    use gpushare::job::JobKey;

    fn entry(memory: Option<u32>) -> Entry {
        let number = DeviceNumber { major: 195, minor: 0 };
        let gpu = Gpu { index: 0, path: "/dev/nvidia0".into(), number, uuid: None };
        Entry {
            key: JobKey { id: 7, restart: 0 },
            user_id: 2001,
            holding: Holding::Share { units: 1, capacity: 4, charged: None, memory },
            gpus: vec![gpu],
            since: 0,
        }
    }

    /// A machine with one GPU in `proc`, a root cgroup and a job's.
    fn machine() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let gpu = top.path().join("proc/driver/nvidia/gpus/0000:c1:00.0");
        fs::create_dir_all(&gpu).unwrap();
        fs::write(gpu.join("information"), "Device Minor: \t 0\n").unwrap();
        let job = top.path().join("cgroup/system.slice/n1_slurmstepd.scope/job_7");
        fs::create_dir_all(&job).unwrap();
        (top, job)
    }

    #[test]
    fn the_kernel_limits_where_its_controller_is_enabled_for_the_job() {
        let (top, job) = machine();
        let ledger = Ledger::at(top.path().join("run"));
        let config = NodeConfig::default();
        let limit = |memory| limit(&config, &ledger, &Roots::at(top.path()), (&entry(memory), &job));
        assert_eq!(limit(Some(2048)).unwrap(), Limited::Not, "no controller");
        fs::write(top.path().join("cgroup/dmem.capacity"), "nvidia/0000:c1:00.0/vidmem 85899345920\n")
            .unwrap();
        assert_eq!(limit(Some(2048)).unwrap(), Limited::Not, "not for this cgroup");
        assert!(!job.join("dmem.max").exists(), "and none is made there");
        fs::write(job.join("dmem.max"), "").unwrap();
        assert_eq!(limit(None).unwrap(), Limited::Not, "a share without a size");
        assert_eq!(limit(Some(2048)).unwrap(), Limited::ByKernel);
        let written = fs::read_to_string(job.join("dmem.max")).unwrap();
        assert_eq!(written, "nvidia/0000:c1:00.0/vidmem 2147483648\n");
        fs::write(top.path().join("cgroup/dmem.capacity"), "drm/0000:01:00.0/vram0 1\n").unwrap();
        assert_eq!(limit(Some(2048)).unwrap(), Limited::Not, "another GPU's memory");
    }

    #[test]
    fn where_the_driver_limits_the_kernels_file_is_left_to_it() {
        let (top, job) = machine();
        let ledger = Ledger::at(top.path().join("run"));
        ledger.note_answer(true, std::time::Duration::from_secs(1)).unwrap();
        fs::write(job.join("dmem.max"), "").unwrap();
        let limit =
            limit(&NodeConfig::default(), &ledger, &Roots::at(top.path()), (&entry(Some(2048)), &job));
        assert!(matches!(limit, Err(MemoryError::NoUuid)), "{limit:?}");
        assert_eq!(fs::read_to_string(job.join("dmem.max")).unwrap(), "");
    }
}
