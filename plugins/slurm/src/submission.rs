//! A job description in slurmctld: read once into a plain request, with few functions that write it back.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

use gpushare::mend::mended;
use gpushare::submit::grammar::Spelling;
use gpushare::submit::request::{Batch, Field, LONGEST, Memory, Request};
use slurm_sys::job_desc_msg_t;

use crate::accounting::alternate;
use crate::{daemon, text};

mod existing;
mod shown;
mod update;

pub use existing::{Existing, Known, Record};

/// How this release spells a GRES request; it changed with 23.11 (src/common/gres.c, slurm_protocol_defs.c).
const SPELLING: Spelling = if cfg!(slurm_23_11) { Spelling::Slash } else { Spelling::Colon };

/// The job description with which a hook was called: a submission, or the changes of an update.
#[derive(Debug)]
pub struct Submission<'a> {
    description: &'a mut job_desc_msg_t,
    /// Where to put a message; `None` for updates up to 22.05, which have no message.
    message: Option<&'a mut *mut c_char>,
    /// The partitions in which the job will be, if one that it names passes its jobs on.
    partition: Option<Vec<u8>>,
}

/// slurmctld's answer to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReturnCode {
    /// Continue.
    Accept,
    /// "Invalid generic resource (gres) specification".
    InvalidGres,
    /// "Invalid qos specification".
    InvalidQos,
    /// "Unspecified error": gpushare's own fault, not the user's.
    Failure,
}

impl ReturnCode {
    /// The return value of job_submit() (slurm_errno.h).
    pub fn code(self) -> c_int {
        let code = match self {
            ReturnCode::Accept => slurm_sys::SLURM_SUCCESS,
            ReturnCode::InvalidGres => slurm_sys::ESLURM_INVALID_GRES,
            ReturnCode::InvalidQos => slurm_sys::ESLURM_INVALID_QOS,
            ReturnCode::Failure => return -1,
        };
        c_int::try_from(code).unwrap_or(-1)
    }
}

