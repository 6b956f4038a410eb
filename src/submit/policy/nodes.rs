//! How many nodes a job may have, and how many GPUs that makes. Slurm counts a job's GPUs once for the whole job, but
//! puts at least one of each type on every node that it picks (`_set_job_bits1` in
//! src/plugins/select/cons_tres/gres_select_filter.c).

use super::governed::predicts;
use super::{
    Accounting, Correction, DefaultQos, Fault, GPU, GovernedAccounts, Judgement, LimitAdvice, Offer, Rule,
    Under, plain,
};
use crate::mend::mended;
use crate::submit::grammar::Gres;
use crate::submit::request::{Field, Names, Parsed, Partitions, Qos, Request};

impl<A: Accounting> Judgement<'_, '_, A> {
    /// GPUs per task, whose tasks don't fill their nodes. Slurm counts the GPUs of the tasks, but on each node it may
    /// pick GPUs for as many tasks as the job allows there (`_build_tasks_per_node_sock`).
    pub(super) fn uneven_tasks(&self, request: &Parsed, under: Under<A::Qos>) -> Option<Fault> {
        let (tasks, each) = self.tasks_of_nodes(request).filter(|_| mended("uneven-tasks"))?;
        let fits = tasks % each == 0 && tasks / each >= request.min_nodes.unwrap_or(1);
        (!fits).then(|| {
            let asked = format!("{tasks} tasks with {each} per node").into_bytes();
            let refusal = self.ground_refusal(Rule::TasksUneven, under);
            refusal.asked(asked).count(u64::from(tasks)).field(Field::Task)
        })
    }

    /// How many tasks a job with GPUs per task has, and how many on each node; `None` if it sets no number of tasks on
    /// a node: then Slurm picks GPUs for the tasks that it places there. It picks what is also requested per node by
    /// that number.
    fn tasks_of_nodes(&self, request: &Parsed) -> Option<(u32, u32)> {
        if !predicts(request) {
            return None;
        }
        // sbatch makes it from a GRES that is requested per node and per task.
        let of_both = || {
            let both = |gres: Gres| Some(request.same_entry(Field::Node, &gres)?.count / gres.count);
            request.gres_of(Field::Task).filter_map(both).find_map(|each| u32::try_from(each).ok())
        };
        let each = request.ntasks_per_node.map(u32::from).filter(|each| *each > 0).or_else(of_both);
        let each = each.filter(|each| *each > 0)?;
        let is_alone =
            |gres: &Gres| self.policy.gres.has(gres.name) && request.same_entry(Field::Node, gres).is_none();
        let gres = request.gres_of(Field::Task).find(is_alone)?;
        let of_job = || {
            let all = request.same_entry(Field::Job, &gres)?;
            Some(u32::try_from(all.count / gres.count).unwrap_or(u32::MAX))
        };
        let tasks = request.num_tasks.filter(|tasks| *tasks > 0).or_else(of_job);
        Some(match (tasks, request.ntasks_per_tres()) {
            (Some(tasks), _) => (tasks, each),
            (None, 0) => (request.min_nodes.unwrap_or(1).max(1).saturating_mul(each), each),
            // Slurm makes the number of tasks from this one.
            (None, _) => (0, each),
        })
    }

    /// Fewer tasks on each node, so that they fill their nodes.
    pub(super) fn fill_nodes(&self, request: &Parsed, wanted: &mut Correction) -> Option<()> {
        let (tasks, each) = self.tasks_of_nodes(request)?;
        let fewest = request.min_nodes.unwrap_or(1).max(1);
        // With one on each node, the job would hardly be what its user wants.
        let each = (2..=each).rev().find(|each| tasks % each == 0 && tasks / each >= fewest)?;
        wanted.said.ntasks_per_node = Some(u16::try_from(each).ok()?);
        wanted.said.num_tasks = Some(tasks);
        request.max_nodes.is_none_or(|most| most >= tasks / each).then_some(())
    }

    /// An update of a job with GPUs per task, which changes the number of tasks or what Slurm may make it from, and
    /// something else. Slurm changes the tasks before the other, and if it refuses the other, the job keeps the count
    /// of its old tasks' GPUs, and gets those of the new. So it does with the number of tasks on a node, which only
    /// operators may change: Slurm makes the number of tasks from it, and refuses it last.
    pub(super) fn tasks_not_alone(&self, under: Under<A::Qos>) -> Option<Fault> {
        let (update, existing) = self.update.filter(|(update, _)| predicts(&update.request))?;
        let said = &update.request;
        let numbers = [said.num_tasks, said.min_nodes, said.max_nodes].iter().any(Option::is_some);
        let changes = numbers || said.ntasks_per_node.is_some() || says_gres(said);
        let on_node = said.ntasks_per_node.map(|_| "TasksPerNode");
        let others = update.others.iter().copied();
        let others = others.filter(|name| !matches!(*name, "NumNodes" | "NumTasks" | "TasksPerNode"));
        let others = on_node.into_iter().chain(others).collect::<Vec<_>>().join(", ");
        let concerned =
            self.has_gpus_per_task(existing) || on_node.is_some() && self.has_gpus_per_task(self.request);
        (changes && !others.is_empty() && concerned && mended("update-alone"))
            .then(|| self.ground_refusal(Rule::NotAlone, under).asked(others.into_bytes()).field(Field::Task))
    }

