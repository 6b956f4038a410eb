//! Decides whether a submission may pass: under a governed QOS every GPU must be asked for by a type that counts.
//!
//! Slurm checks a limit on `gres/gpu:a40` only against requests that say `a40` (resource_limits.html calls that a
//! design limitation). So a request that names no type, a type that no TRES has, or anything that isn't plainly readable
//! would use up GPUs that the limit never sees.
//!
//! It decides only; the caller reads the request, answers questions about the accounting database through
//! [`Accounting`], and applies the verdict. Nothing is allocated unless the verdict is a refusal.

use crate::grammar::{Gres, Token};
use crate::request::{Field, Request};

/// The GRES whose types are policed.
const GPU: &[u8] = b"gpu";
/// The GRES of which a job gets a share of one GPU.
const SHARE: &[u8] = b"mps";

/// The administrator's rules of submission, from gpushare.conf.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// `GovernedQOS`
    pub governed: Governed,
    /// `ForeignTypes`
    pub foreign_types: ForeignTypes,
}

/// Under which QOSes GPUs must be typed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Governed {
    /// Every QOS that carries a limit on `gres/gpu:TYPE`.
    #[default]
    Auto,
    /// Those whose name matches one of these patterns (`*` stands for any characters; case does not count).
    Names(Vec<String>),
}

/// May a governed QOS be used for a GPU type that it has no limit on?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ForeignTypes {
    /// No: the QOS is for the types it lists.
    #[default]
    Deny,
    /// Yes, for any type that Slurm knows.
    Allow,
}

/// What the policy asks of the accounting database.
pub trait Accounting {
    /// A QOS that exists.
    type Qos: Copy;
    /// The QOS of that name; Slurm compares without case.
    fn qos_named(&self, name: &[u8]) -> Option<Self::Qos>;
    /// The QOS that slurmctld will give a job that names none.
    fn default_qos(&self, request: &Request) -> Option<Self::Qos>;
    /// The QOS's own name.
    fn name(&self, qos: Self::Qos) -> &[u8];
    /// The limits of a QOS on types of `gres`, in any order; of several on one type, the lowest.
    fn typed_limits<'s>(&'s self, qos: Self::Qos, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>>;
    /// The types of `gres` that are TRES of this cluster, in Slurm's spelling: it matches nodes letter by letter.
    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]>;
}

/// A limit of a QOS on one type of a GRES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedLimit<'a> {
    /// The type, such as `a40`.
    pub kind: &'a [u8],
    /// How many GPUs at once; `None` where only minutes are limited.
    pub count: Option<u64>,
}

/// What becomes of a submission.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict<'a> {
    /// It passes, with these additions.
    Accept(Acceptance<'a>),
    /// It is refused; the user gets the reason.
    Refuse(Box<Refusal>),
}

/// What is written into an accepted submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance<'a> {
    /// The default QOS that was judged, to be written into the job so that slurmctld takes no other.
    pub pin_qos: Option<&'a [u8]>,
    /// Units of the job's share of one GPU, for the node.
    pub share_units: Option<u64>,
}

/// Why a submission is refused, and what the message needs to help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that was broken.
    pub rule: Rule,
    /// The QOS as Slurm names it, or as it was asked for where it doesn't exist.
    pub qos: Vec<u8>,
    /// The token at fault, without Slurm's prefix; at most [`QUOTED`] bytes.
    pub asked: Vec<u8>,
    /// Where the token stood.
    pub field: Field,
    /// GPUs asked for by the token.
    pub count: u64,
    /// `--ntasks-per-gpu`; 0 where not given.
    pub ntasks_per_gpu: u16,
    /// What the QOS has; where it has no limits, the types of the cluster.
    pub offer: Offer,
}

/// The types that a message can offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Types that the QOS has limits on, and how many at once; `None` where only minutes are limited.
    OfQos(Vec<(Vec<u8>, Option<u64>)>),
    /// All types that the cluster has.
    OfCluster(Vec<Vec<u8>>),
}

/// How much of a user's text a refusal keeps.
pub const QUOTED: usize = 120;

/// The rules, each with its number in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// GS101
    TypeMissing,
    /// GS102
    TypeUnknown,
    /// GS103
    TypeForeign,
    /// GS104
    Unreadable,
    /// GS105
    NtasksPerGpuAlone,
    /// GS106
    QosList,
    /// GS107
    OptionInsideQos,
    /// GS108
    TooLong,
}

/// Judges a submission. Total: any bytes give a verdict.
pub fn judge<'a, A: Accounting>(request: &Request, policy: &Policy, accounting: &'a A) -> Verdict<'a> {
    let judgement = Judgement { request, policy, accounting };
    let list = request.qos.filter(|text| text.contains(&b','));
    let (qos, is_default) = match request.qos {
        _ if request.overlong().is_some() || list.is_some() || !request.may_use_gpus() => (None, false),
        Some(name) => (accounting.qos_named(name), false),
        None => (accounting.default_qos(request), true),
    };
    let fault = match (request.overlong(), list) {
        (Some(text), _) => Some(judgement.refusal(Rule::TooLong, None, text)),
        (None, Some(list)) => judgement.faulty_list(list),
        (None, None) => qos.and_then(|qos| judgement.broken_rule(qos)),
    };
    match fault {
        Some(refusal) => Verdict::Refuse(Box::new(refusal)),
        // Without a QOS that exists there is nothing to judge: slurmctld refuses the job, or it has no limits to pass.
        None => {
            let share_units = request.share(SHARE).map(|share| share.count);
            let pin_qos = qos.filter(|_| is_default).map(|qos| accounting.name(qos));
            Verdict::Accept(Acceptance { pin_qos, share_units })
        }
    }
}

