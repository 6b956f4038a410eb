//! An existing job, copied into our own job description, which is freed as slurmctld frees one.

use std::ffi::c_char;
use std::ptr::NonNull;

use gpushare::submit::request::Request;
use slurm_sys::job_desc_msg_t;

use super::request_of;
use crate::text;

/// A copy of a job that slurmctld has, as the public description that an update of it is.
#[derive(Debug)]
pub struct Existing(NonNull<job_desc_msg_t>);

impl Existing {
    /// The job behind the second argument of job_modify(); `None` if there is none or no memory.
    ///
    /// slurmctld reads the job's script and environment from its state directory for this, and logs an error for an
    /// interactive job, which has none: so only for updates that need it. The tasks per GPU and a list of QOSes are not
    /// in the copy.
    ///
    /// # Safety
    /// Null, or the job record that slurmctld called job_modify() with, under its job write lock.
    #[doc(alias = "copy_job_record_to_job_desc")]
    #[must_use]
    pub unsafe fn copy_of(record: *mut slurm_sys::job_record) -> Option<Existing> {
        if record.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; a pending job has the details that the copy reads (src/slurmctld/job_mgr.c).
        NonNull::new(unsafe { slurm_sys::copy_job_record_to_job_desc(record) }).map(Existing)
    }

    /// The job's name, for the log.
    pub fn name(&self) -> Option<&[u8]> {
        // SAFETY: made by `copy_of`, ours alone until it is dropped.
        let job = unsafe { self.0.as_ref() };
        // SAFETY: null or a C string, unchanged while `self` is borrowed.
        unsafe { text::bytes(job.name) }
    }

    /// The job as it is.
    pub fn request(&self) -> Request<'_> {
        // SAFETY: made by `copy_of`, ours alone until it is dropped.
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
    /// each. So slurmctld itself takes it apart in this order (src/slurmctld/fed_mgr.c).
    #[doc(alias = "slurm_free_job_desc_msg")]
    fn drop(&mut self) {
        // SAFETY: made by `copy_of`, ours alone.
        let job = unsafe { self.0.as_mut() };
        if !job.environment.is_null() {
            // SAFETY: an array with at least its closing null.
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
