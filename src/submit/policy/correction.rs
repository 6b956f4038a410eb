//! A complete request that would be accepted instead of a refused one. It is checked again before a message suggests
//! it.
//!
//! A refusal names one fault, but a request can have several, in several fields that must fit together. So this fixes a
//! fault, checks the result, and fixes the next fault, until none is left. If a fault can't be fixed, there is no
//! correction.

use super::{
    Accounting, Correction, Fault, Field, GPU, Gres, Ground, Judgement, Names, Offer, QUOTED, Refusal,
    Request, Rule, Under, Update, merged,
};
use crate::mend::mended;
use crate::submit::grammar::{Spelling, Token, tokens};
use crate::submit::request::option::{meant, taken_apart};
use crate::submit::request::{Description, Parsed};

/// As many faults as a request can have in sequence.
const ROUNDS: usize = 6;

/// More parts than anybody asks for: to try types for hundreds takes slurmctld a millisecond or two.
const MOST_PARTS: usize = 64;

impl Correction {
    /// The same request as a correction.
    fn of(request: &Request) -> Correction {
        let said = Description { nodes: None, excluded_nodes: None, ..request.owned() };
        Correction { said, options: Vec::new(), beyond: None, open: Vec::new() }
    }

    /// The part of it that an update that moves a job may contain ([`Update::others`]).
    fn names_and_gpus(&self) -> Correction {
        let all = self.said.borrowed();
        let mut said = Request {
            qos: all.qos,
            account: all.account,
            partition: all.partition,
            reservation: all.reservation,
            ..Request::new(all.spelling)
        };
        for field in Field::ALL.into_iter().filter(|field| field.requests()) {
            *said.string_mut(field) = all.string(field).copied();
        }
        Correction { beyond: self.beyond.clone(), open: self.open.clone(), ..Correction::of(&said) }
    }

    /// Names also where this update moves the job.
    pub(super) fn move_to(&mut self, said: &Request) {
        let names = [said.qos, said.account, said.partition, said.reservation];
        let Description { qos, account, partition, reservation, .. } = &mut self.said;
        for (place, name) in [qos, account, partition, reservation].into_iter().zip(names) {
            *place = place.take().or_else(|| name.filter(|name| !name.is_empty()).map(<[u8]>::to_vec));
        }
    }

    /// Sets some of the strings.
    pub(super) fn set(&mut self, fields: impl IntoIterator<Item = (Field, Vec<u8>)>) {
        for (field, text) in fields {
            *self.said.string_mut(field) = Some(text);
        }
    }

    /// Puts placeholders where only the user knows the value.
    fn finished(mut self) -> Correction {
        for (judged, word) in std::mem::take(&mut self.open) {
            let said = &mut self.said;
            for name in [&mut said.partition, &mut said.reservation] {
                *name = name.take().map(|name| if name == judged { word.clone() } else { name });
            }
            for field in Field::ALL {
                if let Some(text) = said.string_mut(field) {
                    let shown = Names::of(text).iter().map(|part| if part == judged { &word } else { part });
                    *text = shown.collect::<Vec<_>>().join(&b',');
                }
            }
        }
        self
    }
}

impl<A: Accounting> Judgement<'_, '_, A> {
    /// The same refusal with a correction.
    #[cold]
    pub(super) fn with_correction(&self, mut fault: Fault) -> Fault {
        if self.again || self.said().parts().len() > MOST_PARTS {
            return fault;
        }
        let Some(asked) = self.to_begin_with(&fault) else { return fault };
        let mut wanted = asked.clone();
        // A command is never answered with itself. A submission that is checked again is refused again, but in an
        // update another plugin may have added what is wrong, which the user can't leave out.
        let works = self.mend_all(&mut wanted, &fault).is_some()
            && (self.update.is_none() || wanted != asked && wanted != asked.names_and_gpus());
        fault.beyond.clone_from(&wanted.beyond);
        fault.correction = works.then(|| Box::new(self.told(wanted, &fault)));
        fault
    }

