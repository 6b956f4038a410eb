//! Why a job got no GPU, what an administrator reads about it, and whether the job fails because of it.

use std::path::PathBuf;

use crate::allocation::Mismatch;
use crate::choose::NothingFits;
use crate::config::NodeConfig;
use crate::gpu::{DeviceError, Unfit};
use crate::job::{JobKey, NodeJob, listed};
use crate::ledger::{Ledger, LedgerError};

use super::LOCK_WAIT;

gpushare::errors! {
    /// Why a job got no GPU, or why it is unknown which one it has.
    #[derive(Debug)]
    pub enum PlaceError {
        Devices(error: DeviceError) => "{error}";
        Mismatch(error: Mismatch) => "{error}";
        NoSuchGpu(index: u32) => "Slurm names GPU {index}, which GpuFile doesn't list";
        Unfit { index: u32, path: PathBuf, why: Unfit } => "Slurm names GPU {index}, {}: {why}", path.display();
        /// Each part of the request was smaller than a GPU, and Slurm added them up.
        TooLarge { units: u32, capacity: u32 } =>
            "it asks for {units} units on a node, but a share is a part of one GPU, which has {capacity}";
        UnitsListed { listed: usize, gpus: usize } =>
            "UnitsPerGpu in gpushare.conf lists {listed} GPUs, but this node has {gpus}";
        Nowhere { units: u32, capacity: u32, why: NothingFits } => "{}", nowhere(*units, *capacity, *why);
        /// `OnCollision=fail`
        Collision(jobs: Vec<JobKey>) =>
            "Slurm gave it a GPU that other jobs have shares of: {}", listed(jobs);
        /// For example entries of another version of gpushare: a share might go to a GPU that one of their jobs has.
        Unread(entries: Vec<String>) =>
            "can't read the entries of jobs that may be running: {}; no share is placed until they have ended",
            entries.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
        /// The ledger has one entry for a job. The two slurmds may count different GPUs.
        OtherNode(other: String) =>
            "node {other}, which has a part of this job, is on the same machine: gpushare supports one slurmd per \
             machine";
        /// `--gpu-mps`, as the next three.
        MpsNotAllowed => "--gpu-mps is not allowed on this node: gpushare.conf says MpsWholeGpus=no";
        MpsOfShare => "--gpu-mps is for whole GPUs, and this job has a share of one";
        MpsWithoutGpus => "--gpu-mps is for jobs with whole GPUs, and this job has no GPU on this node";
        MpsOnMig => "--gpu-mps is for whole GPUs, and MIG is enabled on this job's";
    } from { Ledger(LedgerError) }
}

impl PlaceError {
    /// Marks the job as one that can't run here, if the error means that.
    ///
    /// # Errors
    /// The ledger can't be locked, or the mark can't be written.
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
        // Another prolog of the same start may have found room in the meantime.
        let is_other = matches!(self, PlaceError::OtherNode(_));
        if !is_other
            && matches!(ledger.find(job.key.id), Ok(Some(entry)) if entry.key == job.key && entry.has_gpus())
        {
            return Ok(());
        }
        locked.fail(job.key, job.user_id, &self.to_string())
    }

    /// A job with whole GPUs has them from Slurm, which fences it. So it doesn't fail if we can't record them, unless
    /// it then could open none. If there is no GPU of NVIDIA's or of `GpuFile`, there is nothing to record or to close.
    fn fails_the_job(&self, config: &NodeConfig, job: &NodeJob) -> bool {
        match self {
            PlaceError::Devices(_)
            | PlaceError::NoSuchGpu(_)
            | PlaceError::Unfit { .. }
            | PlaceError::UnitsListed { .. } => {
                let has_others = matches!(self, PlaceError::Devices(DeviceError::None));
                let loses = !job.gpus.is_empty() && !has_others && config.closes_without_entry();
                job.percent.is_some() || job.noted.is_some() || job.gpu_mps || loses
            }
            PlaceError::Ledger(_) => false,
            _ => true,
        }
    }

    pub(super) fn is_for_lack_of_room(&self) -> bool {
        matches!(self, PlaceError::Nowhere { .. } | PlaceError::Collision(_) | PlaceError::Unread(_))
    }
}

fn nowhere(units: u32, capacity: u32, why: NothingFits) -> String {
    match why {
        NothingFits::Full => {
            format!(
                "no GPU has {units} of its {capacity} units free, and gpushare.conf says Overcommit=refuse"
            )
        }
        NothingFits::OtherUsers => format!(
            "every GPU that could take {units} units has other users' shares, and gpushare.conf says UserMix=deny"
        ),
        NothingFits::NoneLeft => "every GPU is allocated whole to a job or can't be used".to_owned(),
    }
}
