//! Files that tell other exporters which jobs have a GPU, in a directory for each exporter that gpushare.conf names:
//!
//! - `JobstatsDir`: a format of Princeton's jobstats that nvidia_gpu_prometheus_exporter reads. Each GPU has a file
//!   named by its UUID, or by its index if the driver shows no UUID, with one line: `JOB USER`, both numbers. The
//!   exporter rejects files with two lines and measures whole GPUs, so a GPU has a file while exactly one job is on it.
//! - `DcgmJobMappingDir`: for NVIDIA's dcgm-exporter. Each GPU has a file named by DCGM's number for it, with a line
//!   for each of its jobs, the job's number. The exporter reports the GPU's metrics for each of these jobs
//!   (internal/pkg/transformation/hpc.go).
//!
//! Whenever entries change, the directories are updated to match, whoever made the change. The ledger only has to
//! remember where they are (its files `gpustat` and `dcgm`), for epilogs that don't read gpushare.conf.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::NodeConfig;
use gpushare::{root_file, root_folder};

use crate::gpu::{self, Gpu, Roots, is_uuid};
use crate::ledger::{Entry, Ledger, LedgerError, Locked, read_note};

gpushare::names! {
    /// The exporter for which files are kept, by the key that names its directory.
    enum Exporter: key {
        Jobstats = "JobstatsDir",
        Dcgm = "DcgmJobMappingDir",
    }
}

impl Exporter {
    /// The ledger's file that holds the directory's path.
    fn file(self) -> &'static str {
        match self {
            Exporter::Jobstats => "gpustat",
            Exporter::Dcgm => "dcgm",
        }
    }

    fn folder(self, config: &NodeConfig) -> Option<&Path> {
        match self {
            Exporter::Jobstats => config.jobstats_dir.as_deref(),
            Exporter::Dcgm => config.dcgm_dir.as_deref(),
        }
    }

    /// Files with other names, such as those of MIG's parts, aren't ours.
    fn is_ours(self, name: &str) -> bool {
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        digits || (self == Exporter::Jobstats && is_uuid(name))
    }

    /// The files that should exist, and their content.
    fn files(self, entries: &[Entry], roots: &Roots) -> BTreeMap<String, String> {
        match self {
            Exporter::Jobstats => of_single_jobs(entries),
            Exporter::Dcgm => of_all_jobs(entries, &gpu::known_to_the_driver(roots)),
        }
    }
}

impl Ledger {
    /// Whether the ledger is all that gpushare keeps on this node: there is no directory of daemons or of exporters.
    pub fn is_alone(&self) -> bool {
        let is_there = |exporter| self.exporter_path(exporter).symlink_metadata().is_ok();
        self.daemon_folders().is_empty() && ![Exporter::Jobstats, Exporter::Dcgm].into_iter().any(is_there)
    }

    fn exporter_path(&self, exporter: Exporter) -> PathBuf {
        self.dir.join(exporter.file())
    }

    /// Where the files are, if gpushare keeps them.
    fn exporter_dir(&self, exporter: Exporter) -> Option<PathBuf> {
        let folder = PathBuf::from(read_note(&self.exporter_path(exporter))?.strip_suffix('\n')?);
        folder.is_absolute().then_some(folder)
    }
}

impl Locked<'_> {
    /// Makes the files match the entries, in the directories that gpushare.conf names now. If it named other
    /// directories before, this removes the files there. Returns the keys whose files can't be kept.
    pub(crate) fn tell_exporters(
        &self,
        config: &NodeConfig,
        roots: &Roots,
    ) -> Vec<(&'static str, LedgerError)> {
        let tell = |exporter: Exporter| self.tell(exporter, exporter.folder(config), roots);
        Exporter::ALL.into_iter().filter_map(|one| Some((one.key(), tell(one).err()?))).collect()
    }

    /// The same, in the directories used last. Ignores errors: the next prolog reports them.
    pub(crate) fn keep_exporters(&self) {
        for exporter in Exporter::ALL {
            let kept = self.ledger().exporter_dir(exporter);
            let _ = kept.map(|folder| self.fill(exporter, &folder, &Roots::system()));
        }
    }

    fn tell(&self, exporter: Exporter, folder: Option<&Path>, roots: &Roots) -> Result<(), LedgerError> {
        let old = self.ledger().exporter_dir(exporter);
        if old.as_deref() != folder {
            if let Some(old) = &old {
                make_like(exporter, old, &BTreeMap::new())?;
            }
            let path = self.ledger().exporter_path(exporter);
            match folder {
                Some(folder) => self.write_note(&path, &format!("{}\n", folder.display()))?,
                None => self.remove_note(&path)?,
            }
        }
        folder.map_or(Ok(()), |folder| self.fill(exporter, folder, roots))
    }

    fn fill(&self, exporter: Exporter, folder: &Path, roots: &Roots) -> Result<(), LedgerError> {
        root_folder::make(folder)?;
        make_like(exporter, folder, &exporter.files(&self.ledger().list()?.entries, roots))
    }
}

