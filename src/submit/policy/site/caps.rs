//! Caps on the CPUs and the memory that a job may have for each of its GPUs, by type: `MaxCPUsPerGpu` and
//! `MaxMemPerGpu`, for the file, a partition or a QOS.
//!
//! This checks the request itself: the minimum of GPUs that it can get against the maximum of CPUs and memory that it
//! requests, with the minimum and with the maximum of nodes. It doesn't see what Slurm adds (whole cores, whole nodes,
//! defaults).

use std::cell::OnceCell;

use super::super::governed::invented;
use super::super::{
    Accounting, Amount, Correction, Fault, Ground, Judgement, Offer, PerGpu, Rule, plain, shortened,
};
use super::load::{Excess, Load};
use crate::mend::mended;
use crate::submit::grammar::Token;
use crate::submit::request::{Field, Parsed, Partitions};
use crate::text::pattern::Case;

impl<'r, A: Accounting> Judgement<'r, '_, A> {
    /// More CPUs or memory than the job's GPUs allow. Slurm applies an update in steps: first QOS, account and
    /// partition, then CPUs and memory, and the GPUs last. It may refuse a later step, so the job must be right after
    /// each of them.
    pub(super) fn over_caps(&self) -> Option<Fault> {
        if !self.policy.has_caps {
            return None;
        }
        let [moved, resized] = self.steps();
        self.hidden_gpus()
            .or_else(|| self.gpus_unseen())
            .or_else(|| [moved, resized].iter().flatten().find_map(|request| self.excess_of(request)))
            .or_else(|| self.excess_of(self.request))
    }

    /// The job between the steps of an update, if that differs from both the old and the new job.
    fn steps(&self) -> [Option<Parsed<'r>>; 2] {
        let Some((update, existing)) = self.update else { return [None, None] };
        let said = &update.request;
        let moves = said.places().iter().any(|(_, name)| name.is_some());
        let tasks = said.num_tasks.is_some() || said.min_nodes.is_some() || said.max_nodes.is_some();
        let resized = tasks || said.touches_amounts();
        [
            moves.then(|| existing.with_names_of(self.request)),
            resized.then(|| self.request.with_gres_of(existing)),
        ]
    }

    fn excess_of(&self, request: &Parsed) -> Option<Fault> {
        let load = Load::of(request, self.policy)?;
        let (ground, Excess { amount, cap, allowed, wanted, .. }) = self.excess(&load)?;
        let rule = match amount {
            Amount::Cpus => Rule::TooManyCpus,
            Amount::Memory => Rule::TooMuchMemory,
        };
        let offer = Offer::PerGpu { amount, cap: cap.clone(), wanted };
        Some(self.refusal(rule, ground).asked(shortened(&load.written())).count(allowed).offer(offer))
    }

    /// The first cap that the request exceeds, in any QOS and partition that the job may get, and where it comes from.
    /// A reservation's partition is unknown here, so it may be any that a record names, or another.
    fn excess(&self, load: &Load) -> Option<(Ground, Excess<'_>)> {
        let records = || self.policy.partition_records.iter().flat_map(|record| record.names.iter());
        let partitions: Vec<&[u8]> = match load.request.partitions() {
            Partitions::Named(names) => names.each(),
            Partitions::OfReservation => records().map(str::as_bytes).chain([b"".as_slice()]).collect(),
            Partitions::Default => vec![self.accounting.default_partition().unwrap_or_default()],
        };
        // A partition's default memory is asked for only once, because slurmctld must pack its whole record for that.
        let places: Vec<_> = partitions.into_iter().map(|name| (name, OnceCell::new())).collect();
        let by_qos = self.policy.records.iter().any(|record| record.caps.any());
        let qoses = if by_qos { self.names_of_qoses(load.request) } else { vec![b"".as_slice()] };
        let is_in = |amount: &Amount| match amount {
            Amount::Cpus => mended("caps-cpus"),
            Amount::Memory => mended("caps-memory"),
        };
        qoses.into_iter().find_map(|qos| {
            places.iter().find_map(|(partition, memory)| {
                [Amount::Cpus, Amount::Memory].into_iter().filter(is_in).find_map(|amount| {
                    let (cap, ground) = self.cap(amount, qos, partition)?;
                    let default = || *memory.get_or_init(|| self.accounting.default_memory(partition));
                    Some((ground, load.excess(amount, cap, default)?))
                })
            })
        })
    }

    /// The cap for a QOS and a partition: the QOS's, otherwise the partition's, otherwise the file's.
    fn cap(&self, amount: Amount, qos: &[u8], partition: &[u8]) -> Option<(&PerGpu, Ground)> {
        let of_qos = self.policy.of_qos(qos, |record| record.caps.of(amount));
        let of_partition = || {
            let records = self.policy.partition_records.iter();
            let mut matching = records.filter(|record| record.names.match_name(partition, Case::Counts));
            let cap = matching.find_map(|record| record.caps.of(amount))?;
            Some((cap, Ground::Partition(shortened(partition))))
        };
        let of_qos = of_qos.map(|cap| (cap, Ground::Qos(shortened(qos))));
        of_qos.or_else(of_partition).or_else(|| self.policy.caps.of(amount).map(|cap| (cap, Ground::Site)))
    }

    /// A token that Slurm may read as another number of GPUs than the plain tokens show.
    fn hidden_gpus(&self) -> Option<Fault> {
        self.request.tokens().find_map(|(_, token)| match token {
            Token::Unrecognised(text) => self.hidden(text, true, true),
            _ => None,
        })
    }

    /// GPUs that no string of the job shows, at the latest at the next update: those that Slurm invents for
    /// `--ntasks-per-gpu` alone, and those that a job keeps in some releases when an update names none.
    fn gpus_unseen(&self) -> Option<Fault> {
        if self.gpu_of(self.request).is_some() {
            return None;
        }
        if self.tasks_want_gpus(self.request) {
            let refusal = self.refusal(Rule::NtasksPerGpuAlone, Ground::Site);
            return Some(refusal.field(Field::Job).count(invented(self.request)));
        }
        let kept = self.gpu_of(self.update?.1)?;
        Some(self.site_refusal(Rule::OldRequestStays, plain(kept)))
    }

    /// Replaces what is too much by what is allowed.
    pub(in super::super) fn fit(&self, request: &Parsed, wanted: &mut Correction) -> Option<()> {
        let load = Load::of(request, self.policy)?;
        load.fit(&self.excess(&load)?.1, &mut wanted.said)
    }
}
