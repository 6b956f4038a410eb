//! Which partitions take no jobs and pass theirs on (`Alternate=`): slurmctld moves a job after it has asked its
//! plugins, so they must follow.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gpushare::submit::request::{Request, taking_jobs};
use slurm_sys::{partition_info_t, time_t};

use super::partition;
use crate::text;

/// Twice the time at which slurmctld last changed a partition, and 1 more if one took no jobs then. To look, slurmctld
/// must pack the record of each.
static SEEN: AtomicI64 = AtomicI64::new(i64::MIN);

/// The partitions in which a job will be that names these, or none; `None` if all of them take jobs. Call it under the
/// partition lock, which callers of job_submit and job_modify hold.
#[doc(alias = "_alt_part_test")]
pub(crate) fn followed<'r>(request: impl FnOnce() -> Request<'r>) -> Option<Vec<u8>> {
    // SAFETY: slurmctld's own variable, changed under its partition write lock.
    let changed = unsafe { slurm_sys::last_part_update };
    let known = Some(SEEN.load(Ordering::Relaxed)).filter(|seen| seen >> 1 == changed);
    if known.unwrap_or_else(|| looked(changed)) & 1 == 1 { in_alternates(&request()) } else { None }
}

/// Looks anew. Within the second of a change another may follow, so what was seen then isn't kept. A clock may be set
/// back.
#[cold]
fn looked(changed: time_t) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut any = false;
    partition::each(&mut |part| any |= to(part).is_some());
    let seen = changed << 1 | i64::from(any);
    if time_t::try_from(now).is_ok_and(|now| now != changed) {
        SEEN.store(seen, Ordering::Relaxed);
    }
    seen
}

#[cold]
fn in_alternates(request: &Request) -> Option<Vec<u8>> {
    let look = |name: &[u8]| text::with_c_string(name, |name| partition::shown(name, to))?;
    taking_jobs(&partition::named(request)?, look)
}

/// The partition to which this one passes its jobs on, perhaps an empty name; `None` if it takes them.
fn to(part: &partition_info_t) -> Option<Vec<u8>> {
    // SAFETY: null or a C string of the record, which lives as long as it.
    let alternate = unsafe { text::bytes(part.alternate) }.unwrap_or_default();
    (u32::from(part.state_up) & slurm_sys::PARTITION_SUBMIT == 0).then(|| alternate.to_vec())
}