/// jobstats' files. A GPU that two entries have gets no file.
fn of_single_jobs(entries: &[Entry]) -> BTreeMap<String, String> {
    let held = |gpu: &Gpu| entries.iter().filter(|entry| entry.is_on(gpu)).count();
    let mut files = BTreeMap::new();
    for entry in entries {
        for gpu in entry.gpus.iter().filter(|gpu| held(gpu) == 1) {
            // The exporter looks for the UUID first. The index is Slurm's and may differ from the exporter's own, so a
            // GPU with a UUID gets no file by index.
            let name = gpu.uuid.clone().filter(|uuid| is_uuid(uuid));
            let name = name.unwrap_or_else(|| gpu.index.to_string());
            files.insert(name, format!("{} {}\n", entry.key.id, entry.user_id));
        }
    }
    files
}

/// dcgm-exporter's files. DCGM numbers GPUs as NVML does, by their PCI addresses, which is the driver's order here. A
/// GPU that the driver doesn't know gets no file; if there is no driver, every GPU's number is Slurm's index.
fn of_all_jobs(entries: &[Entry], known: &[(Option<String>, u32)]) -> BTreeMap<String, String> {
    let number = |gpu: &Gpu| match known.iter().position(|(_, minor)| *minor == gpu.number.minor) {
        None if known.is_empty() => Some(gpu.index.to_string()),
        place => place.map(|place| place.to_string()),
    };
    let mut jobs: Vec<(u32, &Gpu)> =
        entries.iter().flat_map(|entry| entry.gpus.iter().map(|gpu| (entry.key.id, gpu))).collect();
    jobs.sort_by_key(|(id, _)| *id);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (id, gpu) in jobs {
        if let Some(name) = number(gpu) {
            *files.entry(name).or_default() += &format!("{id}\n");
        }
    }
    files
}