    #[inline(never)]
    fn mend_all(&self, wanted: &mut Correction, first: &Refusal) -> Option<()> {
        let mut fault = self.mended(wanted, first)?;
        for _ in 1..ROUNDS {
            let Some(next) = fault else { return Some(()) };
            fault = self.mended(wanted, &next)?;
        }
        None
    }

    /// The user's own request. Of the names, only those that the command must repeat.
    fn to_begin_with(&self, fault: &Refusal) -> Option<Correction> {
        match self.update {
            Some((update, _)) if update.job.len() <= QUOTED => {
                let mut all = Correction::of(&update.request);
                // Not every release takes an empty name for the default.
                if let (Some([]), Ground::Qos(name)) = (all.said.qos.as_deref(), &fault.ground) {
                    all.said.qos = Some(name.clone());
                }
                Some(all)
            }
            Some(_) => None,
            None => {
                // CPUs and memory only if they must change.
                let kept = Request {
                    qos: None,
                    account: self.request.account.filter(|_| matches!(fault.ground, Ground::Account { .. })),
                    partition: None,
                    reservation: None,
                    cpus_per_node: None,
                    memory: None,
                    ..**self.request
                };
                let mut all = Correction::of(&kept);
                match &fault.ground {
                    Ground::Qos(name) => all.said.qos = Some(name.clone()),
                    Ground::Partition(name) => {
                        let judged = Some(name.as_slice()).filter(|name| !name.is_empty());
                        all.said.partition = self.request.partition.or(judged).map(<[u8]>::to_vec);
                    }
                    Ground::Account { .. } | Ground::Site => {}
                }
                if !mended("corrections-complete") {
                    all.said.num_tasks = None;
                    all.said.min_nodes = None;
                }
                Some(all)
            }
        }
    }

