//! A complete request that would be accepted instead of a refused one. It is judged again before a message suggests it.
//!
//! A refusal names one fault, but a request can have several, in several fields that must fit together. So this fixes a
//! fault, judges the result, and fixes the next fault, until none is left. If a fault can't be fixed, there is no
//! correction.

use super::refusal::meant;
use super::under::Under;
use super::{
    Accounting, Correction, Field, GPU, Gres, Ground, Judgement, Offer, QUOTED, Refusal, Request, Rule,
    Update, merged,
};
use crate::submit::grammar::{Spelling, Token};
use crate::submit::request::Amounts;

/// As many faults as a request can have in sequence.
const ROUNDS: usize = 6;

impl Correction {
    /// The same request as a correction.
    fn of(request: &Request) -> Correction {
        let own = |text: Option<&[u8]>| text.map(<[u8]>::to_vec);
        let given = |(field, text): (Field, Option<&[u8]>)| Some((field, text?.to_vec()));
        Correction {
            spelling: request.spelling,
            qos: own(request.qos),
            account: own(request.account),
            partition: own(request.partition),
            reservation: own(request.reservation),
            tres: request.tres().filter_map(given).collect(),
            cpus_per_tres: own(request.cpus_per_tres),
            mem_per_tres: own(request.mem_per_tres),
            ntasks_per_tres: request.ntasks_per_tres,
            num_tasks: request.num_tasks,
            min_nodes: request.min_nodes,
            max_nodes: request.max_nodes,
            cpus_per_task: request.cpus_per_task,
            sockets_per_node: request.sockets_per_node,
            ntasks_per_node: request.ntasks_per_node,
            amounts: Amounts::default(),
            options: Vec::new(),
            beyond: None,
            open: Vec::new(),
        }
    }

    /// Applies the correction to a request.
    fn over<'s>(&'s self, request: &Request<'s>) -> Request<'s> {
        let texts = Request {
            qos: self.qos.as_deref().or(request.qos),
            account: self.account.as_deref().or(request.account),
            partition: self.partition.as_deref().or(request.partition),
            reservation: self.reservation.as_deref().or(request.reservation),
            cpus_per_tres: self.cpus_per_tres.as_deref().or(request.cpus_per_tres),
            mem_per_tres: self.mem_per_tres.as_deref().or(request.mem_per_tres),
            ntasks_per_tres: self.ntasks_per_tres.or(request.ntasks_per_tres),
            num_tasks: self.num_tasks.or(request.num_tasks),
            min_nodes: self.min_nodes.or(request.min_nodes),
            max_nodes: self.max_nodes.or(request.max_nodes),
            cpus_per_task: self.cpus_per_task.or(request.cpus_per_task),
            sockets_per_node: self.sockets_per_node.or(request.sockets_per_node),
            ntasks_per_node: self.ntasks_per_node.or(request.ntasks_per_node),
            amounts: self.amounts.over(&request.amounts),
            ..*request
        };
        self.tres.iter().fold(texts, |request, (field, text)| request.with(*field, text))
    }

    /// The part of it that an update that moves a job may contain ([`Update::others`]).
    fn names_and_gpus(&self) -> Correction {
        Correction {
            spelling: self.spelling,
            qos: self.qos.clone(),
            account: self.account.clone(),
            partition: self.partition.clone(),
            reservation: self.reservation.clone(),
            tres: self.tres.clone(),
            beyond: self.beyond,
            open: self.open.clone(),
            ..Correction::of(&Request::new(self.spelling))
        }
    }

    /// Sets one of the strings.
    pub(super) fn set(&mut self, field: Field, text: Vec<u8>) {
        match self.tres.iter_mut().find(|(place, _)| *place == field) {
            Some((_, old)) => *old = text,
            None => self.tres.push((field, text)),
        }
    }

    /// Puts placeholders where only the user knows the value.
    fn finished(mut self) -> Correction {
        for (judged, word) in std::mem::take(&mut self.open) {
            for name in [&mut self.partition, &mut self.reservation] {
                *name = name.take().map(|name| if name == judged { word.clone() } else { name });
            }
            for (_, text) in &mut self.tres {
                let parts =
                    text.split(|byte| *byte == b',').map(|part| if part == judged { &word } else { part });
                *text = parts.collect::<Vec<_>>().join(&b',');
            }
        }
        self
    }
}

