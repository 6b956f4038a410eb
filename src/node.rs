//! The node's pipeline: what a job may have → the node's GPUs and ledger → a GPU, recorded; and its undoing.
//!
//! [`place`] may be called by whoever comes first and any number of times: a start of a job that has its GPUs keeps them.
//! [`release`] succeeds where there is nothing to do. Neither runs a program or asks slurmctld anything. A job that can't
//! have its share is marked as failed in the ledger, and its steps say why.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::claim::{Claim, Mismatch};
use crate::config::{NodeConfig, OnCollision, Placement};
use crate::device::{self, DeviceError, Gpu};
use crate::job::{JobKey, NodeJob};
use crate::ledger::{Balance, Entry, Garbage, Holding, Ledger, LedgerError, Locked, Row, Unread};
use crate::placement::{self, Candidate, NothingFits, Rules};

/// Longer than any number of prologs at once needs, shorter than Slurm's patience with one.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// An entry that is younger is never dropped: its job's first step may not have started yet.
const GRACE: Duration = Duration::from_secs(60);

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
    /// /proc outside of tests.
    pub proc: &'a Path,
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
    /// The job of an entry was over, and its epilog never took the entry back.
    Dropped(JobKey),
    /// Slurm gave whole GPUs that these jobs have shares of; `OnCollision=run`.
    Collision(Vec<JobKey>),
    /// Slurm charges shares to more than one GPU, so it could pick by itself: `Placement=follow` would do.
    SeveralCharged,
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
    /// Entries of another version of gpushare, of these jobs: a share could go where one of them is.
    OtherVersion(Vec<String>),
}

/// Records what a job has of the node's GPUs, choosing first where that is gpushare's to do. `now` is in seconds since
/// 1970.
pub fn place(node: Node, job: &NodeJob, now: u64) -> Result<Placed, PlaceError> {
    if node.config.placement == Placement::Off {
        return Ok(Placed::NotOurs);
    }
    let gpus = device::inventory(&node.config.gpu_files, node.dev, node.proc_nvidia);
    let count = gpus.as_ref().map_or(0, Vec::len);
    let placed = match Claim::of(job, node.config, count) {
        Ok(Claim::Nothing) => {
            // Its number may be that of an old job whose epilog never came through.
            release(node.ledger, job.key.id, None)?;
            return Ok(Placed::NotOurs);
        }
        Err(mismatch) => Err(PlaceError::Mismatch(mismatch)),
        Ok(claim) => gpus.map_err(PlaceError::Devices).and_then(|gpus| record(node, job, &claim, gpus, now)),
    };
    if let Err(error) = &placed
        && error.fails_the_job(job)
    {
        node.ledger.lock(LOCK_WAIT)?.fail(job.key, &error.to_string())?;
    }
    placed
}

fn record(node: Node, job: &NodeJob, claim: &Claim, gpus: Vec<Gpu>, now: u64) -> Result<Placed, PlaceError> {
    let ledger = node.ledger.lock(LOCK_WAIT)?;
    if let Ok(Some(entry)) = node.ledger.find(job.key.id)
        && entry.key == job.key
        && entry.user_id == job.user_id
        && claim.is_of(&entry)
    {
        return Ok(Placed::Before(entry));
    }
    // An earlier start of the job, or an old job of the same number.
    ledger.remove(job.key.id, None)?;
    let mut remarks = Vec::new();
    if ledger.is_reconcile_due(now) {
        remarks.extend(reconcile(node, &ledger, now));
    }
    let (state, garbage) = State::read(&ledger)?;
    remarks.extend(garbage.into_iter().map(Remark::Garbage));
    let mut found = hold(node.config, job, claim, &gpus, state);
    if found.as_ref().map_or_else(PlaceError::is_for_lack_of_room, Held::is_crowded) {
        // Perhaps jobs that are over are in the way.
        let dropped = reconcile(node, &ledger, now);
        if !dropped.is_empty() {
            remarks.extend(dropped);
            found = hold(node.config, job, claim, &gpus, State::read(&ledger)?.0);
        }
    }
    let Held { holding, gpus, remarks: more } = found?;
    remarks.extend(more);
    let entry = Entry { key: job.key, user_id: job.user_id, holding, gpus, since: now };
    ledger.record(&entry)?;
    Ok(Placed::Now(entry, remarks))
}

