//! slurmctld's cache of the accounting database (src/common/assoc_mgr.c): QOSes, their typed limits, TRES, default QOS.
//!
//! The read locks are taken at the first question and let go when the value is dropped, so a job that needs no look-up
//! takes none. The order "slurmctld's locks first, these second" is Slurm's own rule (assoc_mgr.h) and holds in
//! job_submit. What is borrowed from here lies in the cache and ends with the locks.

use std::cell::OnceCell;
use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

use gpushare::policy::{Accounting, TypedLimit};
use gpushare::request::Request;
use slurm_sys::{assoc_mgr_lock_t, slurmdb_assoc_rec_t, slurmdb_qos_rec_t};

use crate::text;

const READ: c_int = 1;
const NO: c_int = 0;

/// The cache, as one decision sees it.
#[derive(Debug, Default)]
pub struct Cache {
    locks: OnceCell<Locks>,
}

/// A QOS in the cache; meaningful while the [`Cache`] that gave it lives, which the trait's signatures ensure.
#[derive(Clone, Copy, Debug)]
pub struct Qos(NonNull<slurmdb_qos_rec_t>);

#[derive(Debug)]
struct Locks {
    held: assoc_mgr_lock_t,
    /// Must be let go by the thread that took them.
    _not_send: PhantomData<*const ()>,
}

impl Locks {
    #[doc(alias = "assoc_mgr_lock")]
    fn take() -> Self {
        let mut held =
            assoc_mgr_lock_t { assoc: READ, file: NO, qos: READ, res: NO, tres: READ, user: READ, wckey: NO };
        // SAFETY: seven levels, as assoc_mgr.h declares them; no such lock is held by this thread (module doc).
        unsafe { slurm_sys::assoc_mgr_lock(&raw mut held) };
        Locks { held, _not_send: PhantomData }
    }
}

impl Drop for Locks {
    #[doc(alias = "assoc_mgr_unlock")]
    fn drop(&mut self) {
        // SAFETY: the levels that `take` took, on the same thread.
        unsafe { slurm_sys::assoc_mgr_unlock(&raw mut self.held) }
    }
}

impl Cache {
    fn lock(&self) {
        self.locks.get_or_init(Locks::take);
    }

    /// Slurm's own search for a QOS by name or id; it writes into `wanted`, whose strings stay the caller's.
    #[doc(alias = "assoc_mgr_fill_in_qos")]
    fn find(wanted: &mut slurmdb_qos_rec_t) -> Option<Qos> {
        let mut found: *mut slurmdb_qos_rec_t = std::ptr::null_mut();
        // SAFETY: slurmctld's own setting, written at start only.
        let enforce = c_int::from(unsafe { slurm_sys::accounting_enforce });
        // SAFETY: slurmctld's own connection handle, only passed on.
        let connection = unsafe { slurm_sys::acct_db_conn };
        // SAFETY: a zeroed record with the fields the search reads; the locks are held, as `locked` says.
        let code =
            unsafe { slurm_sys::assoc_mgr_fill_in_qos(connection, wanted, enforce, &raw mut found, true) };
        if code < 0 { None } else { NonNull::new(found).map(Qos) }
    }

    #[doc(alias = "assoc_mgr_fill_in_assoc")]
    fn association(request: &Request) -> Option<NonNull<slurmdb_assoc_rec_t>> {
        let account = request.account.map(text::c_string);
        let partition = first_partition(request).map(text::c_string);
        // SAFETY: a C structure of numbers and pointers, for which all zero is "nothing set".
        let mut wanted: slurmdb_assoc_rec_t = unsafe { std::mem::zeroed() };
        wanted.uid = request.user_id;
        wanted.acct = account.as_ref().map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut());
        wanted.partition = partition.as_ref().map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut());
        let mut found: *mut slurmdb_assoc_rec_t = std::ptr::null_mut();
        // SAFETY: slurmctld's own setting, written at start only.
        let enforce = c_int::from(unsafe { slurm_sys::accounting_enforce });
        // SAFETY: slurmctld's own connection handle, only passed on.
        let connection = unsafe { slurm_sys::acct_db_conn };
        // SAFETY: the record's strings live to the end of this function and are only read; the locks are held.
        let code = unsafe {
            slurm_sys::assoc_mgr_fill_in_assoc(connection, &raw mut wanted, enforce, &raw mut found, true)
        };
        if code < 0 { None } else { NonNull::new(found) }
    }

    /// The names of all TRES, `gres/gpu:a40` among them, by position in the limit arrays.
    fn tres_names(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.lock();
        // SAFETY: slurmctld's own array and its length, kept together under the tres lock.
        let names = unsafe { slurm_sys::assoc_mgr_tres_name_array };
        // SAFETY: the same.
        let count = unsafe { slurm_sys::g_tres_count };
        let count = if names.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
        (0..count).filter_map(move |position| {
            // SAFETY: position < count.
            let place = unsafe { names.add(position) };
            // SAFETY: inside the array.
            let name: *const c_char = unsafe { *place };
            // SAFETY: null or a C string that stays under the tres lock, which `self` holds.
            unsafe { text::bytes(name) }.map(|name| (position, name))
        })
    }

    fn record(&self, qos: Qos) -> &slurmdb_qos_rec_t {
        self.lock();
        // SAFETY: a record of the cache, which stays under the qos lock, which `self` holds.
        unsafe { qos.0.as_ref() }
    }
}