/// Declares functions that write a text into the job, each with the member that gets it.
macro_rules! writers {
    ($($(#[$about:meta])* $name:ident => $member:ident;)+) => {
        impl Submission<'_> { $(
            $(#[$about])*
            pub fn $name(&mut self, text: &[u8]) {
                // SAFETY: a string field of the description: null or in Slurm's memory.
                unsafe { text::replace(&mut self.description.$member, text) }
            }
        )+ }
    };
}

writers! {
    /// Writes the QOS into the job.
    set_qos => qos;
    /// Writes the account into the job.
    set_account => account;
    /// Writes the nodes on which the job must not run.
    set_excluded_nodes => exc_nodes;
    /// Writes the array's indices and throttle into the job.
    set_array => array_inx;
}

/// Declares functions that read one of the job's texts.
macro_rules! readers {
    ($($(#[$about:meta])* $vis:vis $name:ident => $member:ident;)+) => {
        impl Submission<'_> { $(
            $(#[$about])*
            $vis fn $name(&self) -> Option<&[u8]> {
                // SAFETY: a string field of the description (see `new`), unchanged while `self` is borrowed.
                unsafe { text::bytes(self.description.$member) }
            }
        )+ }
    };
}

readers! {
    /// The partitions that the user names.
    named => partition;
    /// The job's name, for the log and the tests.
    pub name => name;
    /// The job to update, as its user named it, such as `12_3`; for the message.
    pub job_id => job_id_str;
}

impl<'a> Submission<'a> {
    /// The description behind the arguments of job_submit() or job_modify(); `None` if there is none.
    ///
    /// # Safety
    /// The pointers are null, or as slurmctld passes them: a job description and the place of a message, valid during
    /// the call, with strings that are C strings in Slurm's memory (src/slurmctld/job_mgr.c, `validate_job_create_req`,
    /// `_update_job`).
    pub unsafe fn new(description: *mut job_desc_msg_t, message: *mut *mut c_char) -> Option<Self> {
        // SAFETY: null, or valid and used by nothing else during the call.
        let description = unsafe { description.as_mut() }?;
        // SAFETY: the same.
        let message = unsafe { message.as_mut() };
        Some(Submission { description, message, partition: None })
    }

    /// Whether the job names no GPU, as most jobs do ([`Request::names_no_gpu`]).
    pub fn names_no_gpu(&self) -> bool {
        first_of(self.description).names_no_gpu()
    }

    /// The request, borrowed from the description.
    pub fn request(&self) -> Request<'_> {
        let mut said = request_of(self.description);
        if let Some(partition) = &self.partition {
            said.partition = Some(partition);
        }
        said
    }

    /// From now on the request shows the partitions to which slurmctld will pass the job on. An update that names no
    /// partition leaves the job where it is. A text that is too long for any rule is refused as it is.
    pub fn follow_alternates(&mut self) {
        let moves = self.named().map_or(self.job_id().is_none(), |named| named.len() <= LONGEST);
        if moves && mended("alternates") {
            self.partition = alternate::followed(|| request_of(self.description));
        }
    }

    /// An update that names just the partitions that the job has leaves it there, whatever these pass on.
    pub fn stays_in(&mut self, partition: Option<&[u8]>) {
        let stays = self.job_id().is_some() && self.named() == partition;
        self.partition = self.partition.take().filter(|_| !stays);
    }

    /// Writes one of the strings of GRES into the job.
    pub fn set_tres(&mut self, field: Field, value: &[u8]) {
        let place = match field {
            Field::Job => &mut self.description.tres_per_job,
            Field::Node => &mut self.description.tres_per_node,
            Field::Socket => &mut self.description.tres_per_socket,
            Field::Task => &mut self.description.tres_per_task,
            Field::CpusPerGpu => &mut self.description.cpus_per_tres,
            Field::MemPerGpu => &mut self.description.mem_per_tres,
        };
        // SAFETY: a string field of the description: null or in Slurm's memory.
        unsafe { text::replace(place, value) }
    }

    /// Writes the maximum of nodes into the job. The job then gets as few of them as possible, as it would without a
    /// maximum, unless it set its own number or wants to be spread. In an update, slurmctld ignores flags.
    pub fn set_most_nodes(&mut self, nodes: u32) {
        let said = self.request();
        if said.max_nodes.is_none() && !said.spread {
            self.description.bitflags |= slurm_sys::JOB_USE_MIN_NODES;
        }
        // slurmctld's own flag, which a client can also send: with it, an update of the tasks would raise the maximum.
        self.description.bitflags &= !slurm_sys::JOB_MOST_NODES_ARE_TASKS;
        self.description.max_nodes = nodes;
    }

    /// Sets whether the job starts again after it was preempted or lost its node, as with `--requeue` or
    /// `--no-requeue`.
    pub fn set_requeue(&mut self, requeue: bool) {
        self.description.requeue = u16::from(requeue);
    }

    /// Makes a job that starts again append to its output, as with `--open-mode=append`.
    pub fn set_append(&mut self) {
        self.description.open_mode = u8::try_from(slurm_sys::OPEN_MODE_APPEND).unwrap_or(0);
    }

    /// Keeps slurmd from asking the login shell for variables, as if neither `--get-user-env` nor `--export` had been
    /// given.
    pub fn drop_user_env(&mut self) {
        for entry in user_env(self.description) {
            // SAFETY: an entry begins with USER_ENV, a C string in Slurm's memory; this is its last character.
            let last = unsafe { entry.add(USER_ENV.count_bytes() - 1) };
            // SAFETY: the same; the description is ours alone (see `new`).
            unsafe { last.write(c_char::from_ne_bytes([b'0'])) };
        }
    }

    /// Adds a message for the user, after any message of an earlier plugin. For a het job, slurmctld keeps the message
    /// of one component for the next.
    pub fn say(&mut self, message: &str) {
        let Some(place) = self.message.as_deref_mut() else { return };
        // SAFETY: null or a C string of an earlier plugin.
        let earlier = unsafe { text::bytes(*place) }.map(<[u8]>::to_vec);
        let all = match earlier {
            Some(text) if text.windows(message.len().max(1)).any(|part| part == message.as_bytes()) => return,
            Some(mut text) => {
                text.push(b'\n');
                text.extend_from_slice(message.as_bytes());
                text
            }
            None => message.as_bytes().to_vec(),
        };
        // SAFETY: null or in Slurm's memory, since slurmctld frees it with xfree().
        unsafe { text::replace(place, all) }
    }

    /// Whether nothing was said to the user yet.
    pub fn is_silent(&self) -> bool {
        self.message.as_deref().is_none_or(|place| place.is_null())
    }

    /// Sets a variable that prolog and epilog will see as `SPANK_NAME`, to an entry `NAME=…`, and removes any that the
    /// user sent.
    pub fn set_job_control_variable(&mut self, name: &str, entry: Option<&str>) {
        self.drop_job_control_variable(name);
        if let Some(entry) = entry.and_then(text::in_slurm_memory) {
            self.append_job_control(entry);
        }
    }

    /// Frees the entries `NAME=…` and `SPANK_NAME=…` and moves the others up. slurmctld later adds the prefix if it is
    /// missing, so a user can send either form.
    fn drop_job_control_variable(&mut self, name: &str) {
        let (array, size) = (self.description.spank_job_env, self.description.spank_job_env_size);
        // SAFETY: null, or slurmctld keeps that many entries there; nothing else uses the description (see `new`).
        let entries = unsafe { entries(array, size) };
        let mut kept = 0;
        for at in 0..entries.len() {
            let Some(entry) = entries.get_mut(at) else { break };
            // SAFETY: an entry is null or a C string.
            let bytes = unsafe { text::bytes(*entry) }.unwrap_or_default();
            let plain = bytes.strip_prefix(b"SPANK_").unwrap_or(bytes);
            if plain.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')) {
                // SAFETY: in Slurm's memory; this clears its place in the array.
                unsafe { text::free(entry) };
                continue;
            }
            entries.swap(kept, at);
            kept += 1;
        }
        self.description.spank_job_env_size = u32::try_from(kept).unwrap_or(0);
    }

    /// Makes a new array with one more entry: xmalloc'd, with a null at the end that its size does not count.
    fn append_job_control(&mut self, added: NonNull<c_char>) {
        let old = self.description.spank_job_env;
        let count = if old.is_null() { 0 } else { index(self.description.spank_job_env_size) };
        let (file, function) = (c"gpushare".as_ptr(), c"append_job_control".as_ptr());
        // SAFETY: xcalloc() of count + 2 pointers, cleared; with try_only = false it does not return if there is no
        // memory (src/common/xmalloc.c), as everywhere in slurmctld.
        let array = unsafe {
            slurm_sys::slurm_xcalloc(count + 2, size_of::<*mut c_char>(), true, false, file, 0, function)
        };
        let array: *mut *mut c_char = array.cast();
        if count > 0 {
            // SAFETY: the old array has `count` entries, the new one has more, and they don't overlap.
            unsafe { std::ptr::copy_nonoverlapping(old, array, count) };
        }
        // SAFETY: within the new array.
        let place = unsafe { array.add(count) };
        // SAFETY: within the new array, and aligned.
        unsafe { place.write(added.as_ptr()) };
        let field: *mut *mut *mut c_char = &raw mut self.description.spank_job_env;
        // SAFETY: null or the old array in Slurm's memory, whose entries have moved.
        unsafe { slurm_sys::slurm_xfree(field.cast()) };
        self.description.spank_job_env = array;
        self.description.spank_job_env_size = u32::try_from(count + 1).unwrap_or(0);
    }
}

