//! slurmctld's cache of the accounting database (src/common/assoc_mgr.c): QOSes, their typed limits, TRES, default QOS.
//!
//! The read locks are taken at the first question and let go when the [`Cache`] is dropped, so a job that needs no look-up
//! takes none. The order "slurmctld's locks first, these second" is Slurm's own rule (assoc_mgr.h) and holds in
//! job_submit. What is borrowed from here lies in the cache, so its lifetime is that of the locks.

use std::cell::OnceCell;
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;

use gpushare::policy::{Accounting, TypedLimit};
use gpushare::request::Request;
use slurm_sys::{assoc_mgr_lock_t, slurmdb_assoc_rec_t, slurmdb_qos_rec_t};

use crate::text;

const READ: c_int = 1;
const NO: c_int = 0;

/// The cache, as one decision sees it: a reference to it is the [`Accounting`].
#[derive(Debug, Default)]
pub struct Cache {
    locks: OnceCell<Locks>,
}

impl Cache {
    fn locks(&self) -> &Locks {
        self.locks.get_or_init(Locks::take)
    }
}

/// assoc_mgr's read locks, held; everything that is read from the cache is read through them.
#[derive(Debug)]
struct Locks {
    held: assoc_mgr_lock_t,
    /// Must be let go by the thread that took them.
    _not_send: PhantomData<*const ()>,
}

/// A QOS in the cache, while the locks are held.
#[derive(Clone, Copy, Debug)]
pub struct Qos<'c>(&'c slurmdb_qos_rec_t);

impl Locks {
    #[doc(alias = "assoc_mgr_lock")]
    fn take() -> Self {
        let mut held =
            assoc_mgr_lock_t { assoc: READ, file: NO, qos: READ, res: NO, tres: READ, user: READ, wckey: NO };
        // SAFETY: seven levels, as assoc_mgr.h declares them; no such lock is held by this thread (module doc).
        unsafe { slurm_sys::assoc_mgr_lock(&raw mut held) };
        Locks { held, _not_send: PhantomData }
    }

    fn qos_named(&self, name: &CStr) -> Option<Qos<'_>> {
        // SAFETY: a C structure of numbers and pointers, for which all zero is "nothing set".
        let mut wanted: slurmdb_qos_rec_t = unsafe { std::mem::zeroed() };
        wanted.name = name.as_ptr().cast_mut();
        // SAFETY: the name is a C string for the time of the call.
        unsafe { self.find(&mut wanted) }
    }

    #[doc(alias = "assoc_mgr_get_default_qos_info")]
    fn default_qos(&self, association: &slurmdb_assoc_rec_t) -> Option<Qos<'_>> {
        let association: *const slurmdb_assoc_rec_t = association;
        // SAFETY: a C structure of numbers and pointers, for which all zero is "nothing set".
        let mut wanted: slurmdb_qos_rec_t = unsafe { std::mem::zeroed() };
        // SAFETY: a record of the cache, only read; the call sets the id or, to a string literal of its own, the name.
        unsafe { slurm_sys::assoc_mgr_get_default_qos_info(association.cast_mut(), &raw mut wanted) };
        // SAFETY: the name is null or that literal.
        unsafe { self.find(&mut wanted) }
    }

    /// Slurm's own search for a QOS by name or id.
    ///
    /// # Safety
    /// `wanted.name` is null or a C string.
    #[doc(alias = "assoc_mgr_fill_in_qos")]
    unsafe fn find(&self, wanted: &mut slurmdb_qos_rec_t) -> Option<Qos<'_>> {
        let mut found: *mut slurmdb_qos_rec_t = std::ptr::null_mut();
        let (connection, enforce) = database();
        // SAFETY: a zeroed record with the fields that the search reads; the locks are held, as `locked` says.
        let code =
            unsafe { slurm_sys::assoc_mgr_fill_in_qos(connection, wanted, enforce, &raw mut found, true) };
        if code < 0 {
            return None;
        }
        // SAFETY: null or a record of the cache, which stays as it is while the locks are held.
        unsafe { found.as_ref() }.map(Qos)
    }

    #[doc(alias = "assoc_mgr_fill_in_assoc")]
    fn association(&self, request: &Request) -> Option<&slurmdb_assoc_rec_t> {
        let account = request.account.map(text::c_string);
        let partition = first_partition(request).map(text::c_string);
        // SAFETY: a C structure of numbers and pointers, for which all zero is "nothing set".
        let mut wanted: slurmdb_assoc_rec_t = unsafe { std::mem::zeroed() };
        wanted.uid = request.user_id;
        wanted.acct = account.as_ref().map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut());
        wanted.partition = partition.as_ref().map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut());
        let mut found: *mut slurmdb_assoc_rec_t = std::ptr::null_mut();
        let (connection, enforce) = database();
        // SAFETY: the record's strings live to the end of this function and are only read; the locks are held.
        let code = unsafe {
            slurm_sys::assoc_mgr_fill_in_assoc(connection, &raw mut wanted, enforce, &raw mut found, true)
        };
        if code < 0 {
            return None;
        }
        // SAFETY: null or a record of the cache, which stays as it is while the locks are held.
        unsafe { found.as_ref() }
    }

    /// The names of all TRES, `gres/gpu:a40` among them, by position in the limit arrays.
    fn tres_names(&self) -> impl Iterator<Item = (usize, &[u8])> {
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
            // SAFETY: null or a C string that stays under the tres lock, which `self` is.
            unsafe { text::bytes(name) }.map(|name| (position, name))
        })
    }
}

impl Drop for Locks {
    #[doc(alias = "assoc_mgr_unlock")]
    fn drop(&mut self) {
        // SAFETY: the levels that `take` took, on the same thread.
        unsafe { slurm_sys::assoc_mgr_unlock(&raw mut self.held) }
    }
}

/// slurmctld's connection to the database, only passed on, and AccountingStorageEnforce.
fn database() -> (*mut std::ffi::c_void, c_int) {
    // SAFETY: slurmctld's own variable, written at its start only.
    let connection = unsafe { slurm_sys::acct_db_conn };
    // SAFETY: the same.
    (connection, c_int::from(unsafe { slurm_sys::accounting_enforce }))
}

impl<'c> Accounting for &'c Cache {
    type Qos = Qos<'c>;

    fn qos_named(&self, name: &[u8]) -> Option<Qos<'c>> {
        self.locks().qos_named(&text::c_string(name))
    }

    fn default_qos(&self, request: &Request) -> Option<Qos<'c>> {
        let locks = self.locks();
        locks.default_qos(locks.association(request)?)
    }

    fn name(&self, qos: Qos<'c>) -> &[u8] {
        // SAFETY: null or a C string of the record, which the locks keep for 'c.
        unsafe { text::bytes(qos.0.name) }.unwrap_or_default()
    }

    fn typed_limits<'s>(&'s self, qos: Qos<'c>, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        let record = qos.0;
        self.locks().tres_names().filter_map(move |(position, name)| {
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
            let count = counts.into_iter().filter_map(|array| limit(array)).min();
            let limited = count.is_some() || minutes.into_iter().any(|array| limit(array).is_some());
            limited.then_some(TypedLimit { kind, count })
        })
    }

    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        self.locks().tres_names().filter_map(move |(_, name)| type_of(name, gres))
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