/// What there is on the node when a job comes.
struct State<'a> {
    ledger: &'a Locked<'a>,
    balance: Balance,
    /// Entries of other versions.
    others: Vec<Garbage>,
}

impl<'a> State<'a> {
    fn read(ledger: &'a Locked<'a>) -> Result<(Self, Vec<Garbage>), LedgerError> {
        let (balance, Unread { garbage, others }) = ledger.balance()?;
        Ok((State { ledger, balance, others }, garbage))
    }

    /// The jobs that have shares of one of these GPUs, or have one whole. Reads every entry.
    fn holders(&self, gpus: &[Gpu], whole: bool) -> Result<Vec<JobKey>, LedgerError> {
        let entries = self.ledger.list()?.entries;
        let here = entries.iter().filter(|entry| (entry.holding == Holding::Whole) == whole);
        Ok(here.filter(|entry| gpus.iter().any(|gpu| entry.is_on(gpu))).map(|entry| entry.key).collect())
    }
}

/// What a job gets.
struct Held {
    holding: Holding,
    gpus: Vec<Gpu>,
    remarks: Vec<Remark>,
}

impl Held {
    fn is_crowded(&self) -> bool {
        self.remarks.iter().any(|remark| matches!(remark, Remark::Overcommitted | Remark::Collision(_)))
    }
}

fn hold(
    config: &NodeConfig,
    job: &NodeJob,
    claim: &Claim,
    gpus: &[Gpu],
    state: State,
) -> Result<Held, PlaceError> {
    let mut remarks = Vec::new();
    let (holding, gpus) = match claim {
        Claim::Share { units, charged, contradicted } => {
            remarks.extend(contradicted.map(Remark::Contradicted));
            let gpu = gpu_of_share(config, job, (*units, *charged), gpus, &state, &mut remarks)?;
            let capacity = config.units_per_gpu;
            (Holding::Share { units: *units, capacity, charged: *charged }, vec![gpu])
        }
        Claim::Whole(indices) => {
            let own = whole_gpus(indices, gpus)?;
            remarks.extend(collision(config, &own, &state)?);
            (Holding::Whole, own)
        }
        // Not asked for: `place` is done with those.
        Claim::Nothing => (Holding::Whole, Vec::new()),
    };
    Ok(Held { holding, gpus, remarks })
}

/// Takes back what jobs have that are over. Failing to is no reason to fail the job that comes.
fn reconcile(node: Node, ledger: &Locked, now: u64) -> Vec<Remark> {
    let dropped = ledger.reconcile(node.proc, now, GRACE).unwrap_or_default();
    dropped.into_iter().map(Remark::Dropped).collect()
}

fn gpu_of_share(
    config: &NodeConfig,
    job: &NodeJob,
    (units, charged): (u32, Option<u32>),
    gpus: &[Gpu],
    state: &State,
    remarks: &mut Vec<Remark>,
) -> Result<Gpu, PlaceError> {
    let capacity = config.units_per_gpu;
    let index = match (config.placement, charged) {
        (Placement::Follow, Some(index)) => index,
        _ if !state.others.is_empty() => {
            return Err(PlaceError::OtherVersion(
                state.others.iter().map(|other| other.name.clone()).collect(),
            ));
        }
        _ => {
            let candidates = candidates(gpus, &state.balance, job.user_id, capacity);
            let choice = placement::choose(&candidates, units, Rules::from(config))
                .map_err(|why| PlaceError::Nowhere { units, capacity, why })?;
            remarks.extend(choice.overcommitted.then_some(Remark::Overcommitted));
            choice.index
        }
    };
    let others = |row: &Row| row.charged.is_some() && row.charged != charged;
    if config.placement == Placement::Override && charged.is_some() && state.balance.rows().iter().any(others)
    {
        remarks.push(Remark::SeveralCharged);
    }
    let gpu = gpus.iter().find(|gpu| gpu.index == index).ok_or(PlaceError::NoSuchGpu(index))?;
    if state.balance.rows().iter().any(|row| row.wholes > 0 && row.gpu == gpu.number)
        && let Some(holder) = state.holders(std::slice::from_ref(gpu), true)?.first()
    {
        return Err(PlaceError::HeldWhole(*holder));
    }
    Ok(gpu.clone())
}

