//! The rule of types: what may not be asked for under a governed QOS, partition or account.

use std::cmp::Ordering;

use super::{
    Accounting, ForeignTypes, GPU, Governed, Ground, Judgement, Offer, Policy, Refusal, Rule, SHARES,
    TypedLimit, shortened,
};
use crate::grammar::{self, Gres, Token};
use crate::pattern::Case;
use crate::request::{Field, Request};

/// What makes the rule apply.
#[derive(Clone, Copy)]
pub(super) enum Under<'n, Qos> {
    Qos(Qos),
    /// By name; empty where Slurm will take the partition from the reservation.
    Partition(&'n [u8]),
    /// The associations of [`Judgement::governing`], of which there is one at least.
    Account,
}

impl Policy {
    /// Whether GPUs must be typed under a QOS.
    pub fn governs<A: Accounting>(&self, accounting: &A, qos: A::Qos) -> bool {
        let typed = |gres| accounting.typed_limits(qos, gres).next().is_some();
        match &self.governed {
            Governed::Auto => typed(GPU) || SHARES.into_iter().any(typed),
            Governed::Names(patterns) => patterns.match_name(accounting.name(qos), Case::Ignored),
        }
    }
}

impl<A: Accounting> Judgement<'_, '_, A> {
    pub(super) fn governs(&self, qos: A::Qos) -> bool {
        self.policy.governs(self.accounting, qos)
    }

    /// The first partition that the job may land in and that is governed.
    pub(super) fn governed_partition(&self) -> Option<&[u8]> {
        self.matching_partition(&self.policy.partitions)
    }

    /// A QOS with a comma is Slurm's list of QOSes (24.11 and newer), or two options run together. Slurm tries a list's
    /// QOSes by priority later on, so no governed QOS may be in one.
    pub(super) fn faulty_list(&self, text: &[u8]) -> Option<Refusal> {
        let mut members: Vec<&[u8]> =
            text.split(|byte| *byte == b',').filter(|name| !name.is_empty()).collect();
        if let Some(option) = members.iter().find(|member| member.starts_with(b"-")) {
            let name = members.first().filter(|name| !name.starts_with(b"-"));
            return Some(self.option_inside(name.copied().unwrap_or_default(), option));
        }
        // Nobody may keep slurmctld busy with five hundred names, or one of them five hundred times.
        members.sort_unstable_by_key(|name| name.to_ascii_lowercase());
        members.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
        let governed = self.accounting.qoses_named(&members).into_iter().find(|qos| self.governs(*qos))?;
        let ground = Ground::Qos(shortened(self.accounting.name(governed)));
        Some(Refusal { asked: shortened(text), ..self.refusal(Rule::QosList, ground) })
    }

    /// `--qos=NAME,--gres=gpu:2`: where the option by itself would be refused too, its correction is that one's.
    fn option_inside(&self, name: &[u8], option: &[u8]) -> Refusal {
        let ground = Ground::Qos(shortened(name));
        let refusal =
            Refusal { asked: shortened(option), ..self.refusal(Rule::OptionInsideQos, ground.clone()) };
        let prefix = self.request.spelling.prefix();
        let options = [
            (Field::Node, b"--gres=".as_slice(), b"".as_slice()),
            (Field::Node, b"--gpus-per-node=", b"gpu:"),
            (Field::Job, b"--gpus=", b"gpu:"),
            (Field::Task, b"--gpus-per-task=", b"gpu:"),
            (Field::Socket, b"--gpus-per-socket=", b"gpu:"),
        ];
        let meant = options.into_iter().find_map(|(field, start, gpu)| {
            option.strip_prefix(start).map(|value| (field, [prefix, gpu, value].concat()))
        });
        let (Some((field, text)), Some(qos)) = (meant, self.accounting.qos_named(name)) else {
            return refusal;
        };
        let alone = self.request.with(field, &text);
        match self.governs(qos).then(|| self.broken_rule(&alone, Under::Qos(qos))).flatten() {
            Some(fault) => Refusal { rule: Rule::OptionInsideQos, ground, asked: refusal.asked, ..fault },
            None => refusal,
        }
    }