impl<A: Accounting> Judgement<'_, '_, A> {
    /// The same refusal with a correction.
    pub(super) fn with_correction(&self, fault: Refusal) -> Refusal {
        if self.again {
            return fault;
        }
        let Some(asked) = self.to_begin_with(&fault) else { return fault };
        let mut wanted = asked.clone();
        // A command is never answered with itself. A submission that is judged again is refused again, but in an update
        // another plugin may have added what is wrong, which the user can't leave out.
        let works = self.mend_all(&mut wanted, &fault).is_some()
            && (self.update.is_none() || wanted != asked && wanted != asked.names_and_gpus());
        let beyond = wanted.beyond;
        let correction = works.then(|| Box::new(self.told(wanted, &fault)));
        Refusal { beyond, correction, ..fault }
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
                let amounts = update.request.amounts;
                let mut said = Correction { amounts, ..Correction::of(&update.request) };
                // Not every release takes an empty name for the default.
                if let (Some([]), Ground::Qos(name)) = (said.qos.as_deref(), &fault.ground) {
                    said.qos = Some(name.clone());
                }
                Some(said)
            }
            Some(_) => None,
            None => {
                let all = Correction::of(&self.request);
                let (qos, partition) = match &fault.ground {
                    Ground::Qos(name) => (Some(name.clone()), None),
                    Ground::Partition(name) => {
                        (None, all.partition.or_else(|| Some(name.clone()).filter(|name| !name.is_empty())))
                    }
                    Ground::Account { .. } | Ground::Site => (None, None),
                };
                let account = all.account.clone().filter(|_| matches!(fault.ground, Ground::Account { .. }));
                Some(Correction { qos, partition, account, reservation: None, ..all })
            }
        }
    }

    /// Fixes one fault; returns the next fault, if there is one. `None` if the fault can't be fixed.
    fn mended(&self, wanted: &mut Correction, fault: &Refusal) -> Option<Option<Refusal>> {
        self.mend(wanted, fault)?;
        let Some((update, existing)) = self.update else {
            let request = wanted.over(&self.request);
            let again =
                Judgement { again: true, ..Judgement::new(request, self.policy, self.accounting, None) };
            let next = again.submission().err().map(|fault| *fault);
            // What sbatch would make of it isn't judged here.
            return Some(next).filter(|next| next.is_some() || !request.leaves_tasks_to_sbatch());
        };
        let update = Update {
            request: wanted.over(&Request::new(wanted.spelling)),
            others: if *wanted == wanted.names_and_gpus() { "" } else { "more" },
            ..*update
        };
        let request = update.after(existing);
        let update = Some((&update, existing));
        let again =
            Judgement { again: true, ..Judgement::new(request, self.policy, self.accounting, update) };
        Some(again.update().err().map(|fault| *fault))
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
        match fault.rule {
            Rule::NtasksPerGpuAlone
                if fault.ground == Ground::Site || under.is_some_and(|under| !self.wants_types(under)) =>
            {
                self.add_gpus(wanted, Field::Job, fault.count)
            }
            Rule::TypeMissing
            | Rule::TypeUnknown
            | Rule::TypeForeign
            | Rule::Unreadable
            | Rule::ShareUncounted
            | Rule::NtasksPerGpuAlone => self.retype(wanted, under?),
            Rule::NotRestated => self.restate(wanted, under),
            Rule::QosList => {
                let Ground::Qos(name) = &fault.ground else { return None };
                wanted.qos = Some(name.clone());
                Some(())
            }
            Rule::OptionInsideQos => self.take_apart(wanted),
            Rule::ShareForm
            | Rule::ShareSize
            | Rule::ShareMemory
            | Rule::ShareReservation
            | Rule::WholeGpu => self.mend_share(wanted, fault),
            Rule::GpuMissing if fault.ground == Ground::Partition(Vec::new()) => {
                wanted.partition = Some(b"NAME".to_vec());
                Some(())
            }
            Rule::GpuMissing => self.add_gpus(wanted, fault.field, fault.count),
            Rule::TooManyCpus | Rule::TooMuchMemory => self.fit(wanted),
            Rule::TypeOfNone => {
                for text in [&mut wanted.cpus_per_tres, &mut wanted.mem_per_tres].into_iter().flatten() {
                    *text = untyped(text, wanted.spelling);
                }
                Some(())
            }
            Rule::TooManyNodes => {
                wanted.min_nodes = u32::try_from(fault.count).ok();
                wanted.max_nodes = None;
                Some(())
            }
            Rule::TasksUneven => self.fill_nodes(wanted),
            Rule::NotAlone if fault.field == Field::Task => None,
            Rule::NotAlone => {
                *wanted = wanted.names_and_gpus();
                Some(())
            }
            Rule::TooLong
            | Rule::GpuUncounted
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
        let of_partition = matches!(fault.rule, Rule::WholeGpu | Rule::GpuMissing);
        let named_only =
            fault.rule == Rule::QosList || (of_partition && fault.ground == Ground::Partition(Vec::new()));
        // Another fault may have had to be fixed as well.
        let names_alone = self.to_begin_with(fault).is_some_and(|asked| {
            let rest = wanted.clone();
            Correction {
                qos: asked.qos.clone(),
                partition: asked.partition.clone(),
                open: Vec::new(),
                ..rest
            } == asked
        });
        if !named_only || self.update.is_some() || !names_alone {
            return wanted.finished();
        }
        let (qos, partition) = (wanted.qos, wanted.partition);
        let nothing = Correction::of(&Request::new(wanted.spelling));
        Correction { qos, partition, open: wanted.open, ..nothing }.finished()
    }

    /// The request as it would be judged.
    pub(super) fn effective<'s>(&'s self, wanted: &'s Correction) -> Request<'s> {
        match self.update {
            Some((_, existing)) => wanted.over(&Request::new(wanted.spelling)).over(existing),
            None => wanted.over(&self.request),
        }
    }

    /// Makes a share of an allowed size, counted per node, in a reservation that may have shares.
    fn mend_share(&self, wanted: &mut Correction, fault: &Refusal) -> Option<()> {
        let units = match (fault.rule, &fault.offer) {
            (Rule::ShareReservation, Offer::Reservations(parts)) => {
                let name = parts.first()?.clone().into_bytes();
                wanted.open.push((name.clone(), b"NAME".to_vec()));
                wanted.reservation = Some(name);
                return Some(());
            }
            (Rule::WholeGpu, _) if fault.ground == Ground::Partition(Vec::new()) => {
                wanted.partition = Some(b"NAME".to_vec());
                return Some(());
            }
            // The option would have to be removed.
            (Rule::WholeGpu, _) if fault.asked.starts_with(b"--") => return None,
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
        let by_memory = self.policy.memory_gres.as_ref().map(|rule| rule.name.as_bytes());
        let goes = |name: &[u8]| {
            name == fault.gres || by_memory == Some(name) || (fault.rule == Rule::WholeGpu && name == GPU)
        };
        let kept = |part: &[u8]| match crate::submit::grammar::token(part, self.request.spelling) {
            Token::Gres(gres) => !goes(gres.name),
            Token::Other => true,
            Token::Unrecognised(_) => false,
        };
        let request = self.effective(wanted);
        let gres_type = request.names(|gres| gres.name == fault.gres).and_then(|(_, gres)| gres.gres_type);
        let share = Gres {
            name: &fault.gres,
            gres_type: gres_type.filter(|_| fault.rule != Rule::WholeGpu),
            count: units,
        };
        let mut fields: Vec<_> = request
            .tres()
            .filter_map(|(field, text)| {
                let text = text?;
                let parts: Vec<_> = text.split(|byte| *byte == b',').filter(|part| kept(part)).collect();
                Some((field, parts.join(&b',')))
            })
            .collect();
        let token = merged::written(share, request.spelling);
        match fields.iter_mut().find(|(field, _)| *field == Field::Node) {
            Some((_, text)) if !text.is_empty() => *text = [&token, text.as_slice()].join(&b','),
            Some((_, text)) => *text = token,
            None => fields.push((Field::Node, token)),
        }
        fields.into_iter().for_each(|(field, text)| wanted.set(field, text));
        Some(())
    }

    /// Splits `--qos=NAME,--gres=gpu:2` into the options that were meant.
    fn take_apart(&self, wanted: &mut Correction) -> Option<()> {
        let list = self.update.map_or(self.request.qos, |(update, _)| update.request.qos)?;
        let mut members = list.split(|byte| *byte == b',');
        let name = members.next().filter(|name| !name.is_empty() && !name.starts_with(b"-"))?;
        let mut options: Vec<Vec<u8>> = Vec::new();
        for member in members.filter(|member| !member.is_empty()) {
            match options.last_mut() {
                _ if member.starts_with(b"-") => options.push(member.to_vec()),
                Some(option) => *option = [option.as_slice(), member].join(&b','),
                // If several QOSes are named, it is unknown which one was meant.
                None => return None,
            }
        }
        wanted.qos = Some(name.to_vec());
        for option in options {
            match meant(&option, wanted.spelling) {
                // Which of the two would apply depends on where each was given.
                Some((field, _)) if wanted.tres.iter().any(|(place, _)| *place == field) => return None,
                Some((field, text)) => wanted.set(field, text),
                None if self.update.is_some() => return None,
                None => wanted.options.push(option),
            }
        }
        Some(())
    }
}

/// The tokens of a string without their types.
fn untyped(text: &[u8], spelling: Spelling) -> Vec<u8> {
    let plain = |part: &[u8]| match crate::submit::grammar::token(part, spelling) {
        Token::Gres(gres) => merged::written(Gres { gres_type: None, ..gres }, spelling),
        Token::Other | Token::Unrecognised(_) => Vec::new(),
    };
    text.split(|byte| *byte == b',')
        .map(plain)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(&b',')
}
