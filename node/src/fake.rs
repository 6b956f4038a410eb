//! GPUs, entries and ledgers for tests.

use std::time::Duration;

use crate::gpu::{DeviceNumber, Gpu};
use crate::job::JobKey;
use crate::ledger::{Entry, Holding, Ledger};

/// Long enough for a lock that nothing holds.
pub(crate) const SOON: Duration = Duration::from_millis(20);

/// A GPU whose minor is its index.
pub(crate) fn gpu(index: u32) -> Gpu {
    let number = DeviceNumber { major: 195, minor: index };
    Gpu { index, path: format!("/dev/nvidia{index}").into(), number, uuid: None }
}

/// An entry of a job that has whole GPUs.
pub(crate) fn entry(id: u32, gpus: Vec<Gpu>) -> Entry {
    let without = Entry::without_gpus(JobKey { id, restart: 0 }, 2001);
    Entry { holding: Holding::Whole, gpus, since: 1000, ..without }
}

/// A share of a GPU with 80 units, for which Slurm allocated no GPU.
pub(crate) fn share(units: u32, memory: Option<u32>) -> Holding {
    Holding::Share { units, capacity: 80, allocated_gpu: None, memory }
}

/// A ledger in a directory that is removed with the test.
pub(crate) fn ledger() -> (tempfile::TempDir, Ledger) {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(dir.path().join("gpushare"));
    (dir, ledger)
}
