//! The node's pipeline: a job's share → the node's GPUs and ledger → a GPU, recorded; and its undoing.
//!
//! [`place`] may be called by whoever comes first and any number of times: a start of a job that has a GPU keeps it.
//! [`release`] succeeds where there is nothing to do. Neither runs a program or asks slurmctld anything.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::config::{NodeConfig, Placement};
use crate::device::{self, DeviceError, Gpu};
use crate::job::{JobKey, NodeJob};
use crate::ledger::{Entry, Garbage, Ledger, LedgerError, Listing};
use crate::placement::{self, NothingFits, Occupancy};

/// Longer than any number of prologs at once needs, shorter than Slurm's patience with one.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Where the node's facts are found.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The administrator's rules.
    pub config: &'a NodeConfig,
    /// Who is on which GPU.
    pub ledger: &'a Ledger,
    /// /dev outside of tests.
    pub dev: &'a Path,
    /// /proc/driver/nvidia outside of tests.
    pub proc_nvidia: &'a Path,
}

/// What became of a job.
#[derive(Debug)]
#[must_use]
pub enum Placed {
    /// It has no share, or gpushare has no say on this node.
    NotOurs,
    /// It had a GPU already.
    Before(Entry),
    /// It was given one.
    Now {
        /// What the ledger says.
        entry: Entry,
        /// It is more than the GPU holds.
        overcommitted: bool,
        /// Units noted at submission that Slurm's own count contradicts.
        contradicted: Option<u32>,
        /// What was found in the ledger and set aside.
        garbage: Vec<Garbage>,
    },
}

/// Why a job got no GPU.
#[derive(Debug)]
pub enum PlaceError {
    /// The node's GPUs can't be told.
    Devices(DeviceError),
    /// The ledger can't be used.
    Ledger(LedgerError),
    /// The share fits on no GPU, and `Overcommit=refuse`.
    Full {
        /// Units asked for.
        units: u32,
        /// Units that fill one GPU.
        capacity: u32,
    },
}

/// Gives a job's share a GPU. `now` is in seconds since 1970.
pub fn place(node: Node, job: &NodeJob, now: u64) -> Result<Placed, PlaceError> {
    let Placement::Override { units_per_gpu: capacity } = node.config.placement else {
        return Ok(Placed::NotOurs);
    };
    let Some(share) = job.share else {
        // Its number may be that of an old job whose epilog never came through.
        release(node.ledger, job.key.id, None)?;
        return Ok(Placed::NotOurs);
    };
    let gpus = device::inventory(&node.config.gpu_files, node.dev, node.proc_nvidia)?;
    let total = u64::from(capacity) * gpus.len() as u64;
    let units = share.units(total);

    let ledger = node.ledger.lock(LOCK_WAIT)?;
    let Listing { mut entries, garbage } = ledger.list()?;
    let same = |entry: &&Entry| entry.key == job.key && entry.user_id == job.user_id && entry.units == units;
    if let Some(entry) = entries.iter().find(same) {
        return Ok(Placed::Before(entry.clone()));
    }
    // Earlier starts of the job, or an old job of the same number.
    for earlier in entries.extract_if(.., |entry| entry.key.id == job.key.id) {
        ledger.remove(earlier.key)?;
    }
    let choice = placement::choose(&occupancy(&gpus, &entries), units, capacity, node.config.overcommit)
        .map_err(|NothingFits| PlaceError::Full { units, capacity })?;
    let gpu = gpus.into_iter().find(|gpu| gpu.index == choice.index).ok_or(DeviceError::None)?;
    let entry = Entry { key: job.key, user_id: job.user_id, units, capacity, gpu, since: now };
    ledger.record(&entry)?;
    let contradicted = share.contradicted_note(total);
    Ok(Placed::Now { entry, overcommitted: choice.overcommitted, contradicted, garbage })
}

/// Takes back the GPU of this start of a job and of earlier ones, or of all where `restart` is not known. Gives the
/// starts that had one. The epilog of a job that was requeued may name the start to come already (seen on 22.05), but
/// that one begins here only after this epilog has ended.
pub fn release(ledger: &Ledger, job_id: u32, restart: Option<u32>) -> Result<Vec<JobKey>, LedgerError> {
    let mut keys = ledger.keys(job_id)?;
    keys.retain(|key| restart.is_none_or(|restart| key.restart <= restart));
    if keys.is_empty() {
        return Ok(keys);
    }
    let locked = ledger.lock(LOCK_WAIT)?;
    for key in &keys {
        locked.remove(*key)?;
    }
    Ok(keys)
}

/// How much of each GPU the entries hold. A GPU is known by its device number, which no reordering changes.
#[must_use]
pub fn occupancy(gpus: &[Gpu], entries: &[Entry]) -> Vec<Occupancy> {
    gpus.iter()
        .map(|gpu| {
            let here = || entries.iter().filter(|entry| entry.gpu.number == gpu.number);
            Occupancy {
                index: gpu.index,
                assigned: here().map(|entry| u64::from(entry.units)).sum(),
                jobs: here().map(|_| 1).sum(),
            }
        })
        .collect()
}

impl From<DeviceError> for PlaceError {
    fn from(error: DeviceError) -> Self {
        PlaceError::Devices(error)
    }
}

impl From<LedgerError> for PlaceError {
    fn from(error: LedgerError) -> Self {
        PlaceError::Ledger(error)
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            PlaceError::Devices(error) => error.fmt(out),
            PlaceError::Ledger(error) => error.fmt(out),
            PlaceError::Full { units, capacity } => write!(
                out,
                "no GPU has {units} of its {capacity} units free and gpushare.conf says Overcommit=refuse"
            ),
        }
    }
}

