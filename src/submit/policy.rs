//! Decides whether a submission or an update of a job may pass: under a governed QOS a job must request every GPU by a
//! type that counts.
//!
//! Slurm checks a limit on `gres/gpu:a40` only against requests that name `a40` (resource_limits.html calls that a
//! design limitation). So a request that names no type, a type that no TRES has, or anything that can't be read with
//! certainty would use GPUs that the limit never sees.
//!
//! - [`judge`] and [`judge_update`] read from top to bottom: fault → its consequence → changes.
//! - `governed`: the rule of types; `accounts`: under associations. `site`: rules on shares and on jobs with GPUs, and
//!   what a free QOS sets. `mode`: modes and exemptions.
//! - [`rules`](Policy): what an administrator can set. [`Refusal`]: the data of a message.
//!
//! It only decides; the caller reads the request, answers questions about the accounting database through
//! [`Accounting`], and applies the verdict. An accepted request costs one allocation, for its parts, and
//! [`Accounting`] may need another.

use std::cell::OnceCell;

use crate::submit::grammar::Gres;
use crate::submit::request::{Field, Names, Parsed, Qos, Request};
use under::Under;

mod accounts;
mod billing;
mod correction;
mod entries;
mod governed;
mod lookalike;
mod merged;
mod mode;
mod nodes;
mod per_gpu;
mod refusal;
mod retype;
mod rules;
mod site;
mod small_nodes;
mod under;
mod update;

pub use accounts::{Association, GresLimit};
pub use per_gpu::{Amount, Caps, DefaultMemory, PerGpu};
pub use refusal::{
    Because, Change, Command, Correction, Ground, Offer, QUOTED, Refusal, Remark, Rule, Trait,
};
use refusal::{Fault, plain, shortened};
pub use rules::{
    Exempt, ForeignTypes, Governed, GovernedAccounts, GovernedGres, LimitAdvice, Mode, PartitionRecord,
    Policy, QosRecord, ShareGres, ShareRules, Throttle,
};
pub use small_nodes::LargestGpu;
pub use update::Update;

/// Whole GPUs.
const GPU: &[u8] = b"gpu";

/// The policy's questions to the accounting database.
pub trait Accounting {
    /// An existing QOS.
    type Qos: Copy;
    /// The QOS with that name; Slurm ignores case.
    fn qos_named(&self, name: &[u8]) -> Option<Self::Qos>;
    /// Which of the names are QOSes, in any order. Each name occurs once.
    fn qoses_named(&self, names: &[&[u8]]) -> Vec<Self::Qos> {
        names.iter().filter_map(|name| self.qos_named(name)).collect()
    }
    /// The QOS that slurmctld will give a job that names none.
    fn default_qos(&self, request: &Request) -> DefaultQos<Self::Qos>;
    /// The QOS's own name.
    fn name(&self, qos: Self::Qos) -> &[u8];
    /// The limits of a QOS on types of `gres`, in any order; if one type has several, the lowest.
    fn typed_limits<'s>(&'s self, qos: Self::Qos, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>>;
    /// The lowest limit of a QOS on all of `gres`, of any type, at once; `Some(None)` if only minutes are limited.
    fn limit_on_all(&self, qos: Self::Qos, gres: &[u8]) -> Option<Option<u64>>;
    /// Whether the QOS has a limit on all of `gres`, of any type.
    fn limits_all(&self, qos: Self::Qos, gres: &[u8]) -> bool {
        self.limit_on_all(qos, gres).is_some()
    }
    /// Whether Slurm refuses a job of this QOS that alone exceeds a limit (`DenyOnLimit`), instead of letting it wait.
    fn denies_on_limit(&self, _qos: Self::Qos) -> bool {
        false
    }
    /// Whether the QOS has a limit on `billing` at once.
    fn limits_billing(&self, _qos: Self::Qos) -> bool {
        false
    }
    /// Shows `TRESBillingWeights` of each partition in which the job may run.
    fn billing_weights(&self, _request: &Request, _look: impl FnMut(&[u8])) {}
    /// The types of `gres` that are TRES of this cluster, in lowercase as in Slurm's database, not as nodes spell them.
    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]>;
    /// Whether `gres` is a TRES of this cluster.
    fn counts(&self, gres: &[u8]) -> bool;
    /// The job's user and account.
    fn owner(&self, request: &Request) -> Option<Owner<'_>>;
    /// The most nodes that the job's partitions allow, as Slurm tests a job's maximum of nodes; `None` if there is no
    /// maximum, or if it is unknown.
    fn most_nodes(&self, _request: &Request) -> Option<u32> {
        None
    }
    /// Whether jobs of this QOS may have more nodes than their partition allows (`PartitionMaxNodes`).
    fn passes_max_nodes(&self, _qos: Self::Qos) -> bool {
        false
    }
    /// Shows the associations that will be charged for the job: its user's own, then each account's up to root. If that
    /// depends on the partition, those for every possible partition.
    fn associations<'s>(&'s self, _request: &Request, _look: impl FnMut(Association<'s>)) {}
    /// Whether the cluster has a node with that name.
    fn has_node(&self, _name: &str) -> bool {
        true
    }
    /// Slurm's default in this partition for a job that requests no memory; an empty name means an unknown partition.
    fn default_memory(&self, _partition: &[u8]) -> DefaultMemory {
        DefaultMemory { of_node: Some(true), of_gpu: None }
    }
    /// The partition of a job that names neither a partition nor a reservation.
    fn default_partition(&self) -> Option<&[u8]>;
}

