//! Requests for a share by its GPU memory (`MemoryGRES`): `--gres=gpumem:20G` becomes units of the share before any
//! rule checks it. So the rules, the record for the node and Slurm's counts all see the share. No node has that GRES.
//!
//! Slurm chooses the node later, and a unit's memory can differ between nodes (`MemPerUnit`). So the job gets the units
//! that suffice on each node whose GPUs have so many, and is kept from those where they are less memory
//! (`small_nodes`). The nodes or the type that a request names decide instead of all.

use super::super::merged::written as written_token;
use super::super::small_nodes::names;
use super::super::{
    Acceptance, Accounting, Change, Fault, Judgement, LargestGpu, Offer, Refusal, Remark, Rule, Ruling,
    Update,
};
use crate::submit::grammar::{self, Gres, Token};
use crate::submit::request::{Field, Parsed};
use crate::text::quantity::size;

/// GPUs, and the most units of each.
type Gpus<'a> = Vec<(&'a LargestGpu, u64)>;

/// The string that requests the share.
struct Translated {
    fields: [(Field, Vec<u8>); 1],
    /// The part of it that requests the share, and what that was.
    part: Vec<u8>,
    was: Vec<u8>,
    /// What the user requests, in MiB.
    wanted: u64,
    change: Change,
}

impl Translated {
    /// Puts this change before all others, which may change the string further.
    fn noted<'a>(&self, mut accepted: Acceptance<'a>) -> Acceptance<'a> {
        for remark in &mut accepted.remarks {
            if let Remark::Passed(fault, _) = remark {
                self.keep(fault);
            }
        }
        accepted.remarks.insert(0, Remark::Changed(self.change.clone()));
        accepted
    }

    /// A correction of something else keeps the user's words: the units alone don't say how much memory they are for.
    /// So there is none that needs other units.
    fn keep(&self, fault: &mut Refusal) {
        let said = fault.correction.as_mut().and_then(|found| found.said.tres_per_node.as_mut());
        let Some(string) = said else { return };
        let mut parts: Vec<&[u8]> = string.split(|byte| *byte == b',').collect();
        match parts.iter_mut().find(|part| **part == self.part) {
            Some(part) => {
                *part = &self.was;
                *string = parts.join(&b',');
            }
            None => fault.correction = None,
        }
    }
}