    /// The first thing in the request that the rule of types doesn't allow.
    pub(super) fn broken_rule(&self, request: &Request, under: Under<A::Qos>) -> Option<Refusal> {
        let mut typed = false;
        for (field, token) in request.tokens() {
            match token {
                Token::Unrecognised(text) => {
                    let text = text.strip_prefix(request.spelling.prefix()).unwrap_or(text);
                    let refusal = self.type_refusal(Rule::Unreadable, under, GPU, None);
                    return Some(Refusal { field, asked: shortened(text), ..refusal });
                }
                Token::Gres(gres) if gres.count > 0 && self.policy.gres.has(gres.name) => {
                    if let Some(rule) = self.type_fault(under, gres) {
                        let refusal = self.type_refusal(rule, under, gres.name, gres.kind);
                        let others = others(request, field, gres.name);
                        return Some(Refusal {
                            field,
                            count: gres.count,
                            asked: plain(gres),
                            others,
                            ..refusal
                        });
                    }
                    typed |= gres.name == GPU;
                }
                Token::Gres(_) | Token::Other => {}
            }
        }
        let wanted = !matches!(under, Under::Account) || self.account_wants_types();
        if request.ntasks_per_tres() > 0 && !typed && self.policy.gres.has(GPU) && wanted {
            return Some(self.tasks_alone(request, under));
        }
        self.not_restated(under)
    }

    /// `--ntasks-per-gpu` with no GPU makes slurmctld invent some, of no type.
    fn tasks_alone(&self, request: &Request, under: Under<A::Qos>) -> Refusal {
        let refusal = self.type_refusal(Rule::NtasksPerGpuAlone, under, GPU, None);
        // As many GPUs as Slurm would have invented.
        let gpus = request.num_tasks.unwrap_or(1).div_ceil(u32::from(request.ntasks_per_tres())).max(1);
        Refusal { field: Field::Job, count: u64::from(gpus), ..refusal }
    }

    /// An update that brings a job under the rule, also out of an exemption, must name its GPUs itself.
    fn not_restated(&self, under: Under<A::Qos>) -> Option<Refusal> {
        let (update, existing) = self.update?;
        let enters = match under {
            Under::Qos(qos) => {
                let was = existing.qos.unwrap_or_default();
                update.request.qos.is_some() && !was.eq_ignore_ascii_case(self.accounting.name(qos))
            }
            Under::Partition(_) => {
                let (new, old) = (&update.request, existing);
                new.partition.is_some_and(|name| Some(name) != old.partition) || new.qos.is_some()
            }
            Under::Account => self.comes_under_an_account(existing, &update.request),
        };
        let policed = |gres: &Gres| self.policy.gres.has(gres.name);
        if !(enters || self.leaves_an_exemption()) || update.request.names(policed).is_some() {
            return None;
        }
        let Some((field, gres)) = existing.names(policed) else {
            return Some(self.type_refusal(Rule::NotRestated, under, GPU, None));
        };
        let refusal = self.type_refusal(Rule::NotRestated, under, gres.name, gres.kind);
        Some(Refusal { field, count: gres.count, ..refusal })
    }

