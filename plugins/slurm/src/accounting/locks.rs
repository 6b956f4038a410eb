//! assoc_mgr's read locks, and the reads from the cache under them: look-ups by Slurm's own functions, passes over its
//! lists, and the table of TRES.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use gpushare::submit::policy::DefaultMemory;
use gpushare::submit::request::{Memory, Names, Partitions, Request};
use slurm_sys::{assoc_mgr_lock_t, slurmdb_assoc_rec_t, slurmdb_qos_rec_t};

use super::Qos;
use crate::text;

const READ: c_int = 1;
const NO: c_int = 0;

/// assoc_mgr's read locks, while they are held; all reads from the cache go through this.
#[derive(Debug)]
pub(super) struct Locks {
    held: assoc_mgr_lock_t,
    /// See [`Locks::gres_names`]; the names live as long as the locks are held.
    gres: Vec<(usize, &'static [u8])>,
    /// The position of `billing` in the limit arrays.
    pub(super) billing: Option<usize>,
    /// The thread that took the locks must release them.
    _not_send: PhantomData<*const ()>,
}

impl Locks {
    #[doc(alias = "assoc_mgr_lock")]
    pub(super) fn take() -> Self {
        let mut held =
            assoc_mgr_lock_t { assoc: READ, file: NO, qos: READ, res: NO, tres: READ, user: READ, wckey: NO };
        // SAFETY: seven levels, as assoc_mgr.h declares them; this thread holds no such lock (module doc).
        unsafe { slurm_sys::assoc_mgr_lock(&raw mut held) };
        let mut locks = Locks { held, gres: Vec::new(), billing: None, _not_send: PhantomData };
        let names = locks.tres_names();
        locks.gres.reserve_exact(names.len());
        for (position, name) in names.iter().enumerate() {
            // SAFETY: null or a C string that stays under the tres lock, which `locks` is.
            let name = unsafe { text::bytes(*name) }.unwrap_or_default();
            if let Some(gres) = name.strip_prefix(b"gres/") {
                locks.gres.push((position, gres));
            } else if name == b"billing" {
                locks.billing = Some(position);
            }
        }
        locks
    }

    pub(super) fn qos_named(&self, name: &CStr) -> Option<Qos<'_>> {
        // SAFETY: a C structure of numbers and pointers, for which all zeros mean "nothing set".
        let mut wanted: slurmdb_qos_rec_t = unsafe { std::mem::zeroed() };
        wanted.name = name.as_ptr().cast_mut();
        // SAFETY: the name is a C string for the time of the call.
        unsafe { self.find(&mut wanted) }
    }