/// Converts one of Slurm's counts: every address fits.
fn index(count: u32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// The entries of one of Slurm's arrays; empty if it is null.
///
/// # Safety
/// `array` is null or has `count` entries, which nothing else uses for 'a.
unsafe fn entries<'a>(array: *mut *mut c_char, count: u32) -> &'a mut [*mut c_char] {
    if array.is_null() {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(array, index(count)) }
}

/// The variable that sbatch sets for a job for which slurmd asks the login shell, and for which slurmd looks
/// (src/slurmd/slurmd/req.c, `_get_user_env`).
const USER_ENV: &CStr = c"SLURM_GET_USER_ENV=1";

/// The entries of a job's environment with this variable.
fn user_env(job: &job_desc_msg_t) -> impl Iterator<Item = *mut c_char> {
    // SAFETY: null, or slurmctld keeps `env_size` entries there, which nothing else uses meanwhile.
    let entries = unsafe { entries(job.environment, job.env_size) };
    // SAFETY: an entry is null or a C string.
    entries.iter().copied().filter(|entry| unsafe { text::bytes(*entry) } == Some(USER_ENV.to_bytes()))
}

fn number(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number != slurm_sys::UNSET_U32)
}

fn small(number: u16) -> Option<u16> {
    Some(number).filter(|number| *number != slurm_sys::UNSET_U16)
}

