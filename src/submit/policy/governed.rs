//! The rule of types: what a job may not request under a governed QOS, partition or account.

use std::cmp::Ordering;

use super::{
    Accounting, Fault, ForeignTypes, GPU, Governed, Ground, Judgement, Offer, Policy, Rule, TypedLimit,
    Under, plain, shortened,
};
use crate::mend::mended;
use crate::submit::grammar::{Gres, Spelling, Token};
use crate::submit::request::option::{is_option, meant};
use crate::submit::request::{Field, Names, Parsed, Request};
use crate::text::pattern::Case;
use crate::text::sorted;

impl Policy {
    /// Whether GPUs must be typed under a QOS.
    pub fn governs<A: Accounting>(&self, accounting: &A, qos: A::Qos) -> bool {
        let typed = |gres| accounting.typed_limits(qos, gres).next().is_some();
        match &self.governed {
            Governed::Auto => {
                typed(GPU) || self.share_names().any(typed) || self.share_counted(accounting, qos).is_some()
            }
            Governed::Names(patterns) => patterns.match_name(accounting.name(qos), Case::Ignored),
        }
    }

    /// The share of which a QOS allows a number at once, if it has no limit on GPUs: then whole GPUs would come on top
    /// of what it allows.
    pub(super) fn share_counted<A: Accounting>(&self, accounting: &A, qos: A::Qos) -> Option<&[u8]> {
        let limits =
            |gres| accounting.limits_all(qos, gres) || accounting.typed_limits(qos, gres).next().is_some();
        // A limit of 0 forbids shares, and one on minutes doesn't say how many.
        let some = |count: Option<u64>| count.unwrap_or_default() > 0;
        let allows = |gres: &[u8]| {
            let all = some(accounting.limit_on_all(qos, gres).flatten());
            all || accounting.typed_limits(qos, gres).any(|limit| some(limit.count))
        };
        let deny = self.foreign_types == ForeignTypes::Deny && self.gres.has(GPU);
        if !deny || !mended("whole-gpus-under-shares") {
            return None;
        }
        self.share_names().find(|name| self.gres.has(name) && allows(name)).filter(|_| !limits(GPU))
    }
}

impl<A: Accounting> Judgement<'_, '_, A> {
    pub(super) fn governs(&self, qos: A::Qos) -> bool {
        self.policy.governs(self.accounting, qos)
    }

    /// What applies under a QOS, if anything.
    pub(super) fn under_qos<'n>(&self, qos: A::Qos) -> Option<Under<'n, A::Qos>> {
        if self.governs(qos) {
            return Some(Under::Qos(qos));
        }
        if self.policy.governed != Governed::Auto {
            return None;
        }
        let billing = self.accounting.limits_billing(qos);
        if billing && self.bills_any_types() {
            return Some(Under::Billing(qos));
        }
        let limits_all = || self.accounting.limits_all(qos, GPU) || billing && self.bills_all();
        (predicts(self.request) && mended("limits-on-all") && limits_all()).then_some(Under::Total(qos))
    }

    /// The first governed partition in which the job may run.
    pub(super) fn governed_partition(&self) -> Option<&[u8]> {
        self.matching_partition(&self.policy.partitions)
    }

    /// A QOS with a comma is Slurm's list of QOSes (24.11 and newer), or two options without a blank between them.
    /// Slurm later tries a list's QOSes by priority, so a list must not contain a governed QOS.
    pub(super) fn faulty_list(&self, list: Names) -> Option<Fault> {
        if let Some(option) = list.iter().find(|member| is_option(member)) {
            let name = list.iter().find(|name| !name.is_empty()).filter(|name| !is_option(name));
            return Some(self.option_inside(name.unwrap_or_default(), option));
        }
        let mut qoses = self.accounting.qoses_named(&list.of_qoses()).into_iter();
        let governed = qoses.find(|qos| self.governs(*qos)).filter(|_| mended("qos-lists"))?;
        let ground = Ground::Qos(self.accounting.name(governed).to_vec());
        Some(self.refusal(Rule::QosList, ground).asked(shortened(list.text())))
    }

    /// `--qos=NAME,--gres=gpu:2`: if the option alone would be refused too, this uses the correction of that refusal.
    fn option_inside(&self, name: &[u8], option: &[u8]) -> Fault {
        let ground = Ground::Qos(shortened(name));
        let asked = shortened(option);
        let fault = || {
            let meant = [meant(option, self.request.spelling)?];
            let qos = self.accounting.qos_named(name).filter(|qos| self.governs(*qos))?;
            self.broken_rule(&self.request.with(&meant), Under::Qos(qos))
        };
        let mut fault = fault().unwrap_or_else(|| self.refusal(Rule::OptionInsideQos, ground.clone()));
        fault.rule = Rule::OptionInsideQos;
        fault.ground = ground;
        fault.asked(asked)
    }

