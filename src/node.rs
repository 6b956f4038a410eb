//! The node's pipeline: what a job may have → the node's GPUs and ledger → a GPU, recorded; and its undoing.
//!
//! [`place`] may be called by whoever comes first and any number of times: a start of a job that has its GPUs keeps them.
//! [`release`] succeeds where there is nothing to do. Neither runs a program or asks slurmctld anything. A job that can't
//! have its share is marked as failed in the ledger, and its steps say why.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::claim::{Claim, Mismatch};
use crate::config::{NodeConfig, OnCollision, Placement};
use crate::device::{self, Detail, DeviceError, Gpu, Inventory, Roots, Unfit};
use crate::job::{JobKey, NodeJob};
use crate::ledger::{Entry, Garbage, Holding, Ledger, LedgerError, Listing, Locked};
use crate::placement::{self, Candidate, NothingFits, Rules};

/// Longer than any number of prologs at once needs, shorter than Slurm's patience with one.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Where the node's facts are found.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The administrator's rules.
    pub config: &'a NodeConfig,
    /// Who is on which GPU.
    pub ledger: &'a Ledger,
    /// Where its devices are.
    pub roots: &'a Roots,
    /// gres.conf, beside the running slurm.conf; decides what `GpuFile=auto` means where Slurm counts GPUs.
    pub gres_conf: Option<&'a Path>,
    /// What Slurm calls this node.
    pub name: Option<&'a str>,
}

impl Node<'_> {
    fn inventory(&self) -> Result<Inventory, DeviceError> {
        // Under `own` Slurm doesn't know the GPUs, and gres.conf may say whatever it likes.
        let gres_conf = self.gres_conf.filter(|_| self.config.placement != Placement::Own);
        let files = self.config.gpu_files.resolve(gres_conf, self.name)?;
        device::inventory(&files, self.roots)
    }
}

/// What became of a job.
#[derive(Debug)]
#[must_use]
pub enum Placed {
    /// It has no GPU, or gpushare has no say on this node.
    NotOurs,
    /// It was recorded before.
    Before(Entry),
    /// It is recorded now.
    Now(Entry, Vec<Remark>),
}

/// What an administrator should know of a placement.
#[derive(Debug)]
pub enum Remark {
    /// The share is more than its GPU holds, and no other GPU had more room.
    Overcommitted,
    /// Units noted at submission that Slurm's own count contradicts.
    Contradicted(u32),
    /// A file of the ledger was none, and is set aside.
    Garbage(Garbage),
    /// Slurm gave whole GPUs that these jobs have shares of; `OnCollision=run`.
    Collision(Vec<JobKey>),
    /// Slurm charges shares to more than one GPU, so it could pick by itself: `Placement=follow` would do.
    SeveralCharged,
    /// A GPU is not there, and no share goes to it.
    LeftOut {
        /// Slurm's index.
        index: u32,
        /// Its device node.
        path: PathBuf,
        /// What is wrong.
        why: Unfit,
    },
}

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
    /// Slurm charged a GPU that this job has whole.
    HeldWhole(JobKey),
}

/// Records what a job has of the node's GPUs, choosing first where that is gpushare's to do. `now` is in seconds since
/// 1970.
pub fn place(node: Node, job: &NodeJob, now: u64) -> Result<Placed, PlaceError> {
    if node.config.placement == Placement::Off {
        return Ok(Placed::NotOurs);
    }
    let gpus = node.inventory();
    let count = gpus.as_ref().map_or(0, Inventory::count);
    let placed = match Claim::of(job, node.config, count) {
        Ok(Claim::Nothing) => {
            // Its number may be that of an old job whose epilog never came through.
            release(node.ledger, job.key.id, None)?;
            return Ok(Placed::NotOurs);
        }
        Err(mismatch) => Err(PlaceError::Mismatch(mismatch)),
        Ok(claim) => gpus.map_err(PlaceError::Devices).and_then(|gpus| record(node, job, &claim, &gpus, now)),
    };
    if let Err(error) = &placed
        && error.fails_the_job(job)
    {
        node.ledger.lock(LOCK_WAIT)?.fail(job.key, &error.to_string())?;
    }
    placed
}

