//! The node's pipeline: what a job may have → the node's GPUs and ledger → a recorded GPU; and the reverse.
//!
//! Callers may call [`place`] in any order and any number of times: if a job's start already has its GPUs, it keeps
//! them. [`release`] succeeds even if there is nothing to do. Neither runs a program; the caller does, through [`Ask`].
//! If a job can't have its share, the ledger marks it as failed, and its steps report why.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::allocation::Allocation;
use crate::choose::{self, PlacementRules};
use crate::config::{NodeConfig, OnCollision, Placement, units};
use crate::gpu::{self, Detail, DeviceError, Gpu, Inventory, Roots, Unfit};
use crate::job::{JobKey, NodeJob};
use crate::ledger::{Entry, Garbage, Holding, Ledger, LedgerError, Listing, Locked};
use crate::mps::service;
use crate::nvml::answer::Measured;

mod before;
mod candidates;
mod error;
mod exporters;
mod own_mps;
mod record;

pub use candidates::candidates;
pub use error::PlaceError;
use record::record;

/// Longer than any number of simultaneous prologs needs, but shorter than Slurm waits for a prolog.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// A younger entry is left to its epilog, unless another job needs the space.
const GRACE: Duration = Duration::from_secs(60);

/// Where to find the node's facts.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The administrator's rules.
    pub config: &'a NodeConfig,
    /// The record of which job is on which GPU.
    pub ledger: &'a Ledger,
    /// The folders in which to look up its devices.
    pub roots: &'a Roots,
    /// The running slurm.conf. In its folder is gres.conf, which decides what `GpuFile=auto` means where Slurm counts
    /// GPUs, even of a configless slurmd, which has then fetched both.
    pub slurm_conf: &'a Path,
    /// Slurm's name for this node.
    pub name: Option<&'a str>,
}

impl Node<'_> {
    fn inventory(&self) -> Result<Inventory, DeviceError> {
        // Under `own` Slurm doesn't know the GPUs, so gres.conf doesn't matter.
        let gres_conf = Some(self.slurm_conf.with_file_name("gres.conf"));
        let gres_conf = gres_conf.filter(|_| self.config.placement != Placement::Own);
        let files = gpu::Files::of(&self.config.gpu_files, gres_conf.as_deref(), self.name)?;
        gpu::inventory(&files, self.roots)
    }
}

/// What the ledger doesn't know and must ask others. Called without its lock.
pub trait Ask {
    /// Waits until NVML has answered: it makes the device nodes of GPUs that nothing has used since boot. Called at
    /// most once, if one is missing.
    fn wait(&mut self);
    /// What the GPUs are doing. Called at most once, for a job with a share, or for a job with any GPU if the GPU's
    /// processes are checked.
    fn measured(&mut self) -> Option<Measured>;
    /// Which of these jobs slurmctld no longer has on this node. Called at most once, for a job that finds no room.
    fn over(&mut self, jobs: &[JobKey]) -> Vec<JobKey>;
}

/// The result for a job.
#[derive(Debug)]
#[must_use]
pub enum Placed {
    /// The job has no GPU, or gpushare has no say on this node.
    NotOurs,
    /// The job was already recorded.
    Before(Entry),
    /// The job is recorded now.
    Now(Entry, Vec<Notice>),
}