    fn type_fault(&self, under: Under<A::Qos>, gres: Gres) -> Option<Rule> {
        let known = |kind: &[u8]| self.is_known(gres.name, kind);
        let qos = match under {
            Under::Qos(qos) => qos,
            Under::Account => return self.account_type_fault(gres),
            Under::Partition(_) => {
                return match gres.kind {
                    None => Some(Rule::TypeMissing),
                    Some(kind) => (!known(kind)).then_some(Rule::TypeUnknown),
                };
            }
        };
        // A limit on all shares of that name counts every one of them, typed or not.
        if gres.name != GPU && self.accounting.limits_all(qos, gres.name) {
            return gres.kind.filter(|kind| !known(kind)).map(|_| Rule::TypeUnknown);
        }
        let deny = self.policy.foreign_types == ForeignTypes::Deny;
        let mut limits = self.accounting.typed_limits(qos, gres.name).peekable();
        let restricted = limits.peek().is_some();
        // Shares that no limit of the QOS counts: slices of GPUs beside the GPUs that it guarantees.
        if gres.name != GPU && !restricted {
            return deny.then_some(Rule::ShareUncounted);
        }
        let Some(kind) = gres.kind else { return Some(Rule::TypeMissing) };
        if !known(kind) {
            return Some(Rule::TypeUnknown);
        }
        let has = |limit: TypedLimit| limit.kind.eq_ignore_ascii_case(kind) && limit.count != Some(0);
        (restricted && deny && !limits.any(has)).then_some(Rule::TypeForeign)
    }

    /// Whether a type counts: whether the cluster has it as it is written.
    pub(super) fn is_known(&self, gres: &[u8], kind: &[u8]) -> bool {
        self.accounting.types(gres).any(|known| self.policy.is_type(known, kind))
    }

    /// A refusal with the types that could be named instead, `kind` first where it is one of them.
    fn type_refusal(&self, rule: Rule, under: Under<A::Qos>, gres: &[u8], kind: Option<&[u8]>) -> Refusal {
        let ground = match under {
            Under::Qos(qos) => Ground::Qos(shortened(self.accounting.name(qos))),
            Under::Partition(name) => Ground::Partition(shortened(name)),
            Under::Account => self.account_ground(gres),
        };
        // A share that isn't counted is answered with the QOS's whole GPUs.
        let offered = if rule == Rule::ShareUncounted { GPU } else { gres };
        let limits: Vec<_> = match under {
            Under::Qos(qos) => {
                let limits = self.accounting.typed_limits(qos, offered);
                limits.map(|limit| (limit.kind, limit.count)).collect()
            }
            Under::Partition(_) => Vec::new(),
            Under::Account => self.account_limits(offered),
        };
        let limits = limits.into_iter();
        let mut limits: Vec<_> = limits.map(|(kind, count)| (self.written(kind), count)).collect();
        // By name, whatever the order in which the database or slurmctld lists them: explain must say the same.
        limits.sort_by(|(a, _), (b, _)| first_then_by_name(a, b, kind));
        let offer = if limits.is_empty() {
            let mut types: Vec<_> = self.accounting.types(offered).map(|kind| self.written(kind)).collect();
            types.sort_by(|a, b| first_then_by_name(a, b, kind));
            Offer::OfCluster(types)
        } else {
            Offer::OfQos(limits)
        };
        Refusal { gres: shortened(offered), offer, ..self.refusal(rule, ground) }
    }

    /// A type as a user has to write it.
    pub(super) fn written(&self, kind: &[u8]) -> Vec<u8> {
        shortened(self.policy.written(kind))
    }
}

/// What a field asks for beside a GRES: `cpu=2` in `cpu=2,gres/gpu:1`. Not in an update, which names the field as a whole.
fn others(request: &Request, field: Field, gres: &[u8]) -> Vec<u8> {
    let text =
        request.tres().find(|(place, _)| *place == field).and_then(|(_, text)| text).unwrap_or_default();
    let kept = |part: &&[u8]| match grammar::token(part, request.spelling) {
        Token::Gres(found) => found.name != gres && found.count > 0,
        Token::Other => true,
        Token::Unrecognised(_) => false,
    };
    let parts: Vec<_> = text.split(|byte| *byte == b',').filter(kept).collect();
    shortened(&parts.join(&b','))
}

fn first_then_by_name(a: &[u8], b: &[u8], first: Option<&[u8]>) -> Ordering {
    (Some(a) != first, a).cmp(&(Some(b) != first, b))
}

/// The token as a user would type it after `--gres=`.
pub(super) fn plain(gres: Gres) -> Vec<u8> {
    shortened(&grammar::plain(gres))
}