struct Judgement<'r, A: Accounting> {
    request: &'r Request<'r>,
    policy: &'r Policy,
    accounting: &'r A,
}

impl<A: Accounting> Judgement<'_, A> {
    /// A QOS with a comma is Slurm's list of QOSes (24.11 and newer), or two options run together. Slurm tries a list's
    /// QOSes by priority later on, so no governed QOS may be in one.
    fn faulty_list(&self, text: &[u8]) -> Option<Refusal> {
        let members = || text.split(|byte| *byte == b',').filter(|member| !member.is_empty());
        if let Some(option) = members().find(|member| member.starts_with(b"-")) {
            let name = members().next().filter(|name| !name.starts_with(b"-")).unwrap_or_default();
            let mut refusal = self.refusal(Rule::OptionInsideQos, self.accounting.qos_named(name), option);
            refusal.qos = shortened(name);
            return Some(refusal);
        }
        let governed =
            members().filter_map(|name| self.accounting.qos_named(name)).find(|qos| self.governs(*qos))?;
        Some(self.refusal(Rule::QosList, Some(governed), text))
    }

    fn governs(&self, qos: A::Qos) -> bool {
        match &self.policy.governed {
            Governed::Auto => self.accounting.typed_limits(qos, GPU).next().is_some(),
            Governed::Names(patterns) => {
                let name = self.accounting.name(qos);
                patterns.iter().any(|pattern| matches(pattern.as_bytes(), name))
            }
        }
    }

    fn broken_rule(&self, qos: A::Qos) -> Option<Refusal> {
        if !self.governs(qos) {
            return None;
        }
        let mut typed = false;
        for (field, token) in self.request.tokens() {
            match token {
                Token::Unrecognised(text) => {
                    let text = text.strip_prefix(self.request.spelling.prefix()).unwrap_or(text);
                    return Some(Refusal { field, ..self.refusal(Rule::Unreadable, Some(qos), text) });
                }
                Token::Gres(gres) if gres.name == GPU && gres.count > 0 => {
                    if let Some(rule) = self.type_fault(qos, gres.kind) {
                        let refusal = self.refusal(rule, Some(qos), &plain(gres));
                        return Some(Refusal { field, count: gres.count, ..refusal });
                    }
                    typed = true;
                }
                Token::Gres(_) | Token::Other => {}
            }
        }
        (self.request.ntasks_per_tres() > 0 && !typed).then(|| {
            let refusal = self.refusal(Rule::NtasksPerGpuAlone, Some(qos), b"");
            // As many GPUs as Slurm would have invented.
            let tasks_each = u32::from(self.request.ntasks_per_tres());
            let gpus = self.request.num_tasks.unwrap_or(1).div_ceil(tasks_each).max(1);
            Refusal { field: Field::Job, count: u64::from(gpus), ..refusal }
        })
    }

    fn type_fault(&self, qos: A::Qos, kind: Option<&[u8]>) -> Option<Rule> {
        let Some(kind) = kind else { return Some(Rule::TypeMissing) };
        if !self.accounting.types(GPU).any(|known| known == kind) {
            return Some(Rule::TypeUnknown);
        }
        let mut limits = self.accounting.typed_limits(qos, GPU).peekable();
        let restricted = limits.peek().is_some() && self.policy.foreign_types == ForeignTypes::Deny;
        let listed = limits.any(|limit| limit.kind.eq_ignore_ascii_case(kind) && limit.count != Some(0));
        (restricted && !listed).then_some(Rule::TypeForeign)
    }

    fn refusal(&self, rule: Rule, qos: Option<A::Qos>, asked: &[u8]) -> Refusal {
        Refusal {
            rule,
            qos: qos.map(|qos| shortened(self.accounting.name(qos))).unwrap_or_default(),
            asked: shortened(asked),
            field: Field::Node,
            count: 1,
            ntasks_per_gpu: self.request.ntasks_per_tres(),
            offer: self.offer(qos),
        }
    }

    fn offer(&self, qos: Option<A::Qos>) -> Offer {
        let limits = qos.into_iter().flat_map(|qos| self.accounting.typed_limits(qos, GPU));
        let limits: Vec<_> = limits.map(|limit| (shortened(limit.kind), limit.count)).collect();
        if limits.is_empty() && qos.is_some() {
            return Offer::OfCluster(self.accounting.types(GPU).map(shortened).collect());
        }
        Offer::OfQos(limits)
    }
}

fn shortened(text: &[u8]) -> Vec<u8> {
    text.iter().copied().take(QUOTED).collect()
}

/// The token as a user would type it after `--gres=`.
fn plain(gres: Gres) -> Vec<u8> {
    let mut text = gres.name.to_vec();
    if let Some(kind) = gres.kind {
        text.push(b':');
        text.extend_from_slice(kind);
    }
    text.extend_from_slice(format!(":{}", gres.count).as_bytes());
    text
}

/// Glob with `*` only, without case. Linear in pattern and name: a `*` is only ever retried from the last one.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut pos) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), name.get(pos)) {
            (Some(b'*'), _) => {
                retry = Some((at, pos));
                at += 1;
            }
            (Some(wanted), Some(found)) if wanted.eq_ignore_ascii_case(found) => {
                at += 1;
                pos += 1;
            }
            (None, None) => return true,
            _ => match retry {
                Some((star, from)) if from < name.len() => {
                    retry = Some((star, from + 1));
                    at = star + 1;
                    pos = from + 1;
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests;
