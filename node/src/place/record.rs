//! Writes a job's entry under the ledger's lock. If there is no room, it asks slurmctld once, without the lock, about
//! the jobs in the way, and tries again.

use std::time::Duration;

use super::{
    Ask, GRACE, Held, LOCK_WAIT, Node, Notice, Occupancy, PlaceError, Placed, Seen, candidates, hold,
    reconcile,
};
use crate::allocation::Allocation;
use crate::config::{ForeignProcesses, Nvml, Placement};
use crate::environment;
use crate::gpu::{Detail, Inventory};
use crate::job::{JobKey, NodeJob};
use crate::ledger::{Entry, Given, Holding, LedgerError, Locked, Witness, extern_step_above, is_gone};

/// Records what a job has, unless it is already recorded.
///
/// # Errors
/// The error in `units`, for a job with a share; the ledger can't be used; or the job can't have its GPUs, such as for
/// lack of room.
pub(super) fn record(
    node: Node,
    job: &NodeJob,
    allocation: &Allocation,
    (gpus, units): (&Inventory, Result<Vec<u32>, PlaceError>),
    ask: &mut impl Ask,
    now: u64,
) -> Result<Placed, PlaceError> {
    let (units, measured) = match allocation {
        Allocation::Share { .. } => (units?, ask.measured()),
        Allocation::Whole(_) => {
            let asks = job.gpu_mps || node.config.foreign_processes != ForeignProcesses::Ignore;
            (Vec::new(), if asks { ask.measured() } else { None })
        }
        Allocation::Nothing => (Vec::new(), None),
    };
    let gpus = &Seen { gpus, units, measured };
    // Found without the lock.
    let witness = extern_step_above(&node.roots.proc, std::process::id(), job.key.id);
    let mut notices = Vec::new();
    let mut over = None;
    loop {
        match attempt(node, (job, allocation, witness), gpus, over.as_deref(), &mut notices, now)? {
            Attempt::Before(entry) => return Ok(Placed::Before(entry)),
            Attempt::Now(entry) => return Ok(Placed::Now(entry, notices)),
            Attempt::Crowded(suspects) => over = Some(ask.over(&suspects)),
        }
    }
}

/// The result of one try under the ledger's lock.
enum Attempt {
    /// The job was already recorded.
    Before(Entry),
    /// The job is recorded now.
    Now(Entry),
    /// There is no room, but these jobs may be over: ask about them, and try again.
    Crowded(Vec<JobKey>),
}