/// What an administrator should know about a placement.
#[derive(Debug)]
pub enum Notice {
    /// The share doesn't fit on its GPU, and no other GPU had more room.
    Overcommitted,
    /// The units noted at submission, which Slurm's own count contradicts.
    Contradicted(u32),
    /// A file of the ledger that isn't an entry was moved aside.
    Garbage(Garbage),
    /// An entry was dropped: its job is over, but no epilog removed it.
    Dropped(JobKey),
    /// The same for room, at once: the job's epilog may still come, and usually does.
    Completing(JobKey),
    /// Slurm gave the job whole GPUs of which these jobs have shares; `OnCollision=run`.
    Collision(Vec<JobKey>),
    /// Under `follow` Slurm put a share on a GPU that this job has whole, according to the ledger.
    HeldWhole(JobKey),
    /// Slurm charges shares to more than one GPU, so it could choose by itself: `Placement=follow` would be enough.
    SeveralCharged,
    /// A GPU is missing or faulty and takes no share.
    LeftOut {
        /// Slurm's index.
        index: u32,
        /// Its device node.
        path: PathBuf,
        /// What is wrong.
        why: Unfit,
    },
    /// The files of `JobstatsDir` or `DcgmJobMappingDir` can't be kept.
    Exporter(&'static str, LedgerError),
    /// NVML reports an error of a GPU, so gpushare gives it no share.
    Faulty {
        /// Slurm's index.
        index: u32,
        /// What is wrong.
        fault: String,
    },
    /// Under `follow` Slurm put a share on a GPU with an error.
    OnFaulty {
        /// Slurm's index.
        index: u32,
        /// What is wrong.
        fault: String,
    },
}

/// Records what a job has of the node's GPUs; first chooses a GPU if that is gpushare's task. `now` is in seconds since
/// 1970.
///
/// # Errors
/// The job gets no GPU, or it can't be determined which it has.
pub fn place(node: Node, job: &NodeJob, ask: &mut impl Ask, now: u64) -> Result<Placed, PlaceError> {
    if node.config.placement == Placement::Off {
        return Ok(Placed::NotOurs);
    }
    if let Some(entry) = before::failed(node, job.key.id) {
        return Ok(Placed::Before(entry));
    }
    if job.has_nothing() && !job.gpu_mps {
        // Most jobs come here, without any look at the node's devices. The number may be that of an old job whose
        // epilog never succeeded.
        before::has_none(node, job, now)?;
        return Ok(Placed::NotOurs);
    }
    let mut gpus = node.inventory();
    if !gpus.as_ref().is_ok_and(Inventory::is_complete) {
        ask.wait();
        gpus = node.inventory();
    }
    let units = units_of(node.config, gpus.as_ref().ok());
    let placed = match Allocation::of(job, node.config, units.as_deref().unwrap_or_default()) {
        Err(mismatch) => Err(PlaceError::Mismatch(mismatch)),
        Ok(Allocation::Nothing) if !job.gpu_mps => {
            before::has_none(node, job, now)?;
            return Ok(Placed::NotOurs);
        }
        Ok(allocation) => own_mps::check(node.config, job, &allocation)
            .and(gpus.map_err(PlaceError::Devices))
            .and_then(|gpus| record(node, job, &allocation, (&gpus, units), ask, now)),
    };
    if let Err(error) = &placed {
        error.mark(node.config, node.ledger, job)?;
    }
    placed
}

/// The node's GPUs, and what they are doing if NVML answered in time.
struct Seen<'a> {
    gpus: &'a Inventory,
    /// The units that fill each GPU; 0 if it takes no share.
    units: Vec<u32>,
    measured: Option<Measured>,
}

impl Seen<'_> {
    fn units_of(&self, index: u32) -> u32 {
        usize::try_from(index).ok().and_then(|at| self.units.get(at)).copied().unwrap_or(0)
    }
}

/// The units that fill each GPU.
fn units_of(config: &NodeConfig, gpus: Option<&Inventory>) -> Result<Vec<u32>, PlaceError> {
    let Some(gpus) = gpus else { return Ok(Vec::new()) };
    let listed = config.units_per_gpu.as_ref().and_then(units::listed);
    let gpus_there = gpus.count();
    gpu::units_of(config, gpus)
        .ok_or(PlaceError::UnitsListed { listed: listed.unwrap_or(0), gpus: gpus_there })
}

/// What the ledger says about the node when a job arrives.
struct Occupancy {
    entries: Vec<Entry>,
    /// Entries that can't be read.
    others: Vec<Garbage>,
}

impl Occupancy {
    fn read(ledger: &Locked) -> Result<(Self, Vec<Garbage>), LedgerError> {
        let Listing { entries, garbage, .. } = ledger.list()?;
        let (others, garbage) = garbage.into_iter().partition(Garbage::is_entry);
        Ok((Occupancy { entries, others }, garbage))
    }