fn record(
    node: Node,
    job: &NodeJob,
    claim: &Claim,
    gpus: &Inventory,
    now: u64,
) -> Result<Placed, PlaceError> {
    let ledger = node.ledger.lock(LOCK_WAIT)?;
    let Listing { mut entries, garbage } = ledger.list()?;
    let is_same = |entry: &&Entry| entry.key == job.key && entry.user_id == job.user_id && claim.is_of(entry);
    if let Some(entry) = entries.iter().find(is_same) {
        return Ok(Placed::Before(entry.clone()));
    }
    forget(&ledger, job.key.id, &mut entries)?;
    let mut remarks: Vec<Remark> = garbage.into_iter().map(Remark::Garbage).collect();
    let (holding, gpus) = match claim {
        Claim::Nothing => return Ok(Placed::NotOurs),
        Claim::Share { units, charged, contradicted } => {
            remarks.extend(contradicted.map(Remark::Contradicted));
            let gpu = gpu_of_share(node.config, job, (*units, *charged), gpus, &entries, &mut remarks)?;
            let capacity = node.config.units_per_gpu;
            (Holding::Share { units: *units, capacity, charged: *charged }, vec![gpu])
        }
        Claim::Whole(indices) => {
            let own = whole_gpus(indices, gpus)?;
            remarks.extend(collision(node.config, &own, &entries)?);
            (Holding::Whole, own)
        }
    };
    let entry = Entry { key: job.key, user_id: job.user_id, holding, gpus, since: now };
    ledger.record(&entry)?;
    Ok(Placed::Now(entry, remarks))
}

/// Drops earlier starts of a job, or an old job of the same number.
fn forget(ledger: &Locked, job_id: u32, entries: &mut Vec<Entry>) -> Result<(), LedgerError> {
    for earlier in entries.extract_if(.., |entry| entry.key.id == job_id) {
        ledger.remove(earlier.key)?;
    }
    Ok(())
}

fn gpu_of_share(
    config: &NodeConfig,
    job: &NodeJob,
    (units, charged): (u32, Option<u32>),
    gpus: &Inventory,
    entries: &[Entry],
    remarks: &mut Vec<Remark>,
) -> Result<Gpu, PlaceError> {
    let capacity = config.units_per_gpu;
    let index = match (config.placement, charged) {
        (Placement::Follow, Some(index)) => index,
        _ => {
            let candidates = candidates(gpus, entries, job.user_id, capacity);
            let choice = placement::choose(&candidates, units, Rules::from(config))
                .map_err(|why| PlaceError::Nowhere { units, capacity, why })?;
            remarks.extend(choice.overcommitted.then_some(Remark::Overcommitted));
            choice.index
        }
    };
    let others = |entry: &Entry| matches!(entry.holding, Holding::Share { charged: Some(other), .. } if Some(other) != charged);
    if config.placement == Placement::Override && charged.is_some() && entries.iter().any(others) {
        remarks.push(Remark::SeveralCharged);
    }
    remarks.extend(left_out(gpus));
    let detail = gpus.detail(index).ok_or(PlaceError::NoSuchGpu(index))?;
    let gpu = detail.gpu().filter(|_| detail.unfit.is_none()).ok_or_else(|| unfit(detail))?;
    match entries.iter().find(|entry| entry.holding == Holding::Whole && entry.is_on(&gpu)) {
        Some(holder) => Err(PlaceError::HeldWhole(holder.key)),
        None => Ok(gpu),
    }
}

