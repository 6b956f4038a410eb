//! The parts of a job's request that the policy needs: plain borrowed bytes, with "not set" as `None`.
//!
//! The safe layer fills it from Slurm's `job_desc_msg_t`, tests fill it from text. C strings are bytes: nothing here
//! assumes UTF-8, a length, or that a Slurm command rather than a REST client wrote them.

use crate::submit::grammar::{self, Gres, Spelling, Token};

mod amounts;

pub use amounts::{Amounts, Memory};

/// A submission, read once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// How the receiving Slurm spells GRES in the strings.
    pub spelling: Spelling,
    /// The job's user, even if root or another cluster submits it.
    pub user_id: u32,
    /// `--qos`; `None` for the default QOS. In an update `None` leaves a field as it is.
    pub qos: Option<&'a [u8]>,
    /// `--account`; `None` for the user's default.
    pub account: Option<&'a [u8]>,
    /// `--partition`, perhaps a list; `None` if Slurm chooses one.
    pub partition: Option<&'a [u8]>,
    /// `--gpus`.
    pub tres_per_job: Option<&'a [u8]>,
    /// `--gres` and `--gpus-per-node`, joined by a comma.
    pub tres_per_node: Option<&'a [u8]>,
    /// `--gpus-per-socket`.
    pub tres_per_socket: Option<&'a [u8]>,
    /// `--gpus-per-task` and `--tres-per-task`.
    pub tres_per_task: Option<&'a [u8]>,
    /// `--cpus-per-gpu`. It requests no GPU, but its tokens become entries of the request like those above.
    pub cpus_per_tres: Option<&'a [u8]>,
    /// `--mem-per-gpu`, similarly.
    pub mem_per_tres: Option<&'a [u8]>,
    /// `--ntasks-per-gpu`; alone it makes slurmctld invent GPUs without a type. In an update, 0 means the job's own
    /// value.
    pub ntasks_per_tres: Option<u16>,
    /// `--ntasks`; `None` if not given.
    pub num_tasks: Option<u32>,
    /// The minimum of `--nodes`; `None` if not given.
    pub min_nodes: Option<u32>,
    /// The maximum of `--nodes`; `None` if not given.
    pub max_nodes: Option<u32>,
    /// `--cpus-per-task`
    pub cpus_per_task: Option<u16>,
    /// `--sockets-per-node`
    pub sockets_per_node: Option<u16>,
    /// `--ntasks-per-node`
    pub ntasks_per_node: Option<u16>,
    /// CPUs and memory.
    pub amounts: Amounts,
    /// `--use-min-nodes`: from a range of nodes, as few as possible.
    pub fewest_nodes: bool,
    /// slurmctld's own flag that the maximum of nodes is the number of tasks (from 26.05 on).
    pub nodes_follow_tasks: bool,
    /// `--spread-job`: from a range of nodes, as many as possible.
    pub spread: bool,
    /// `--gres-flags=enforce-binding`: Slurm may give all CPUs of a node, whatever number is requested.
    pub enforces_binding: bool,
    /// Whether an update releases a held job.
    pub releases: bool,
    /// `--requeue` is set: the job starts again after a preemption, after its node fails, or when its user requeues it.
    pub starts_again: bool,
    /// Whether it is the job of a crontab line (`scrontab`), which slurmctld starts again and again without asking
    /// plugins.
    pub recurs: bool,
    /// `--nodelist`
    pub nodes: Option<&'a [u8]>,
    /// `--exclude`
    pub excluded_nodes: Option<&'a [u8]>,
    /// `--reservation`, perhaps a list.
    pub reservation: Option<&'a [u8]>,
    /// `--exclusive`: the whole node, and so all its GPUs.
    pub exclusive: bool,
    /// The options that only batch jobs have; `None` for an interactive job.
    pub batch: Option<Batch<'a>>,
}

/// Options that only batch jobs have, about repetition and the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch<'a> {
    /// `--requeue` or `--no-requeue`; `None` if neither is given.
    pub requeue: Option<bool>,
    /// Whether `--open-mode` is given.
    pub open_mode: bool,
    /// `--array`
    pub array: Option<&'a [u8]>,
    /// `--time` in minutes; `None` if not given.
    pub time_limit: Option<u32>,
    /// Whether slurmd gets the variables from the user's login shell: for `--get-user-env`, `--export` with names or
    /// `NONE`, and scrontab.
    pub user_env: bool,
}

