//! Slurm's allocator and its empty job description, for tests: what they do of it that a plugin sees. So Miri, which
//! calls no C, and the sanitizers see every access.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use slurm_sys::{job_desc_msg_t, job_info_msg_t, slurm_conf_t};

#[unsafe(no_mangle)]
static mut slurm_conf: MaybeUninit<slurm_conf_t> = MaybeUninit::zeroed();

#[unsafe(no_mangle)]
extern "C" fn slurm_xcalloc(
    count: usize,
    size: usize,
    _clear: bool,
    _try_only: bool,
    _file: *const c_char,
    _line: c_int,
    _function: *const c_char,
) -> *mut c_void {
    // SAFETY: any two numbers.
    unsafe { libc::calloc(count, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn slurm_xfree(place: *mut *mut c_void) {
    // SAFETY: the address of a pointer to memory of `calloc`, or of null.
    let item = unsafe { place.replace(std::ptr::null_mut()) };
    // SAFETY: the same.
    unsafe { libc::free(item) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn slurm_xstrdup(text: *const c_char) -> *mut c_char {
    // SAFETY: a C string.
    let length = unsafe { libc::strlen(text) };
    // SAFETY: any two numbers.
    let copy: *mut c_char = unsafe { libc::calloc(length + 1, 1) }.cast();
    // SAFETY: both have that many bytes.
    unsafe { copy.copy_from_nonoverlapping(text, length + 1) };
    copy
}

/// The members that the plugin reads get "not set", as in src/api/init_msg.c.
#[unsafe(no_mangle)]
unsafe extern "C" fn slurm_init_job_desc_msg(job: *mut job_desc_msg_t) {
    // SAFETY: a description, for which all zeros are a valid value.
    unsafe { job.write_bytes(0, 1) };
    // SAFETY: the same.
    let job = unsafe { &mut *job };
    macro_rules! unset {
        ($value:path: $($member:ident)+) => { $(job.$member = $value;)+ };
    }
    unset!(slurm_sys::UNSET_U16: ntasks_per_tres ntasks_per_node ntasks_per_socket sockets_per_node pn_min_cpus);
    unset!(slurm_sys::UNSET_U16: cpus_per_task requeue shared);
    unset!(slurm_sys::UNSET_U32: num_tasks min_nodes max_nodes min_cpus max_cpus time_limit priority nice user_id);
    unset!(slurm_sys::UNSET_U64: pn_min_memory);
}

/// Frees a message of one job, with the texts that tests give it.
#[unsafe(no_mangle)]
unsafe extern "C" fn slurm_free_job_info_msg(message: *mut job_info_msg_t) {
    // SAFETY: a message in a box, not used afterwards.
    let message = unsafe { Box::from_raw(message) };
    // SAFETY: the same of its job.
    let mut job = unsafe { Box::from_raw(message.job_array) };
    for place in [&raw mut job.qos, &raw mut job.tres_req_str] {
        // SAFETY: the address of a pointer to memory of `calloc`.
        unsafe { slurm_xfree(place.cast()) };
    }
}

/// No test has a copy of a job.
#[unsafe(no_mangle)]
extern "C" fn slurm_free_job_desc_msg(_job: *mut job_desc_msg_t) {
    unreachable!()
}
