//! What `gpushare metrics` shows and no entry says, in two files:
//!
//! - `counts`: how many shares and GPUs this node's prologs have given since it booted ([`count`](super::count)).
//! - `used`: when jobs last used their GPUs, a line `JOB RESTART MINOR USED LOOKED` for each job and GPU. Each
//!   `gpushare metrics` that root runs rewrites it, so the times are only as exact as that command is frequent.

use std::io;
use std::time::Duration;

use super::count::COUNTS;
use super::note::read_note;
use super::{Entry, Event, Ledger, LedgerError};
use crate::gpu::Gpu;
use crate::job::JobKey;
use gpushare::counter_file;

const USED: &str = "used";

/// The counts since the node booted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// How often the event happened.
    pub fn of(&self, event: Event) -> u64 {
        self.0.get(event as usize).copied().unwrap_or(0)
    }
}

/// Reads the counts; all 0 if no prolog has counted yet.
///
/// # Errors
/// The file can't be read.
pub fn counts(ledger: &Ledger) -> io::Result<Counts> {
    match counter_file::read(&ledger.dir.join(COUNTS), &Event::ALL) {
        Ok(counts) => Ok(Counts(counts)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Counts::default()),
        Err(error) => Err(error),
    }
}

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
        let new = Used { key, minor, used: entry.since, looked: now };
        all.push(match before {
            _ if jobs.contains(&entry.key.id) => Used { used: now, ..new },
            Some(before) => Used { looked: now, ..before },
            None => new,
        });
    }
    all
}

/// The state that the last check wrote. Skips lines that can't be read.
pub fn used(ledger: &Ledger) -> Vec<Used> {
    read_note(&ledger.dir.join(USED)).unwrap_or_default().lines().filter_map(read).collect()
}

/// Writes the state for the next check.
///
/// # Errors
/// The lock is taken, or the file can't be written.
pub fn note_used(ledger: &Ledger, all: &[Used], wait: Duration) -> Result<(), LedgerError> {
    let line = |one: &Used| {
        let Used { key, minor, used, looked } = one;
        format!("{} {} {minor} {used} {looked}\n", key.id, key.restart)
    };
    ledger.lock(wait)?.write_note(&ledger.dir.join(USED), &all.iter().map(line).collect::<String>())
}

fn read(line: &str) -> Option<Used> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let mut small = || number()?.try_into().ok();
    let (key, minor) = (JobKey { id: small()?, restart: small()? }, small()?);
    let used = Used { key, minor, used: number()?, looked: number()? };
    words.next().is_none().then_some(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, SOON, ledger};

    #[test]
    fn a_job_that_fails_twice_in_one_start_is_counted_once() {
        let (_dir, ledger) = ledger();
        assert_eq!(counts(&ledger).unwrap(), Counts::default());
        let locked = ledger.lock(SOON).unwrap();
        let failed = |id, restart| {
            locked.fail(JobKey { id, restart }, 2001, "why").unwrap();
            counts(&ledger).unwrap().of(Event::Failed)
        };
        assert_eq!([failed(7, 0), failed(7, 0), failed(7, 1), failed(8, 1)], [1, 1, 2, 3]);
        assert_eq!(counts(&ledger).unwrap().of(Event::Share), 0);
    }

    #[test]
    fn every_event_has_a_count_of_its_own() {
        let (_dir, ledger) = ledger();
        let locked = ledger.lock(SOON).unwrap();
        for (index, event) in Event::ALL.iter().enumerate() {
            (0..=index).for_each(|_| locked.count(&[*event]));
        }
        assert_eq!(Event::ALL.map(|event| counts(&ledger).unwrap().of(event)), [1, 2, 3, 4]);
    }

    #[test]
    fn what_stands_in_its_place_is_set_aside() {
        let (dir, ledger) = ledger();
        let locked = ledger.lock(SOON).unwrap();
        std::fs::create_dir(dir.path().join("gpushare/counts")).unwrap();
        assert!(counts(&ledger).is_err());
        locked.count(&[Event::Share]);
        locked.count(&[Event::Share]);
        assert_eq!(counts(&ledger).unwrap().of(Event::Share), 1);
        std::fs::write(dir.path().join("gpushare/counts"), "garbage").unwrap();
        locked.count(&[Event::Share]);
        locked.count(&[Event::Share]);
        assert_eq!(counts(&ledger).unwrap().of(Event::Share), 1);
        let aside = std::fs::read_to_string(dir.path().join("gpushare/garbage/counts.1"));
        assert_eq!(aside.unwrap(), "garbage");
    }

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
        let on_the_first = |gpu: &Gpu| Some(if gpu.number.minor == 0 { vec![7] } else { Vec::new() });
        let second = after_look(&first, &entries, on_the_first, 1120);
        assert_eq!(idle(&second), [0, 120, 60]);
        let unknown = after_look(&second, &entries, |_| None, 1180);
        assert_eq!(unknown, second, "who can't look sees no idleness");
        assert_eq!(idle(&after_look(&[], &entries, |_| None, 1180)), []);
        let again = after_look(&second, &[entry(7, 1, &[0])], |_| Some(Vec::new()), 1300);
        assert_eq!(idle(&again), [300], "another start of the job");
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let (dir, ledger) = ledger();
        assert_eq!(used(&ledger), []);
        let all = after_look(&[], &[entry(7, 3, &[0, 5])], |_| Some(Vec::new()), 1060);
        note_used(&ledger, &all, Duration::from_secs(5)).unwrap();
        assert_eq!(used(&ledger), all);
        let path = dir.path().join("gpushare/used");
        std::fs::write(&path, "7 3 0 1000 1060\n7 3 0 1000 1060 0\n-1 3 0 1 1\n\nx").unwrap();
        assert_eq!(used(&ledger), [all[0]]);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(used(&ledger), []);
        note_used(&ledger, &all, Duration::from_secs(5)).unwrap();
        assert_eq!(used(&ledger), all);
    }
}