    /// The first part of the request that the rule of types doesn't allow.
    pub(super) fn broken_rule(&self, request: &Parsed, under: Under<A::Qos>) -> Option<Fault> {
        let mut typed = false;
        for (field, token) in request.tokens() {
            match token {
                Token::Unrecognised(text) => {
                    let refusal = self.type_refusal(Rule::Unreadable, under, GPU, None);
                    return Some(refusal.field(field).asked(shortened(text.shown())));
                }
                Token::Gres(gres) if gres.count > 0 && self.policy.gres.has(gres.name) => {
                    if let Some(rule) = self.type_fault(under, gres) {
                        let refusal = match rule {
                            Rule::GpuUncounted => self.ground_refusal(rule, under),
                            rule => self.type_refusal(rule, under, gres.name, gres.gres_type),
                        };
                        return Some(refusal.field(field).count(gres.count).asked(plain(gres)));
                    }
                    typed |= gres.name == GPU;
                }
                Token::Gres(_) | Token::Cpus(_) | Token::Other => {}
            }
        }
        let wanted = !matches!(under, Under::Account) || self.account_counts_gpus();
        if self.tasks_want_gpus(request) && !typed && self.policy.gres.has(GPU) && wanted {
            // `--ntasks-per-gpu` without a GPU makes slurmctld invent GPUs without a type.
            let refusal = self.type_refusal(Rule::NtasksPerGpuAlone, under, GPU, None);
            return Some(refusal.field(Field::Job).count(invented(request)));
        }
        self.type_of_none(request, under)
            .or_else(|| self.old_request_stays(under))
            .or_else(|| self.not_restated(under))
            .or_else(|| self.tasks_not_alone(under))
            .or_else(|| self.counted_two_ways(request, under))
            .or_else(|| self.uneven_tasks(request, under))
            .or_else(|| self.too_many_nodes(under))
    }

    /// Whether only requests that name their types pass there.
    pub(super) fn wants_types(&self, under: Under<A::Qos>) -> bool {
        match under {
            Under::Qos(_) | Under::Billing(_) | Under::Partition(_) => true,
            Under::Total(_) => false,
            Under::Account => self.account_limits_types(),
        }
    }

    /// Whether Slurm would invent GPUs because none is named. In an update, 0 means the job's current value, which
    /// plugins can't see.
    pub(super) fn tasks_want_gpus(&self, request: &Request) -> bool {
        let said = self.update.is_some_and(|(update, _)| update.request.ntasks_per_tres.is_some());
        request.ntasks_per_tres() > 0 || said && mended("zero-tasks-per-gpu")
    }

    /// Whether an update brings the job under the rule, also by ending an exemption.
    pub(super) fn comes_under(&self, under: Under<A::Qos>) -> bool {
        let Some((update, existing)) = self.update else { return false };
        let other_qos = |qos| {
            let was = existing.qos.unwrap_or_default();
            update.request.qos.is_some() && !was.eq_ignore_ascii_case(self.accounting.name(qos))
        };
        let elsewhere = || update.request.partition.is_some_and(|name| Some(name) != existing.partition);
        let enters = match under {
            Under::Qos(qos) => other_qos(qos),
            Under::Billing(qos) => other_qos(qos) || elsewhere(),
            Under::Partition(_) => elsewhere() || update.request.qos.is_some(),
            Under::Total(_) => return false,
            Under::Account => self.comes_under_an_account(existing, &update.request),
        };
        enters || self.leaves_an_exemption()
    }

    /// An update that brings a job under the rule must name its GPUs itself.
    fn not_restated(&self, under: Under<A::Qos>) -> Option<Fault> {
        let (update, existing) = self.update.filter(|_| self.comes_under(under))?;
        let policed = |gres: &Gres| self.policy.gres.has(gres.name);
        // Slurm may have GPUs of the job's that no string shows.
        let Some((field, gres)) = existing.names(policed) else {
            return Some(self.ground_refusal(Rule::OldRequestStays, under));
        };
        if !update.is_alone() {
            let asked = update.others.join(", ").into_bytes();
            return Some(self.ground_refusal(Rule::NotAlone, under).asked(asked));
        }
        if update.request.names(policed).is_some() {
            return None;
        }
        let refusal = self.type_refusal(Rule::NotRestated, under, gres.name, gres.gres_type);
        Some(refusal.field(field).count(gres.count))
    }

