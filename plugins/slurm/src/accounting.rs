//! slurmctld's cache of the accounting database (src/common/assoc_mgr.c): QOSes, their typed limits, TRES, default QOS.
//!
//! The first query takes the read locks, and dropping the [`Cache`] releases them, so a job that needs no look-up takes
//! none. The order "slurmctld's locks first, these second" is Slurm's own rule (assoc_mgr.h), and job_submit follows
//! it. Borrowed data is in the cache, so its lifetime is that of the locks.

use std::cell::OnceCell;

use gpushare::submit::policy::{
    Accounting, Association, DefaultMemory, DefaultQos, GresLimit, Owner, TypedLimit,
};
use gpushare::submit::request::Request;
use slurm_sys::{slurmdb_assoc_rec_t, slurmdb_qos_rec_t};

use crate::text;

pub(crate) mod alternate;
mod locks;
mod partition;

use locks::Locks;

/// The cache for one decision: a reference to it implements [`Accounting`].
#[derive(Debug, Default)]
pub struct Cache {
    locks: OnceCell<Locks>,
}

impl Cache {
    /// Locks nothing yet.
    pub fn new() -> Cache {
        Cache::default()
    }

    fn locks(&self) -> &Locks {
        self.locks.get_or_init(Locks::take)
    }
}

/// A QOS in the cache, valid while the locks are held.
#[derive(Clone, Copy, Debug)]
pub struct Qos<'c>(&'c slurmdb_qos_rec_t);

impl<'c> Accounting for &'c Cache {
    type Qos = Qos<'c>;

    fn qos_named(&self, name: &[u8]) -> Option<Qos<'c>> {
        let locks = self.locks();
        text::with_c_string(name, |name| locks.qos_named(name))
    }

    fn qoses_named(&self, names: &[&[u8]]) -> Vec<Qos<'c>> {
        let names = names.iter().map(|name| name.to_ascii_lowercase());
        self.locks().qoses_named(&gpushare::text::sorted(names, Ord::cmp))
    }

    fn default_qos(&self, request: &Request) -> DefaultQos<Qos<'c>> {
        let locks = self.locks();
        if request.partition_is_the_reservations() {
            let found = locks.possible_defaults(request);
            return match found.as_slice() {
                [] => DefaultQos::None,
                [only] => DefaultQos::One(*only),
                _ => DefaultQos::OneOf(found),
            };
        }
        let association = locks.association(request);
        association.and_then(|record| locks.default_qos(record)).map_or(DefaultQos::None, DefaultQos::One)
    }

    fn name(&self, qos: Qos<'c>) -> &[u8] {
        // SAFETY: null or a C string of the record, which the locks keep valid for 'c.
        unsafe { text::bytes(qos.0.name) }.unwrap_or_default()
    }

    fn typed_limits<'s>(&'s self, qos: Qos<'c>, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        self.locks().gres_names().iter().filter_map(move |(position, name)| {
            let gres_type = type_of(name, gres)?;
            // SAFETY: the position is one in the TRES table, under the locks.
            let limit = unsafe { limit(qos.0, *position) };
            limit.map(|(count, of_job)| TypedLimit { gres_type, count, of_job })
        })
    }

    fn limit_on_all(&self, qos: Qos<'c>, gres: &[u8]) -> Option<Option<u64>> {
        let (position, _) = self.locks().gres_names().iter().find(|(_, name)| *name == gres)?;
        // SAFETY: the position is one in the TRES table, under the locks.
        unsafe { limit(qos.0, *position) }.map(|(count, _)| count)
    }

    fn denies_on_limit(&self, qos: Qos<'c>) -> bool {
        qos.0.flags & slurm_sys::QOS_DENIES_ON_LIMIT != 0
    }

    fn limits_billing(&self, qos: Qos<'c>) -> bool {
        // SAFETY: the position is one in the TRES table, under the locks.
        let limit = |position| unsafe { limit(qos.0, position) };
        self.locks().billing.and_then(limit).is_some_and(|(count, _)| count.is_some())
    }

    fn billing_weights(&self, request: &Request, look: impl FnMut(&[u8])) {
        partition::billing_weights(request, look);
    }

    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        self.locks().gres_names().iter().filter_map(move |(_, name)| type_of(name, gres))
    }

    fn counts(&self, gres: &[u8]) -> bool {
        self.locks().gres_names().iter().any(|(_, name)| *name == gres)
    }

    fn owner(&self, request: &Request) -> Option<Owner<'_>> {
        let record = self.locks().association(request)?;
        // SAFETY: null or a C string of the record, under the locks.
        let user = unsafe { text::bytes(record.user) }.unwrap_or_default();
        // SAFETY: the same.
        let account = unsafe { text::bytes(record.acct) }.unwrap_or_default();
        Some(Owner { user, account })
    }

    fn most_nodes(&self, request: &Request) -> Option<u32> {
        partition::most_nodes(request)
    }

    fn passes_max_nodes(&self, qos: Qos<'c>) -> bool {
        qos.0.flags & slurm_sys::QOS_PASSES_MAX_NODES != 0
    }

    fn default_memory(&self, partition: &[u8]) -> DefaultMemory {
        partition::default_memory(partition).unwrap_or_default().over(locks::default_memory())
    }

    fn associations<'s>(&'s self, request: &Request, mut look: impl FnMut(Association<'s>)) {
        let locks = self.locks();
        locks.each_of_user(request, |leaf| {
            locks::chain(leaf).for_each(|record| look(association(locks, record)));
        });
    }

    fn has_node(&self, name: &str) -> bool {
        text::with_c_string(name.as_bytes(), |name| {
            // SAFETY: the name is only read; callers of job_submit and job_modify hold the node lock.
            Some(unsafe { slurm_sys::find_node_record2(name.as_ptr().cast_mut()) })
                .filter(|found| !found.is_null())
        })
        .is_some()
    }

    fn default_partition(&self) -> Option<&[u8]> {
        locks::default_partition(self)
    }
}