/// The QOS that a job gets if it names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultQos<Qos> {
    /// None, or slurmctld will refuse the job.
    None,
    /// This one.
    One(Qos),
    /// One of these: it depends on the partition, which Slurm will take from the job's reservation.
    OneOf(Vec<Qos>),
}

/// A job's association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The user's name.
    pub user: &'a [u8],
    /// The account to charge.
    pub account: &'a [u8],
}

/// A limit of a QOS on one type of a GRES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedLimit<'a> {
    /// The type, such as `a40`.
    pub gres_type: &'a [u8],
    /// How many GPUs at once, on one node or on all; `None` if only minutes are limited.
    pub count: Option<u64>,
    /// How many at once on all nodes.
    pub of_job: Option<u64>,
}

/// The result for a submission or an update: it passes with these additions, or the user gets the reason why not.
pub type Verdict<'a> = Result<Acceptance<'a>, Box<Refusal>>;

/// Values to write into an accepted request, and remarks about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acceptance<'a> {
    /// The default QOS that was checked. It is written into the job, so that slurmctld uses no other.
    pub pin_qos: Option<&'a [u8]>,
    /// The default account whose limits were checked. It is written into the job for the same reason: a user may change
    /// their default account.
    pub pin_account: Option<&'a [u8]>,
    /// The job's share of one GPU, for the node: the GRES and its units.
    pub share: Option<(&'a str, u64)>,
    /// The maximum number of nodes for the job, if the job allows more or has no maximum: with more nodes, Slurm would
    /// give it more GPUs than it counts.
    pub most_nodes: Option<u32>,
    /// The nodes on which the job must not run: those that it excludes itself, and those whose GPUs are too small for
    /// its share.
    pub excluded_nodes: Option<Vec<u8>>,
    /// The job may not start again: the reservation that lets it pass may have ended, and slurmctld asks no plugin.
    pub once: bool,
    /// What is changed or let pass. Usually empty.
    pub remarks: Vec<Remark>,
}

/// Checks a submission. Total: any bytes give a verdict.
///
/// # Errors
/// It is refused.
pub fn judge<'a, A: Accounting>(request: &Request, policy: &'a Policy, accounting: &'a A) -> Verdict<'a> {
    let asked = Parsed::from(*request);
    Judgement::new(&asked, policy, accounting, None).ruled()
}

/// Checks an update of a pending job. `update` has the user's changes, `existing` the current job.
///
/// Slurm shows a plugin less than it keeps of a job: not the tasks per GPU, and in some releases a GPU request survives
/// when its strings are emptied. So a job can move into a governed QOS only if the same command names its GPUs: then
/// Slurm makes the request anew, or refuses the update itself.
///
/// # Errors
/// It is refused.
pub fn judge_update<'a, A: Accounting>(
    update: &Update,
    existing: &Request,
    policy: &'a Policy,
    accounting: &'a A,
) -> Verdict<'a> {
    let existing = Parsed::from(existing.without_defaults());
    let after = update.after(&existing);
    Judgement::new(&after, policy, accounting, Some((update, &existing))).ruled()
}