fn whole_gpus(indices: &[u32], gpus: &[Gpu]) -> Result<Vec<Gpu>, PlaceError> {
    if let Some(missing) = indices.iter().find(|index| gpus.iter().all(|gpu| gpu.index != **index)) {
        return Err(PlaceError::NoSuchGpu(*missing));
    }
    Ok(gpus.iter().filter(|gpu| indices.contains(&gpu.index)).cloned().collect())
}

/// Shares on GPUs that Slurm gave to a job whole.
fn collision(config: &NodeConfig, own: &[Gpu], state: &State) -> Result<Option<Remark>, PlaceError> {
    let shared = |row: &Row| row.shares > 0 && own.iter().any(|gpu| gpu.number == row.gpu);
    if !state.balance.rows().iter().any(shared) {
        return Ok(None);
    }
    let hit = state.holders(own, false)?;
    match config.on_collision {
        OnCollision::Run => Ok(Some(Remark::Collision(hit))),
        OnCollision::Fail => Err(PlaceError::Collision(hit)),
    }
}

/// Takes back the GPU of this start of a job and of earlier ones, or of all where `restart` is not known. Gives the
/// start that had one. The epilog of a job that was requeued may name the start to come already (seen on 22.05), but
/// that one begins here only after this epilog has ended.
pub fn release(ledger: &Ledger, job_id: u32, restart: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
    if !ledger.knows(job_id) {
        return Ok(None);
    }
    ledger.lock(LOCK_WAIT)?.forget(job_id, restart)
}

/// The node's GPUs as the choice sees them, for a share of that user's.
#[must_use]
pub fn candidates(gpus: &[Gpu], balance: &Balance, user_id: u32, capacity: u32) -> Vec<Candidate> {
    let candidate = |gpu: &Gpu| {
        let here: Vec<&Row> = balance.rows().iter().filter(|row| row.gpu == gpu.number).collect();
        let mut users: Vec<u32> = here.iter().map(|row| row.user_id).collect();
        users.sort_unstable();
        users.dedup();
        Candidate {
            index: gpu.index,
            capacity,
            assigned: here.iter().map(|row| row.units).sum(),
            users: u32::try_from(users.len()).unwrap_or(u32::MAX),
            foreign: users.iter().any(|user| *user != user_id),
            held: here.iter().any(|row| row.wholes > 0),
            healthy: true,
            memory: None,
            load: None,
        }
    };
    gpus.iter().map(candidate).collect()
}

impl PlaceError {
    /// A job with whole GPUs has them from Slurm, which fences it; that we can't note them doesn't make it fail.
    fn fails_the_job(&self, job: &NodeJob) -> bool {
        match self {
            PlaceError::Mismatch(_)
            | PlaceError::Nowhere { .. }
            | PlaceError::Collision(_)
            | PlaceError::HeldWhole(_)
            | PlaceError::OtherVersion(_) => true,
            PlaceError::Devices(_) | PlaceError::NoSuchGpu(_) => job.percent.is_some() || job.noted.is_some(),
            PlaceError::Ledger(_) => false,
        }
    }

    fn is_for_lack_of_room(&self) -> bool {
        match self {
            PlaceError::Nowhere { .. }
            | PlaceError::Collision(_)
            | PlaceError::HeldWhole(_)
            | PlaceError::OtherVersion(_) => true,
            PlaceError::Mismatch(_)
            | PlaceError::Devices(_)
            | PlaceError::NoSuchGpu(_)
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
            PlaceError::Nowhere { units, capacity, why } => match why {
                NothingFits::Full => write!(
                    out,
                    "no GPU has {units} of its {capacity} units free and gpushare.conf says Overcommit=refuse"
                ),
                NothingFits::OtherUsers => write!(
                    out,
                    "every GPU with {units} of its {capacity} units free has other users' shares and \
                     gpushare.conf says UserMix=deny"
                ),
                NothingFits::NoneLeft => write!(out, "every GPU is held whole by a job or can't be used"),
            },
            PlaceError::Collision(keys) => {
                write!(out, "Slurm gave it a GPU that other jobs have shares of: {}", listed(keys))
            }
            PlaceError::HeldWhole(key) => {
                write!(out, "Slurm put it on the GPU that job {} has whole", key.id)
            }
            PlaceError::OtherVersion(jobs) => write!(
                out,
                "another version of gpushare gave GPUs to jobs that may be running: {}; shares are placed again when \
                 they have ended",
                jobs.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
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