    /// The jobs that have shares of these GPUs or, if `whole`, that have one of them whole.
    fn holders(&self, gpus: &[Gpu], whole: bool) -> Vec<JobKey> {
        let here = self.entries.iter().filter(|entry| (entry.holding == Holding::Whole) == whole);
        here.filter(|entry| gpus.iter().any(|gpu| entry.is_on(gpu))).map(|entry| entry.key).collect()
    }
}

/// The GPUs that a job gets.
struct Held {
    holding: Holding,
    gpus: Vec<Gpu>,
    notices: Vec<Notice>,
}

impl Held {
    fn is_crowded(&self) -> bool {
        self.notices.iter().any(|notice| matches!(notice, Notice::Overcommitted | Notice::Collision(_)))
    }
}

fn hold(
    config: &NodeConfig,
    job: &NodeJob,
    allocation: &Allocation,
    seen: &Seen,
    state: Occupancy,
) -> Result<Held, PlaceError> {
    let mut notices = Vec::new();
    let (holding, gpus) = match allocation {
        Allocation::Share { units, allocated_gpu, contradicted } => {
            notices.extend(contradicted.map(Notice::Contradicted));
            let mut gpu = gpu_of_share(config, job, (*units, *allocated_gpu), seen, &state, &mut notices)?;
            let found = seen.measured.as_ref().and_then(|measured| measured.of(&gpu));
            let all = found.and_then(|found| found.memory);
            // Until something such as NVML has initialised the GPU, /proc has no UUID.
            let uuid = found.map(|found| found.uuid.clone()).filter(|uuid| gpu::is_uuid(uuid));
            gpu.uuid = gpu.uuid.or(uuid);
            let capacity = seen.units_of(gpu.index);
            let memory = service::memory((*units, capacity), config, all);
            (Holding::Share { units: *units, capacity, allocated_gpu: *allocated_gpu, memory }, vec![gpu])
        }
        Allocation::Whole(indices) => {
            let mut own = whole_gpus(indices, seen.gpus)?;
            if job.gpu_mps {
                own_mps::ready(&mut own, seen)?;
            }
            notices.extend(collision(config, &own, &state)?);
            (Holding::Whole, own)
        }
        // Never reached: `place` has already handled these.
        Allocation::Nothing => (Holding::Whole, Vec::new()),
    };
    Ok(Held { holding, gpus, notices })
}

/// Takes back the GPUs of jobs that are over. If this fails, the new job doesn't.
fn reconcile(node: Node, ledger: &Locked, now: u64, grace: Duration) -> Vec<Notice> {
    let dropped = ledger.reconcile(&node.roots.proc, now, grace).unwrap_or_default();
    dropped.into_iter().map(if grace.is_zero() { Notice::Completing } else { Notice::Dropped }).collect()
}

fn gpu_of_share(
    config: &NodeConfig,
    job: &NodeJob,
    (units, allocated_gpu): (u32, Option<u32>),
    seen: &Seen,
    state: &Occupancy,
    notices: &mut Vec<Notice>,
) -> Result<Gpu, PlaceError> {
    let Seen { gpus, measured, .. } = seen;
    let capacity = seen.units.iter().copied().max().unwrap_or(0);
    if units > capacity {
        return Err(PlaceError::TooLarge { units, capacity });
    }
    let index = match (config.placement, allocated_gpu) {
        (Placement::Follow, Some(index)) => index,
        _ if !state.others.is_empty() => {
            return Err(PlaceError::Unread(state.others.iter().map(Garbage::to_string).collect()));
        }
        _ => {
            let candidates = candidates(gpus, &state.entries, job.user_id, &seen.units, measured.as_ref());
            let choice = choose::choose(&candidates, units, PlacementRules::from(config))
                .map_err(|why| PlaceError::Nowhere { units, capacity, why })?;
            notices.extend(choice.overcommitted.then_some(Notice::Overcommitted));
            choice.index
        }
    };
    let others = |entry: &Entry| match entry.holding {
        Holding::Share { allocated_gpu: other, .. } => other.is_some() && other != allocated_gpu,
        Holding::Whole | Holding::Nothing => false,
    };
    if config.placement == Placement::Override && allocated_gpu.is_some() && state.entries.iter().any(others)
    {
        notices.push(Notice::SeveralCharged);
    }
    notices.extend(left_out(gpus));
    let followed = (config.placement == Placement::Follow).then_some(index);
    notices.extend(measured.iter().flat_map(|measured| faulty(gpus, measured, followed)));
    let detail = gpus.detail(index).ok_or(PlaceError::NoSuchGpu(index))?;
    let gpu = detail.gpu().filter(|_| detail.unfit.is_none()).ok_or_else(|| unfit(detail))?;
    let capacity = seen.units_of(index);
    if units > capacity {
        return Err(PlaceError::TooLarge { units, capacity });
    }
    // Our own choice avoids held GPUs. Slurm gave the GPU away, so that job is over or doesn't have it whole.
    let holders = state.holders(std::slice::from_ref(&gpu), true);
    notices.extend(holders.first().map(|holder| Notice::HeldWhole(*holder)));
    Ok(gpu)
}

