//! When jobs last used their GPUs: `used`, a line for each job and GPU. Each `gpushare metrics` that root runs rewrites
//! the file, so the times are only as exact as that command is frequent.
//!
//! ```text
//! JOB RESTART MINOR USED LOOKED TOLD
//! ```

use std::time::Duration;

use super::note::read_note;
use super::{Entry, Ledger, LedgerError};
use crate::gpu::Gpu;
use crate::job::JobKey;

const FILE: &str = "used";

/// A job's use of one of its GPUs. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The job, and which of its starts.
    pub key: JobKey,
    /// The N of /dev/nvidiaN.
    pub minor: u32,
    /// When the job was last seen to use the GPU, or when it got it.
    pub used: u64,
    /// When `gpushare metrics` last checked.
    pub looked: u64,
    /// Whether its user was told that the job hasn't used the GPU since.
    pub told: bool,
}

impl Used {
    /// For how many seconds the job was not seen to use the GPU, up to the last check.
    pub fn idle(&self) -> u64 {
        self.looked.saturating_sub(self.used)
    }

    fn is_of(&self, entry: &Entry, gpu: &Gpu) -> bool {
        (self.key, self.minor) == (entry.key, gpu.number.minor)
    }
}

/// The new state after a check. `busy` returns the jobs that use a GPU, or `None` if that is unknown now.
pub fn after_look(
    known: &[Used],
    entries: &[Entry],
    busy: impl Fn(&Gpu) -> Option<Vec<u32>>,
    now: u64,
) -> Vec<Used> {
    let mut all = Vec::new();
    for (entry, gpu) in entries.iter().flat_map(|entry| entry.gpus.iter().map(move |gpu| (entry, gpu))) {
        let before = known.iter().find(|known| known.is_of(entry, gpu)).copied();
        let Some(jobs) = busy(gpu) else {
            all.extend(before);
            continue;
        };
        let (key, minor) = (entry.key, gpu.number.minor);
        let new = Used { key, minor, used: entry.since, looked: now, told: false };
        all.push(match before {
            _ if jobs.contains(&entry.key.id) => Used { used: now, ..new },
            Some(before) => Used { looked: now, ..before },
            None => new,
        });
    }
    all
}

impl Ledger {
    /// The state that the last check wrote. Skips lines that can't be read.
    pub fn used(&self) -> Vec<Used> {
        read_note(&self.dir.join(FILE)).unwrap_or_default().lines().filter_map(read).collect()
    }

    /// Writes the state for the next check.
    ///
    /// # Errors
    /// The lock is taken, or the file can't be written.
    pub fn note_used(&self, all: &[Used], wait: Duration) -> Result<(), LedgerError> {
        let line = |one: &Used| {
            let Used { key, minor, used, looked, told } = one;
            format!("{} {} {minor} {used} {looked} {}\n", key.id, key.restart, u8::from(*told))
        };
        self.lock(wait)?.write_note(&self.dir.join(FILE), &all.iter().map(line).collect::<String>())
    }
}

fn read(line: &str) -> Option<Used> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let mut small = || number()?.try_into().ok();
    let (key, minor) = (JobKey { id: small()?, restart: small()? }, small()?);
    let used = Used { key, minor, used: number()?, looked: number()?, told: number()? != 0 };
    words.next().is_none().then_some(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, ledger};

    /// An entry whose GPUs have these minors, which differ from their indices.
    fn entry(id: u32, restart: u32, minors: &[u32]) -> Entry {
        let gpus = minors.iter().map(|minor| Gpu { index: 9 - minor, ..fake::gpu(*minor) });
        Entry { key: JobKey { id, restart }, ..fake::entry(id, gpus.collect()) }
    }

    #[test]
    fn a_gpu_is_idle_since_it_was_last_used() {
        let entries = [entry(7, 0, &[0, 1]), entry(8, 0, &[1])];
        let idle = |known: &[Used]| known.iter().map(Used::idle).collect::<Vec<_>>();
        let first = after_look(&[], &entries, |_| Some(vec![8]), 1060);
        assert_eq!(idle(&first), [60, 60, 0]);
        let told: Vec<Used> = first.iter().map(|used| Used { told: true, ..*used }).collect();
        let on_the_first = |gpu: &Gpu| Some(if gpu.number.minor == 0 { vec![7] } else { Vec::new() });
        let second = after_look(&told, &entries, on_the_first, 1120);
        assert_eq!(idle(&second), [0, 120, 60]);
        assert_eq!(second.iter().map(|used| used.told).collect::<Vec<_>>(), [false, true, true]);
        let unknown = after_look(&second, &entries, |_| None, 1180);
        assert_eq!(unknown, second, "who can't look sees no idleness");
        assert_eq!(idle(&after_look(&[], &entries, |_| None, 1180)), []);
        let again = after_look(&second, &[entry(7, 1, &[0])], |_| Some(Vec::new()), 1300);
        assert_eq!(idle(&again), [300], "another start of the job");
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let (dir, ledger) = ledger();
        assert_eq!(ledger.used(), []);
        let all = after_look(&[], &[entry(7, 3, &[0, 5])], |_| Some(Vec::new()), 1060);
        let all = [all[0], Used { told: true, ..all[1] }];
        ledger.note_used(&all, Duration::from_secs(5)).unwrap();
        assert_eq!(ledger.used(), all);
        let path = dir.path().join("gpushare/used");
        std::fs::write(&path, "7 3 0 1000 1060 0\n7 3 0 1000 1060 0 1\n-1 3 0 1 1 0\n\nx").unwrap();
        assert_eq!(ledger.used(), [all[0]]);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(ledger.used(), []);
        ledger.note_used(&all, Duration::from_secs(5)).unwrap();
        assert_eq!(ledger.used(), all);
    }
}
