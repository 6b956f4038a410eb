//! Slurm's formats that several crates parse: lists of hosts, GRES of a node, times, numbers of a TRES; and our own,
//! such as patterns of names.

pub mod gres;
pub mod hostlist;
pub mod pattern;
pub mod print;
pub mod quantity;
pub mod shown;
pub mod time;

use std::cmp::Ordering;

/// A hash of the texts as if they were joined, by 64-bit FNV-1a. Machines of different releases get the same result. It
/// reveals a change or damage, but not malice.
pub fn number<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let hash = texts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The words between blanks; blanks in double quotes don't separate.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let parts = text.split(move |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    });
    parts.filter(|word| !word.is_empty())
}

/// The words between commas; commas inside brackets don't separate.
fn split_outside<const OPEN: char, const CLOSE: char>(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        if c == OPEN {
            depth += 1;
        } else if c == CLOSE {
            depth = depth.saturating_sub(1);
        }
        c == ',' && depth == 0
    })
}

/// The items in order. For the few that a message names: slurmctld needs none of the standard library's larger sorts.
pub fn sorted<T>(items: impl Iterator<Item = T>, order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for item in items {
        let at = all.binary_search_by(|known| order(known, &item)).unwrap_or_else(|at| at);
        all.insert(at, item);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_every_implementation() {
        // From the test vectors of the algorithm's authors.
        assert_eq!(number([b"".as_slice()]), "cbf29ce484222325");
        assert_eq!(number([b"foo".as_slice(), b"bar".as_slice()]), "85944171f73967e8");
    }
}
