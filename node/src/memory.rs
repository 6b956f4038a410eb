//! Limits the GPU memory of a whole job, not only of each of its programs, if the machine offers that: through NVML and
//! the driver (615 and newer), otherwise through the kernel's dmem controller. Both need cgroup v2.
//!
//! The driver comes first, because NVIDIA asks for that ("Always set limits through nvidia-smi or NVML rather than
//! writing the dmem.* files directly", MPS documentation, Memory Partitioning). Nothing is reserved, so nothing must be
//! undone: the limit disappears with the cgroup. An existing limit stays.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::config::NodeConfig;
use crate::ledger::{Entry, Holding};
use dmem::{CAPACITY_FILE, LIMIT_FILE, is_limited, limit_lines};

use crate::nvml::{Trouble, limit_memory};
use crate::proc::cgroup::job_folder_v2;

mod dmem;

/// What limits a job's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Limited {
    /// The driver.
    ByDriver,
    /// The kernel.
    ByKernel,
    /// A limit that already existed, such as Slurm's by ConstrainDeviceMemory (26.11).
    Before,
    /// Nothing: the machine offers no limit, or the job has none.
    Not,
}

gpushare::errors! {
    /// Why an offered limit can't be set.
    #[derive(Debug)]
    pub enum MemoryError {
        NoUuid => "the UUID of its GPU is not known";
        Nvml(trouble: Trouble) => "{trouble}";
        File(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
    }
}

/// Limits how much memory of the share's GPU the processes in a job's cgroup, `cgroup`, can have.
///
/// # Errors
/// A limit is offered but can't be set.
pub fn limit(config: &NodeConfig, entry: &Entry, cgroup: &Path) -> Result<Limited, MemoryError> {
    let Holding::Share { memory: Some(mib), .. } = entry.holding else { return Ok(Limited::Not) };
    let Some(gpu) = entry.share_gpu() else { return Ok(Limited::Not) };
    let kernel = match &entry.given.pci {
        Some(pci) => Kernel::of(cgroup, pci, mib)?,
        None => Kernel::Without,
    };
    match kernel {
        Kernel::Limits => Ok(Limited::Before),
        Kernel::NotHere => Ok(Limited::Not),
        Kernel::Without | Kernel::Would { .. } if entry.given.driver_limits => {
            let uuid = gpu.uuid.as_deref().ok_or(MemoryError::NoUuid)?;
            let set = limit_memory(config, uuid, cgroup, mib);
            set.map(|()| Limited::ByDriver).map_err(MemoryError::Nvml)
        }
        Kernel::Would { file, lines } => write(file, &lines).map(|()| Limited::ByKernel),
        Kernel::Without => Ok(Limited::Not),
    }
}

/// The same by a prolog that runs inside the job (`PrologFlags=RunInJob`). The job's extern step came before the entry.
///
/// # Errors
/// As for `limit`.
pub fn limit_from_inside(config: &NodeConfig, entry: &Entry) -> Result<Limited, MemoryError> {
    match job_folder_v2(&read(Path::new("/proc/self/cgroup"))?) {
        Some(cgroup) => limit(config, entry, &cgroup),
        None => Ok(Limited::Not),
    }
}

/// What the kernel's controller can do about a GPU's memory in a job's cgroup.
enum Kernel {
    /// The memory is already limited.
    Limits,
    /// Writing these lines would limit it.
    Would { file: PathBuf, lines: Vec<String> },
    /// The controller isn't enabled for the cgroup; Slurm or the site must do that. Until then the driver refuses too.
    NotHere,
    /// There is no controller, or the GPU's driver doesn't support it.
    Without,
}

impl Kernel {
    fn of(cgroup: &Path, pci: &str, mib: u32) -> Result<Kernel, MemoryError> {
        let capacities = cgroup.ancestors().skip(1).map(|folder| folder.join(CAPACITY_FILE));
        let Some(capacity) = { capacities }.find(|path| path.is_file()) else { return Ok(Kernel::Without) };
        let lines = limit_lines(&read(&capacity)?, pci, mib);
        let file = cgroup.join(LIMIT_FILE);
        Ok(match (lines.is_empty(), file.is_file()) {
            (true, _) => Kernel::Without,
            (false, false) => Kernel::NotHere,
            (false, true) if is_limited(&read(&file)?, pci) => Kernel::Limits,
            (false, true) => Kernel::Would { file, lines },
        })
    }
}

fn read(path: &Path) -> Result<String, MemoryError> {
    fs::read_to_string(path).map_err(|error| MemoryError::File(path.to_owned(), error))
}

/// Writes line by line: the kernel takes one region at a time.
fn write(path: PathBuf, lines: &[String]) -> Result<(), MemoryError> {
    let write = |line: &String| OpenOptions::new().write(true).open(&path)?.write_all(line.as_bytes());
    lines.iter().try_for_each(write).map_err(|error| MemoryError::File(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, gpu, share};
    use crate::ledger::Given;

    fn entry(memory: Option<u32>, driver_limits: bool) -> Entry {
        let given = Given { pci: Some("0000:c1:00.0".to_owned()), driver_limits, ..Given::default() };
        Entry { holding: share(20, memory), given, ..fake::entry(7, vec![gpu(0)]) }
    }

    /// A machine with a root cgroup and a job's cgroup.
    fn machine() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let job = top.path().join("cgroup/system.slice/n1_slurmstepd.scope/job_7");
        fs::create_dir_all(&job).unwrap();
        (top, job)
    }

    #[test]
    fn the_kernel_limits_where_its_controller_is_enabled_for_the_job() {
        let (top, job) = machine();
        let limit = |memory| limit(&NodeConfig::default(), &entry(memory, false), &job);
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
        assert_eq!(limit(Some(4096)).unwrap(), Limited::Before, "it has one already");
        fs::write(top.path().join("cgroup/dmem.capacity"), "drm/0000:01:00.0/vram0 1\n").unwrap();
        fs::write(job.join("dmem.max"), "drm/0000:01:00.0/vram0 max\n").unwrap();
        assert_eq!(limit(Some(2048)).unwrap(), Limited::Not, "another GPU's memory");
        let nowhere = Entry { given: Given::default(), ..entry(Some(2048), false) };
        let limited = super::limit(&NodeConfig::default(), &nowhere, &job).unwrap();
        assert_eq!(limited, Limited::Not, "whose memory it is isn't known");
    }

    /// As Slurm 26.11's task_cgroup_dmem.c writes it for shards, to `dmem.max` and `dmem.min`, before our hook and
    /// again at each step's start.
    #[test]
    fn slurms_own_limit_is_neither_overwritten_nor_doubled() {
        let (top, job) = machine();
        let config = NodeConfig::default();
        let limit =
            |driver| limit(&config, &entry(Some(2048), driver), &job).map_err(|error| error.to_string());
        let (capacity, file) = (top.path().join("cgroup/dmem.capacity"), job.join("dmem.max"));
        for region in ["nvidia/0000:c1:00/vidmem", "nvidia/00000000:c1:00.0/vidmem", "drm/0000:c1:00.0/vram"]
        {
            fs::write(&capacity, format!("{region} 85899345920\nnvidia/0000:17:00/vidmem 1\n")).unwrap();
            for driver in [false, true] {
                // A smaller limit, and a larger one, which Slurm would write again at the next step.
                for slurms in ["1048576", "85899345920"] {
                    let text = format!("{region} {slurms}\nnvidia/0000:17:00/vidmem max\n");
                    fs::write(&file, &text).unwrap();
                    assert_eq!(limit(driver), Ok(Limited::Before), "{region} {slurms}");
                    assert_eq!(fs::read_to_string(&file).unwrap(), text);
                }
            }
            // A limit on another GPU than the share's, and none: the job's share isn't a shard.
            for others in ["1048576", "max"] {
                fs::write(&file, format!("{region} max\nnvidia/0000:17:00/vidmem {others}\n")).unwrap();
                assert_eq!(limit(false), Ok(Limited::ByKernel), "{region} {others}");
                assert!(fs::read_to_string(&file).unwrap().starts_with(&format!("{region} 2147483648\n")));
            }
        }
    }

    #[test]
    fn the_driver_comes_before_the_kernel_where_both_can() {
        let (top, job) = machine();
        let limit = || limit(&NodeConfig::default(), &entry(Some(2048), true), &job);
        assert!(matches!(limit(), Err(MemoryError::NoUuid)), "no controller: asked");
        fs::write(top.path().join("cgroup/dmem.capacity"), "nvidia/00000000:c1:00.0/vidmem 85899345920\n")
            .unwrap();
        assert_eq!(limit().unwrap(), Limited::Not, "the driver would go by the controller, which isn't here");
        fs::write(job.join("dmem.max"), "nvidia/00000000:c1:00.0/vidmem max\n").unwrap();
        assert!(matches!(limit(), Err(MemoryError::NoUuid)), "asked");
        assert_eq!(fs::read_to_string(job.join("dmem.max")).unwrap(), "nvidia/00000000:c1:00.0/vidmem max\n");
        fs::write(job.join("dmem.max"), "nvidia/00000000:c1:00.0/vidmem 4096\n").unwrap();
        assert_eq!(limit().unwrap(), Limited::Before);
    }
}