/// Longest string of a submission that Slurm accepts (`_test_job_desc_fields` in src/slurmctld/job_mgr.c). Slurm checks
/// that only after its plugins.
pub const LONGEST: usize = 1024;

crate::names! {
    /// Which of the four strings a token was in; determines the option that a corrected command names. The field's name
    /// is the one that `scontrol update` uses (scontrol(1)).
    pub enum Field: update_key {
        /// `tres_per_job`
        Job = "TresPerJob",
        /// `tres_per_node`
        Node = "TresPerNode",
        /// `tres_per_socket`
        Socket = "TresPerSocket",
        /// `tres_per_task`
        Task = "TresPerTask",
    }
}

/// The tokens of a request. Every rule reads them here, so this is one function and not a copy for each rule.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    spelling: Spelling,
    /// What is left of each string.
    rest: [(Field, &'a [u8]); 4],
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (Field, Token<'a>);

    #[inline(never)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (field, rest) = self.rest.get_mut(self.at)?;
            let end = rest.iter().position(|byte| *byte == b',');
            let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            match end {
                Some(end) => *rest = rest.get(end + 1..).unwrap_or_default(),
                None => self.at += 1,
            }
            if !part.is_empty() && part != self.spelling.prefix() {
                return Some((*field, grammar::token(part, self.spelling)));
            }
        }
    }
}

impl<'a> Request<'a> {
    /// A request for nothing.
    pub fn new(spelling: Spelling) -> Self {
        Request { spelling, ..Request::default() }
    }

    /// A string that is longer than Slurm accepts, if there is one.
    pub fn overlong(&self) -> Option<&'a [u8]> {
        let names = [self.qos, self.account, self.partition, self.reservation];
        let too_long =
            |texts: &[Option<&'a [u8]>]| texts.iter().flatten().find(|text| text.len() > LONGEST).copied();
        too_long(&self.texts()).or_else(|| too_long(&names))
    }

    /// The four strings that can request a GRES.
    pub fn tres(&self) -> impl Iterator<Item = (Field, Option<&'a [u8]>)> {
        [
            (Field::Node, self.tres_per_node),
            (Field::Job, self.tres_per_job),
            (Field::Task, self.tres_per_task),
            (Field::Socket, self.tres_per_socket),
        ]
        .into_iter()
    }

    /// The six strings from which Slurm makes entries of the request.
    fn texts(&self) -> [Option<&'a [u8]>; 6] {
        let [cpus, memory] = self.per_gpu();
        [self.tres_per_node, self.tres_per_job, self.tres_per_task, self.tres_per_socket, cpus, memory]
    }

    /// The two strings that set something for each GPU and request none.
    fn per_gpu(&self) -> [Option<&'a [u8]>; 2] {
        [self.cpus_per_tres, self.mem_per_tres]
    }