fn whole_gpus(indices: &[u32], gpus: &Inventory) -> Result<Vec<Gpu>, PlaceError> {
    if let Some(missing) = indices.iter().find(|index| gpus.detail(**index).is_none()) {
        return Err(PlaceError::NoSuchGpu(*missing));
    }
    let own = gpus.details.iter().filter(|detail| indices.contains(&detail.index));
    own.map(|detail| detail.gpu().ok_or_else(|| unfit(detail))).collect()
}

fn unfit(detail: &Detail) -> PlaceError {
    match detail.unfit.clone() {
        Some(why) => PlaceError::Unfit { index: detail.index, path: detail.path.clone(), why },
        None => PlaceError::NoSuchGpu(detail.index),
    }
}

/// Faults that need a repair. The others are the administrator's choice.
fn left_out(gpus: &Inventory) -> impl Iterator<Item = Notice> {
    gpus.details.iter().filter_map(|detail| match detail.unfit.clone()? {
        Unfit::MigEnabled | Unfit::Excluded | Unfit::Drained(_) => None,
        why => Some(Notice::LeftOut { index: detail.index, path: detail.path.clone(), why }),
    })
}

/// GPUs for which NVML reports an error. Slurm doesn't know about errors, so of the GPUs that it chooses from only the
/// chosen one matters: `followed`.
fn faulty(gpus: &Inventory, measured: &Measured, followed: Option<u32>) -> Vec<Notice> {
    let notice = |gpu: &Gpu| {
        let (index, fault) = (gpu.index, measured.of(gpu)?.fault.clone()?);
        match followed {
            None => Some(Notice::Faulty { index, fault }),
            Some(chosen) => (chosen == index).then_some(Notice::OnFaulty { index, fault }),
        }
    };
    gpus.gpus().iter().filter_map(notice).collect()
}

/// Checks for shares on GPUs that Slurm gave a job whole.
fn collision(config: &NodeConfig, own: &[Gpu], state: &Occupancy) -> Result<Option<Notice>, PlaceError> {
    let hit = state.holders(own, false);
    match config.on_collision {
        _ if hit.is_empty() => Ok(None),
        // If Slurm chooses, it keeps shares and whole GPUs apart: those jobs are over, or did not request shares. Not
        // before 23.11.5 (docs/dev/slurm-faults.md).
        _ if config.placement == Placement::Follow => Ok(Some(Notice::Collision(hit))),
        OnCollision::Run => Ok(Some(Notice::Collision(hit))),
        OnCollision::Fail => Err(PlaceError::Collision(hit)),
    }
}

/// Takes back the GPU of this start of a job and of earlier ones, or of all starts if `restart` is unknown. Returns the
/// start that had one. The epilog of a requeued job may already name the next start (seen on 22.05), but that start
/// begins here only after this epilog has ended.
///
/// # Errors
/// The ledger can't be locked or changed.
pub fn release(ledger: &Ledger, job_id: u32, restart: Option<u32>) -> Result<Option<JobKey>, LedgerError> {
    if !ledger.knows(job_id) {
        return Ok(None);
    }
    let ledger = ledger.lock(LOCK_WAIT)?;
    let released = ledger.forget(job_id, restart)?;
    ledger.keep_exporters();
    Ok(released)
}

#[cfg(test)]
mod tests;