/// Reads the names, and what can lead to a GPU.
fn first_of(job: &job_desc_msg_t) -> Request<'_> {
    // SAFETY: string fields of a job description: null or C strings, unchanged while it is borrowed.
    let field = |string: *const c_char| unsafe { text::bytes(string) };
    Request {
        spelling: SPELLING,
        qos: field(job.qos),
        account: field(job.account),
        partition: field(job.partition),
        reservation: field(job.reservation),
        tres_per_job: field(job.tres_per_job),
        tres_per_node: field(job.tres_per_node),
        tres_per_socket: field(job.tres_per_socket),
        tres_per_task: field(job.tres_per_task),
        cpus_per_tres: field(job.cpus_per_tres),
        mem_per_tres: field(job.mem_per_tres),
        ntasks_per_tres: small(job.ntasks_per_tres),
        ..Request::default()
    }
}

/// Reads all that the rules need, and nothing else.
fn request_of(job: &job_desc_msg_t) -> Request<'_> {
    // SAFETY: string fields of a job description: null or C strings, unchanged while it is borrowed.
    let field = |string: *const c_char| unsafe { text::bytes(string) };
    let says = |flag: u64| job.bitflags & flag != 0;
    let batch = Batch {
        requeue: small(job.requeue).map(|requeue| requeue != 0),
        open_mode: job.open_mode != 0,
        array: field(job.array_inx),
        time_limit: number(job.time_limit),
        user_env: user_env(job).next().is_some(),
    };
    Request {
        user_id: job.user_id,
        num_tasks: number(job.num_tasks),
        // An update with NumNodes=ALL only asks to return the nodes that a job has lost.
        min_nodes: number(job.min_nodes).filter(|fewest| *fewest != slurm_sys::ALL_U32),
        // In an existing job of slurmctld's, 0 means "not set" up to 22.05.
        max_nodes: number(job.max_nodes).filter(|most| *most > 0),
        sockets_per_node: small(job.sockets_per_node),
        ntasks_per_node: small(job.ntasks_per_node),
        min_cpus: number(job.min_cpus),
        cpus_per_node: small(job.pn_min_cpus),
        // In an existing job of slurmctld's, the highest number means "not set".
        ntasks_per_socket: small(job.ntasks_per_socket).filter(|tasks| *tasks < u16::MAX),
        memory: Some(job.pn_min_memory).filter(|memory| *memory != slurm_sys::UNSET_U64).map(Memory::of),
        fewest_nodes: says(slurm_sys::JOB_USE_MIN_NODES),
        nodes_follow_tasks: says(slurm_sys::JOB_MOST_NODES_ARE_TASKS),
        spread: says(slurm_sys::JOB_SPREAD),
        enforces_binding: says(slurm_sys::JOB_ENFORCES_BINDING),
        releases: number(job.priority).is_some_and(|priority| priority > 0)
            || (number(job.nice).is_some() && daemon::nice_releases()),
        starts_again: small(job.requeue).is_some_and(|requeue| requeue != 0),
        recurs: says(slurm_sys::JOB_OF_CRONTAB),
        cpus_per_task: small(job.cpus_per_task),
        nodes: field(job.req_nodes),
        excluded_nodes: field(job.exc_nodes),
        exclusive: u32::from(job.shared) == slurm_sys::JOB_SHARED_NONE,
        batch: (!job.script.is_null()).then_some(batch),
        ..first_of(job)
    }
}

#[cfg(test)]
mod tests;