/// The state for checking one request.
struct Judgement<'r, 'a, A: Accounting> {
    /// What Slurm will act on.
    request: &'r Parsed<'r>,
    policy: &'a Policy,
    accounting: &'a A,
    /// For an update: the changes, and the current job.
    update: Option<(&'r Update<'r>, &'r Parsed<'r>)>,
    /// Whether this checks a correction of gpushare's own: then nothing is let pass.
    again: bool,
    /// How much GPU memory the user requested of the share, in MiB; 0 if they requested units.
    mebibytes: u64,
    /// See [`Judgement::governing`]; looked up only when needed.
    governing: OnceCell<Vec<Association<'a>>>,
    /// The GRES that the job's partitions bill; slurmctld packs each partition for them, so they are asked for once.
    billed: OnceCell<Vec<Vec<u8>>>,
}

type Ruling<T> = Result<T, Fault>;

impl<'r, 'a, A: Accounting> Judgement<'r, 'a, A> {
    fn new(
        request: &'r Parsed<'r>,
        policy: &'a Policy,
        accounting: &'a A,
        update: Option<(&'r Update<'r>, &'r Parsed<'r>)>,
    ) -> Self {
        let (governing, billed) = Default::default();
        Judgement { request, policy, accounting, update, again: false, mebibytes: 0, governing, billed }
    }

