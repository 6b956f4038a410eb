//! What only updates need: whether one may move a job, and what was already said about the command that it is part of.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use slurm_sys::job_desc_msg_t;

use super::Submission;
use crate::text;

/// How [`Submission::is_first`]'s note begins.
const NOTE: &[u8] = b"gpushare";

/// The word for each 16 KiB that slurmctld has read for a copy, and how many are enough: 8 MiB. The rest of each copy
/// doesn't count: most jobs are small, and an array has many.
const READ: &[u8] = b"read";
const UNIT: usize = 16 << 10;
const MOST_READ: usize = 512;

/// How the word begins that names a command.
const COMMAND: &[u8] = b"command-";

/// Where the job's numbers are. From 25.11 on they are a structure within, which is copied as a whole, and then nothing
/// says what is in its padding.
#[cfg(slurm_25_11)]
const NUMBERS: (usize, usize) =
    (offset_of!(job_desc_msg_t, step_id), size_of::<slurm_sys::slurm_step_id_t>());
#[cfg(not(slurm_25_11))]
const NUMBERS: (usize, usize) = (offset_of!(job_desc_msg_t, job_id), size_of::<u32>());

/// Whether all bytes are the same, but for the job's numbers.
fn is_same(said: &job_desc_msg_t, other: &job_desc_msg_t) -> bool {
    let (said, other): (*const job_desc_msg_t, *const job_desc_msg_t) = (said, other);
    let (numbers, size) = NUMBERS;
    [(0, numbers), (numbers + size, size_of::<job_desc_msg_t>())].into_iter().all(|(from, to)| {
        // SAFETY: within two structures of that size; slurmctld's is cleared before it is filled
        // (src/common/slurm_protocol_pack.c, xmalloc), and so is ours, so the padding between members is zero in both.
        unsafe {
            libc::memcmp(said.wrapping_byte_add(from).cast(), other.wrapping_byte_add(from).cast(), to - from)
                == 0
        }
    })
}