impl std::error::Error for PlaceError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::job::Share;

    /// Four "GPUs" that every machine has, in an order that is not that of their minors.
    const FILES: &str = "GpuFile=/dev/zero,/dev/null,/dev/full,/dev/random";

    fn config(lines: &str) -> NodeConfig {
        Config::parse(&format!("Placement=override\nUnitsPerGpu=80\n{FILES}\n{lines}")).unwrap().node
    }

    fn job(id: u32, units: u32) -> NodeJob {
        let share = Some(Share { percent: (units * 100 / 320).max(1), noted: Some(units) });
        NodeJob { key: JobKey { id, restart: 0 }, user_id: 2001, share }
    }

    struct Place {
        _dir: tempfile::TempDir,
        ledger: Ledger,
        config: NodeConfig,
    }

    impl Place {
        fn new(lines: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            Place { ledger: Ledger::at(dir.path().join("gpushare")), _dir: dir, config: config(lines) }
        }

        fn place(&self, job: &NodeJob) -> Result<Placed, PlaceError> {
            let root = Path::new("/nonexistent");
            place(Node { config: &self.config, ledger: &self.ledger, dev: root, proc_nvidia: root }, job, 1)
        }

        fn index(&self, job: &NodeJob) -> u32 {
            match self.place(job).unwrap() {
                Placed::NotOurs => panic!("job {} is ours", job.key),
                Placed::Before(entry) | Placed::Now { entry, .. } => entry.gpu.index,
            }
        }
    }

    #[test]
    fn eight_shares_go_two_on_each_of_four_gpus() {
        let node = Place::new("");
        let found: Vec<u32> = (1..=8).map(|id| node.index(&job(id, 40))).collect();
        assert_eq!(found, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn placing_twice_gives_the_same_gpu_and_releasing_twice_is_no_error() {
        let node = Place::new("");
        assert_eq!(node.index(&job(1, 40)), 0);
        assert_eq!(node.index(&job(1, 40)), 0);
        assert_eq!(node.index(&job(2, 40)), 1);
        assert_eq!(release(&node.ledger, 1, Some(0)).unwrap().len(), 1);
        assert!(release(&node.ledger, 1, Some(0)).unwrap().is_empty());
        assert!(release(&node.ledger, 99, None).unwrap().is_empty());
        assert_eq!(node.index(&job(3, 40)), 0);
    }

    #[test]
    fn a_requeued_job_does_not_count_twice() {
        let node = Place::new("Overcommit=refuse");
        let first = job(1, 80);
        let second = NodeJob { key: JobKey { id: 1, restart: 1 }, ..first.clone() };
        node.index(&first);
        node.index(&second);
        assert!(
            release(&node.ledger, 1, Some(0)).unwrap().is_empty(),
            "a late epilog leaves the second start"
        );
        for id in 2..=4 {
            node.index(&job(id, 80));
        }
        assert!(matches!(node.place(&job(5, 1)), Err(PlaceError::Full { units: 1, capacity: 80 })));
    }

    #[test]
    fn an_entry_of_an_old_job_with_the_same_number_is_not_taken_over() {
        let node = Place::new("");
        let old = NodeJob { user_id: 2002, ..job(1, 20) };
        node.index(&job(9, 80));
        assert_eq!(node.index(&old), 1);
        assert!(matches!(node.place(&job(1, 80)), Ok(Placed::Now { .. })));
        assert_eq!(node.ledger.find(1).unwrap().map(|entry| (entry.user_id, entry.units)), Some((2001, 80)));
        let without = NodeJob { share: None, ..job(1, 80) };
        assert!(matches!(node.place(&without), Ok(Placed::NotOurs)));
        assert_eq!(node.ledger.find(1).unwrap(), None);
    }

    #[test]
    fn an_epilog_that_names_the_next_start_takes_the_last_one_back() {
        let node = Place::new("");
        node.index(&job(1, 80));
        assert_eq!(release(&node.ledger, 1, Some(1)).unwrap(), [JobKey { id: 1, restart: 0 }]);
        assert!(node.ledger.list().unwrap().entries.is_empty());
    }

    #[test]
    fn a_full_node_is_overcommitted_and_says_so() {
        let node = Place::new("");
        for id in 1..=4 {
            node.index(&job(id, 80));
        }
        assert!(matches!(node.place(&job(5, 16)), Ok(Placed::Now { overcommitted: true, .. })));
    }

    #[test]
    fn jobs_without_a_share_and_nodes_without_a_placement_are_left_alone() {
        let node = Place::new("");
        assert!(matches!(node.place(&NodeJob { share: None, ..job(1, 40) }), Ok(Placed::NotOurs)));
        let off = Place { config: NodeConfig::default(), ..node };
        assert!(matches!(off.place(&job(1, 40)), Ok(Placed::NotOurs)));
    }

    #[test]
    fn many_at_once_are_spread_evenly_and_nothing_is_booked_twice() {
        let node = Place::new("Overcommit=refuse");
        std::thread::scope(|scope| {
            for id in 1..=80 {
                let node = &node;
                scope.spawn(move || node.index(&job(id, 4)));
            }
        });
        let entries = node.ledger.list().unwrap().entries;
        assert_eq!(entries.len(), 80);
        for index in 0..4 {
            let units: u32 =
                entries.iter().filter(|entry| entry.gpu.index == index).map(|entry| entry.units).sum();
            assert_eq!(units, 80, "GPU {index}");
        }
    }
}