fn whole_gpus(indices: &[u32], gpus: &Inventory) -> Result<Vec<Gpu>, PlaceError> {
    if let Some(missing) = indices.iter().find(|index| gpus.detail(**index).is_none()) {
        return Err(PlaceError::NoSuchGpu(*missing));
    }
    let own = gpus.details.iter().filter(|detail| indices.contains(&detail.index));
    own.map(|detail| detail.gpu().ok_or_else(|| unfit(detail))).collect()
}

fn unfit(detail: &Detail) -> PlaceError {
    match detail.unfit {
        Some(why) => PlaceError::Unfit { index: detail.index, path: detail.path.clone(), why },
        None => PlaceError::NoSuchGpu(detail.index),
    }
}

/// What somebody should repair; a GPU that is divided was meant so.
fn left_out(gpus: &Inventory) -> impl Iterator<Item = Remark> {
    gpus.details.iter().filter_map(|detail| match detail.unfit? {
        Unfit::Divided => None,
        why => Some(Remark::LeftOut { index: detail.index, path: detail.path.clone(), why }),
    })
}

/// Shares on GPUs that Slurm gave to a job whole.
fn collision(config: &NodeConfig, own: &[Gpu], entries: &[Entry]) -> Result<Option<Remark>, PlaceError> {
    let shares = entries.iter().filter(|entry| entry.holding != Holding::Whole);
    let hit: Vec<JobKey> =
        shares.filter(|entry| own.iter().any(|gpu| entry.is_on(gpu))).map(|entry| entry.key).collect();
    match (hit.is_empty(), config.on_collision) {
        (true, _) => Ok(None),
        (false, OnCollision::Run) => Ok(Some(Remark::Collision(hit))),
        (false, OnCollision::Fail) => Err(PlaceError::Collision(hit)),
    }
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

/// The node's GPUs as the choice sees them, for a share of that user's.
#[must_use]
pub fn candidates(gpus: &Inventory, entries: &[Entry], user_id: u32, capacity: u32) -> Vec<Candidate> {
    let candidate = |detail: &Detail| {
        let gpu = detail.gpu();
        let is_here = |entry: &&Entry| gpu.as_ref().is_some_and(|gpu| entry.is_on(gpu));
        let here: Vec<&Entry> = entries.iter().filter(is_here).collect();
        let mut users: Vec<u32> = here.iter().map(|entry| entry.user_id).collect();
        users.sort_unstable();
        users.dedup();
        Candidate {
            index: detail.index,
            capacity,
            assigned: here.iter().map(|entry| u64::from(entry.units())).sum(),
            users: u32::try_from(users.len()).unwrap_or(u32::MAX),
            foreign: users.iter().any(|user| *user != user_id),
            held: here.iter().any(|entry| entry.holding == Holding::Whole),
            healthy: detail.unfit.is_none(),
            memory: None,
            load: None,
        }
    };
    gpus.details.iter().map(candidate).collect()
}

impl PlaceError {
    /// A job with whole GPUs has them from Slurm, which fences it; that we can't note them doesn't make it fail.
    fn fails_the_job(&self, job: &NodeJob) -> bool {
        match self {
            PlaceError::Mismatch(_)
            | PlaceError::Nowhere { .. }
            | PlaceError::Collision(_)
            | PlaceError::HeldWhole(_) => true,
            PlaceError::Devices(_) | PlaceError::NoSuchGpu(_) | PlaceError::Unfit { .. } => {
                job.percent.is_some() || job.noted.is_some()
            }
            PlaceError::Ledger(_) => false,
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
            PlaceError::HeldWhole(key) => {
                write!(out, "Slurm put it on the GPU that job {} has whole", key.id)
            }
        }
    }
}

/// `7, 9`; the first ten.
#[must_use]
pub fn listed(keys: &[JobKey]) -> String {
    keys.iter().take(10).map(|key| key.id.to_string()).collect::<Vec<_>>().join(", ")
}

impl std::error::Error for PlaceError {}

#[cfg(test)]
mod tests;
