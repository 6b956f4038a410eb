//! The consequence of a fault: exemptions, modes, and the type that `Mode=default` fills in.

use super::merged::written;
use super::retype::filled;
use super::{
    Accounting, Because, Change, Command, Fault, GPU, Ground, Judgement, LimitAdvice, Mode, Owner, Refusal,
    Remark, Rule, Ruling, Trait, Under, plain,
};
use crate::mend::mended;
use crate::submit::grammar::Gres;
use crate::submit::request::{Field, Names, Partitions, Request};
use crate::text::pattern::{Case, Patterns};

impl<A: Accounting> Judgement<'_, '_, A> {
    /// Refuses the request, or records why it passes.
    pub(super) fn apply_mode(&self, fault: Option<Fault>, remarks: &mut Vec<Remark>) -> Ruling<()> {
        let Some(fault) = fault else { return Ok(()) };
        if self.again || fault.rule.is(Trait::Always) {
            return Err(self.with_correction(fault));
        }
        if let Some(because) = self.exemption(self.request).filter(|because| covers(*because, fault.rule)) {
            remarks.push(Remark::Passed(fault, because));
            return Ok(());
        }
        remarks.push(match self.mode_of(&fault) {
            Mode::Enforce => return Err(self.with_correction(fault)),
            Mode::Warn => Remark::Passed(self.with_correction(fault), Because::Warn),
            Mode::Audit => Remark::Passed(self.with_correction(fault), Because::Audit),
            Mode::Default => match self.with_type(&fault) {
                Some(change) => Remark::Changed(change),
                None => return Err(self.with_correction(fault)),
            },
        });
        Ok(())
    }

    /// A request that can't run until its limit is raised: by default the user gets a note.
    pub(super) fn advise(&self, beyond: Option<Fault>, remarks: &mut Vec<Remark>) -> Ruling<()> {
        let Some(beyond) = beyond else { return Ok(()) };
        remarks.push(match (self.policy.limit_advice, self.mode_of(&beyond)) {
            // A QOS's LimitFactor, or the QOS of a partition, may raise the limit of an account.
            (LimitAdvice::Refuse, Mode::Enforce | Mode::Default)
                if matches!(beyond.ground, Ground::Qos(_)) =>
            {
                return Err(beyond);
            }
            (_, Mode::Audit) => Remark::Passed(beyond, Because::Audit),
            _ => Remark::Passed(beyond, Because::Warn),
        });
        Ok(())
    }

    /// The mode of the QOS that has the rule. If a list, a partition, an account or the site has it, the strictest mode
    /// of the QOSes that the job may get: of a list, of those that are governed.
    pub(super) fn mode_of(&self, fault: &Refusal) -> Mode {
        let names = match &fault.ground {
            Ground::Qos(_) if fault.rule == Rule::QosList => {
                let governing =
                    self.possible_qoses(self.request).into_iter().filter(|qos| self.governs(*qos));
                governing.map(|qos| self.accounting.name(qos)).collect()
            }
            Ground::Qos(name) => return self.policy.mode(name),
            Ground::Partition(_) | Ground::Account { .. } | Ground::Site => self.names_of_qoses(self.request),
        };
        let modes: Vec<Mode> = names.into_iter().map(|name| self.policy.mode(name)).collect();
        let mut strict = [Mode::Enforce, Mode::Default, Mode::Warn].into_iter();
        strict.find(|mode| modes.contains(mode)).unwrap_or(Mode::Audit)
    }

    /// Whether an update ends a job's exemption, during which it may have got GPUs that Slurm doesn't show.
    pub(super) fn leaves_an_exemption(&self) -> bool {
        let was = self.update.and_then(|(_, existing)| self.exemption(existing));
        was.is_some() && self.exemption(self.request).is_none()
    }