    fn has_gpus_per_task(&self, request: &Parsed) -> bool {
        request.gres_of(Field::Task).any(|gres| self.policy.gres.has(gres.name))
    }

    /// An update to more nodes than allowed. Slurm itself refuses such a submission. An update of the GPUs may set the
    /// nodes, and Slurm changes these first.
    pub(super) fn too_many_nodes(&self, under: Under<A::Qos>) -> Option<Fault> {
        let (update, existing) = self.update?;
        let derived = self.nodes_of_gpus();
        let now = self.most_nodes(existing).filter(|_| !update.is_alone() || derived.is_some());
        let most = self.most_nodes(self.request).into_iter().chain(now).chain(self.most_of_tasks()).min()?;
        let follows = |tasks: &u32| existing.nodes_follow_tasks && *tasks > most;
        let nodes = self.request.min_nodes.into_iter().chain(derived).find(|nodes| *nodes > most);
        let nodes = nodes.or_else(|| update.request.num_tasks.filter(follows))?;
        let refusal = self.ground_refusal(Rule::TooManyNodes, under);
        let asked = format!("{nodes} nodes").into_bytes();
        Some(refusal.asked(asked).count(u64::from(most)).field(Field::Job))
    }

    /// As many nodes as tasks, for an update of either in a job with GPUs per task: for a node without a task Slurm
    /// counts no GPU. 24.11 never starts such a job.
    fn most_of_tasks(&self) -> Option<u32> {
        let said = &self.update?.0.request;
        let on_node = self.request.ntasks_per_node.is_some_and(|each| each > 0);
        let concerned = predicts(self.request)
            && !on_node
            && (said.min_nodes.is_some() || said.num_tasks.is_some())
            && self.has_gpus_per_task(self.request);
        self.request.num_tasks.filter(|tasks| concerned && *tasks > 0)
    }

    /// The number of nodes to which an update of the GPUs sets the job: those for the whole job, by those on each node.
    fn nodes_of_gpus(&self) -> Option<u32> {
        let said = &self.update?.0.request;
        let nodes = |all: Gres| Some(all.count / self.request.same_entry(Field::Node, &all)?.count);
        let nodes = self.request.gres_of(Field::Job).find_map(nodes).filter(|_| says_gres(said))?;
        Some(u32::try_from(nodes).unwrap_or(u32::MAX))
    }

    /// How many nodes a job may get by itself, without one for each GPU: with no number of tasks on a node, as many as
    /// tasks.
    pub(super) fn may_exceed(existing: &Request, most: u32) -> bool {
        let each = existing.ntasks_per_node.is_some_and(|each| each > 0);
        let tasks = existing.num_tasks.unwrap_or(1).max(existing.min_nodes.unwrap_or(1));
        existing.max_nodes.unwrap_or(if each { u32::MAX } else { tasks }) > most
    }

    /// The maximum number of nodes to write into an accepted job, if the job allows more or has no maximum. An update
    /// that raises the number of GPUs raises a maximum that was written before. Slurm refuses a maximum above the
    /// partition's, or the job waits for ever, so this writes no higher one.
    pub(super) fn nodes_to_set(&self) -> Option<u32> {
        // If the update may be applied only partly, the current job counts too.
        let now = self
            .update
            .filter(|(update, _)| !update.is_alone())
            .and_then(|(_, existing)| self.most_nodes(existing));
        let most = self.most_nodes(self.request).into_iter().chain(now).min()?;
        let there =
            |existing: &Parsed| self.most_nodes(existing).map(|most| self.of_partitions(existing, most));
        let ours = |existing: &Parsed| existing.fewest_nodes && existing.max_nodes == there(existing);
        let said = match self.update {
            Some((update, existing)) if update.is_alone() && ours(existing) => update.request.max_nodes,
            _ => self.request.max_nodes,
        };
        if said.is_some_and(|said| said <= most) {
            return None;
        }
        // Slurm says itself what is wrong with a maximum that the user named.
        let most = if said.is_some() { most } else { self.of_partitions(self.request, most) };
        let there_already = self.update.is_some() && self.request.max_nodes == Some(most);
        (!there_already).then_some(most)
    }

    /// As many nodes, but no more than the job's partitions allow under its QOS.
    fn of_partitions(&self, request: &Request, most: u32) -> u32 {
        if most <= 1 {
            return most;
        }
        let Some(allowed) = self.accounting.most_nodes(request).filter(|allowed| *allowed < most) else {
            return most;
        };
        let qoses = self.possible_qoses(request);
        let pass = !qoses.is_empty() && qoses.into_iter().all(|qos| self.accounting.passes_max_nodes(qos));
        if pass { most } else { allowed.max(1) }
    }