impl<'a, A: Accounting> Judgement<'_, 'a, A> {
    /// The verdict, with memory converted to units.
    pub(in super::super) fn ruled(&self) -> Ruling<Acceptance<'a>> {
        let share = match self.by_memory(self.said()) {
            None => return self.settled(),
            Some(Err(fault)) => return Err(self.with_correction(fault)),
            Some(Ok(share)) => share,
        };
        let said = self.said().with(&share.fields);
        let update =
            self.update.map(|(update, was)| (Update { request: said.clone(), ..update.clone() }, was));
        let after = update.as_ref().map_or(said, |(update, existing)| update.after(existing));
        let case = Judgement::new(
            &after,
            self.policy,
            self.accounting,
            update.as_ref().map(|(new, was)| (new, *was)),
        );
        let ruling = Judgement { again: self.again, mebibytes: share.wanted, ..case }.settled();
        ruling.map(|accepted| share.noted(accepted)).map_err(|mut fault| {
            share.keep(&mut fault);
            fault
        })
    }

    /// Converts a submission, or the changes of an update; `None` if it doesn't request memory.
    ///
    /// # Errors
    /// It requests more than a GPU has, or not in a form that can be converted.
    fn by_memory(&self, said: &Parsed) -> Option<Result<Translated, Fault>> {
        let memory_gres = self.policy.memory_gres.as_ref()?;
        let is_it = |gres: &Gres| gres.name == memory_gres.as_bytes();
        let (field, gres) = said.names(is_it)?;
        let wanted = mebibytes(gres.count);
        let asked = written(gres, wanted);
        let (gpus, named) = self.possible_gpus(gres.gres_type);
        let fits = self.fitting(&gpus, named, wanted);
        let of_share = |gres: &Gres| gres.count > 0 && (is_it(gres) || self.policy.is_share(gres.name));
        let shares = said.tokens().filter(|(_, token)| matches!(token, Token::Gres(gres) if of_share(gres)));
        let once = shares.count() == 1;
        let Ok(units) = fits.filter(|_| once && field == Field::Node).ok_or(()) else {
            let fault = self.not_by_memory(&gpus, named, asked, fits.map(|_| wanted));
            return Some(Err(fault.gres(gres.name.to_vec())));
        };
        let share = Gres { name: self.policy.share_gres.0.as_bytes(), count: units, ..gres };
        let part = written_token(share, said.spelling);
        let its = said.parts_of(Field::Node).find(|part| part.token == Token::Gres(gres));
        let was = its.map(|part| part.text.to_vec()).unwrap_or_default();
        // What requests 0 stays: up to 22.05 an update takes an old entry away with it.
        let parts = said.parts_of(Field::Node).map(|old| match old.token {
            Token::Gres(gres) if is_it(&gres) => &part,
            _ => old.text,
        });
        let text = parts.collect::<Vec<_>>().join(&b',');
        let has = gpus.iter().filter(|(_, most)| units <= *most).map(|(gpu, _)| gpu.memory(units));
        // The least that the job gets.
        let mebibytes = has.filter(|has| *has >= wanted).min().unwrap_or(wanted);
        let change = Change::Share { text: text.clone(), asked, given: grammar::plain(share), mebibytes };
        Some(Ok(Translated { fields: [(Field::Node, text)], part, was, wanted, change }))
    }

    /// The GPUs that the job may get, with the most units of each; and whether it names their nodes.
    fn possible_gpus(&self, gres_type: Option<&[u8]>) -> (Gpus<'a>, bool) {
        let shares = &self.policy.shares;
        let named: Vec<_> =
            names(self.request.nodes.unwrap_or_default()).map(|node| self.gpus_of(&node)).collect();
        let all: Vec<_> = shares.nodes.iter().chain([&shares.elsewhere]).collect();
        // Slurm tells of a node without shares, and of a type that doesn't exist.
        let possible = [(&named, gres_type, true), (&all, gres_type, false), (&all, None, false)];
        let mut possible = possible.into_iter().map(|(gpus, gres_type, named)| {
            (gpus.iter().filter_map(|gpu| Some((*gpu, gpu.most(gres_type)?))).collect::<Vec<_>>(), named)
        });
        possible.find(|(gpus, _)| !gpus.is_empty()).unwrap_or_default()
    }

    /// The lowest allowed number of units with at least this much memory, on as many as possible of the GPUs that have
    /// so much. All of these have so many units.
    fn fitting(&self, gpus: &Gpus, named: bool, mebibytes: u64) -> Option<u64> {
        let sizes = &self.policy.shares.sizes;
        let needs = |(gpu, most): &(&LargestGpu, u64)| {
            let units = mebibytes.div_ceil(u64::from(gpu.mem_per_unit).max(1));
            let fitting = sizes.iter().copied().filter(|size| *size >= units).min();
            Some((if sizes.is_empty() { units } else { fitting? }, *most))
                .filter(|(units, most)| units <= most)
        };
        let fitting = || gpus.iter().filter_map(needs);
        let least = fitting().map(|(_, most)| most).min()?;
        let units = fitting().map(|(units, _)| units).filter(|units| *units <= least).max()?;
        // Slurm would give the job every node that it names.
        let lacks = |(gpu, most): &(&LargestGpu, u64)| *most < units || gpu.memory(units) < mebibytes;
        (!named || !gpus.iter().any(lacks)).then_some(units)
    }

    fn not_by_memory(&self, gpus: &Gpus, named: bool, asked: Vec<u8>, fits: Option<u64>) -> Fault {
        // The same units on all nodes that the job names; otherwise the GPU that has most.
        let least =
            gpus.iter().map(|(_, most)| *most).min().zip(gpus.iter().min_by_key(|gpu| gpu.0.mem_per_unit));
        let least = least.filter(|_| named).map(|(most, (gpu, _))| (*gpu, most));
        let largest = || gpus.iter().copied().max_by_key(|(gpu, most)| gpu.memory(*most));
        let (gpu, most) = least.or_else(largest).unwrap_or((&self.policy.shares.elsewhere, 0));
        let mut sizes: Vec<u64> =
            self.policy.shares.sizes.iter().copied().filter(|size| *size <= most).collect();
        if sizes.is_empty() {
            sizes.push(most);
        }
        let count = fits.or_else(|| sizes.iter().max().map(|size| gpu.memory(*size))).unwrap_or(1);
        let (which, offer) = match fits {
            Some(_) => (Rule::ShareForm, Offer::Nothing),
            None => {
                let sizes = sizes.into_iter().map(|size| (gpu.memory(size), size));
                (Rule::ShareMemory, Offer::Memory(sizes.collect()))
            }
        };
        self.site_refusal(which, asked).count(count).offer(offer)
    }
}

/// To Slurm, `20G` is a number of bytes. `20480` is one of MiB, as for `--mem`: no GPU has a tebibyte.
fn mebibytes(count: u64) -> u64 {
    const MEBIBYTE: u64 = 1 << 20;
    if count < MEBIBYTE { count } else { count.div_ceil(MEBIBYTE) }
}

/// The request as a user would write it.
fn written(gres: Gres, mebibytes: u64) -> Vec<u8> {
    let number = size(mebibytes);
    let mut parts = vec![gres.name];
    parts.extend(gres.gres_type);
    parts.push(number.as_bytes());
    super::shortened(&parts.join(&b':'))
}