/// An association with the data that the policy needs.
fn association<'c>(locks: &'c Locks, record: &'c slurmdb_assoc_rec_t) -> Association<'c> {
    // SAFETY: null or a C string of the record, under the locks.
    let account = unsafe { text::bytes(record.acct) }.unwrap_or_default();
    let limits = locks.gres_names().iter().filter_map(|(position, name)| {
        // SAFETY: the position is one in the TRES table, under the locks.
        let (count, of_job) = unsafe { association_limit(record, *position) }?;
        let mut parts = name.splitn(2, |byte| *byte == b':');
        Some(GresLimit { gres: parts.next()?, gres_type: parts.next(), count, of_job })
    });
    // SAFETY: the same.
    let limit = |position| unsafe { association_limit(record, position) };
    let billing = locks.billing.and_then(limit).is_some_and(|(count, _)| count.is_some());
    Association { id: record.id, account, own: !record.user.is_null(), limits: limits.collect(), billing }
}

/// The lowest limits of an association on one TRES, as [`limit`] has those of a QOS. Only a user's own limits on a
/// single job count: slurmdbd gives users what they inherit, and slurmctld doesn't check the accounts'
/// (src/slurmctld/acct_policy.c). It also stores `max_tres_run_mins`, but never tests it.
///
/// # Safety
/// As for [`limit`], for the arrays of slurmdb_assoc_rec_t.
unsafe fn association_limit(
    record: &slurmdb_assoc_rec_t,
    position: usize,
) -> Option<(Option<u64>, Option<u64>)> {
    // SAFETY: the caller's promise.
    let at = |array: *const u64| unsafe { limit_at(array, position) };
    let own = |array: *const u64| if record.user.is_null() { std::ptr::null() } else { array };
    let of_job = [record.grp_tres_ctld, own(record.max_tres_ctld)].into_iter().filter_map(at).min();
    let minutes = [record.grp_tres_mins_ctld, record.grp_tres_run_mins_ctld, own(record.max_tres_mins_ctld)];
    let count = of_job.into_iter().chain(at(own(record.max_tres_pn_ctld))).min();
    (count.is_some() || minutes.into_iter().find_map(at).is_some()).then_some((count, of_job))
}

/// The lowest of a QOS's limits on one TRES: the lowest of all, and the lowest of those that are not per node; both are
/// empty if only minutes are limited. `None` if nothing is limited.
///
/// # Safety
/// `position` must be one in the TRES table, whose length every limit array has (slurmdb_qos_rec_t), under assoc_mgr's
/// locks.
unsafe fn limit(record: &slurmdb_qos_rec_t, position: usize) -> Option<(Option<u64>, Option<u64>)> {
    // SAFETY: the caller's promise.
    let at = |array: *const u64| unsafe { limit_at(array, position) };
    let counts =
        [record.grp_tres_ctld, record.max_tres_pj_ctld, record.max_tres_pu_ctld, record.max_tres_pa_ctld];
    let minutes = [
        record.grp_tres_mins_ctld,
        record.grp_tres_run_mins_ctld,
        record.max_tres_mins_pj_ctld,
        record.max_tres_run_mins_pa_ctld,
        record.max_tres_run_mins_pu_ctld,
    ];
    let of_job = counts.into_iter().filter_map(|array| at(array)).min();
    let lowest = of_job.into_iter().chain(at(record.max_tres_pn_ctld)).min();
    (lowest.is_some() || minutes.into_iter().any(|array| at(array).is_some())).then_some((lowest, of_job))
}

/// `gpu:a40` → `a40`, for the given GRES.
fn type_of<'a>(name: &'a [u8], gres: &[u8]) -> Option<&'a [u8]> {
    name.strip_prefix(gres)?.strip_prefix(b":")
}

/// The limit, if one is set.
///
/// # Safety
/// `array` is null or has more than `position` elements.
unsafe fn limit_at(array: *const u64, position: usize) -> Option<u64> {
    if array.is_null() {
        return None;
    }
    // SAFETY: inside the array, by the caller's promise.
    let place = unsafe { array.add(position) };
    // SAFETY: the same.
    let limit = unsafe { *place };
    (limit != slurm_sys::UNLIMITED_U64).then_some(limit)
}