    #[doc(alias = "assoc_mgr_get_default_qos_info")]
    pub(super) fn default_qos(&self, association: &slurmdb_assoc_rec_t) -> Option<Qos<'_>> {
        let association: *const slurmdb_assoc_rec_t = association;
        // SAFETY: a C structure of numbers and pointers, for which all zeros mean "nothing set".
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
        // SAFETY: null or a record of the cache, which stays as it is while the locks are held.
        unsafe { found.as_ref() }.filter(|_| code >= 0).map(Qos)
    }

    #[doc(alias = "assoc_mgr_fill_in_assoc")]
    pub(super) fn association(&self, request: &Request) -> Option<&slurmdb_assoc_rec_t> {
        // An empty name counts as no name.
        let named =
            |name: &CStr| if name.is_empty() { std::ptr::null_mut() } else { name.as_ptr().cast_mut() };
        let find = |account: &CStr, partition: &CStr| {
            // SAFETY: a C structure of numbers and pointers, for which all zeros mean "nothing set".
            let mut wanted: slurmdb_assoc_rec_t = unsafe { std::mem::zeroed() };
            wanted.uid = request.user_id;
            wanted.acct = named(account);
            wanted.partition = named(partition);
            let mut found: *mut slurmdb_assoc_rec_t = std::ptr::null_mut();
            let (connection, enforce) = database();
            // SAFETY: the record's strings live to the end of this function and are only read; the locks are held.
            let code = unsafe {
                slurm_sys::assoc_mgr_fill_in_assoc(connection, &raw mut wanted, enforce, &raw mut found, true)
            };
            // SAFETY: null or a record of the cache, which stays as it is while the locks are held.
            unsafe { found.as_ref() }.filter(|_| code >= 0)
        };
        text::with_c_string(request.account.unwrap_or_default(), |account| {
            let partition = first_partition(request).unwrap_or_default();
            text::with_c_string(partition, |partition| find(account, partition))
        })
    }

    /// The distinct default QOSes of all associations that the user has for the account.
    #[doc(alias = "assoc_mgr_assoc_list")]
    pub(super) fn possible_defaults(&self, request: &Request) -> Vec<Qos<'_>> {
        let of_user = self.association(request);
        // SAFETY: null or a C string of the record, under the locks.
        let own = of_user.and_then(|record| unsafe { text::bytes(record.acct) });
        let account = request.account.or(own);
        let mut found: Vec<Qos> = Vec::new();
        let mut add = |record: &slurmdb_assoc_rec_t| {
            let qos = self.default_qos(record);
            let new = |qos: &Qos| found.iter().all(|known| known.0.id != qos.0.id);
            found.extend(qos.filter(new));
        };
        of_user.into_iter().for_each(&mut add);
        self.each_association(request.user_id, account, add);
        found
    }

    /// The user's associations that may be charged for the job: for each partition that it names, or for all if its
    /// reservation decides. One may occur several times.
    pub(super) fn each_of_user<'s>(
        &'s self,
        request: &Request,
        mut look: impl FnMut(&'s slurmdb_assoc_rec_t),
    ) {
        let Some(first) = self.association(request) else { return };
        look(first);
        if request.partition_is_the_reservations() {
            // SAFETY: null or a C string of the record, under the locks.
            let account = unsafe { text::bytes(first.acct) }.unwrap_or_default();
            self.each_association(request.user_id, Some(account), &mut look);
        }
        let named = request.partition.map(Names::of).into_iter().flat_map(Names::iter);
        for partition in named.skip(1).filter(|name| !name.is_empty()) {
            self.association(&Request { partition: Some(partition), ..*request })
                .into_iter()
                .for_each(&mut look);
        }
    }

    /// The user's associations, of any account if `None`.
    fn each_association<'s>(
        &'s self,
        user_id: u32,
        account: Option<&[u8]>,
        mut look: impl FnMut(&'s slurmdb_assoc_rec_t),
    ) {
        let is_its = |record: &slurmdb_assoc_rec_t| {
            // SAFETY: null or a C string of the record, under the locks.
            let name = unsafe { text::bytes(record.acct) }.unwrap_or_default();
            account.is_none_or(|account| account.eq_ignore_ascii_case(name))
        };
        let look = |record: &'s slurmdb_assoc_rec_t| {
            if record.uid == user_id && is_its(record) {
                look(record);
            }
        };
        // SAFETY: slurmctld's own variable, set at its start and kept under the assoc lock, which `self` is.
        let list = unsafe { slurm_sys::assoc_mgr_assoc_list };
        // SAFETY: null, or a list of associations, which stay under the assoc lock.
        unsafe { each(list, look) }
    }

    /// One pass over all QOSes, because looking up each name would be one pass for each.
    #[doc(alias = "assoc_mgr_qos_list")]
    pub(super) fn qoses_named(&self, sorted: &[Vec<u8>]) -> Vec<Qos<'_>> {
        let mut found = Vec::new();
        // SAFETY: slurmctld's own variable, set at its start and kept under the qos lock, which `self` is.
        let list = unsafe { slurm_sys::assoc_mgr_qos_list };
        let is_named = |record: &&slurmdb_qos_rec_t| {
            // SAFETY: null or a C string of the record, under the locks.
            let name = unsafe { text::bytes(record.name) }.unwrap_or_default().to_ascii_lowercase();
            sorted.binary_search(&name).is_ok()
        };
        // SAFETY: null, or a list of QOSes, which stay under the qos lock.
        unsafe { each(list, |record| found.extend(Some(record).filter(is_named).map(Qos))) }
        found
    }

    /// The names of all GRES among the TRES, such as `gpu:a40` of `gres/gpu:a40`, with their positions in the limit
    /// arrays. Found once, since rules ask for them several times.
    pub(super) fn gres_names(&self) -> &[(usize, &[u8])] {
        &self.gres
    }

    #[allow(clippy::unused_self, reason = "the names are there only while the locks are held")]
    fn tres_names(&self) -> &'static [*mut c_char] {
        // SAFETY: slurmctld's own array, kept together with its length under the tres lock.
        let names = unsafe { slurm_sys::assoc_mgr_tres_name_array };
        // SAFETY: the same.
        let count = unsafe { slurm_sys::g_tres_count };
        if names.is_null() {
            return &[];
        }
        // SAFETY: an array of that length, which stays under the tres lock, which `self` is.
        unsafe { std::slice::from_raw_parts(names, usize::try_from(count).unwrap_or(0)) }
    }
}