    /// Why the request is exempt, if it is. A job with a list of partitions or reservations is exempt only if all of
    /// them are.
    fn exemption(&self, request: &Request) -> Option<Because> {
        let exempt = &self.policy.exempt;
        let all = |patterns: &Patterns, list: Names| {
            let matches = |name: &[u8]| !name.is_empty() && patterns.match_name(name, Case::Counts);
            !patterns.is_empty() && list.iter().all(matches)
        };
        let partitions = match request.partitions() {
            Partitions::Named(names) => Some(names),
            Partitions::OfReservation => None,
            Partitions::Default => self.accounting.default_partition().map(Names::of),
        };
        if partitions.is_some_and(|names| all(&exempt.partitions, names)) {
            return Some(Because::Partition);
        }
        // A crontab's job starts again when the reservation may have ended.
        let reservations = request.reservations().filter(|_| !request.recurs);
        if reservations.is_some_and(|names| all(&exempt.reservations, names)) {
            return Some(Because::Reservation);
        }
        if exempt.users.is_empty() && exempt.accounts.is_empty() {
            return None;
        }
        let number = request.user_id.to_string();
        let owner = self.accounting.owner(request);
        let Owner { user, account } = owner.unwrap_or(Owner { user: b"", account: b"" });
        let is_exempt =
            |patterns: &Patterns, name: &[u8]| !name.is_empty() && patterns.match_name(name, Case::Ignored);
        if is_exempt(&exempt.users, user) || exempt.users.iter().any(|pattern| pattern == number) {
            return Some(Because::User);
        }
        is_exempt(&exempt.accounts, account).then_some(Because::Account)
    }

    /// The request with the QOS's type where it names none; `None` if that doesn't fix it.
    fn with_type(&self, fault: &Refusal) -> Option<Change> {
        let Ground::Qos(name) = &fault.ground else { return None };
        let qos = self.accounting.qos_named(name)?;
        let gres_type = self.type_to_fill_in(qos, name)?;
        let fields = match fault.rule {
            Rule::TypeMissing if fault.gres == GPU => filled(self.said(), &gres_type),
            Rule::NtasksPerGpuAlone if fault.command == Command::Submit => {
                vec![(Field::Job, self.invented(fault, &gres_type)?)]
            }
            _ => return None,
        };
        let given = plain(Gres { name: GPU, gres_type: Some(&gres_type), count: fault.count });
        let changed = self.request.with(&fields);
        let left = self.broken_rule(&changed, Under::Qos(qos)).or_else(|| self.account_fault(&changed));
        if changed.overlong().is_some() || left.is_some() {
            return None;
        }
        Some(Change::Type { qos: name.clone(), asked: fault.asked.clone(), given, fields })
    }

    fn type_to_fill_in(&self, qos: A::Qos, name: &[u8]) -> Option<Vec<u8>> {
        if let Some(named) = self.policy.of_qos(name, |record| record.default_type.clone()) {
            return Some(named.into_bytes());
        }
        let mut gres_types = self.accounting.typed_limits(qos, GPU).filter(|limit| limit.count != Some(0));
        let only = gres_types.next().map(|limit| self.written(limit.gres_type));
        only.filter(|_| gres_types.next().is_none())
    }

    /// The number of GPUs that Slurm would have invented for `--ntasks-per-gpu`, if the tasks divide evenly.
    fn invented(&self, fault: &Refusal, gres_type: &[u8]) -> Option<Vec<u8>> {
        let tasks = u64::from(self.request.num_tasks?);
        let even = fault.count.checked_mul(u64::from(self.request.ntasks_per_tres())) == Some(tasks);
        let token = Gres { name: GPU, gres_type: Some(gres_type), count: fault.count };
        (even && self.request.tres_per_job.is_none()).then(|| written(token, self.request.spelling))
    }
}

/// Whether an exemption covers a broken rule. An update shows only one QOS of a list, so an exemption that a job can
/// leave doesn't cover lists. A reservation ends without a question to a plugin, and then only the job's strings can be
/// checked. So an exemption by reservation doesn't cover what the strings don't show.
fn covers(because: Because, rule: Rule) -> bool {
    let seen_later =
        !matches!(rule, Rule::NtasksPerGpuAlone | Rule::NotRestated | Rule::OldRequestStays | Rule::NotAlone);
    match because {
        Because::Reservation => (seen_later || !mended("reservation-seen-later")) && rule != Rule::QosList,
        Because::Partition | Because::Account => rule != Rule::QosList,
        Because::User | Because::Warn | Because::Audit => true,
    }
}
