//! Slurm turns a typed request into entries, which it finds by their number, changes in updates, and counts before it
//! knows the nodes. Each rule here covers a case in which more GPUs would run than Slurm counts.

use super::{Accounting, Fault, Judgement, Rule, Ruling, Under, plain, shortened};
use crate::mend::mended;
use crate::submit::grammar::{Gres, Token};
use crate::submit::request::{Field, Parsed, Part};

impl<A: Accounting> Judgement<'_, '_, A> {
    /// A string that Slurm would refuse later because of its length.
    pub(super) fn not_too_long(&self) -> Ruling<()> {
        let text = self.said().overlong();
        text.map_or(Ok(()), |text| Err(self.site_refusal(Rule::TooLong, shortened(text))))
    }

    /// A type in `--cpus-per-gpu` or `--mem-per-gpu` that the job doesn't request in exactly the same spelling. Slurm
    /// makes an entry of it that stands for no GPU, and merges it with a type that has the same number or differs only
    /// in case.
    pub(super) fn type_of_none(&self, request: &Parsed, under: Under<A::Qos>) -> Option<Fault> {
        if !self.wants_types(under) || !mended("per-gpu-strings") {
            return None;
        }
        let asked_for = |name: &[u8], gres_type: &[u8]| {
            request.names(|gres| gres.name == name && gres.gres_type == Some(gres_type)).is_some()
        };
        request.per_gpu_tokens().find_map(|token| {
            let asked = match token {
                Token::Unrecognised(text) => shortened(text.shown()),
                Token::Gres(gres) if self.policy.gres.has(gres.name) => {
                    gres.gres_type.filter(|gres_type| !asked_for(gres.name, gres_type))?;
                    plain(gres)
                }
                Token::Gres(_) | Token::Cpus(_) | Token::Other => return None,
            };
            Some(self.ground_refusal(Rule::TypeOfNone, under).asked(asked))
        })
    }

    /// Up to 22.05, an update changes those entries of the old request that its tokens name, and keeps all others, even
    /// if no string shows them any more. So a job can't be moved in, and its types must stay the same.
    pub(super) fn old_request_stays(&self, under: Under<A::Qos>) -> Option<Fault> {
        let (update, existing) =
            self.update.filter(|(update, _)| !update.anew && mended("updates-in-entries"))?;
        let refusal = || self.ground_refusal(Rule::OldRequestStays, under);
        if self.comes_under(under) {
            return Some(refusal());
        }
        let policed = |gres: &Gres| self.policy.gres.has(gres.name);
        let left_behind = existing.gres().filter(|(_, gres)| policed(gres)).find_map(|(field, gres)| {
            let named = update.request.string(field)?;
            let same = |part: &Part| matches!(part.token, Token::Gres(new) if new.is_same_entry(&gres));
            (!named.is_empty() && !update.request.parts_of(field).any(same)).then(|| plain(gres))
        });
        let respelled = || {
            let respelled = |gres: &Gres| policed(gres) && !self.spelled_as_before(existing, *gres);
            update.request.names(respelled).map(|(_, gres)| plain(gres))
        };
        let asked = left_behind.or_else(respelled)?;
        Some(refusal().asked(asked))
    }

    /// A type that differs only in case would be a separate entry, which would then replace the first one in the
    /// limit's count.
    fn spelled_as_before(&self, existing: &Parsed, gres: Gres) -> bool {
        let Some(gres_type) = gres.gres_type else { return true };
        let alike = |old: &Gres| {
            old.name == gres.name && old.gres_type.is_some_and(|old| old.eq_ignore_ascii_case(gres_type))
        };
        match existing.names(alike) {
            Some((_, old)) => old.gres_type == Some(gres_type),
            None => self.accounting.types(gres.name).any(|known| self.policy.written(known) == gres_type),
        }
    }

    /// GPUs that are counted in two ways which Slurm doesn't combine. If there is an entry for the whole job, Slurm
    /// doesn't add up what it picks for others; and what it picks per socket differs from what it counted per job or
    /// task (src/plugins/select/cons_tres/gres_select_filter.c: `job_fini`, and the order of its branches).
    pub(super) fn counted_two_ways(&self, request: &Parsed, under: Under<A::Qos>) -> Option<Fault> {
        if request.is_counted_plainly() || !mended("counted-one-way") {
            return None;
        }
        let policed = |gres: &Gres| self.policy.gres.has(gres.name);
        let beside_job = [Field::Node, Field::Task, Field::Socket].into_iter().find_map(|field| {
            request.gres_of(field).filter(policed).find(|gres| {
                let mut of_job = request.gres_of(Field::Job);
                of_job.any(|of_job| field == Field::Socket || !of_job.is_same_entry(gres))
            })
        });
        let per_socket = request.gres_of(Field::Socket).find(policed);
        let beside_task = per_socket.filter(|_| request.gres_of(Field::Task).any(|gres| policed(&gres)));
        let asked = beside_job.or(beside_task)?;
        Some(self.ground_refusal(Rule::CountedTwoWays, under).asked(plain(asked)))
    }
}