    pub(super) fn type_fault(&self, under: Under<A::Qos>, gres: Gres) -> Option<Rule> {
        let qos = match under {
            Under::Qos(qos) => qos,
            Under::Total(_) => return None,
            Under::Billing(_) if !self.bills_types(gres.name) => return None,
            Under::Account => return self.account_type_fault(gres),
            Under::Partition(_) | Under::Billing(_) => return self.uncounted(gres),
        };
        let deny = self.policy.foreign_types == ForeignTypes::Deny;
        let mut limits = self.accounting.typed_limits(qos, gres.name).peekable();
        let restricted = limits.peek().is_some();
        // A limit on all shares of that name counts each of them, typed or not; one on a type only typed ones.
        if gres.name != GPU && self.accounting.limits_all(qos, gres.name) {
            let billed = || self.accounting.limits_billing(qos) && self.bills_types(gres.name);
            let wanted = gres.gres_type.is_some() || restricted || billed();
            return self.uncounted(gres).filter(|_| wanted);
        }
        if gres.name == GPU && !restricted && self.policy.share_counted(self.accounting, qos).is_some() {
            return Some(Rule::GpuUncounted);
        }
        // No limit of the QOS counts these shares, so they would be parts of GPUs in addition to those that the QOS
        // guarantees.
        if gres.name != GPU && !restricted {
            return deny.then_some(Rule::ShareUncounted);
        }
        let is_it = |known: &[u8]| gres.gres_type.is_some_and(|own| known.eq_ignore_ascii_case(own));
        let has = |limit: TypedLimit| is_it(limit.gres_type) && limit.count != Some(0);
        let foreign = || (restricted && deny && !limits.any(has)).then_some(Rule::TypeForeign);
        self.uncounted(gres).or_else(foreign)
    }

    /// What is wrong with a request that needs a type that counts.
    pub(super) fn uncounted(&self, gres: Gres) -> Option<Rule> {
        match gres.gres_type {
            None => Some(Rule::TypeMissing),
            Some(gres_type) => (!self.is_known(gres.name, gres_type)).then_some(Rule::TypeUnknown),
        }
    }

    /// Whether a type counts: the cluster must have it in this spelling.
    pub(super) fn is_known(&self, gres: &[u8], gres_type: &[u8]) -> bool {
        let mut types = self.accounting.types(gres);
        types.any(|known| self.policy.is_type(known, gres_type)) || !mended("types-known")
    }

    /// A refusal that suggests no other type.
    #[cold]
    pub(super) fn ground_refusal(&self, rule: Rule, under: Under<A::Qos>) -> Fault {
        let ground = match under {
            Under::Qos(qos) | Under::Total(qos) | Under::Billing(qos) => {
                Ground::Qos(self.accounting.name(qos).to_vec())
            }
            Under::Partition(name) => Ground::Partition(shortened(name)),
            Under::Account => self.account_ground(GPU),
        };
        self.refusal(rule, ground)
    }

    /// A refusal with the types that could be named instead; `gres_type` comes first if it is one of them.
    fn type_refusal(&self, rule: Rule, under: Under<A::Qos>, gres: &[u8], gres_type: Option<&[u8]>) -> Fault {
        // For a share that isn't counted, suggest the QOS's whole GPUs.
        let offered = if rule == Rule::ShareUncounted { GPU } else { gres };
        let offer = self.offered(under, offered, gres_type);
        self.ground_refusal(rule, under).gres(shortened(offered)).offer(offer)
    }

    /// The types that can be named for a GRES; `gres_type` comes first if it is one of them.
    pub(super) fn offered(&self, under: Under<A::Qos>, gres: &[u8], gres_type: Option<&[u8]>) -> Offer {
        let limits: Vec<_> = match under {
            Under::Qos(qos) => {
                let limits = self.accounting.typed_limits(qos, gres);
                limits.map(|limit| (limit.gres_type, limit.count)).collect()
            }
            Under::Partition(_) | Under::Total(_) | Under::Billing(_) => Vec::new(),
            Under::Account => self.account_limits(gres),
        };
        let limits = limits.into_iter().map(|(gres_type, count)| (self.written(gres_type), count));
        // A type with a limit of 0 is forbidden, so it isn't suggested.
        let (none, limits): (Vec<_>, Vec<_>) = limits.partition(|(_, count)| *count == Some(0));
        // By name, in whatever order the database or slurmctld lists them: explain must give the same answer.
        let limits = sorted(limits.into_iter(), |(a, _), (b, _)| first_then_by_name(a, b, gres_type));
        let others = none.is_empty() || self.policy.foreign_types == ForeignTypes::Allow;
        if !limits.is_empty() || !others {
            return Offer::OfQos(limits);
        }
        let types = self.accounting.types(gres).map(|gres_type| self.written(gres_type));
        let types = types.filter(|gres_type| none.iter().all(|(not, _)| not != gres_type));
        Offer::OfCluster(sorted(types, |a, b| first_then_by_name(a, b, gres_type)))
    }

    /// A type in the spelling that a user must use.
    pub(super) fn written(&self, gres_type: &[u8]) -> Vec<u8> {
        shortened(self.policy.written(gres_type))
    }
}

/// Whether Slurm counts GPUs before it picks them. Up to 23.11 it counts what it picked, but only up to 23.02 does
/// another spelling tell.
pub(super) fn predicts(request: &Request) -> bool {
    request.spelling == Spelling::Slash
}

/// The number of GPUs that Slurm invents for `--ntasks-per-gpu`.
pub(super) fn invented(request: &Request) -> u64 {
    let gpus = request.num_tasks.unwrap_or(1).div_ceil(u32::from(request.ntasks_per_tres().max(1)));
    u64::from(gpus.max(1))
}

fn first_then_by_name(a: &[u8], b: &[u8], first: Option<&[u8]>) -> Ordering {
    (Some(a) != first, a).cmp(&(Some(b) != first, b))
}
