//! Requests for a share by its GPU memory (`MemoryGRES`): `--gres=gpumem:20G` becomes units of the share before any
//! rule checks it. So the rules, the record for the node and Slurm's counts all see the share. No node has that GRES.

use super::super::merged::written as written_token;
use super::super::{Acceptance, Accounting, Change, Fault, Judgement, MemoryGres, Offer, Remark, Rule};
use crate::submit::grammar::{self, Gres, Token};
use crate::submit::request::{Field, Parsed};
use crate::text::quantity::size;

/// The string that requests the share.
pub(in super::super) struct Translated {
    pub(in super::super) fields: [(Field, Vec<u8>); 1],
    asked: Vec<u8>,
    given: Vec<u8>,
    mebibytes: u64,
}

impl Translated {
    /// Puts this change before all others, which may change the string further.
    pub(in super::super) fn noted<'a>(&self, mut accepted: Acceptance<'a>) -> Acceptance<'a> {
        let Translated { fields: [(_, text)], asked, given, mebibytes } = self;
        let (text, mebibytes) = (text.clone(), *mebibytes);
        let change = Change::Share { text, asked: asked.clone(), given: given.clone(), mebibytes };
        accepted.remarks.insert(0, Remark::Changed(change));
        accepted
    }
}

impl<A: Accounting> Judgement<'_, '_, A> {
    /// Converts a submission, or the changes of an update; `None` if it doesn't request memory.
    ///
    /// # Errors
    /// It requests more than a GPU has, or not in a form that can be converted.
    pub(in super::super) fn by_memory(&self, said: &Parsed) -> Option<Result<Translated, Fault>> {
        let rule = self.policy.memory_gres.as_ref()?;
        let is_it = |gres: &Gres| gres.name == rule.name.as_bytes();
        let (field, wanted) = said.names(is_it)?;
        let mebibytes = mebibytes(wanted.count);
        let asked = written(wanted, mebibytes);
        let fits = self.fitting(rule, wanted, mebibytes);
        let of_share = |gres: &Gres| gres.count > 0 && (is_it(gres) || self.policy.is_share(gres.name));
        let shares = said.tokens().filter(|(_, token)| matches!(token, Token::Gres(gres) if of_share(gres)));
        let once = shares.count() == 1;
        let Ok(units) = fits.filter(|_| once && field == Field::Node).ok_or(()) else {
            return Some(Err(self.not_by_memory(rule, asked, fits)));
        };
        let share = Gres { name: self.policy.share_gres.0.as_bytes(), count: units, ..wanted };
        // What requests 0 stays: up to 22.05 an update takes an old entry away with it.
        let parts = said.parts_of(Field::Node).map(|part| match part.token {
            Token::Gres(gres) if is_it(&gres) => written_token(share, said.spelling),
            _ => part.text.to_vec(),
        });
        let text = parts.collect::<Vec<_>>().join(&b',');
        let mebibytes = units.saturating_mul(rule.mem_per_unit);
        Some(Ok(Translated { fields: [(Field::Node, text)], asked, given: grammar::plain(share), mebibytes }))
    }

    /// The lowest allowed number of units with at least this much memory.
    fn fitting(&self, rule: &MemoryGres, wanted: Gres, mebibytes: u64) -> Option<u64> {
        let units = mebibytes.div_ceil(rule.mem_per_unit.max(1));
        let of_type = |gres_type: &[u8]| {
            let own = rule.types.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(gres_type));
            own.map(|(_, units)| *units)
        };
        let most = wanted.gres_type.and_then(of_type).or(self.policy.shares.most).unwrap_or(0);
        let sizes = &self.policy.shares.sizes;
        let fitting = sizes.iter().copied().filter(|size| *size >= units).min();
        Some(if sizes.is_empty() { units } else { fitting? }).filter(|units| *units <= most)
    }

    fn not_by_memory(&self, rule: &MemoryGres, asked: Vec<u8>, fits: Option<u64>) -> Fault {
        let shares = &self.policy.shares;
        let most = shares.most.unwrap_or(0);
        let mut sizes: Vec<u64> = shares.sizes.iter().copied().filter(|size| *size <= most).collect();
        if sizes.is_empty() {
            sizes.push(most);
        }
        let (which, offer) = match fits {
            Some(_) => (Rule::ShareForm, Offer::Nothing),
            None => (
                Rule::ShareMemory,
                Offer::Memory(
                    sizes.iter().map(|size| (size.saturating_mul(rule.mem_per_unit), *size)).collect(),
                ),
            ),
        };
        let count = fits.or_else(|| sizes.into_iter().max()).unwrap_or(1);
        let gres = self.policy.share_gres.0.clone().into_bytes();
        self.site_refusal(which, asked).count(count).gres(gres).offer(offer)
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
