//! An existing job, copied into our own job description, which is freed as slurmctld frees one.

use std::ffi::c_char;
use std::ptr::NonNull;

use gpushare::submit::request::Request;
use slurm_sys::job_desc_msg_t;

use super::{entries, request_of};
use crate::text;

/// A copy of one of slurmctld's jobs, in the public form that an update has.
#[derive(Debug)]
pub struct Existing(NonNull<job_desc_msg_t>);

impl Existing {
    /// The job behind the second argument of job_modify(); `None` if it is null or there is no memory.
    ///
    /// For this, slurmctld reads the job's script and environment from its state directory, and logs an error for an
    /// interactive job, which has none. So call it only for updates that need it. The copy lacks the tasks per GPU and
    /// a list of QOSes.
    ///
    /// # Safety
    /// `record` is null, or the job record with which slurmctld called job_modify(), under its job write lock.
    #[doc(alias = "copy_job_record_to_job_desc")]
    #[must_use]
    pub unsafe fn copy_of(record: *mut slurm_sys::job_record) -> Option<Existing> {
        if record.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; a pending job has the details that the copy reads (src/slurmctld/job_mgr.c).
        NonNull::new(unsafe { slurm_sys::copy_job_record_to_job_desc(record) }).map(Existing)
    }

    /// The bytes of its script and environment, which slurmctld has read for this copy.
    pub fn size(&self) -> usize {
        // SAFETY: made by `copy_of`; nothing else uses it until it is dropped.
        let job = unsafe { self.0.as_ref() };
        // SAFETY: null, or an array with that many entries, which nothing else uses.
        let environment = unsafe { entries(job.environment, job.env_size) };
        let texts = environment.iter().copied().chain([job.script]);
        // SAFETY: null or C strings, unchanged while `self` is borrowed.
        texts.filter_map(|text| unsafe { text::bytes(text) }).map(<[u8]>::len).sum()
    }

    /// The job's name, for the log.
    pub fn name(&self) -> Option<&[u8]> {
        // SAFETY: made by `copy_of`; nothing else uses it until it is dropped.
        let job = unsafe { self.0.as_ref() };
        // SAFETY: null or a C string, unchanged while `self` is borrowed.
        unsafe { text::bytes(job.name) }
    }

    /// The current job.
    pub fn request(&self) -> Request<'_> {
        // SAFETY: made by `copy_of`; nothing else uses it until it is dropped.
        let job = unsafe { self.0.as_ref() };
        let mut request = request_of(job);
        if job.bitflags & slurm_sys::JOB_NAMES_MEMORY == 0 {
            request.amounts.memory = None;
        }
        request
    }
}

impl Drop for Existing {
    /// All strings of the environment are one block, which begins at the first: slurm_free_job_desc_msg() would free
    /// each of them. So this frees them in the same order as slurmctld does (src/slurmctld/fed_mgr.c).
    #[doc(alias = "slurm_free_job_desc_msg")]
    fn drop(&mut self) {
        // SAFETY: made by `copy_of`; nothing else uses it.
        let job = unsafe { self.0.as_mut() };
        if !job.environment.is_null() {
            // SAFETY: an array with at least its final null.
            let first = unsafe { &mut *job.environment };
            // SAFETY: null, or the block in Slurm's memory.
            unsafe { text::free(first) };
            let array: *mut *mut *mut c_char = &raw mut job.environment;
            // SAFETY: the array in Slurm's memory.
            unsafe { slurm_sys::slurm_xfree(array.cast()) };
        }
        job.env_size = 0;
        // SAFETY: in Slurm's memory, not used afterwards.
        unsafe { slurm_sys::slurm_free_job_desc_msg(self.0.as_ptr()) }
    }
}
