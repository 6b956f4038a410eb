//! An update of a pending job, the resulting job, and the verdict on both.

use super::{
    Acceptance, Accounting, Change, Command, Fault, Ground, Judgement, Refusal, Remark, Rule, Ruling, Trait,
    shortened,
};
use crate::mend::mended;
use crate::submit::request::{Parsed, Request};

/// An update of a job, as a user sends it.
#[derive(Clone, Debug)]
pub struct Update<'a> {
    /// The job as the user names it, such as `12_3`.
    pub job: &'a [u8],
    /// Whether that is a whole array.
    pub array: bool,
    /// The changes; `None` leaves a value as it is.
    pub request: Parsed<'a>,
    /// Whether this Slurm makes the job's request anew from its strings, as from 23.02 on. Up to 22.05 it changes
    /// entries of the old request, and keeps those that are no longer named.
    pub anew: bool,
    /// What it changes beside QOS, account, partition, reservation, GPUs and what goes with any of them, as scontrol
    /// names it. slurmctld applies an update's fields one by one, the GPUs after most others, and
    /// keeps those already applied when it refuses one. So if anything else is in the update, the QOS may change
    /// without the GPUs.
    pub others: &'a [&'static str],
}

impl<'a> Update<'a> {
    /// Whether it changes nothing else.
    pub(super) fn is_alone(&self) -> bool {
        self.others.is_empty() || !mended("update-alone")
    }

    /// The refusal of a command that names more than slurmctld should read at once.
    pub fn too_much(&self) -> Box<Refusal> {
        Refusal::new(Rule::TooMuchAtOnce, Ground::Site, self.command())
    }

    /// It as a refusal keeps it.
    pub(super) fn command(&self) -> Command {
        Command::Update { job: shortened(self.job), array: self.array, spelling: self.request.spelling }
    }

    /// The job after the update.
    pub(super) fn after<'b>(&self, existing: &Parsed<'b>) -> Parsed<'b>
    where
        'a: 'b,
    {
        let after = self.request.over(existing);
        // `scontrol update qos=` gives the job its default QOS again.
        let qos = after.qos.filter(|name| !name.is_empty());
        after.with_names_of(&Request { qos, ..*after })
    }
}

impl<'a, A: Accounting> Judgement<'_, 'a, A> {
    /// Slurm takes an update in steps, the names first and the GPUs late, and may refuse a step of which the user said
    /// nothing. So a job moves only if it may also be there with its old GPUs.
    pub(super) fn updated(&self) -> Ruling<Acceptance<'a>> {
        let mut passed = Vec::new();
        let left = self.left_behind(&mut passed);
        if let Some(left) = left.clone().filter(|_| self.again) {
            return Err(left);
        }
        match (self.judged(), left) {
            (Ok(_), Some(left)) => Err(left),
            (Err(fault), Some(left)) if fault.rule.is(Trait::Gpus) => Err(left),
            (ruling, _) => ruling.map(|mut accepted| {
                accepted.remarks.append(&mut passed);
                accepted
            }),
        }
    }

    /// Whether the update gives the job another name of a QOS, account, partition or reservation than it has.
    fn moves(&self) -> bool {
        let Some((update, existing)) = self.update else { return false };
        let (new, old) = (&update.request, existing);
        let gives = |new: Option<&[u8]>, old: Option<&[u8]>, same: fn(&[u8], &[u8]) -> bool| {
            new.is_some_and(|new| !same(new, old.unwrap_or_default()))
        };
        gives(new.partition, old.partition, |new, old| new == old)
            || gives(new.reservation, old.reservation, |new, old| new == old)
            || gives(new.qos, old.qos, <[u8]>::eq_ignore_ascii_case)
            || gives(new.account, old.account, <[u8]>::eq_ignore_ascii_case)
    }

    /// What is wrong with the job under its new names and with everything else as it is, if it isn't let pass.
    fn left_behind(&self, passed: &mut Vec<Remark>) -> Option<Fault> {
        let (update, existing) = self.update.filter(|_| self.moves() && mended("moves-by-halves"))?;
        let moved = existing.with_names_of(self.request);
        let refusal = |ground: Ground| self.refusal(Rule::OldRequestStays, ground);
        let case = Judgement::new(&moved, self.policy, self.accounting, None);
        match case.judged() {
            Err(fault) => {
                let mut left = refusal(fault.ground);
                left.correction = fault.correction;
                left.correction.iter_mut().for_each(|said| said.move_to(&update.request));
                Some(left)
            }
            Ok(accepted) => {
                let typed = accepted.remarks.into_iter().find_map(|remark| match remark {
                    Remark::Changed(Change::Type { qos, .. }) => Some(Ground::Qos(qos)),
                    _ => None,
                });
                // What the partition allows isn't about GPUs.
                let most = accepted.most_nodes.and_then(|_| case.most_nodes(&moved));
                let spread = most.filter(|most| Self::may_exceed(existing, *most));
                typed.map(refusal).or_else(|| {
                    let spread = spread.map(|_| refusal(Ground::Site));
                    self.apply_mode(spread, passed).err()
                })
            }
        }
    }
}
