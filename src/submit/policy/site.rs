//! The site's rules on shares and on partitions, and what a free QOS sets for its users (requeue, appended output,
//! throttled arrays). `by_memory`: shares that are requested by GPU memory; `caps`: the CPUs and the memory for each
//! GPU.

use super::governed::invented;
use super::{
    Accounting, Because, Change, Fault, GPU, Ground, Judgement, Offer, QosRecord, Remark, Rule, plain,
    shortened,
};
use crate::mend::mended;
use crate::submit::grammar::{Gres, Token, Unread};
use crate::submit::request::array::throttled;
use crate::submit::request::{Field, Parsed, Partitions, Request};
use crate::text::pattern::{Case, Patterns};

mod by_memory;
mod caps;
mod load;

impl<'a, A: Accounting> Judgement<'_, 'a, A> {
    /// The first part of the request that the site's rules don't allow.
    pub(super) fn site_fault(&self) -> Option<Fault> {
        self.shares_fault().or_else(|| self.gpu_missing()).or_else(|| self.over_caps())
    }

    /// A job without a GPU or a share, in a partition that requires one.
    fn gpu_missing(&self) -> Option<Fault> {
        let partition = self.matching_partition(&self.policy.gpu_partitions)?;
        if self.gpu_of(self.request).is_some() || !mended("gpu-partitions") {
            return None;
        }
        // GPUs that Slurm invents for `--ntasks-per-gpu` alone don't show in any update.
        let (field, count) = match self.request.ntasks_per_tres() {
            0 => (Field::Node, 1),
            _ => (Field::Job, invented(self.request)),
        };
        let refusal = self.refusal(Rule::GpuMissing, Ground::Partition(shortened(partition)));
        Some(refusal.field(field).count(count))
    }

    /// The first GPU or share that a request names.
    fn gpu_of<'s>(&self, request: &Parsed<'s>) -> Option<Gres<'s>> {
        let found = request.names(|gres| gres.name == GPU || self.policy.is_share(gres.name));
        found.map(|(_, gres)| gres)
    }

    fn shares_fault(&self) -> Option<Fault> {
        let rules = &self.policy.shares;
        let no_whole = self.shares_only_here();
        let on_shares = !rules.reservations.is_empty() || !rules.sizes.is_empty();
        if !on_shares && no_whole.is_none() {
            return None;
        }
        for (field, token) in self.request.tokens() {
            let fault = match token {
                Token::Gres(gres) if gres.count == 0 => None,
                Token::Gres(gres) if self.policy.is_share(gres.name) => self.share_fault(field, gres),
                Token::Gres(gres) if gres.name == GPU => {
                    no_whole.map(|partition| self.whole_gpu(partition, gres.count, &plain(gres)))
                }
                Token::Unrecognised(text) => self.hidden(text, on_shares, no_whole.is_some()),
                Token::Gres(_) | Token::Cpus(_) | Token::Other => None,
            };
            if let Some(fault) = fault {
                return Some(fault);
            }
        }
        let asked: &[u8] = match (self.request.ntasks_per_tres() > 0, self.request.exclusive) {
            (true, _) => b"--ntasks-per-gpu",
            (_, true) => b"--exclusive",
            _ => return self.not_restated_here(no_whole),
        };
        match no_whole {
            Some(partition) => Some(self.whole_gpu(partition, 1, asked)),
            None => self.not_restated_here(None),
        }
    }

    /// An update that moves a job to a partition for shares only, or a share out of its reservation, must name its GRES
    /// itself: Slurm may keep more of the old request than it shows.
    fn not_restated_here(&self, no_whole: Option<&[u8]>) -> Option<Fault> {
        let (update, existing) = self.update?;
        let rules = &self.policy.shares;
        let rule = match (self.gpu_of(existing), self.gpu_of(&update.request)) {
            (None, _) => Rule::OldRequestStays,
            (Some(_), None) => Rule::NotRestated,
            (Some(_), Some(_)) => return None,
        };
        let was_there = self.matching_partition_of(existing, &rules.only_partitions).is_some();
        if let Some(partition) = no_whole.filter(|_| !was_there) {
            let ground = Ground::Partition(shortened(partition));
            return Some(self.refusal(rule, ground));
        }
        let leaves = !rules.reservations.is_empty()
            && self.in_share_reservation(existing)
            && !self.in_share_reservation(self.request);
        leaves.then(|| self.refusal(rule, Ground::Site))
    }

    /// Whether the job passes only because of its reservation, which may end.
    pub(super) fn depends_on_reservation(&self, remarks: &[Remark]) -> bool {
        let exempt = |remark: &Remark| matches!(remark, Remark::Passed(_, Because::Reservation));
        let share = || self.request.names(|gres| self.policy.is_share(gres.name)).is_some();
        // A share that passes elsewhere, by the mode or an exemption, may start again.
        let inside = || self.in_share_reservation(self.request) && mended("follow-reservation");
        remarks.iter().any(exempt) || inside() && share()
    }

    /// The share to record for the node.
    pub(super) fn share_of(&self, request: &Parsed) -> Option<(&'a str, u64)> {
        let names = [self.policy.share_gres.0.as_str(), "mps", "shard"];
        names.into_iter().find_map(|name| Some((name, request.share(name.as_bytes())?.count)))
    }

    /// A share that can't be recorded for the node, or that is larger than a GPU.
    pub(super) fn share_unclear(&self) -> Option<Fault> {
        let name = self.policy.share_gres.0.as_bytes();
        let most = self.policy.shares.most?;
        // If mps is requested twice, Slurm uses the last, so each must be checked.
        let too_many = |(_, token)| match token {
            Token::Gres(gres) if gres.name == name && gres.count > most => Some(self.too_many(gres, most)),
            _ => None,
        };
        match self.request.share(name) {
            Some(share) if share.count > most => Some(self.too_many(share, most)),
            Some(_) => None,
            // For mps, the node has Slurm's own count, in whatever form it was requested.
            None if name == b"mps" => self.request.tokens().find_map(too_many),
            None => self.request.tokens().find_map(|(field, token)| self.unclear(name, field, token)),
        }
    }

    fn too_many(&self, share: Gres, most: u64) -> Fault {
        let refusal = self.site_refusal(Rule::ShareSize, plain(share));
        refusal.gres(shortened(share.name)).count(share.count).offer(Offer::UpTo(most))
    }

    fn unclear(&self, name: &[u8], field: Field, token: Token) -> Option<Fault> {
        let (asked, count) = match token {
            Token::Gres(gres) if gres.name == name && gres.count > 0 => (plain(gres), gres.count),
            Token::Unrecognised(text) if text.mentions(name) => (shortened(text.shown()), 1),
            _ => return None,
        };
        let refusal = self.site_refusal(Rule::ShareForm, asked);
        Some(refusal.field(field).count(count).gres(shortened(name)))
    }

    /// slurmctld keeps a share's note as it was at submission. For mps, the node also has Slurm's own count.
    pub(super) fn share_changed(&self) -> Option<Fault> {
        let (_, existing) = self.update?;
        let (was, is) = (self.share_of(existing), self.share_of(self.request));
        let gres = self.policy.share_gres.0.as_str();
        let concerned = |share: Option<(&str, u64)>| share.is_some_and(|(name, _)| name == gres);
        if gres == "mps" || was == is || !(concerned(was) || concerned(is)) {
            return None;
        }
        let asked = is.or(was).map(|(name, units)| format!("{name}:{units}")).unwrap_or_default();
        Some(self.site_refusal(Rule::ShareFixed, asked.into_bytes()))
    }

    fn share_fault(&self, field: Field, gres: Gres) -> Option<Fault> {
        let rules = &self.policy.shares;
        let refusal = |rule, offer| {
            let refusal = self.site_refusal(rule, plain(gres));
            refusal.gres(shortened(gres.name)).count(gres.count).offer(offer)
        };
        if !rules.reservations.is_empty() && !self.in_share_reservation(self.request) {
            let names = rules.reservations.iter().map(str::to_owned).collect();
            return Some(refusal(Rule::ShareReservation, Offer::Reservations(names)).field(field));
        }
        // Per task or job, it would have another size on the node.
        let fits = field == Field::Node && rules.sizes.contains(&gres.count);
        let allowed = rules.sizes.is_empty() || fits;
        (!allowed).then(|| refusal(Rule::ShareSize, Offer::Sizes(rules.sizes.clone())))
    }

    fn in_share_reservation(&self, request: &Request) -> bool {
        // A crontab's job starts again when the reservation may have ended.
        let names = request.reservations().filter(|_| !request.recurs);
        let fits = |name: &[u8]| self.policy.shares.reservations.occur_in(name, Case::Counts);
        names.is_some_and(|names| names.iter().all(|name| !name.is_empty() && fits(name)))
    }

    /// Slurm finds names of GRES inside tokens that aren't plain requests, so this must too: those of shares, or of
    /// whole GPUs.
    fn hidden(&self, text: Unread, shares: bool, whole: bool) -> Option<Fault> {
        let share = shares && self.policy.share_names().any(|name| text.mentions(name));
        (share || whole && text.mentions(GPU))
            .then(|| self.site_refusal(Rule::Unreadable, shortened(text.shown())))
    }

    fn whole_gpu(&self, partition: &[u8], count: u64, asked: &[u8]) -> Fault {
        let ground = Ground::Partition(shortened(partition));
        let share = self.policy.share_names().find(|name| self.accounting.counts(name)).unwrap_or_default();
        let sizes = if share.is_empty() { Vec::new() } else { self.policy.shares.sizes.clone() };
        let refusal = self.refusal(Rule::WholeGpu, ground).count(count).asked(shortened(asked));
        refusal.gres(share.to_vec()).offer(Offer::Sizes(sizes))
    }

    /// The first of the job's partitions that is for shares only; empty if its reservation will decide.
    fn shares_only_here(&self) -> Option<&[u8]> {
        self.matching_partition(&self.policy.shares.only_partitions)
    }

    /// The first partition that matches and in which the job may run. It is unknown here which partition Slurm will
    /// take from a reservation; then the name is empty.
    pub(super) fn matching_partition(&self, patterns: &Patterns) -> Option<&[u8]> {
        self.matching_partition_of(self.request, patterns)
    }

    fn matching_partition_of<'s>(&'s self, request: &Request<'s>, patterns: &Patterns) -> Option<&'s [u8]> {
        let listed = |name: &&[u8]| patterns.match_name(name, Case::Counts);
        if patterns.is_empty() {
            return None;
        }
        match request.partitions() {
            Partitions::Named(names) => names.iter().find(listed),
            Partitions::OfReservation => Some(b""),
            Partitions::Default => self.accounting.default_partition().filter(listed),
        }
    }

    /// Whether any QOS sets something for batch jobs.
    pub(super) fn may_be_favoured(&self) -> bool {
        let favours = || self.policy.records.iter().any(QosRecord::favours);
        self.update.is_none() && self.request.batch.is_some() && favours()
    }

    /// Applies what the QOS sets for a batch job, unless the job itself sets it.
    pub(super) fn favours(&self, qos: &[u8], remarks: &mut Vec<Remark>) {
        let Some(batch) = self.request.batch.filter(|_| self.may_be_favoured()) else { return };
        let policy = self.policy;
        let name = || shortened(qos);
        if batch.requeue.is_none() && policy.of_qos(qos, |record| record.requeue) == Some(true) {
            remarks.push(Remark::Changed(Change::Requeue { qos: name() }));
        }
        if !batch.open_mode && policy.of_qos(qos, |record| record.append) == Some(true) {
            remarks.push(Remark::Changed(Change::Append { qos: name() }));
        }
        if let Some(throttle) = policy.of_qos(qos, |record| record.throttle)
            && let Some(array) = throttled(&batch, throttle.tasks, throttle.over_minutes)
        {
            let (tasks, over_minutes) = (throttle.tasks, throttle.over_minutes);
            remarks.push(Remark::Changed(Change::Throttle { qos: name(), array, tasks, over_minutes }));
        }
    }
}