    /// Every token of the two strings that set something for each GPU.
    pub fn per_gpu_tokens(&self) -> impl Iterator<Item = Token<'a>> {
        let [cpus, memory] = self.per_gpu().map(Option::unwrap_or_default);
        let none: &[u8] = b"";
        let rest = [(Field::Job, cpus), (Field::Job, memory), (Field::Job, none), (Field::Job, none)];
        Tokens { spelling: self.spelling, rest, at: 0 }.map(|(_, token)| token)
    }

    /// Every token from which Slurm makes an entry of the request.
    pub fn all_tokens(&self) -> impl Iterator<Item = Token<'a>> {
        self.tokens().map(|(_, token)| token).chain(self.per_gpu_tokens())
    }

    /// Every token of the four strings that can request a GRES, and where it was.
    pub fn tokens(&self) -> Tokens<'a> {
        Tokens {
            spelling: self.spelling,
            rest: [
                (Field::Node, self.tres_per_node.unwrap_or_default()),
                (Field::Job, self.tres_per_job.unwrap_or_default()),
                (Field::Task, self.tres_per_task.unwrap_or_default()),
                (Field::Socket, self.tres_per_socket.unwrap_or_default()),
            ],
            at: 0,
        }
    }

    /// The job after this update: the update's values, and otherwise the job's.
    #[must_use]
    pub fn over<'b>(&self, existing: &Request<'b>) -> Request<'b>
    where
        'a: 'b,
    {
        Request {
            spelling: self.spelling,
            user_id: existing.user_id,
            qos: self.qos.or(existing.qos),
            account: self.account.or(existing.account),
            partition: self.partition.or(existing.partition),
            tres_per_job: self.tres_per_job.or(existing.tres_per_job),
            tres_per_node: self.tres_per_node.or(existing.tres_per_node),
            tres_per_socket: self.tres_per_socket.or(existing.tres_per_socket),
            tres_per_task: self.tres_per_task.or(existing.tres_per_task),
            cpus_per_tres: self.cpus_per_tres.or(existing.cpus_per_tres),
            mem_per_tres: self.mem_per_tres.or(existing.mem_per_tres),
            ntasks_per_tres: self.ntasks_per_tres.or(existing.ntasks_per_tres),
            num_tasks: self.num_tasks.or(existing.num_tasks),
            min_nodes: self.min_nodes.or(existing.min_nodes),
            max_nodes: self.max_nodes.or(existing.max_nodes),
            sockets_per_node: self.sockets_per_node.or(existing.sockets_per_node),
            ntasks_per_node: self.ntasks_per_node.or(existing.ntasks_per_node),
            amounts: self.amounts.over(&existing.amounts),
            fewest_nodes: existing.fewest_nodes,
            nodes_follow_tasks: existing.nodes_follow_tasks,
            spread: existing.spread,
            enforces_binding: existing.enforces_binding,
            releases: self.releases,
            starts_again: self.starts_again,
            recurs: existing.recurs,
            cpus_per_task: self.cpus_per_task.or(existing.cpus_per_task),
            nodes: self.nodes.or(existing.nodes),
            excluded_nodes: self.excluded_nodes.or(existing.excluded_nodes),
            reservation: self.reservation.or(existing.reservation),
            exclusive: self.exclusive || existing.exclusive,
            batch: existing.batch,
        }
    }

    /// A stored job without what Slurm itself wrote into it: DefCpuPerGPU and DefMemPerGPU as `gpu:4`, without a prefix
    /// (`gres_select_util_job_set_defs`, as soon as it looks for nodes). No user requested it, and without its prefix
    /// Slurm reads no request from it.
    #[must_use]
    pub fn without_defaults(&self) -> Request<'a> {
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

    /// Whether Slurm will take the partition from the job's reservation; that partition is unknown here.
    pub fn partition_is_the_reservations(&self) -> bool {
        let named = |name: Option<&[u8]>| name.is_some_and(|name| !name.is_empty());
        !named(self.partition) && named(self.reservation)
    }

    /// Whether an update changes anything that a rule checks: holding, releasing or changing the priority doesn't.
    pub fn touches_rules(&self) -> bool {
        let names = [self.qos, self.account, self.partition, self.reservation];
        let nodes = [self.min_nodes, self.max_nodes, self.num_tasks].iter().any(Option::is_some)
            || self.ntasks_per_node.is_some();
        self.texts().iter().chain(&names).any(Option::is_some)
            || self.ntasks_per_tres.is_some()
            || nodes
            || self.exclusive
    }

    /// Whether an update changes CPUs or memory.
    pub fn touches_amounts(&self) -> bool {
        let numbers = [self.cpus_per_task, self.ntasks_per_node, self.sockets_per_node];
        self.amounts != Amounts::default() || numbers.iter().any(Option::is_some)
    }

    /// The same request with another text in one field.
    #[must_use]
    pub fn with<'b>(&self, field: Field, text: &'b [u8]) -> Request<'b>
    where
        'a: 'b,
    {
        let mut changed: Request<'b> = *self;
        *match field {
            Field::Job => &mut changed.tres_per_job,
            Field::Node => &mut changed.tres_per_node,
            Field::Socket => &mut changed.tres_per_socket,
            Field::Task => &mut changed.tres_per_task,
        } = Some(text);
        changed
    }

    /// The first plain request for which `wanted` returns `true`.
    pub fn names(&self, wanted: impl Fn(&Gres) -> bool) -> Option<(Field, Gres<'a>)> {
        self.gres().find(|(_, gres)| wanted(gres))
    }

    /// The plain requests, in the order of the fields.
    pub fn gres(&self) -> impl Iterator<Item = (Field, Gres<'a>)> {
        self.tokens().filter_map(|(field, token)| match token {
            Token::Gres(gres) if gres.count > 0 => Some((field, gres)),
            _ => None,
        })
    }

    /// Whether sbatch computes the number of tasks from GRES: one that is requested per task and in another way, or
    /// `--ntasks-per-gpu`.
    pub fn leaves_tasks_to_sbatch(&self) -> bool {
        let per_task = || self.gres().filter(|(field, _)| *field == Field::Task).map(|(_, gres)| gres);
        let mut others = self.gres().filter(|(field, _)| *field != Field::Task);
        let is_both = |gres: Gres| {
            per_task().any(|of_task| (of_task.name, of_task.gres_type) == (gres.name, gres.gres_type))
        };
        per_task().next().is_some()
            && (self.ntasks_per_tres() > 0
                || self.num_tasks.is_none() && others.any(|(_, gres)| is_both(gres)))
    }

    /// Whether anything in the request can lead to a GPU; for a job without that, the QOS needn't be looked up.
    pub fn may_use_gpus(&self) -> bool {
        self.ntasks_per_tres() > 0 || self.all_tokens().any(|token| token != Token::Other)
    }

    /// Whether Slurm counts each GPU as it picks it: all are requested per node, or all per task, and nothing is set
    /// for each GPU.
    pub fn is_counted_plainly(&self) -> bool {
        let two = self.tres_per_task.is_some()
            && (self.tres_per_node.is_some() || self.ntasks_per_node.is_some_and(|each| each > 0));
        let others = [self.tres_per_job, self.tres_per_socket, self.cpus_per_tres, self.mem_per_tres];
        !two && others.iter().all(Option::is_none)
    }

    /// Tasks for each GPU; 0 if not requested.
    pub fn ntasks_per_tres(&self) -> u16 {
        self.ntasks_per_tres.unwrap_or(0)
    }

    /// How often a field's count is requested at least: for each node, socket or task.
    pub fn times(&self, field: Field) -> u64 {
        let nodes = u64::from(self.min_nodes.unwrap_or(1).max(1));
        match field {
            Field::Job => 1,
            Field::Node => nodes,
            Field::Socket => nodes.saturating_mul(u64::from(self.sockets_per_node.unwrap_or(1).max(1))),
            Field::Task => u64::from(self.num_tasks.unwrap_or(1).max(1)),
        }
    }

    /// The share of one GPU that the job requests on each node: its only GRES token of that name, counted per node.
    pub fn share(&self, name: &[u8]) -> Option<Gres<'a>> {
        let mut wanted = self.tokens().filter_map(|(field, token)| match token {
            Token::Gres(gres) if gres.name == name => Some((field, gres)),
            _ => None,
        });
        let (field, gres) = wanted.next()?;
        (wanted.next().is_none() && field == Field::Node && gres.count > 0).then_some(gres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_for_processors_only_may_not_use_gpus() {
        let mut request = Request::new(Spelling::Slash);
        request.tres_per_task = Some(b"cpu=4,license/matlab:1");
        assert!(!request.may_use_gpus());
        request.tres_per_task = Some(b"cpu=4,gres/gpu:1");
        assert!(request.may_use_gpus());
    }

    #[test]
    fn a_share_is_one_token_counted_per_node() {
        let mut request = Request::new(Spelling::Slash);
        request.tres_per_node = Some(b"gres/mps:40,gres/nic:1");
        assert_eq!(request.share(b"mps").map(|gres| gres.count), Some(40));
        request.tres_per_node = Some(b"gres/mps:40,gres/mps:20");
        assert_eq!(request.share(b"mps"), None);
        request.tres_per_node = None;
        request.tres_per_task = Some(b"gres/mps:40");
        assert_eq!(request.share(b"mps"), None);
    }
}