impl Submission<'_> {
    /// The members beyond QOS, account, partition, reservation and GPUs that an update changes, separated by commas, as
    /// scontrol(1) names them; empty if there are none. Every other member must be as slurm_init_job_desc_msg() leaves
    /// it, including those that a later release adds.
    ///
    /// Members that can't leave a job moved without its GPUs don't count: slurmctld applies admin_comment, comment and
    /// extra before it changes the QOS, and the name, wckey and mail after the GPUs (src/slurmctld/job_mgr.c,
    /// `_update_job`, from 22.05 to 26.05). Plugins of sites write these into updates.
    #[doc(alias = "slurm_init_job_desc_msg")]
    pub fn other_changes(&self) -> Vec<&'static str> {
        let said: &job_desc_msg_t = self.description;
        // SAFETY: a C structure of numbers and pointers, for which all zeros are a valid value.
        let mut nothing: job_desc_msg_t = unsafe { std::mem::zeroed() };
        // SAFETY: our own description; the call fills it with numbers and null pointers (src/api/init_msg.c).
        unsafe { slurm_sys::slurm_init_job_desc_msg(&raw mut nothing) };
        macro_rules! may_say {
            ($($member:ident)+) => { $(nothing.$member = said.$member;)+ };
        }
        may_say!(qos account partition reservation tres_per_job tres_per_node tres_per_socket tres_per_task);
        may_say!(admin_comment comment extra name wckey mail_type mail_user);
        // What else names the job and its user, and what slurmctld or this plugin sets before it checks.
        may_say!(job_id_str array_bitmap user_id group_id site_factor alloc_node env_hash script_hash);
        may_say!(selinux_context);
        nothing.bitflags = said.bitflags & slurm_sys::JOB_SAYS_DEFAULTS;
        if is_same(said, &nothing) {
            return Vec::new();
        }
        let mut names: Vec<&'static str> = Vec::new();
        macro_rules! changed {
            ($($member:ident $name:literal)+) => { $(
                if said.$member != nothing.$member {
                    names.push($name);
                }
                nothing.$member = said.$member;
            )+ };
        }
        changed!(
            time_limit "TimeLimit" time_min "TimeMin" priority "Priority" nice "Nice" begin_time "StartTime"
            deadline "Deadline" dependency "Dependency" features "Features" prefer "Prefer" licenses "Licenses"
            min_nodes "NumNodes" num_tasks "NumTasks" min_cpus "NumCPUs" cpus_per_task "CPUsPerTask"
            ntasks_per_node "TasksPerNode" pn_min_cpus "MinCPUsNode" pn_min_memory "MinMemory"
            cpus_per_tres "CpusPerTres" mem_per_tres "MemPerTres" req_nodes "ReqNodeList" exc_nodes "ExcNodeList"
            shared "OverSubscribe" contiguous "Contiguous" requeue "Requeue" work_dir "WorkDir" std_out "StdOut"
        );
        // Their maximum goes with the nodes and CPUs; slurmctld sets the flags before the next record of an array.
        may_say!(max_nodes max_cpus);
        nothing.bitflags |= said.bitflags & slurm_sys::JOB_TASKS_ARE_SET;
        if names.is_empty() || !is_same(said, &nothing) {
            names.push("something else");
        }
        names
    }

    /// Whether it names a whole array.
    #[doc(alias = "find_job_array_rec")]
    pub fn names_array(&mut self) -> bool {
        // For a big array whose first tasks have ended, each look-up takes long, so only the first record does it.
        for (word, is_array) in [("array", true), ("no-array", false)] {
            if self.has_note(word) {
                return is_array;
            }
        }
        let number = self.job_id().and_then(|job| str::from_utf8(job).ok()?.parse().ok());
        let is_array = number.is_some_and(|number| {
            // SAFETY: only reads slurmctld's jobs; callers of job_modify hold the job lock (src/slurmctld/proc_req.c).
            let any = unsafe { slurm_sys::find_job_array_rec(number, slurm_sys::ALL_U32) };
            !any.is_null()
        });
        self.note(if is_array { "array" } else { "no-array" });
        is_array
    }

    /// Whether this is said for the first time about this command: slurmctld checks each record of an array or het job
    /// separately, but in one description. A note in the description tells, in the only text of it that no client can
    /// send and no update uses, and that slurmctld frees with it (slurm.h: `selinux_context`, "DON'T PACK").
    pub fn is_first(&mut self, what: &str) -> bool {
        let is_first = !self.has_note(what);
        if is_first {
            self.note(what);
        }
        is_first
    }

    /// Whether slurmctld has read so much for copies of this command's jobs that no other should be made: it reads each
    /// from its disk, under its locks.
    pub fn has_read_enough(&self) -> bool {
        let read = self.noted().split(|byte| *byte == b',').filter(|word| *word == READ).count();
        self.noted().starts_with(NOTE) && read >= MOST_READ
    }

    /// Remembers for this command that slurmctld has read this much.
    pub fn has_read(&mut self, bytes: usize) {
        let words = vec!["read"; (bytes / UNIT).min(MOST_READ)];
        if !words.is_empty() {
            self.note(&words.join(","));
        }
    }

    /// A word that the records of this command have in common, and no other command has. `None` if another plugin's
    /// text is where the notes are.
    pub(super) fn command(&mut self) -> Option<String> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let words = self.noted().split(|byte| *byte == b',');
        if let Some(word) = words.into_iter().find(|word| word.starts_with(COMMAND)) {
            return str::from_utf8(word).ok().map(str::to_owned);
        }
        let word = format!("command-{}", LAST.fetch_add(1, Ordering::Relaxed));
        self.note(&word);
        self.has_note(&word).then_some(word)
    }

    /// All that the update says, for comparing it with itself later: its members as they are, and the texts.
    pub(super) fn said(&self) -> Vec<u8> {
        let description: *const job_desc_msg_t = &raw const *self.description;
        // SAFETY: a structure of that size, which was cleared before it was filled (see `is_same`).
        let members =
            unsafe { std::slice::from_raw_parts(description.cast::<u8>(), size_of::<job_desc_msg_t>()) };
        let mut said = members.to_vec();
        for text in self.request().texts() {
            said.extend(text.copied().unwrap_or_default());
            said.push(0);
        }
        said
    }

    fn noted(&self) -> &[u8] {
        // SAFETY: null or a C string in Slurm's memory, not changed while it is borrowed.
        unsafe { text::bytes(self.description.selinux_context) }.unwrap_or(NOTE)
    }

    /// Whether this word is in the notes, such as that of [`Submission::command`].
    pub(super) fn has_note(&self, word: &str) -> bool {
        let noted = self.noted();
        noted.starts_with(NOTE) && noted.split(|byte| *byte == b',').any(|found| found == word.as_bytes())
    }

    /// Another plugin's text stays, and then everything counts as new.
    fn note(&mut self, word: &str) {
        if self.noted().starts_with(NOTE) {
            let note = [self.noted(), b",", word.as_bytes()].concat();
            // SAFETY: null or in Slurm's memory.
            unsafe { text::replace(&mut self.description.selinux_context, note) }
        }
    }
}