/// `over` has the jobs that are over according to slurmctld; empty if it was not asked yet.
fn attempt(
    node: Node,
    (job, allocation, witness): (&NodeJob, &Allocation, Option<Witness>),
    gpus: &Seen,
    over: Option<&[JobKey]>,
    notices: &mut Vec<Notice>,
    now: u64,
) -> Result<Attempt, PlaceError> {
    let ledger = node.ledger.lock(LOCK_WAIT)?;
    match node.ledger.find(job.key.id) {
        Ok(Some(Entry { key, node: Some(other), .. }))
            if key == job.key && node.name.is_some_and(|own| own != other) =>
        {
            return Err(PlaceError::OtherNode(other));
        }
        Ok(Some(entry))
            if entry.key == job.key
                && entry.user_id == job.user_id
                && allocation.is_of(&entry)
                && is_of_this_start(node, &entry, witness) =>
        {
            return Ok(Attempt::Before(entry));
        }
        // The latter if its prolog runs again.
        Ok(found) if found.as_ref().is_none_or(|entry| entry.key == job.key && !entry.has_gpus()) => {}
        // The entry of an earlier start of the job, or of an old job with the same number.
        _ => {
            ledger.forget(job.key.id, None)?;
        }
    }
    if ledger.is_reconcile_due(now) {
        notices.extend(reconcile(node, &ledger, now, GRACE));
    }
    for key in over.unwrap_or_default() {
        notices.extend(ledger.forget(key.id, Some(key.restart))?.map(Notice::Dropped));
    }
    let (state, garbage) = Occupancy::read(&ledger)?;
    notices.extend(garbage.into_iter().map(Notice::Garbage));
    let is_crowded = |found: &Result<Held, PlaceError>| {
        found.as_ref().map_or_else(PlaceError::is_for_lack_of_room, Held::is_crowded)
    };
    let mut found = hold(node.config, job, allocation, gpus, state);
    if is_crowded(&found) {
        // Entries of jobs that are over may be in the way, even while their epilogs still run.
        let dropped = reconcile(node, &ledger, now, Duration::ZERO);
        if !dropped.is_empty() {
            notices.extend(dropped);
            // Needed even if there is still no room.
            ledger.keep_exporters();
            found = hold(node.config, job, allocation, gpus, Occupancy::read(&ledger)?.0);
        }
    }
    if over.is_none() && is_crowded(&found) && !matches!(found, Err(PlaceError::Unread(_))) {
        let suspects = suspects(node, &ledger, (job, allocation), gpus)?;
        if !suspects.is_empty() {
            return Ok(Attempt::Crowded(suspects));
        }
    }
    let Held { holding, gpus: own, notices: more } = found?;
    notices.extend(more);
    let name = node.name.map(str::to_owned);
    let mut entry =
        Entry { holding, gpus: own, since: now, node: name, ..Entry::without_gpus(job.key, job.user_id) };
    entry.given =
        if job.gpu_mps { environment::given_whole(&entry, node.config) } else { given(node, &entry, gpus) };
    entry.witness = witness;
    ledger.record(&entry)?;
    let crowded = notices.iter().any(|notice| matches!(notice, Notice::Overcommitted));
    ledger.count_placement(&entry, crowded);
    let wrong = ledger.tell_exporters(node.config, node.roots);
    notices.extend(wrong.into_iter().map(|(key, error)| Notice::Exporter(key, error)));
    Ok(Attempt::Now(entry))
}

/// Whether the entry is not of an old job with the same number: by the extern step above, or else by the one that has
/// noted itself, which is then still there.
fn is_of_this_start(node: Node, entry: &Entry, above: Option<Witness>) -> bool {
    let is_there = |witness| !is_gone(&node.roots.proc, &witness);
    entry.may_be_of(above) || (above.is_none() && entry.witness.is_some_and(is_there))
}

/// What the steps of a share need.
fn given(node: Node, entry: &Entry, seen: &Seen) -> Given {
    let Some(gpu) = entry.share_gpu() else { return Given::default() };
    let has_size = matches!(entry.holding, Holding::Share { memory: Some(_), .. });
    Given {
        pci: seen.gpus.detail(gpu.index).and_then(|Detail { pci, .. }| pci.clone()),
        driver_limits: has_size && node.config.nvml != Nvml::Off && node.ledger.has_limits(),
        ..environment::given(entry, node.config)
    }
}

/// The jobs that may be over, those without a witness first. A job with a witness is included only if Slurm would not
/// have started this job beside all of them: slurmstepd sometimes outlives its job after slurmd was killed.
fn suspects(
    node: Node,
    ledger: &Locked,
    (job, allocation): (&NodeJob, &Allocation),
    seen: &Seen,
) -> Result<Vec<JobKey>, LedgerError> {
    let mut entries = ledger.list()?.entries;
    let is_too_much = match allocation {
        Allocation::Share { units, .. } if node.config.placement != Placement::Follow => {
            let gpus = candidates(seen.gpus, &entries, job.user_id, &seen.units, None);
            let assigned = gpus.iter().map(|gpu| gpu.assigned).sum::<u64>();
            assigned + u64::from(*units) > gpus.iter().map(|gpu| u64::from(gpu.capacity)).sum()
        }
        // Slurm counts each GPU separately.
        Allocation::Share { .. } | Allocation::Whole(_) | Allocation::Nothing => true,
    };
    entries.retain(|entry| is_too_much || entry.witness.is_none());
    entries.sort_by_key(|entry| entry.witness.is_some());
    Ok(entries.into_iter().map(|entry| entry.key).collect())
}
