//! An existing job, copied into our own job description, which is freed as slurmctld frees one; and whether another
//! record of the same command is like it.

use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr::NonNull;

use gpushare::submit::request::Request;
use slurm_sys::job_desc_msg_t;

use super::shown::{Shown, Unpacked};
use super::{Submission, entries, request_of};
use crate::text;

/// One of slurmctld's jobs, for the time of a call of job_modify().
#[derive(Debug)]
pub struct Record<'a>(NonNull<slurm_sys::job_record>, PhantomData<&'a ()>);

impl Record<'_> {
    /// The job behind the second argument of job_modify(); `None` if it is null.
    ///
    /// # Safety
    /// `record` is null, or the job record with which slurmctld called job_modify(), under its job write lock. The
    /// thread takes none of assoc_mgr's locks while the methods below run.
    #[must_use]
    pub unsafe fn new(record: *mut slurm_sys::job_record) -> Option<Self> {
        NonNull::new(record).map(|record| Record(record, PhantomData))
    }

    /// Copies the job, exactly; `None` if there is no memory.
    ///
    /// For this, slurmctld reads the job's script and environment from its state directory, and logs an error for an
    /// interactive job, which has none. So call it only for updates that need it. The copy lacks the tasks per GPU and
    /// a list of QOSes.
    #[doc(alias = "copy_job_record_to_job_desc")]
    #[must_use]
    pub fn copy(&self) -> Option<Existing> {
        // SAFETY: the promise of `new`; a pending job has the details that the copy reads (src/slurmctld/job_mgr.c).
        let mut copy = NonNull::new(unsafe { slurm_sys::copy_job_record_to_job_desc(self.0.as_ptr()) })?;
        // SAFETY: made above; nothing else uses it.
        let size = without_environment(unsafe { copy.as_mut() });
        Some(Existing::Copied { copy, size })
    }
}

/// One of slurmctld's jobs, in the public form that an update has.
#[derive(Debug)]
pub enum Existing {
    /// Copied by slurmctld.
    Copied {
        /// In Slurm's memory, without its environment.
        copy: NonNull<job_desc_msg_t>,
        /// The bytes of its environment, which slurmctld has read for this copy.
        size: usize,
    },
    /// As slurmctld shows it.
    Shown {
        /// Its texts are those of the job.
        description: Box<job_desc_msg_t>,
        /// What they belong to.
        job: Unpacked,
    },
}

// SAFETY: its memory is Slurm's, which any thread may free, and no thread keeps anything of it.
unsafe impl Send for Existing {}

impl Existing {
    /// A job as slurmctld shows it. `None` for a job that doesn't wait, of which other things are shown, and for one
    /// with a list of QOSes, of which a copy has only one, or with none.
    fn shown(unpacked: Unpacked) -> Option<Existing> {
        let job = unpacked.job()?;
        let field = |string: *const c_char| {
            // SAFETY: a string field of an unpacked job: null or a C string, unchanged while it is borrowed.
            unsafe { text::bytes(string) }
        };
        let is_unclear = |qos: &[u8]| qos.is_empty() || qos.contains(&b',');
        if job.job_state != slurm_sys::JOB_WAITS || field(job.qos).is_none_or(is_unclear) {
            return None;
        }
        // From 24.11.1 on the library writes the memory of each GPU over the memory that the job names
        // (src/common/slurm_protocol_pack.c, `_set_min_memory_tres`).
        if !job.mem_per_tres.is_null() && job.bitflags & slurm_sys::JOB_NAMES_MEMORY != 0 {
            return None;
        }
        // SAFETY: a C structure of numbers and pointers, for which all zeros are a valid value.
        let mut description: Box<job_desc_msg_t> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: our own description; the call fills it with numbers and null pointers (src/api/init_msg.c).
        unsafe { slurm_sys::slurm_init_job_desc_msg(&raw mut *description) };
        // As `copy_job_record_to_job_desc` does.
        macro_rules! same {
            ($($member:ident)+) => { $(description.$member = job.$member;)+ };
        }
        same!(name account partition qos user_id bitflags num_tasks cpus_per_task req_nodes exc_nodes shared);
        same!(ntasks_per_node ntasks_per_socket sockets_per_node cpus_per_tres mem_per_tres);
        same!(tres_per_job tres_per_node tres_per_socket tres_per_task pn_min_memory pn_min_cpus max_nodes);
        description.reservation = job.resv_name;
        description.min_cpus = job.num_cpus;
        // Only in Slurm's words: `num_nodes` is an estimate.
        let counts = field(job.tres_req_str)?;
        let nodes = counts.split(|byte| *byte == b',').find_map(|count| count.strip_prefix(b"node="))?;
        description.min_nodes = str::from_utf8(nodes).ok()?.parse().ok()?;
        description.ntasks_per_tres = 0;
        Some(Existing::Shown { description, job: unpacked })
    }

    /// Whether rules and the log read the same of both.
    fn is_like(&self, other: &Existing) -> bool {
        self.name() == other.name()
            && self.request() == other.request()
            && self.others() == other.others()
            && self.numbers() == other.numbers()
    }

    /// Numbers of which a request says less: another one may say the same, and a third something else.
    fn numbers(&self) -> Option<(u16, u32)> {
        let Existing::Shown { job, .. } = self else { return None };
        job.job().map(|job| (job.shared, job.num_nodes))
    }

