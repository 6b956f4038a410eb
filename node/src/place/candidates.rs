//! Turns the node's state into candidates for the choice.

use crate::choose::{Candidate, Load};
use crate::gpu::{Detail, Inventory};
use crate::ledger::{Entry, Holding};
use crate::nvml::answer::Measured;

/// The node's GPUs as the choice sees them, for a share of that user's. `units` are those that fill each GPU, in
/// Slurm's order.
pub fn candidates(
    gpus: &Inventory,
    entries: &[Entry],
    user_id: u32,
    units: &[u32],
    measured: Option<&Measured>,
) -> Vec<Candidate> {
    let candidate = |(detail, capacity): (&Detail, &u32)| {
        let capacity = *capacity;
        let gpu = detail.gpu();
        let state = gpu.as_ref().and_then(|gpu| measured?.of(gpu));
        let here: Vec<&Entry> =
            entries.iter().filter(|entry| gpu.as_ref().is_some_and(|gpu| entry.is_on(gpu))).collect();
        let mut users: Vec<u32> = here.iter().map(|entry| entry.user_id).collect();
        users.sort_unstable();
        users.dedup();
        Candidate {
            index: detail.index,
            capacity,
            assigned: here.iter().map(|entry| entry.units_of(capacity)).sum(),
            users: u32::try_from(users.len()).unwrap_or(u32::MAX),
            foreign: users.iter().any(|user| *user != user_id),
            held: here.iter().any(|entry| entry.holding == Holding::Whole),
            healthy: detail.unfit.is_none() && state.is_none_or(|state| state.fault.is_none()),
            memory: state.and_then(|state| state.memory).map(u64::from),
            load: state.and_then(Load::of),
        }
    };
    gpus.details.iter().zip(units).map(candidate).collect()
}