    /// Fixes one fault; returns the next fault, if there is one. `None` if the fault can't be fixed.
    fn mended(&self, wanted: &mut Correction, fault: &Refusal) -> Option<Option<Fault>> {
        self.mend(wanted, fault)?;
        let Some((update, existing)) = self.update else {
            let request = self.effective(wanted);
            let again =
                Judgement { again: true, ..Judgement::new(&request, self.policy, self.accounting, None) };
            let next = again.ruled().err();
            // What sbatch would make of it isn't checked here.
            return Some(next).filter(|next| next.is_some() || !request.leaves_tasks_to_sbatch());
        };
        let request = Parsed::from(wanted.said.borrowed());
        let others: &[&'static str] = if *wanted == wanted.names_and_gpus() { &[] } else { &["more"] };
        let update = &Update { request, others, ..update.clone() };
        let after = update.after(existing);
        let update = Some((update, existing));
        let again = Judgement { again: true, ..Judgement::new(&after, self.policy, self.accounting, update) };
        Some(again.ruled().err())
    }

    fn mend(&self, wanted: &mut Correction, fault: &Refusal) -> Option<()> {
        let under = match &fault.ground {
            Ground::Qos(name) => {
                let qos = self.accounting.qos_named(name);
                qos.and_then(|qos| self.under_qos(qos).or(Some(Under::Qos(qos))))
            }
            Ground::Partition(name) => Some(Under::Partition(name)),
            Ground::Account { .. } => Some(Under::Account),
            Ground::Site => None,
        };
        let before = wanted.clone();
        let request = &self.effective(&before);
        match fault.rule {
            Rule::NtasksPerGpuAlone
                if fault.ground == Ground::Site || under.is_some_and(|under| !self.wants_types(under)) =>
            {
                add_gpus(request, wanted, Field::Job, fault.count)
            }
            Rule::TypeMissing
            | Rule::TypeUnknown
            | Rule::TypeForeign
            | Rule::Unreadable
            | Rule::ShareUncounted
            | Rule::NtasksPerGpuAlone => self.retype(request, wanted, under?),
            Rule::NotRestated => self.restate(request, wanted, under),
            Rule::QosList => {
                let Ground::Qos(name) = &fault.ground else { return None };
                wanted.said.qos = Some(name.clone());
                Some(())
            }
            Rule::OptionInsideQos => self.take_apart(wanted),
            Rule::ShareForm
            | Rule::ShareSize
            | Rule::ShareMemory
            | Rule::ShareReservation
            | Rule::WholeGpu => self.mend_share(request, wanted, fault),
            Rule::GpuMissing if fault.ground == Ground::Partition(Vec::new()) => {
                wanted.said.partition = Some(b"NAME".to_vec());
                Some(())
            }
            Rule::GpuMissing => add_gpus(request, wanted, fault.field, fault.count),
            Rule::TooManyCpus | Rule::TooMuchMemory => self.fit(request, wanted),
            Rule::TypeOfNone => {
                let spelling = wanted.said.spelling;
                let said = &mut wanted.said;
                for text in [&mut said.cpus_per_tres, &mut said.mem_per_tres].into_iter().flatten() {
                    *text = untyped(text, spelling);
                }
                Some(())
            }
            Rule::TooManyNodes => {
                wanted.said.min_nodes = u32::try_from(fault.count).ok();
                wanted.said.max_nodes = None;
                Some(())
            }
            Rule::TasksUneven => self.fill_nodes(request, wanted),
            Rule::NotAlone if fault.field == Field::Task => None,
            Rule::NotAlone => {
                *wanted = wanted.names_and_gpus();
                Some(())
            }
            Rule::GpuUncounted => {
                let fault = self.share_instead(request, under?)?;
                self.mend_share(request, wanted, &fault)
            }
            Rule::TooLong
            | Rule::TooMuchAtOnce
            | Rule::ShareFixed
            | Rule::TypeResembles
            | Rule::BeyondLimit
            | Rule::OldRequestStays
            | Rule::CountedTwoWays => None,
        }
    }

    /// The correction without what the user's command already has, if only a name was wrong.
    fn told(&self, wanted: Correction, fault: &Refusal) -> Correction {
        let names_alone = self.to_begin_with(fault).is_some_and(|asked| {
            let mut rest = wanted.clone();
            rest.said.qos.clone_from(&asked.said.qos);
            rest.said.partition.clone_from(&asked.said.partition);
            rest.open = Vec::new();
            rest == asked
        });
        if self.update.is_some() || !names_alone {
            return wanted.finished();
        }
        let Correction { said, open, .. } = wanted;
        let said = Description { qos: said.qos, partition: said.partition, ..Description::default() };
        Correction { said, options: Vec::new(), beyond: None, open }.finished()
    }

    /// The request as it would be checked.
    pub(super) fn effective<'s>(&'s self, wanted: &'s Correction) -> Parsed<'s> {
        let existing: &Request = self.update.map_or(self.request, |(_, existing)| existing);
        Parsed::from(wanted.said.borrowed().over(existing))
    }

    /// Makes a share of an allowed size, counted per node, in a reservation that may have shares.
    fn mend_share(&self, request: &Parsed, wanted: &mut Correction, fault: &Refusal) -> Option<()> {
        let units = match (fault.rule, &fault.offer) {
            (Rule::ShareReservation, Offer::Reservations(parts)) => {
                let name = parts.first()?.clone().into_bytes();
                wanted.open.push((name.clone(), b"NAME".to_vec()));
                wanted.said.reservation = Some(name);
                return Some(());
            }
            (Rule::WholeGpu, _) if fault.ground == Ground::Partition(Vec::new()) => {
                wanted.said.partition = Some(b"NAME".to_vec());
                return Some(());
            }
            (Rule::WholeGpu, Offer::Sizes(sizes)) => {
                let is_ours = fault.gres == self.policy.share_gres.0.as_bytes();
                sizes.iter().copied().max().or(self.policy.shares.most.filter(|_| is_ours))?
            }
            (Rule::ShareSize, Offer::Sizes(sizes)) => {
                let fitting = sizes.iter().filter(|size| **size >= fault.count).min();
                *fitting.or_else(|| sizes.iter().max())?
            }
            (Rule::ShareSize, Offer::UpTo(most)) => *most,
            _ => fault.count,
        };
        let by_memory = self.policy.memory_gres.as_deref().map(str::as_bytes);
        let goes = |name: &[u8]| {
            name == fault.gres
                || by_memory == Some(name)
                || (by_memory == Some(&fault.gres) && self.policy.is_share(name))
                || (fault.rule == Rule::WholeGpu && name == GPU)
        };
        let kept = |token: Token| match token {
            Token::Gres(gres) => !goes(gres.name),
            Token::Cpus(_) | Token::Other => true,
            Token::Unrecognised(_) => false,
        };
        let gres_type = request.names(|gres| gres.name == fault.gres).and_then(|(_, gres)| gres.gres_type);
        let share = Gres {
            name: &fault.gres,
            gres_type: gres_type.filter(|_| fault.rule != Rule::WholeGpu),
            count: units,
        };
        for field in Field::ALL.into_iter().filter(|field| field.requests()) {
            let parts = request.parts_of(field).filter(|part| kept(part.token)).map(|part| part.text);
            let text = parts.collect::<Vec<_>>().join(&b',');
            if field == Field::Node {
                let token = merged::written(share, request.spelling);
                wanted.set([(field, merged::before(token, Some(&text)))]);
            } else if request.string(field).is_some() {
                wanted.set([(field, text)]);
            }
        }
        Some(())
    }

    /// Where a QOS counts only shares, the fault of a GPU in a partition for shares only, with the largest share of
    /// which the job may have one on each node. `None` if it is unknown how large a share can be.
    fn share_instead(&self, request: &Parsed, under: Under<A::Qos>) -> Option<Fault> {
        let Under::Qos(qos) = under else { return None };
        let share = self.policy.share_counted(self.accounting, qos)?;
        let of_types = self.accounting.typed_limits(qos, share).filter_map(|limit| limit.count).max();
        let most = self.accounting.limit_on_all(qos, share).flatten().into_iter().chain(of_types).min()?;
        let each = most.checked_div(request.times(Field::Node))?;
        let rules = &self.policy.shares;
        let size = if rules.sizes.is_empty() {
            let of_gpu = rules.most.filter(|_| share == self.policy.share_gres.0.as_bytes());
            of_gpu.map(|units| units.min(each))
        } else {
            rules.sizes.iter().copied().filter(|size| *size <= each).max()
        };
        let size = size.filter(|size| *size > 0)?;
        let fault = self.ground_refusal(Rule::WholeGpu, under).gres(share.to_vec());
        Some(fault.offer(Offer::Sizes(vec![size])))
    }

    /// Splits `--qos=NAME,--gres=gpu:2` into the options that were meant.
    fn take_apart(&self, wanted: &mut Correction) -> Option<()> {
        let (name, options) = taken_apart(Names::of(self.said().qos?))?;
        wanted.said.qos = Some(name.to_vec());
        for option in options {
            match meant(&option, wanted.said.spelling) {
                // Which of the two would apply depends on where each was given.
                Some((field, _)) if wanted.said.string(field).is_some() => return None,
                Some(string) => wanted.set([string]),
                // An update with such options isn't written.
                None => wanted.options.push(option),
            }
        }
        Some(())
    }
}

/// Adds this many GPUs to those that a correction has.
fn add_gpus(request: &Parsed, wanted: &mut Correction, field: Field, count: u64) -> Option<()> {
    let gpus = merged::written(Gres { name: GPU, gres_type: None, count }, request.spelling);
    wanted.set([(field, merged::before(gpus, request.string(field).copied()))]);
    Some(())
}

/// The tokens of a string without their types.
fn untyped(text: &[u8], spelling: Spelling) -> Vec<u8> {
    let plain = tokens(text, spelling).filter_map(|(_, token)| match token {
        Token::Gres(gres) => Some(merged::written(Gres { gres_type: None, ..gres }, spelling)),
        Token::Cpus(_) | Token::Other | Token::Unrecognised(_) => None,
    });
    plain.collect::<Vec<_>>().join(&b',')
}