    fn description(&self) -> &job_desc_msg_t {
        match self {
            // SAFETY: made by `Record::copy`; nothing else uses it until it is dropped.
            Existing::Copied { copy, .. } => unsafe { copy.as_ref() },
            Existing::Shown { description, .. } => description,
        }
    }

    /// The bytes of the environment that slurmctld has read.
    pub fn size_read(&self) -> usize {
        match self {
            Existing::Copied { size, .. } => *size,
            Existing::Shown { .. } => 0,
        }
    }

    /// The job's name, for the log.
    pub fn name(&self) -> Option<&[u8]> {
        // SAFETY: null or a C string, unchanged while `self` is borrowed.
        unsafe { text::bytes(self.description().name) }
    }

    /// The current job.
    pub fn request(&self) -> Request<'_> {
        let job = self.description();
        let mut request = request_of(job);
        if job.bitflags & slurm_sys::JOB_NAMES_MEMORY == 0 {
            request.memory = None;
        }
        request
    }

    /// What else a record may be that is shown so. Slurm shows the least number of nodes also where the job has no
    /// maximum, none for a job that ran before, one task on each node where the job has no number of tasks, and whole
    /// nodes where the partition gives no others (src/slurmctld/job_mgr.c, `_pack_default_job_details`).
    pub fn others(&self) -> Vec<Request<'_>> {
        let mut all = vec![self.request()];
        let Existing::Shown { job, description } = self else { return Vec::new() };
        let (Some(job), fewest) = (job.job(), description.min_nodes) else { return Vec::new() };
        let mut or = |change: &dyn Fn(&mut Request)| {
            for mut other in all.clone() {
                change(&mut other);
                if !all.contains(&other) {
                    all.push(other);
                }
            }
        };
        if job.max_nodes <= job.num_nodes {
            or(&|other| other.max_nodes = None);
            or(&|other| other.max_nodes = Some(fewest));
        }
        // After an update of which slurmctld took only a part, the words are of the time before.
        for nodes in [job.num_nodes, job.max_nodes] {
            if nodes > fewest {
                or(&|other| other.min_nodes = Some(nodes));
            }
        }
        if job.num_tasks == fewest {
            or(&|other| other.num_tasks = Some(0));
        }
        if u32::from(job.shared) == slurm_sys::JOB_SHARED_NONE {
            or(&|other| other.exclusive = false);
        }
        all.split_off(1)
    }
}

impl Drop for Existing {
    #[doc(alias = "slurm_free_job_desc_msg")]
    fn drop(&mut self) {
        if let Existing::Copied { copy, .. } = self {
            // SAFETY: in Slurm's memory, not used afterwards.
            unsafe { slurm_sys::slurm_free_job_desc_msg(copy.as_ptr()) }
        }
    }
}

/// Frees the environment of a copy, and says how large it was. All of its strings are one block, which begins at the
/// first: slurm_free_job_desc_msg() would free each of them. So this frees them in the same order as slurmctld does
/// (src/slurmctld/fed_mgr.c).
fn without_environment(job: &mut job_desc_msg_t) -> usize {
    if job.environment.is_null() {
        return 0;
    }
    // SAFETY: an array with that many entries, which nothing else uses.
    let environment = unsafe { entries(job.environment, job.env_size) };
    // SAFETY: C strings, unchanged here.
    let texts = environment.iter().filter_map(|text| unsafe { text::bytes(*text) });
    let size = texts.map(<[u8]>::len).sum();
    // SAFETY: an array with at least its final null.
    let first = unsafe { &mut *job.environment };
    // SAFETY: null, or the block in Slurm's memory.
    unsafe { text::free(first) };
    let array: *mut *mut *mut c_char = &raw mut job.environment;
    // SAFETY: the array in Slurm's memory.
    unsafe { slurm_sys::slurm_xfree(array.cast()) };
    job.env_size = 0;
    size
}

/// A record that a command changes, as slurmctld shows it: others of an array are mostly like it.
#[derive(Debug)]
pub struct Known {
    shown: Shown,
    existing: Existing,
    command: Option<String>,
    /// What the update said when it was settled.
    settled: Option<Vec<u8>>,
}

impl Known {
    /// `None` if slurmctld doesn't show enough of it: it must wait, with one QOS.
    pub fn of(update: &mut Submission, record: &Record) -> Option<Known> {
        // SAFETY: the promise of `Record::new`.
        let (shown, unpacked) = unsafe { Shown::of(record.0.as_ptr()) }?;
        let existing = Existing::shown(unpacked)?;
        Some(Known { shown, existing, command: update.command(), settled: None })
    }

    /// Whether another record of the same command is shown as this one is.
    pub fn is_like(&mut self, update: &Submission, record: &Record) -> bool {
        let same = |other| Existing::shown(other).is_some_and(|other| other.is_like(&self.existing));
        self.command.as_ref().is_some_and(|word| update.has_note(word))
            // SAFETY: the promise of `Record::new`.
            && unsafe { self.shown.is_like(record.0.as_ptr(), same) }
    }

    /// The record.
    pub fn existing(&self) -> &Existing {
        &self.existing
    }

    /// Remembers that this update may change each record like this one.
    pub fn settle(&mut self, update: &Submission) {
        self.settled = Some(update.said());
    }

    /// Whether it was settled for this update, as it still is: slurmctld and the plugin may change it for a record.
    pub fn is_settled(&self, update: &Submission) -> bool {
        self.settled.as_ref().is_some_and(|settled| *settled == update.said())
    }
}

#[cfg(test)]
mod tests;
