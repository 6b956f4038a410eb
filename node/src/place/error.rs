//! Why a job got no GPU, what an administrator reads of it, and whether the job fails for it.

use std::fmt;
use std::path::PathBuf;

use crate::allocation::Mismatch;
use crate::choose::NothingFits;
use crate::gpu::{DeviceError, Unfit};
use crate::job::{JobKey, NodeJob, listed};
use crate::ledger::{Ledger, LedgerError};
use gpushare::config::NodeConfig;

use super::LOCK_WAIT;

/// Why a job got no GPU, or why it isn't known which it has.
#[derive(Debug)]
pub enum PlaceError {
    /// The node's GPUs can't be told.
    Devices(DeviceError),
    /// The ledger can't be used.
    Ledger(LedgerError),
    /// `Placement` is not what Slurm does.
    Mismatch(Mismatch),
    /// Slurm names a GPU that this node hasn't.
    NoSuchGpu(u32),
    /// Slurm names a GPU that can't be used so.
    Unfit {
        /// Slurm's index.
        index: u32,
        /// Its device node.
        path: PathBuf,
        /// What is wrong.
        why: Unfit,
    },
    /// The share is more than a GPU: each part of the request was none, and Slurm added them up.
    TooLarge {
        /// Units asked for.
        units: u32,
        /// Units that fill one GPU.
        capacity: u32,
    },
    /// `UnitsPerGpu` is a list, and the node has another number of GPUs.
    UnitsListed {
        /// How many GPUs the list is for.
        listed: usize,
        /// How many there are.
        gpus: usize,
    },
    /// The share may go nowhere.
    Nowhere {
        /// Units asked for.
        units: u32,
        /// Units that fill one GPU.
        capacity: u32,
        /// Why.
        why: NothingFits,
    },
    /// Slurm gave a whole GPU that these jobs have shares of; `OnCollision=fail`.
    Collision(Vec<JobKey>),
    /// Entries that can't be read, and why, such as those of another version of gpushare: a share could go where one of
    /// their jobs is.
    Unread(Vec<String>),
}

impl PlaceError {
    /// Marks the job as one that can't run here, if that is what the error means.
    pub(super) fn mark(
        &self,
        config: &NodeConfig,
        ledger: &Ledger,
        job: &NodeJob,
    ) -> Result<(), LedgerError> {
        if !self.fails_the_job(config, job) {
            return Ok(());
        }
        let locked = ledger.lock(LOCK_WAIT)?;
        // Another prolog of the same start may have found room meanwhile.
        if matches!(ledger.find(job.key.id), Ok(Some(entry)) if entry.key == job.key) {
            return Ok(());
        }
        locked.fail(job.key, &self.to_string())
    }

    /// A job with whole GPUs has them from Slurm, which fences it; that we can't note them doesn't make it fail, but where
    /// it can open none for that. Where there is no GPU of NVIDIA's or of `GpuFile` there is nothing to note, or to close.
    fn fails_the_job(&self, config: &NodeConfig, job: &NodeJob) -> bool {
        match self {
            PlaceError::Mismatch(_)
            | PlaceError::TooLarge { .. }
            | PlaceError::Nowhere { .. }
            | PlaceError::Collision(_)
            | PlaceError::Unread(_) => true,
            PlaceError::Devices(_)
            | PlaceError::NoSuchGpu(_)
            | PlaceError::Unfit { .. }
            | PlaceError::UnitsListed { .. } => {
                let has_others = matches!(self, PlaceError::Devices(DeviceError::None));
                let loses = !job.gpus.is_empty() && !has_others && config.closes_without_entry();
                job.percent.is_some() || job.noted.is_some() || loses
            }
            PlaceError::Ledger(_) => false,
        }
    }

    pub(super) fn is_for_lack_of_room(&self) -> bool {
        match self {
            PlaceError::Nowhere { .. } | PlaceError::Collision(_) | PlaceError::Unread(_) => true,
            PlaceError::Mismatch(_)
            | PlaceError::TooLarge { .. }
            | PlaceError::UnitsListed { .. }
            | PlaceError::Devices(_)
            | PlaceError::NoSuchGpu(_)
            | PlaceError::Unfit { .. }
            | PlaceError::Ledger(_) => false,
        }
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
            PlaceError::Mismatch(mismatch) => mismatch.fmt(out),
            PlaceError::NoSuchGpu(index) => {
                write!(out, "Slurm names GPU {index}, which GpuFile doesn't list")
            }
            PlaceError::Unfit { index, path, why } => {
                write!(out, "Slurm names GPU {index}, {}: {why}", path.display())
            }
            PlaceError::UnitsListed { listed, gpus } => {
                write!(out, "UnitsPerGpu in gpushare.conf lists {listed} GPUs, and this node has {gpus}")
            }
            PlaceError::TooLarge { units, capacity } => {
                write!(
                    out,
                    "it asks for {units} units on a node, and a share is of one GPU, which has {capacity}"
                )
            }
            PlaceError::Nowhere { units, capacity, why } => match why {
                NothingFits::Full => write!(
                    out,
                    "no GPU has {units} of its {capacity} units free and gpushare.conf says Overcommit=refuse"
                ),
                NothingFits::OtherUsers => write!(
                    out,
                    "every GPU that could take {units} units has other users' shares and gpushare.conf says UserMix=deny"
                ),
                NothingFits::NoneLeft => write!(out, "every GPU is held whole by a job or can't be used"),
            },
            PlaceError::Collision(keys) => {
                write!(out, "Slurm gave it a GPU that other jobs have shares of: {}", listed(keys))
            }
            PlaceError::Unread(entries) => write!(
                out,
                "jobs that may be running have entries that can't be read: {}; shares are placed again when they have ended",
                entries.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

impl std::error::Error for PlaceError {}