impl Accounting for Cache {
    type Qos = Qos;

    fn qos_named(&self, name: &[u8]) -> Option<Qos> {
        self.lock();
        let name = text::c_string(name);
        // SAFETY: a C structure of numbers and pointers, for which all zero is "nothing set".
        let mut wanted: slurmdb_qos_rec_t = unsafe { std::mem::zeroed() };
        wanted.name = name.as_ptr().cast_mut();
        Cache::find(&mut wanted)
    }

    #[doc(alias = "assoc_mgr_get_default_qos_info")]
    fn default_qos(&self, request: &Request) -> Option<Qos> {
        self.lock();
        let association = Cache::association(request)?;
        // SAFETY: a C structure of numbers and pointers, for which all zero is "nothing set".
        let mut wanted: slurmdb_qos_rec_t = unsafe { std::mem::zeroed() };
        // SAFETY: a record of the cache under the assoc lock; it sets the id or, to a string of its own, the name.
        unsafe { slurm_sys::assoc_mgr_get_default_qos_info(association.as_ptr(), &raw mut wanted) };
        Cache::find(&mut wanted)
    }

    fn name(&self, qos: Qos) -> &[u8] {
        // SAFETY: null or a C string of the cache, under the qos lock, which `self` holds.
        unsafe { text::bytes(self.record(qos).name) }.unwrap_or_default()
    }

    fn typed_limits<'s>(&'s self, qos: Qos, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        let record = self.record(qos);
        self.tres_names().filter_map(move |(position, name)| {
            let kind = type_of(name, gres)?;
            // SAFETY: position is one of the TRES table, whose length every limit array has (slurmdb_qos_rec_t).
            let limit = |array: *const u64| unsafe { limit_at(array, position) };
            let counts = [
                record.grp_tres_ctld,
                record.max_tres_pj_ctld,
                record.max_tres_pu_ctld,
                record.max_tres_pa_ctld,
                record.max_tres_pn_ctld,
            ];
            let minutes = [
                record.grp_tres_mins_ctld,
                record.grp_tres_run_mins_ctld,
                record.max_tres_mins_pj_ctld,
                record.max_tres_run_mins_pa_ctld,
                record.max_tres_run_mins_pu_ctld,
            ];
            let count = counts.into_iter().find_map(|array| limit(array));
            let limited = count.is_some() || minutes.into_iter().any(|array| limit(array).is_some());
            limited.then_some(TypedLimit { kind, count })
        })
    }

    fn has_tres(&self, gres: &[u8], kind: &[u8]) -> bool {
        self.tres_names().any(|(_, name)| type_of(name, gres) == Some(kind))
    }
}

/// The partition whose association counts: the first of the list, or the default one.
fn first_partition<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    if let Some(list) = request.partition {
        return list.split(|byte| *byte == b',').find(|name| !name.is_empty());
    }
    // SAFETY: slurmctld's own variable, under its partition lock, which callers of job_submit hold.
    let default = unsafe { slurm_sys::default_part_name };
    // SAFETY: null or a C string, under the same lock.
    unsafe { text::bytes(default) }
}

/// `gres/gpu:a40` → `a40`, for the GRES named.
fn type_of<'a>(tres: &'a [u8], gres: &[u8]) -> Option<&'a [u8]> {
    tres.strip_prefix(b"gres/")?.strip_prefix(gres)?.strip_prefix(b":")
}

/// A limit, unless there is none.
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
