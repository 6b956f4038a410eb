//! Files that tell other exporters which job has a GPU: Princeton's jobstats began it, and nvidia_gpu_prometheus_exporter
//! reads them. In a folder (`JobstatsDir`, theirs is /run/gpustat) each GPU has a file of its UUID, or of its index where the
//! driver tells no UUID, with one line: `JOB USER`, both numbers.
//!
//! Such a file can name one job only: of two lines that exporter takes neither. So a GPU has one while exactly one job is
//! on it, with a share or whole. What the exporter measures is all of a GPU; with several jobs it is nobody's.
//!
//! The folder is made like the entries whenever those change, whoever changed them: nothing has to be remembered but
//! where it is (the ledger's file `gpustat`), for epilogs that don't read gpushare.conf.

use gpushare::root_file;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Entry, Ledger, LedgerError, Locked};
use crate::gpu::Gpu;

/// Longer than any path that gpushare.conf allows, and than any line.
const LONGEST: u64 = 4096;

impl Ledger {
    fn gpustat_path(&self) -> PathBuf {
        self.dir.join("gpustat")
    }

    /// Where the files are, if they are kept.
    fn gpustat(&self) -> Option<PathBuf> {
        let bytes = root_file::read(&self.gpustat_path(), LONGEST).ok()??;
        let folder = PathBuf::from(std::ffi::OsStr::from_bytes(bytes.strip_suffix(b"\n")?));
        folder.is_absolute().then_some(folder)
    }
}

impl Locked<'_> {
    /// Makes the files like the entries, in the folder that gpushare.conf names; where it names another or none by now,
    /// those in the old one go.
    pub fn tell_jobstats(&self, folder: Option<&Path>) -> Result<(), LedgerError> {
        let old = self.ledger.gpustat();
        if old.as_deref() != folder {
            if let Some(old) = &old {
                make_like(old, &[])?;
            }
            let path = self.ledger.gpustat_path();
            self.clear(&path);
            let written = match folder {
                Some(folder) => {
                    root_file::replace(&self.ledger.temporary(), &path, &format!("{}\n", folder.display()))
                }
                None => root_file::remove(&path).map(|_| ()),
            };
            written.map_err(|error| LedgerError::Write(path, error))?;
        }
        folder.map_or(Ok(()), |folder| self.fill(folder))
    }

    /// The same, where they were the last time.
    pub fn keep_jobstats(&self) -> Result<(), LedgerError> {
        self.ledger.gpustat().map_or(Ok(()), |folder| self.fill(&folder))
    }

    fn fill(&self, folder: &Path) -> Result<(), LedgerError> {
        root_file::make_folder(folder)?;
        make_like(folder, &lines(&self.ledger.list()?.entries))
    }
}

/// A file that there should be: its name and its line.
type Line = (String, String);

/// Where one GPU is on two entries it has none.
fn lines(entries: &[Entry]) -> Vec<Line> {
    let held = |gpu: &Gpu| entries.iter().filter(|entry| entry.is_on(gpu)).count();
    let mut lines = Vec::new();
    for entry in entries {
        for gpu in entry.gpus.iter().filter(|gpu| held(gpu) == 1) {
            lines.push((name(gpu), format!("{} {}\n", entry.key.id, entry.user_id)));
        }
    }
    lines
}

/// The exporter looks for the UUID first. The index is Slurm's, so a GPU with a UUID has no such file: the exporter's own
/// order may be another.
fn name(gpu: &Gpu) -> String {
    match &gpu.uuid {
        Some(uuid) if is_ours(uuid) => uuid.clone(),
        _ => gpu.index.to_string(),
    }
}

/// Other names, such as those of MIG's parts, are others' files.
fn is_ours(name: &str) -> bool {
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    digits || (name.starts_with("GPU-") && name.bytes().all(plain))
}

fn make_like(folder: &Path, lines: &[Line]) -> Result<(), LedgerError> {
    let there = match folder.read_dir() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && lines.is_empty() => return Ok(()),
        there => there.map_err(|error| LedgerError::Read(folder.to_owned(), error))?,
    };
    for found in there.flatten() {
        let name = found.file_name();
        if name.to_str().is_some_and(|name| is_ours(name) && lines.iter().all(|(wanted, _)| wanted != name)) {
            let path = found.path();
            root_file::remove(&path).map_err(|error| LedgerError::Remove(path, error))?;
        }
    }
    for (name, line) in lines {
        let path = folder.join(name);
        if root_file::read(&path, LONGEST).ok().flatten().as_deref() != Some(line.as_bytes()) {
            root_file::replace(&folder.join(".new"), &path, line)
                .map_err(|error| LedgerError::Write(path, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Holding;
    use super::*;
    use crate::gpu::DeviceNumber;
    use crate::job::JobKey;
    use std::time::Duration;

    const SOON: Duration = Duration::from_millis(20);

    fn gpu(index: u32, uuid: Option<&str>) -> Gpu {
        let number = DeviceNumber { major: 195, minor: index };
        Gpu { index, path: format!("/dev/nvidia{index}").into(), number, uuid: uuid.map(str::to_owned) }
    }

    fn entry(id: u32, gpus: Vec<Gpu>) -> Entry {
        let holding = Holding::Share { units: 40, capacity: 80, allocated_gpu: None, memory: None };
        let holding = if gpus.len() > 1 { Holding::Whole } else { holding };
        Entry { key: JobKey { id, restart: 0 }, user_id: 2000 + id, holding, gpus, since: 1 }
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

    #[test]
    fn a_gpu_has_a_file_while_one_job_is_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, folder) = (Ledger::at(dir.path().join("gpushare")), dir.path().join("gpustat"));
        let locked = ledger.lock(SOON).unwrap();
        locked.keep_jobstats().unwrap();
        locked.tell_jobstats(None).unwrap();
        assert!(!folder.exists(), "off by default");
        let (a, b, c) = (gpu(0, Some("GPU-a")), gpu(1, Some("GPU-b")), gpu(2, None));
        locked.record(&entry(1, vec![a.clone()])).unwrap();
        locked.record(&entry(2, vec![b.clone(), c.clone()])).unwrap();
        locked.tell_jobstats(Some(&folder)).unwrap();
        let all = expected(&[("GPU-a", "1 2001\n"), ("GPU-b", "2 2002\n"), ("2", "2 2002\n")]);
        assert_eq!(files(&folder), all);
        std::fs::write(folder.join("MIG-1"), "other").unwrap();
        std::fs::write(folder.join("GPU-gone"), "9 9\n").unwrap();
        std::fs::write(folder.join("GPU-b"), "9 9\n").unwrap();
        locked.record(&entry(3, vec![a])).unwrap();
        locked.keep_jobstats().unwrap();
        let two_jobs = expected(&[("GPU-b", "2 2002\n"), ("2", "2 2002\n"), ("MIG-1", "other")]);
        assert_eq!(files(&folder), two_jobs, "of two jobs none is named, and others' files stay");
        locked.forget(1, None).unwrap();
        locked.forget(2, None).unwrap();
        locked.keep_jobstats().unwrap();
        assert_eq!(files(&folder), expected(&[("GPU-a", "3 2003\n"), ("MIG-1", "other")]));
        locked.tell_jobstats(None).unwrap();
        assert_eq!(files(&folder), expected(&[("MIG-1", "other")]), "switched off");
        assert_eq!(ledger.gpustat(), None);
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
            locked.tell_jobstats(Some(&folder)),
            Err(LedgerError::Folder(root_file::FolderError::Unsafe(_)))
        ));
    }
}
