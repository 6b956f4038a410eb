//! The members of a job description that the rules read, each once: plain values, with "not set" as `None`.
//!
//! The safe layer fills it from Slurm's `job_desc_msg_t`, tests fill it from text. C strings are bytes: nothing here
//! assumes UTF-8, a length, or that a Slurm command rather than a REST client wrote them.

use super::Field;
use crate::submit::grammar::Spelling;

/// Declares the structure, and what is done with all of its members.
macro_rules! description {
    (
        texts { $($(#[$of_text:meta])* $text:ident $(= $field:ident)?)* }
        numbers { $($(#[$of_number:meta])* $number:ident: $type:ty,)* }
        of_the_job { $($(#[$of_job:meta])* $fixed:ident: $kind:ty,)* }
    ) => {
        /// A job, or the changes of an update: `T` is a text, borrowed in a [`Request`] and owned in a correction.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Description<T> {
            $($(#[$of_text])* pub $text: Option<T>,)*
            $($(#[$of_number])* pub $number: Option<$type>,)*
            $($(#[$of_job])* pub $fixed: $kind,)*
            /// `--exclusive`: the whole node, and so all its GPUs.
            pub exclusive: bool,
            /// The options that only batch jobs have; `None` for an interactive job.
            pub batch: Option<Batch<T>>,
        }

        impl<T> Description<T> {
            /// One of the strings of GRES.
            pub fn string(&self, field: Field) -> Option<&T> {
                match field { $($(Field::$field => self.$text.as_ref(),)?)* }
            }

            /// The place of one of the strings of GRES.
            pub fn string_mut(&mut self, field: Field) -> &mut Option<T> {
                match field { $($(Field::$field => &mut self.$text,)?)* }
            }

            /// Where the job is charged and runs, with the keys.
            pub fn places(&self) -> [(&'static str, Option<&T>); 4] {
                let (qos, account) = (self.qos.as_ref(), self.account.as_ref());
                let (partition, reservation) = (self.partition.as_ref(), self.reservation.as_ref());
                [("qos", qos), ("account", account), ("partition", partition), ("reservation", reservation)]
            }

            /// All texts.
            pub fn texts(&self) -> impl Iterator<Item = Option<&T>> {
                [$(self.$text.as_ref()),*].into_iter()
            }
        }

        impl<T: Clone> Description<T> {
            /// The job after this update: the update's values, and otherwise the job's.
            #[must_use]
            pub fn over(&self, existing: &Self) -> Self {
                Description {
                    $($text: self.$text.clone().or_else(|| existing.$text.clone()),)*
                    $($number: self.$number.or(existing.$number),)*
                    $($fixed: existing.$fixed,)*
                    exclusive: self.exclusive || existing.exclusive,
                    batch: existing.batch.clone(),
                }
            }
        }

        impl Description<Vec<u8>> {
            /// The same, borrowed. It has no [`Batch`].
            pub fn borrowed(&self) -> Request<'_> {
                Description {
                    $($text: self.$text.as_deref(),)*
                    $($number: self.$number,)*
                    $($fixed: self.$fixed,)*
                    exclusive: self.exclusive,
                    batch: None,
                }
            }
        }

        impl Request<'_> {
            /// What a command can say, as texts of its own.
            pub fn owned(&self) -> Description<Vec<u8>> {
                Description {
                    $($text: self.$text.map(<[u8]>::to_vec),)*
                    $($number: self.$number,)*
                    spelling: self.spelling,
                    ..Description::default()
                }
            }
        }
    };
}

description! {
    texts {
        /// `--qos`; `None` for the default QOS. In an update `None` leaves a member as it is.
        qos
        /// `--account`; `None` for the user's default.
        account
        /// `--partition`, perhaps a list; `None` if Slurm chooses one.
        partition
        /// `--reservation`, perhaps a list.
        reservation
        /// `--gpus`.
        tres_per_job = Job
        /// `--gres` and `--gpus-per-node`, joined by a comma.
        tres_per_node = Node
        /// `--gpus-per-socket`.
        tres_per_socket = Socket
        /// `--gpus-per-task` and `--tres-per-task`.
        tres_per_task = Task
        /// `--cpus-per-gpu`. It requests no GPU, but its tokens become entries of the request like those above.
        cpus_per_tres = CpusPerGpu
        /// `--mem-per-gpu`, similarly.
        mem_per_tres = MemPerGpu
        /// `--nodelist`
        nodes
        /// `--exclude`
        excluded_nodes
    }
    numbers {
        /// `--ntasks-per-gpu`; alone it makes slurmctld invent GPUs without a type. In an update, 0 means the job's own
        /// value.
        ntasks_per_tres: u16,
        /// `--ntasks`; `None` if not given.
        num_tasks: u32,
        /// The minimum of `--nodes`; `None` if not given.
        min_nodes: u32,
        /// The maximum of `--nodes`; `None` if not given.
        max_nodes: u32,
        /// `--cpus-per-task`
        cpus_per_task: u16,
        /// `--sockets-per-node`
        sockets_per_node: u16,
        /// `--ntasks-per-node`
        ntasks_per_node: u16,
        /// CPUs of the whole job: tasks times CPUs, as sbatch sends them; in an update, `NumCPUs`.
        min_cpus: u32,
        /// `--mincpus`
        cpus_per_node: u16,
        /// `--ntasks-per-socket`
        ntasks_per_socket: u16,
        /// `--mem` or `--mem-per-cpu`
        memory: Memory,
    }
    of_the_job {
        /// How the receiving Slurm spells GRES in the strings.
        spelling: Spelling,
        /// The job's user, even if root or another cluster submits it.
        user_id: u32,
        /// `--use-min-nodes`: from a range of nodes, as few as possible.
        fewest_nodes: bool,
        /// slurmctld's own flag that the maximum of nodes is the number of tasks (from 26.05 on).
        nodes_follow_tasks: bool,
        /// `--spread-job`: from a range of nodes, as many as possible.
        spread: bool,
        /// `--gres-flags=enforce-binding`: Slurm may give all CPUs of a node, whatever number is requested.
        enforces_binding: bool,
        /// Whether it is the job of a crontab line (`scrontab`), which slurmctld starts again and again without asking
        /// plugins.
        recurs: bool,
        /// Whether an update releases a held job.
        releases: bool,
        /// `--requeue` is set: the job starts again after a preemption, after its node fails, or when its user
        /// requeues it.
        starts_again: bool,
    }
}

/// A job or an update as Slurm shows it, not yet parsed.
pub type Request<'a> = Description<&'a [u8]>;

/// Options that only batch jobs have, about repetition and the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch<T> {
    /// `--requeue` or `--no-requeue`; `None` if neither is given.
    pub requeue: Option<bool>,
    /// Whether `--open-mode` is given.
    pub open_mode: bool,
    /// `--array`
    pub array: Option<T>,
    /// `--time` in minutes; `None` if not given.
    pub time_limit: Option<u32>,
    /// Whether slurmd gets the variables from the user's login shell: for `--get-user-env`, `--export` with names or
    /// `NONE`, and scrontab.
    pub user_env: bool,
}

/// Memory in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `--mem`; 0 means all of a node's memory.
    PerNode(u64),
    /// `--mem-per-cpu`
    PerCpu(u64),
}

/// The flag with which Slurm marks memory for each CPU (slurm.h, `MEM_PER_CPU`).
const PER_CPU: u64 = 1 << 63;

impl Memory {
    /// From Slurm's number. Slurm treats `--mem-per-cpu=0` as `--mem=0`.
    pub const fn of(number: u64) -> Memory {
        match number & !PER_CPU {
            0 => Memory::PerNode(0),
            of_cpu if number & PER_CPU != 0 => Memory::PerCpu(of_cpu),
            of_node => Memory::PerNode(of_node),
        }
    }
}

/// Longest string of a submission that Slurm accepts (`_test_job_desc_fields` in src/slurmctld/job_mgr.c). Slurm checks
/// that only after its plugins.
pub const LONGEST: usize = 1024;

impl<'a> Request<'a> {
    /// A request for nothing.
    pub fn new(spelling: Spelling) -> Self {
        Request { spelling, ..Request::default() }
    }

    /// A string that is longer than Slurm accepts, if there is one.
    pub fn overlong(&self) -> Option<&'a [u8]> {
        let strings = Field::ALL.iter().map(|field| self.string(*field).copied());
        let names = self.places().map(|(_, name)| name.copied());
        strings.chain(names).flatten().find(|text| text.len() > LONGEST)
    }

    /// A stored job without what Slurm itself wrote into it: DefCpuPerGPU and DefMemPerGPU as `gpu:4`, without a prefix
    /// (`gres_select_util_job_set_defs`, as soon as it looks for nodes). No user requested it, and without its prefix
    /// Slurm reads no request from it.
    #[must_use]
    pub fn without_defaults(&self) -> Self {
        let is_default = |text: &&[u8]| {
            let digits = text.strip_prefix(b"gpu:").unwrap_or_default();
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        };
        Request {
            cpus_per_tres: self.cpus_per_tres.filter(|text| !is_default(text)),
            mem_per_tres: self.mem_per_tres.filter(|text| !is_default(text)),
            ..*self
        }
    }

    /// Whether an update changes anything that a rule checks: holding, releasing or changing the priority doesn't.
    pub fn touches_rules(&self) -> bool {
        let strings = Field::ALL.iter().any(|field| self.string(*field).is_some());
        let names = self.places().iter().any(|(_, name)| name.is_some());
        let nodes = [self.min_nodes, self.max_nodes, self.num_tasks].iter().any(Option::is_some);
        let tasks = self.ntasks_per_node.is_some() || self.ntasks_per_tres.is_some();
        strings || names || nodes || tasks || self.exclusive
    }

    /// Whether an update changes CPUs or memory.
    pub fn touches_amounts(&self) -> bool {
        let of_node = [self.cpus_per_task, self.ntasks_per_node, self.sockets_per_node, self.cpus_per_node];
        let said = of_node.iter().any(Option::is_some) || self.ntasks_per_socket.is_some();
        said || self.min_cpus.is_some() || self.memory.is_some()
    }

    /// Tasks for each GPU; 0 if not requested.
    pub fn ntasks_per_tres(&self) -> u16 {
        self.ntasks_per_tres.unwrap_or(0)
    }

    /// How often a field's count is requested at least: for each node, socket or task.
    pub fn times(&self, field: Field) -> u64 {
        let nodes = u64::from(self.min_nodes.unwrap_or(1).max(1));
        match field {
            Field::Node => nodes,
            Field::Socket => nodes.saturating_mul(u64::from(self.sockets_per_node.unwrap_or(1).max(1))),
            Field::Task => u64::from(self.num_tasks.unwrap_or(1).max(1)),
            Field::Job | Field::CpusPerGpu | Field::MemPerGpu => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing<'a>() -> Request<'a> {
        Request::new(Spelling::Slash)
    }

    #[test]
    fn memory_is_read_as_slurm_marks_it() {
        assert_eq!(Memory::of(0), Memory::PerNode(0));
        assert_eq!(Memory::of(500), Memory::PerNode(500));
        assert_eq!(Memory::of(PER_CPU | 500), Memory::PerCpu(500));
        assert_eq!(Memory::of(PER_CPU), Memory::PerNode(0), "--mem-per-cpu=0 is --mem=0");
    }

    #[test]
    fn a_string_is_too_long_from_1025_bytes_on_in_whatever_member() {
        let (fits, long) = (vec![b'x'; LONGEST], vec![b'x'; LONGEST + 1]);
        for request in [
            |text| Request { qos: text, ..nothing() },
            |text| Request { reservation: text, ..nothing() },
            |text| Request { tres_per_task: text, ..nothing() },
            |text| Request { mem_per_tres: text, ..nothing() },
        ] {
            assert_eq!(request(Some(fits.as_slice())).overlong(), None);
            assert_eq!(request(Some(long.as_slice())).overlong(), Some(long.as_slice()));
        }
    }

    #[test]
    fn what_slurm_filled_in_for_each_gpu_is_no_request() {
        let both = |text: &'static str| Request {
            cpus_per_tres: Some(text.as_bytes()),
            mem_per_tres: Some(text.as_bytes()),
            ..nothing()
        };
        assert_eq!(both("gpu:4").without_defaults(), nothing());
        for text in ["gres/gpu:4", "gpu:", "gpu:a40:4", "gpu:4,gpu:5", ""] {
            assert_eq!(both(text).without_defaults(), both(text), "{text}");
        }
    }

    #[test]
    fn an_update_is_checked_for_each_member_that_a_rule_reads() {
        let text = Some(b"x".as_slice());
        for (request, rules, amounts) in [
            (nothing(), false, false),
            (Request { releases: true, ..nothing() }, false, false),
            (Request { nodes: text, ..nothing() }, false, false),
            (Request { qos: text, ..nothing() }, true, false),
            (Request { reservation: text, ..nothing() }, true, false),
            (Request { tres_per_job: text, ..nothing() }, true, false),
            (Request { mem_per_tres: text, ..nothing() }, true, false),
            (Request { min_nodes: Some(1), ..nothing() }, true, false),
            (Request { max_nodes: Some(1), ..nothing() }, true, false),
            (Request { num_tasks: Some(1), ..nothing() }, true, false),
            (Request { ntasks_per_tres: Some(1), ..nothing() }, true, false),
            (Request { exclusive: true, ..nothing() }, true, false),
            (Request { ntasks_per_node: Some(1), ..nothing() }, true, true),
            (Request { cpus_per_task: Some(1), ..nothing() }, false, true),
            (Request { sockets_per_node: Some(1), ..nothing() }, false, true),
            (Request { cpus_per_node: Some(1), ..nothing() }, false, true),
            (Request { ntasks_per_socket: Some(1), ..nothing() }, false, true),
            (Request { min_cpus: Some(1), ..nothing() }, false, true),
            (Request { memory: Some(Memory::PerNode(1)), ..nothing() }, false, true),
        ] {
            assert_eq!((request.touches_rules(), request.touches_amounts()), (rules, amounts), "{request:?}");
        }
    }

    #[test]
    fn a_count_is_requested_for_each_of_what_its_string_names() {
        let request =
            Request { min_nodes: Some(2), sockets_per_node: Some(3), num_tasks: Some(5), ..nothing() };
        let zeros =
            Request { min_nodes: Some(0), sockets_per_node: Some(0), num_tasks: Some(0), ..nothing() };
        for (field, times) in [
            (Field::Node, 2),
            (Field::Socket, 6),
            (Field::Task, 5),
            (Field::Job, 1),
            (Field::CpusPerGpu, 1),
            (Field::MemPerGpu, 1),
        ] {
            assert_eq!(request.times(field), times, "{field:?}");
            assert_eq!((nothing().times(field), zeros.times(field)), (1, 1), "{field:?}");
        }
    }
}
