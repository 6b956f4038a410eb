//! A job description on its way through slurmctld: read once into a plain request, written back in few places.

use std::ffi::{c_char, c_int};

use gpushare::request::Request;
use slurm_sys::job_desc_msg_t;

use crate::daemon::SPELLING;
use crate::text;

/// The submission that a job_submit hook was called for.
#[derive(Debug)]
pub struct Submission<'a> {
    description: &'a mut job_desc_msg_t,
    message: &'a mut *mut c_char,
}

/// What slurmctld answers to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// Go on.
    Accept,
    /// "Invalid generic resource (gres) specification".
    InvalidGres,
    /// "Invalid qos specification".
    InvalidQos,
    /// "Unspecified error": our own fault, not the user's.
    Failure,
}

impl Answer {
    /// As job_submit() returns it (slurm_errno.h).
    #[must_use]
    pub fn code(self) -> c_int {
        let code = match self {
            Answer::Accept => slurm_sys::SLURM_SUCCESS,
            Answer::InvalidGres => slurm_sys::ESLURM_INVALID_GRES,
            Answer::InvalidQos => slurm_sys::ESLURM_INVALID_QOS,
            Answer::Failure => return -1,
        };
        c_int::try_from(code).unwrap_or(-1)
    }
}

impl<'a> Submission<'a> {
    /// The submission behind the arguments of job_submit(); `None` if either pointer is null.
    ///
    /// # Safety
    /// Null, or as slurmctld passes them: a job description and the place of a message, for the time of the call, with
    /// strings that are C strings in Slurm's memory (src/slurmctld/job_mgr.c, `validate_job_create_req`).
    pub unsafe fn new(description: *mut job_desc_msg_t, message: *mut *mut c_char) -> Option<Self> {
        // SAFETY: null or valid and ours alone for the time of the call.
        let description = unsafe { description.as_mut() }?;
        // SAFETY: the same.
        let message = unsafe { message.as_mut() }?;
        Some(Submission { description, message })
    }

    /// What is asked for, borrowed from the description.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let job = &*self.description;
        let ntasks_per_tres = Some(job.ntasks_per_tres).filter(|count| *count != slurm_sys::UNSET_U16);
        let num_tasks = Some(job.num_tasks).filter(|count| *count != slurm_sys::UNSET_U32);
        Request {
            spelling: SPELLING,
            user_id: job.user_id,
            qos: self.field(job.qos),
            account: self.field(job.account),
            partition: self.field(job.partition),
            tres_per_job: self.field(job.tres_per_job),
            tres_per_node: self.field(job.tres_per_node),
            tres_per_socket: self.field(job.tres_per_socket),
            tres_per_task: self.field(job.tres_per_task),
            ntasks_per_tres,
            num_tasks,
        }
    }

    #[allow(clippy::unused_self, reason = "ties the bytes to the borrow of the description")]
    fn field(&self, string: *const c_char) -> Option<&[u8]> {
        // SAFETY: a string field of the description (see `new`), unchanged while `self` is borrowed.
        unsafe { text::bytes(string) }
    }

    /// The job's name, for the log and the tests.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        self.field(self.description.name)
    }

    /// Writes the QOS into the job.
    pub fn set_qos(&mut self, name: &[u8]) {
        // SAFETY: a string field of the description: null or in Slurm's memory.
        unsafe { text::replace(&mut self.description.qos, name) }
    }

    /// Says something to the user, after what an earlier plugin said.
    pub fn say(&mut self, message: &str) {
        // SAFETY: null or a C string of an earlier plugin.
        let earlier = unsafe { text::bytes(*self.message) }.map(<[u8]>::to_vec);
        let all = match earlier {
            Some(mut text) => {
                text.push(b'\n');
                text.extend_from_slice(message.as_bytes());
                text
            }
            None => message.as_bytes().to_vec(),
        };
        // SAFETY: null or in Slurm's memory, since slurmctld frees it with xfree().
        unsafe { text::replace(self.message, all) }
    }

    /// Sets a variable that prolog and epilog will see as `SPANK_NAME`, in place of any that the user sent.
    pub fn set_job_control_variable(&mut self, name: &str, value: Option<&str>) {
        if value.is_none() && self.description.spank_job_env_size == 0 {
            return;
        }
        let kept = self.drop_job_control_variable(name);
        let added = value.and_then(|value| text::in_slurm_memory(format!("{name}={value}")));
        self.store_job_control(&kept, added.map(std::ptr::NonNull::as_ptr));
    }

    /// Frees the entries `NAME=…` and `SPANK_NAME=…` and gives the others. slurmctld puts the prefix on later, where it
    /// is missing, so a user can send either.
    fn drop_job_control_variable(&mut self, name: &str) -> Vec<*mut c_char> {
        let mut kept = Vec::new();
        for at in 0..self.description.spank_job_env_size {
            let Ok(at) = usize::try_from(at) else { break };
            if self.description.spank_job_env.is_null() {
                break;
            }
            // SAFETY: slurmctld keeps `spank_job_env_size` entries there.
            let place = unsafe { self.description.spank_job_env.add(at) };
            // SAFETY: the same; the entry is a pointer in Slurm's memory.
            let mut entry = unsafe { *place };
            // SAFETY: an entry is null or a C string.
            let Some(bytes) = (unsafe { text::bytes(entry) }) else { continue };
            let plain = bytes.strip_prefix(b"SPANK_").unwrap_or(bytes);
            let ours = plain.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
            if ours {
                // SAFETY: in Slurm's memory; the array that held it is replaced by the caller.
                unsafe { text::free(&mut entry) };
            } else {
                kept.push(entry);
            }
        }
        kept
    }

    /// Makes a new array of the entries: xmalloc'd, with a null at the end that its size does not count.
    fn store_job_control(&mut self, kept: &[*mut c_char], added: Option<*mut c_char>) {
        let count = kept.len() + usize::from(added.is_some());
        let (file, function) = (c"gpushare".as_ptr(), c"store_job_control".as_ptr());
        // SAFETY: xcalloc() of count + 1 pointers, cleared; it does not return on lack of memory with try_only = false
        // (src/common/xmalloc.c), as everywhere in slurmctld.
        let array = unsafe {
            slurm_sys::slurm_xcalloc(count + 1, size_of::<*mut c_char>(), true, false, file, 0, function)
        };
        let array: *mut *mut c_char = array.cast();
        for (at, entry) in kept.iter().copied().chain(added).enumerate() {
            // SAFETY: at < count, inside the new array.
            let place = unsafe { array.add(at) };
            // SAFETY: inside the new array and aligned.
            unsafe { place.write(entry) };
        }
        let field: *mut *mut *mut c_char = &raw mut self.description.spank_job_env;
        // SAFETY: null or the old array in Slurm's memory, whose entries were freed or moved.
        unsafe { slurm_sys::slurm_xfree(field.cast()) };
        self.description.spank_job_env = array;
        self.description.spank_job_env_size = u32::try_from(count).unwrap_or(0);
    }
}
