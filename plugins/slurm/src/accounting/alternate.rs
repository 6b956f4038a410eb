//! Which partitions take no jobs and pass theirs on (`Alternate=`): slurmctld moves a job after it has asked its
//! plugins, so they must follow.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gpushare::submit::request::Request;
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
    rebuilt(&partition::named(request)?, look)
}

/// The list that slurmctld makes of several partitions: of those that take jobs, and of the ends of the others' chains.
/// `None` if none is left, for which Slurm refuses the job. It charges the association of one of the list, and refuses
/// a list of which two have different ones (`_check_for_part_assocs`), so their order, by tiers, doesn't matter.
#[doc(alias = "_get_job_parts")]
fn rebuilt(names: &[&[u8]], look: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let in_end = |name: &&[u8]| if look(name).is_some() { end(name, &look) } else { Some(name.to_vec()) };
    let ends: Vec<Vec<u8>> = names.iter().filter_map(in_end).collect();
    (!ends.is_empty()).then(|| ends.join(&b','))
}

/// The partition to which this one passes its jobs on, perhaps an empty name; `None` if it takes them.
fn to(part: &partition_info_t) -> Option<Vec<u8>> {
    // SAFETY: null or a C string of the record, which lives as long as it.
    let alternate = unsafe { text::bytes(part.alternate) }.unwrap_or_default();
    (u32::from(part.state_up) & slurm_sys::PARTITION_SUBMIT == 0).then(|| alternate.to_vec())
}

/// The first partition in the chain of one that takes jobs. Slurm refuses jobs if the chain has none.
fn end(name: &[u8], look: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    // No chain is longer; one without an end goes round and round.
    let last = std::iter::successors(look(name), |at| look(at)).take(100).last()?;
    Some(last).filter(|last| !last.is_empty() && look(last).is_none())
}

#[cfg(test)]
mod tests {
    use super::{end, rebuilt};

    #[test]
    fn jobs_go_to_the_first_partition_that_takes_some() {
        for (chain, expected) in [
            (&[("a", "b")][..], Some("b")),
            (&[("a", "c"), ("c", "b")], Some("b")),
            (&[("b", "a")], None),
            (&[("a", "c"), ("c", "a")], None),
            (&[("a", "")], None),
        ] {
            let look = |name: &[u8]| {
                let found = chain.iter().find(|(from, _)| from.as_bytes() == name);
                found.map(|(_, to)| to.as_bytes().to_vec())
            };
            assert_eq!(end(b"a", look), expected.map(|name| name.as_bytes().to_vec()), "{chain:?}");
        }
    }

    #[test]
    fn what_takes_no_jobs_is_no_part_of_a_list() {
        for (list, expected) in [
            ("low,high", Some("low,high")),
            ("drained,low", Some("low")),
            ("low,old,high", Some("low,new,high")),
            ("old", Some("new")),
            ("drained", None),
        ] {
            let look = |name: &[u8]| match name {
                b"old" => Some(b"new".to_vec()),
                b"drained" => Some(Vec::new()),
                _ => None,
            };
            let names: Vec<&[u8]> = list.split(',').map(str::as_bytes).collect();
            let found = rebuilt(&names, look).map(|list| String::from_utf8(list).unwrap());
            assert_eq!(found.as_deref(), expected, "{list}");
        }
    }
}