/// Shows every record of one of the cache's lists.
///
/// # Safety
/// `list` is null or holds records of that type, which stay unchanged for 'l.
unsafe fn each<'l, T: 'l>(list: *mut slurm_sys::xlist, mut look: impl FnMut(&'l T)) {
    let look = |record: *mut c_void| {
        let record: *const T = record.cast();
        // SAFETY: a record, by the caller's promise.
        unsafe { record.as_ref() }.into_iter().for_each(&mut look);
    };
    // SAFETY: the caller's promise.
    unsafe { each_pointer(list, look) }
}

/// Shows where every record of a list is.
///
/// # Safety
/// `list` is null, or a list that stays during the call.
#[doc(alias = "slurm_list_next")]
pub(super) unsafe fn each_pointer(list: *mut slurm_sys::xlist, mut look: impl FnMut(*mut c_void)) {
    if list.is_null() {
        return;
    }
    // SAFETY: a list, by the caller's promise; an iterator takes the list's own lock for each step (src/common/list.c).
    let steps = unsafe { slurm_sys::slurm_list_iterator_create(list) };
    loop {
        // SAFETY: the iterator made above.
        let record = unsafe { slurm_sys::slurm_list_next(steps) };
        if record.is_null() {
            break;
        }
        look(record);
    }
    // SAFETY: made above, not used afterwards.
    unsafe { slurm_sys::slurm_list_iterator_destroy(steps) }
}

/// An association and those above it, up to root's.
#[doc(alias = "parent_assoc_ptr")]
pub(super) fn chain(leaf: &slurmdb_assoc_rec_t) -> impl Iterator<Item = &slurmdb_assoc_rec_t> {
    let parent = |record: &&slurmdb_assoc_rec_t| {
        let usage = record.usage;
        if usage.is_null() {
            return None;
        }
        // SAFETY: every association in slurmctld has its usage (src/common/assoc_mgr.c), a structure of its public
        // headers.
        let place = unsafe { &raw const (*usage).parent_assoc_ptr };
        // SAFETY: the same.
        let parent = unsafe { place.read() };
        // SAFETY: null for root's, or a record of the cache, which stays as it is while the locks are held under which
        // `leaf` is read.
        unsafe { parent.as_ref() }
    };
    std::iter::successors(Some(leaf), parent).take(DEEPEST)
}

/// No tree of accounts is deeper; an endless chain would block slurmctld.
const DEEPEST: usize = 1000;

impl Drop for Locks {
    #[doc(alias = "assoc_mgr_unlock")]
    fn drop(&mut self) {
        // SAFETY: the levels that `take` locked, on the same thread.
        unsafe { slurm_sys::assoc_mgr_unlock(&raw mut self.held) }
    }
}

/// slurmctld's connection to the database, which is only passed on, and AccountingStorageEnforce.
fn database() -> (*mut std::ffi::c_void, c_int) {
    // SAFETY: slurmctld's own variable, written only at its start.
    let connection = unsafe { slurm_sys::acct_db_conn };
    // SAFETY: the same.
    (connection, c_int::from(unsafe { slurm_sys::accounting_enforce }))
}

/// The partition whose association counts: the first in the list, or the default one.
fn first_partition<'r>(request: &'r Request<'_>) -> Option<&'r [u8]> {
    match request.partitions() {
        Partitions::Named(names) => names.iter().find(|name| !name.is_empty()),
        Partitions::OfReservation => None,
        Partitions::Default => default_partition(request),
    }
}

/// The name of the default partition. It may change after slurmctld's partition lock is released, which callers of
/// job_submit and job_modify hold: so it is borrowed from something that lives no longer than the call.
pub(super) fn default_partition<T>(_of_call: &T) -> Option<&[u8]> {
    // SAFETY: slurmctld's own variable, under its partition lock, which callers of job_submit hold.
    let default = unsafe { slurm_sys::default_part_name };
    // SAFETY: null or a C string, under the same lock.
    unsafe { text::bytes(default) }
}

/// Whether a job must keep to the limits of all partitions that it names (`EnforcePartLimits=ALL`).
#[doc(alias = "enforce_part_limits")]
pub(super) fn enforces_all_partitions() -> bool {
    let configuration = &raw const slurm_sys::slurm_conf;
    // SAFETY: the daemon's own global; callers of job_submit and job_modify hold slurmctld's configuration lock.
    let enforced = unsafe { (*configuration).enforce_part_limits };
    u32::from(enforced) == slurm_sys::PARTITION_ENFORCE_ALL
}

/// Interprets Slurm's `def_mem_per_cpu`: 0 means that no default is set. Only the flag `MEM_PER_CPU` is set for
/// `DefMemPerCPU=0`, which means all of a node's memory.
pub(super) fn is_given(def_mem_per_cpu: u64) -> Option<bool> {
    (def_mem_per_cpu != 0).then(|| Memory::of(def_mem_per_cpu) != Memory::PerNode(0))
}

/// slurm.conf's defaults for a job that requests no memory. Without any, the job gets all memory of its nodes
/// (src/slurmctld/job_mgr.c, `_validate_job_desc`).
#[doc(alias = "job_defaults_list")]
pub(super) fn default_memory() -> DefaultMemory {
    let configuration = &raw const slurm_sys::slurm_conf;
    // SAFETY: the daemon's own global; callers of job_submit and job_modify hold slurmctld's configuration lock.
    let of_cpu_or_node = unsafe { (*configuration).def_mem_per_cpu };
    // SAFETY: the same.
    let defaults = unsafe { (*configuration).job_defaults_list };
    // SAFETY: null, or a list of such records, which stay under that lock (src/common/job_resources.c,
    // job_defaults_copy).
    let of_gpu = unsafe { default_of_gpu(defaults) };
    DefaultMemory { of_node: is_given(of_cpu_or_node), of_gpu }
}

/// Whether a list of defaults gives a job memory for each GPU; `None` if it doesn't say.
///
/// # Safety
/// `defaults` is null or a list of such records, which stay unchanged during the call.
pub(super) unsafe fn default_of_gpu(defaults: *mut slurm_sys::xlist) -> Option<bool> {
    let mut of_gpu = None;
    let look = |record: &slurm_sys::job_defaults_t| {
        if u32::from(record.type_) == slurm_sys::JOB_DEF_MEM_PER_GPU {
            of_gpu = Some(record.value > 0);
        }
    };
    // SAFETY: the caller's promise.
    unsafe { each(defaults, look) };
    of_gpu
}
