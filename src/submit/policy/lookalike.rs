//! A type that Slurm would confuse with another: Slurm finds nodes and entries by a hash of the type's letters, but
//! tests limits by the name. gpushare refuses it for all users: a job can move under a limit later, and up to 22.05 it
//! keeps its original name.

use super::{Accounting, Fault, Judgement, Rule, shortened};
use crate::mend::mended;
use crate::submit::grammar::{self, Token};

impl<A: Accounting> Judgement<'_, '_, A> {
    /// The first type in the request that the cluster doesn't have, but whose hash equals that of a type that it has.
    pub(super) fn lookalike(&self) -> Option<Fault> {
        let mut known = Vec::new();
        self.request.parts().iter().find_map(|part| {
            let (gres, gres_type) = match part.token {
                Token::Gres(gres) => (gres.name, gres.gres_type?),
                Token::Unrecognised(text) => text.hidden_type()?,
                Token::Cpus(_) | Token::Other => return None,
            };
            let resembles = self.resembled(gres, gres_type, &mut known).filter(|_| mended("lookalike"))?;
            let asked = part.text.strip_prefix(self.request.spelling.prefix()).unwrap_or(part.text);
            let refusal = self.site_refusal(Rule::TypeResembles, shortened(asked));
            Some(refusal.gres(shortened(gres)).resembles(resembles))
        })
    }

    /// The cluster's type for which Slurm would take `gres_type`. It is unknown here which letters nodes write in
    /// uppercase, so this tries every combination. `known` keeps the cluster's types for the next token: a request may
    /// have hundreds.
    fn resembled<'s>(&'s self, gres: &[u8], gres_type: &[u8], known: &mut Vec<Known<'s>>) -> Option<Vec<u8>> {
        let own = self.policy.gres.0.iter().find(|name| name.as_bytes() == gres)?.as_bytes();
        if self.accounting.types(own).any(|known| known.eq_ignore_ascii_case(gres_type)) {
            return None;
        }
        if known.iter().all(|one| one.gres != own) {
            known.extend(self.accounting.types(own).map(|gres_type| Known::of(own, gres_type)));
        }
        let id = grammar::type_id(gres_type);
        // The number 0 stands for any type.
        let found = known.iter().find(|one| one.gres == own && (id == 0 || one.could_have(id)));
        found.map(|one| self.written(one.gres_type))
    }
}

/// A type of the cluster, and what decides which numbers it can have.
struct Known<'a> {
    gres: &'a [u8],
    gres_type: &'a [u8],
    /// Its number in small letters.
    small: u32,
    /// How many letters are in each of the number's four bytes.
    letters: [usize; 4],
}

impl<'a> Known<'a> {
    fn of(gres: &'a [u8], gres_type: &'a [u8]) -> Known<'a> {
        let letters = [0, 1, 2, 3].map(|column| {
            gres_type.iter().skip(column).step_by(4).filter(|byte| byte.is_ascii_alphabetic()).count()
        });
        Known { gres, gres_type, small: grammar::type_id(&gres_type.to_ascii_lowercase()), letters }
    }

    /// Whether the type can have that number if some of its letters are uppercase. An uppercase letter is 32 less than
    /// the lowercase one, so only the number of such letters in each of the number's four bytes matters: the difference
    /// is 32 times a number whose digits, each of eight bits and the last of three, are these numbers of letters.
    fn could_have(&self, id: u32) -> bool {
        let difference = self.small.wrapping_sub(id);
        // With more letters than a digit can say there would be several such numbers. No type is that long.
        let digits = [0, 8, 16, 24].map(|shift| ((difference >> 5) >> shift) & 0xff);
        let fits = |(digit, letters)| usize::try_from(digit).is_ok_and(|digit| digit <= letters);
        difference.is_multiple_of(32) && digits.into_iter().zip(self.letters).all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_recognised_whatever_is_in_capitals() {
        for (gres_type, other, expected) in [
            ("a40", "mAA0zxtUzzzz", true),
            ("a40", "a40", true),
            ("a40", "A40", true),
            ("nvidia_a40", "00ZV00zz10zzzwzz", true),
            ("nvidia_a40", "Nvidia_A40", true),
            ("h100", "tAAAzuttzzzz", true),
            ("a40", "a41", false),
            ("a100", "a10", false),
            ("", "UUUUUUUUVUUU", true),
        ] {
            assert_eq!(
                Known::of(b"gpu", gres_type.as_bytes()).could_have(grammar::type_id(other.as_bytes())),
                expected,
                "{other}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn every_way_to_write_a_type_has_one_of_its_numbers(
            gres_type in "[a-z0-9_]{1,20}", upper in proptest::collection::vec(proptest::bool::ANY, 20),
        ) {
            let letter = |(c, up): (char, bool)| if up { c.to_ascii_uppercase() } else { c };
            let written: String = gres_type.chars().zip(upper).map(letter).collect();
            proptest::prop_assert!(Known::of(b"gpu", gres_type.as_bytes()).could_have(grammar::type_id(written.as_bytes())));
        }
    }
}