fn make_like(exporter: Exporter, folder: &Path, files: &BTreeMap<String, String>) -> Result<(), LedgerError> {
    let there = match folder.read_dir() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && files.is_empty() => return Ok(()),
        there => there.map_err(|error| LedgerError::Read(folder.to_owned(), error))?,
    };
    for found in there.flatten() {
        let name = found.file_name();
        if name.to_str().is_some_and(|name| exporter.is_ours(name) && !files.contains_key(name)) {
            let path = found.path();
            root_file::remove(&path).map_err(|error| LedgerError::Remove(path, error))?;
        }
    }
    for (name, text) in files {
        let path = folder.join(name);
        if read_note(&path).as_ref() != Some(text) {
            root_file::replace(&folder.join(".new"), &path, text)
                .map_err(|error| LedgerError::Write(path, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, SOON, share};
    use crate::ledger::Holding;

    fn gpu(index: u32, uuid: Option<&str>) -> Gpu {
        Gpu { uuid: uuid.map(str::to_owned), ..fake::gpu(index) }
    }

    fn entry(id: u32, gpus: Vec<Gpu>) -> Entry {
        let holding = if gpus.len() > 1 { Holding::Whole } else { share(40, None) };
        Entry { user_id: 2000 + id, holding, ..fake::entry(id, gpus) }
    }

    fn files(folder: &Path) -> BTreeMap<String, String> {
        let found = folder.read_dir().unwrap().flatten();
        found
            .map(|file| {
                let text = std::fs::read_to_string(file.path()).unwrap();
                (file.file_name().into_string().unwrap(), text)
            })
            .collect()
    }

    fn expected(lines: &[(&str, &str)]) -> BTreeMap<String, String> {
        lines.iter().map(|(name, line)| ((*name).to_owned(), (*line).to_owned())).collect()
    }

    fn no_driver() -> Roots {
        Roots::at(Path::new("/no/such/folder"))
    }

    fn jobstats(folder: Option<&Path>) -> NodeConfig {
        NodeConfig { jobstats_dir: folder.map(Path::to_owned), ..NodeConfig::default() }
    }

    fn tell(locked: &Locked, folder: Option<&Path>) {
        let wrong = locked.tell_exporters(&jobstats(folder), &no_driver());
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn a_gpu_has_a_file_while_one_job_is_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, folder) = (Ledger::at(dir.path().join("gpushare")), dir.path().join("gpustat"));
        let locked = ledger.lock(SOON).unwrap();
        locked.keep_exporters();
        tell(&locked, None);
        assert!(!folder.exists(), "off by default");
        let (a, b, c) = (gpu(0, Some("GPU-a")), gpu(1, Some("GPU-b")), gpu(2, None));
        locked.record(&entry(1, vec![a.clone()])).unwrap();
        locked.record(&entry(2, vec![b.clone(), c.clone()])).unwrap();
        tell(&locked, Some(&folder));
        let all = expected(&[("GPU-a", "1 2001\n"), ("GPU-b", "2 2002\n"), ("2", "2 2002\n")]);
        assert_eq!(files(&folder), all);
        std::fs::write(folder.join("MIG-1"), "other").unwrap();
        std::fs::write(folder.join("GPU-gone"), "9 9\n").unwrap();
        std::fs::write(folder.join("GPU-b"), "9 9\n").unwrap();
        locked.record(&entry(3, vec![a])).unwrap();
        locked.keep_exporters();
        let two_jobs = expected(&[("GPU-b", "2 2002\n"), ("2", "2 2002\n"), ("MIG-1", "other")]);
        assert_eq!(files(&folder), two_jobs, "of two jobs none is named, and others' files stay");
        locked.forget(1, None).unwrap();
        locked.forget(2, None).unwrap();
        locked.keep_exporters();
        assert_eq!(files(&folder), expected(&[("GPU-a", "3 2003\n"), ("MIG-1", "other")]));
        tell(&locked, None);
        assert_eq!(files(&folder), expected(&[("MIG-1", "other")]), "switched off");
        assert_eq!(ledger.exporter_dir(Exporter::Jobstats), None);
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (ledger, folder) = (Ledger::at(dir.path().join("gpushare")), dir.path().join("gpustat"));
        let locked = ledger.lock(SOON).unwrap();
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            locked.tell_exporters(&jobstats(Some(&folder)), &no_driver()).as_slice(),
            [("JobstatsDir", LedgerError::Folder(root_folder::FolderError::Unsafe(_)))]
        ));
    }

    #[test]
    fn dcgm_has_every_job_of_a_gpu() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, folder) = (Ledger::at(dir.path().join("gpushare")), dir.path().join("mapping"));
        let locked = ledger.lock(SOON).unwrap();
        let config = NodeConfig { dcgm_dir: Some(folder.clone()), ..NodeConfig::default() };
        let tell = |config: &NodeConfig| locked.tell_exporters(config, &no_driver());
        let (a, b) = (gpu(0, Some("GPU-a")), gpu(1, None));
        locked.record(&entry(12, vec![a.clone()])).unwrap();
        locked.record(&entry(3, vec![a, b])).unwrap();
        assert!(tell(&config).is_empty());
        assert_eq!(files(&folder), expected(&[("0", "3\n12\n"), ("1", "3\n")]));
        for (name, text) in [("0.1", "other"), ("GPU-a", "other"), ("7", "9\n")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        locked.forget(3, None).unwrap();
        locked.keep_exporters();
        let others = [("0.1", "other"), ("GPU-a", "other")];
        assert_eq!(files(&folder), expected(&[&others[..], &[("0", "12\n")]].concat()));
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(&folder, "no folder").unwrap();
        assert!(matches!(tell(&config).as_slice(), [("DcgmJobMappingDir", _)]));
        std::fs::remove_file(&folder).unwrap();
        assert!(tell(&config).is_empty() && folder.join("0").exists(), "made again");
        assert!(tell(&NodeConfig::default()).is_empty() && files(&folder).is_empty(), "switched off");
    }

    /// Slurm's second GPU is the first on the PCI bus.
    #[test]
    fn dcgms_number_is_the_place_on_the_bus() {
        let known = [(None, 1), (None, 0)];
        let entries =
            [entry(1, vec![gpu(0, None)]), entry(2, vec![gpu(1, None)]), entry(3, vec![gpu(5, None)])];
        assert_eq!(of_all_jobs(&entries, &known), expected(&[("1", "1\n"), ("0", "2\n")]));
        assert_eq!(of_all_jobs(&entries, &[]), expected(&[("0", "1\n"), ("1", "2\n"), ("5", "3\n")]));
    }
}