    /// The QOSes of which the job gets one.
    pub(super) fn possible_qoses(&self, request: &Request) -> Vec<A::Qos> {
        match request.wanted_qos() {
            Qos::List(names) => self.accounting.qoses_named(&names.of_qoses()),
            Qos::One(name) => self.accounting.qos_named(name).into_iter().collect(),
            Qos::Default => match self.accounting.default_qos(request) {
                DefaultQos::None => Vec::new(),
                DefaultQos::One(qos) => vec![qos],
                DefaultQos::OneOf(candidates) => candidates,
            },
        }
    }

    /// The names of the QOSes of which the job gets one, whether they exist or not; if there is none, an empty name.
    pub(super) fn names_of_qoses<'s>(&'s self, request: &Request<'s>) -> Vec<&'s [u8]> {
        let default =
            || self.possible_qoses(request).into_iter().map(|qos| self.accounting.name(qos)).collect();
        let names = request.qos.map_or_else(default, |list| Names::of(list).of_qoses());
        if names.is_empty() { vec![b""] } else { names }
    }

    /// More GPUs of a type than a limit of the QOS, or of an association, allows at once. What the QOS limits, Slurm
    /// doesn't test for the association, and which association counts may depend on the partition that Slurm chooses.
    pub(super) fn beyond_limit(&self, qos: A::Qos, ground: Option<Under<A::Qos>>) -> Option<Fault> {
        if self.policy.limit_advice == LimitAdvice::Off {
            return None;
        }
        let under = ground.filter(|under| matches!(under, Under::Qos(_)));
        let one_partition = match self.request.partitions() {
            Partitions::Named(names) => names.iter().nth(1).is_none(),
            Partitions::Default => true,
            Partitions::OfReservation => false,
        };
        let by_accounts = one_partition && self.policy.accounts != GovernedAccounts::Off;
        self.request.gres().find_map(|(field, gres)| {
            let gres_type = gres.gres_type.filter(|_| self.policy.gres.has(gres.name))?;
            let wanted = gres.count.saturating_mul(self.request.times(field));
            let of_account = || self.account_limit(gres.name, gres_type).filter(|_| by_accounts);
            let (most, one) = match self.limit_of_qos(qos, gres.name, gres_type) {
                Some(most) => (under.map(|_| most)?, None),
                None => of_account().map(|(most, one)| (most, Some(one)))?,
            };
            if wanted <= most {
                return None;
            }
            let refusal = match (one, under) {
                (None, Some(under)) => self.ground_refusal(Rule::BeyondLimit, under),
                (one, _) => self.refusal(Rule::BeyondLimit, self.ground_of(one)),
            };
            let offer = Some((self.written(gres_type), Some(most))).filter(|_| most > 0);
            let offer = Offer::OfQos(offer.into_iter().collect());
            let refusal = refusal.denied(self.accounting.denies_on_limit(qos)).offer(offer);
            Some(refusal.asked(plain(Gres { count: wanted, ..gres })).count(wanted))
        })
    }

    /// The lowest number at once, on all nodes, to which the QOS limits a type.
    fn limit_of_qos(&self, qos: A::Qos, gres: &[u8], gres_type: &[u8]) -> Option<u64> {
        let mut limits = self.accounting.typed_limits(qos, gres);
        limits.find(|limit| limit.gres_type.eq_ignore_ascii_case(gres_type))?.of_job
    }

    /// The maximum number of nodes with which no GPU that is counted for the whole job, or for its tasks, is given
    /// twice; `None` if all are counted as they are picked.
    pub(super) fn most_nodes(&self, request: &Parsed) -> Option<u32> {
        let filled = self.tasks_of_nodes(request).map(|(tasks, each)| u64::from(tasks / each));
        let gpus = |field| request.gres_of(field).filter(|gres| gres.name == GPU);
        let on_each = |gres_type| {
            gpus(Field::Node).filter(|gres| gres.gres_type == gres_type).map(|gres| gres.count).max()
        };
        let of_job = gpus(Field::Job).map(|gres| gres.count / on_each(gres.gres_type).unwrap_or(1));
        let of_tasks = gpus(Field::Task).filter_map(|gres| {
            let all = gres.count.saturating_mul(u64::from(request.num_tasks?));
            Some(all / on_each(gres.gres_type)?)
        });
        let most = of_job.chain(of_tasks).chain(filled).min().filter(|_| mended("nodes-of-types"));
        most.map(|nodes| u32::try_from(nodes.max(1)).unwrap_or(u32::MAX))
    }
}

/// Whether an update says anything about the GRES that a job requests.
fn says_gres(said: &Request) -> bool {
    Field::ALL.iter().any(|field| field.requests() && said.string(*field).is_some())
}