    /// The verdict on a submission or an update without GPU memory.
    fn settled(&self) -> Ruling<Acceptance<'a>> {
        if self.update.is_some() { self.updated() } else { self.judged() }
    }

    /// The verdict on a submission, or on an update as if Slurm took it in one step.
    fn judged(&self) -> Ruling<Acceptance<'a>> {
        self.not_too_long()?;
        let mut accepted = Acceptance::default();
        let concerns_gpus = self.update.is_some() || self.request.may_use_gpus();
        self.judge_types(concerns_gpus, &mut accepted)?;
        if concerns_gpus {
            self.apply_mode(self.lookalike(), &mut accepted.remarks)?;
        }
        // Few sites have any of these rules, and what need not run need not be fetched from memory.
        if self.update.is_some() || self.policy.has_site_rules() {
            for rule in [Self::site_fault, Self::share_unclear, Self::share_changed, Self::too_large] {
                self.apply_mode(rule(self), &mut accepted.remarks)?;
            }
            accepted.excluded_nodes = self.nodes_to_exclude();
        }
        accepted.once = self.depends_on_reservation(&accepted.remarks);
        if self.update.is_none() {
            if concerns_gpus {
                accepted.pin_account = self.account_to_pin();
                accepted.share = self.share_of(self.request);
            }
            let asks_for_env = self.request.batch.is_some_and(|batch| batch.user_env);
            if asks_for_env && self.policy.drops_user_env {
                accepted.remarks.push(Remark::Changed(Change::UserEnv));
            }
        }
        Ok(accepted)
    }

    /// Checks by the rule of types, under each QOS that the job may get.
    fn judge_types(&self, concerns_gpus: bool, accepted: &mut Acceptance<'a>) -> Ruling<()> {
        if !concerns_gpus && !self.may_be_favoured() && !matches!(self.request.wanted_qos(), Qos::List(_)) {
            return Ok(());
        }
        match self.request.wanted_qos() {
            Qos::List(names) => self.judge_list(names, accepted),
            Qos::One(name) => {
                let qos = concerns_gpus.then(|| self.accounting.qos_named(name)).flatten();
                self.judge_grounds(qos, true, accepted)?;
                self.favours(name, &mut accepted.remarks);
                Ok(())
            }
            Qos::Default => match self.accounting.default_qos(self.request) {
                DefaultQos::None => self.judge_grounds(None, true, accepted),
                DefaultQos::One(qos) => {
                    let name = self.accounting.name(qos);
                    let is_named = self.update.is_none_or(|(update, _)| update.request.qos.is_some());
                    if concerns_gpus {
                        self.judge_grounds(Some(qos), true, accepted)?;
                        accepted.pin_qos = Some(name).filter(|_| is_named);
                    }
                    self.favours(name, &mut accepted.remarks);
                    Ok(())
                }
                DefaultQos::OneOf(candidates) => self.judge_all(candidates, accepted),
            },
        }
    }

    /// Whichever of these QOSes the job gets, the request must pass under it. Governed QOSes come first, because of the
    /// message.
    fn judge_all(&self, candidates: Vec<A::Qos>, accepted: &mut Acceptance) -> Ruling<()> {
        let (governed, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|qos| self.governs(*qos));
        governed.into_iter().chain(others).try_for_each(|qos| self.judge_grounds(Some(qos), false, accepted))
    }

    /// Checks by the rule of types, under the QOS or otherwise under the partition, and under the account. `only` is
    /// false if the job may get another QOS.
    fn judge_grounds(&self, qos: Option<A::Qos>, only: bool, accepted: &mut Acceptance) -> Ruling<()> {
        let ground = self.ground(qos);
        match self.grounds_fault(ground, accepted) {
            // A type that is filled in for one QOS was not checked under the others.
            Some(fault) if !only && self.mode_of(&fault) == Mode::Default => Err(self.with_correction(fault)),
            None if only => {
                let beyond = qos.and_then(|qos| self.beyond_limit(qos, ground));
                self.advise(beyond, &mut accepted.remarks)
            }
            fault => self.apply_mode(fault, &mut accepted.remarks),
        }
    }

    /// Slurm later tries a list's QOSes, so the job must pass under each that limits all GPUs.
    fn judge_list(&self, list: Names, accepted: &mut Acceptance) -> Ruling<()> {
        self.apply_mode(self.faulty_list(list), &mut accepted.remarks)?;
        self.judge_grounds(None, true, accepted)?;
        if !self.request.may_use_gpus() {
            return Ok(());
        }
        self.accounting.qoses_named(&list.of_qoses()).into_iter().try_for_each(|qos| {
            let Some(under @ (Under::Total(_) | Under::Billing(_))) = self.under_qos(qos) else {
                return Ok(());
            };
            accepted.most_nodes = accepted.most_nodes.or_else(|| self.nodes_to_set());
            self.apply_mode(self.broken_rule(self.request, under), &mut accepted.remarks)
        })
    }

    /// What makes the rule of types apply to this job, if anything; ignores accounts.
    fn ground(&self, qos: Option<A::Qos>) -> Option<Under<'_, A::Qos>> {
        let under = qos.map(|qos| self.under_qos(qos));
        match under {
            Some(Some(Under::Qos(qos))) => Some(Under::Qos(qos)),
            _ => self.governed_partition().map(Under::Partition).or(under.flatten()),
        }
    }

    /// The first fault under any of them. Also sets the maximum number of nodes.
    fn grounds_fault(&self, ground: Option<Under<'_, A::Qos>>, accepted: &mut Acceptance) -> Option<Fault> {
        let fault = ground.and_then(|under| self.broken_rule(self.request, under));
        let account = fault.is_none() && self.is_under_an_account(self.request);
        if (ground.is_some() || account) && accepted.most_nodes.is_none() {
            accepted.most_nodes = self.nodes_to_set();
        }
        fault.or_else(|| account.then(|| self.broken_rule(self.request, Under::Account)).flatten())
    }

    /// What the user's command says.
    fn said(&self) -> &'r Parsed<'r> {
        self.update.map_or(self.request, |(update, _)| &update.request)
    }

    /// A refusal with empty values.
    #[cold]
    fn refusal(&self, rule: Rule, ground: Ground) -> Fault {
        let command = self.update.map_or(Command::Submit, |(update, _)| update.command());
        Refusal::new(rule, ground, command)
    }

    /// A rule of the site's that is broken, and what broke it.
    #[cold]
    fn site_refusal(&self, rule: Rule, asked: Vec<u8>) -> Fault {
        self.refusal(rule, Ground::Site).asked(asked)
    }
}

#[cfg(test)]
mod tests;
