//! Strings to try: requests put together from parts that matter to a reader, then damaged. The same for the same seed.

#![expect(clippy::indexing_slicing, reason = "indices come from `below`, which is given the length")]

use crate::accounting::TYPES;
use gpushare::submit::grammar::Spelling;

// Lists of parts, with '|' between them; the more often a part is there, the more often it is taken.

const PREFIXES: &str =
    "gres:|gres/|gres|gres//|gres::|GRES/|xgres/| gres:|license/gres/|gres/gres:|cpu:1gres/|";
/// The second last has the id of `gpu` (`gres_build_id`).
const NAMES: &str = "gpu|gpu|gpu|gpu|gpu|gpu|gpu|gpu|mps|shard|nic|GPU|gpux|gp|2|none|ayk44ac4qetfa021|";
/// Besides the cluster's own: three that Slurm can't tell from a40, from h100 and from no type; wrong case; numbers.
const OTHER_TYPES: &str = "mAA0zxtUzzzz|tAAAzuttzzzz|UUUUUUUUVUUU|A40|a40 |a40:b|1g|gib|+2|2.5|no_consume|a40(S:0)|\
    18446744073709551616|";
const COUNTS: &str = "0|1|2|007|1g|2k|2K|2kb|2KiB|5MiB|3Tb|k|GiB|+2|-1|-2| 2|2 |0x2|1e2|2.5|16777216t|20000000p|\
    18446744073709551614|18446744073709551615|18446744073709551616|99999999999999999999999|";
const SEPARATORS: &str = ":|=|::|:=|/|;| |(|";
const JOINTS: &str = ",|,|,,|;| |";
const OTHER_TRES: &str = "cpu=4|cpu:2|mem=4g|license/matlab:1|license/gres:1|bb/cray=1|none|node=1k";
const INSERTIONS: &str = "gres|gres:|gres/|gpu|:|=|,|:2|gres/gpu:2";
/// What mutations and noise are made of, besides any byte at all.
const ALPHABET: &[u8] = b"gres/:=,gpu:a40h1k2. \t\n\x01+-;(@_\x80\xff";

/// Makes strings; a splitmix64 generator and what it needs to know.
pub struct Generator {
    state: u64,
    prefix: &'static [u8],
    seeds: Vec<Vec<u8>>,
}

impl Generator {
    /// The prefix of `spelling` is preferred; `seeds` are strings to start from, not none.
    pub fn new(seed: u64, spelling: Spelling, seeds: Vec<Vec<u8>>) -> Self {
        Generator { state: seed, prefix: spelling.prefix(), seeds }
    }

    /// The next string. It has no NUL: no C string has.
    pub fn string(&mut self) -> Vec<u8> {
        let mut text = match self.below(10) {
            0..=6 => self.request(),
            7 => self.seed(),
            8 => self.splice(),
            _ => self.noise(),
        };
        if self.below(3) == 0 {
            for _ in 0..=self.below(3) {
                self.mutate(&mut text);
            }
        }
        text.retain(|byte| *byte != 0);
        text
    }

    fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() >> 33).unwrap_or_default() % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn part(&mut self, from: &'static str) -> &'static [u8] {
        let at = self.below(from.split('|').count());
        from.split('|').nth(at).unwrap_or_default().as_bytes()
    }

    fn byte(&mut self) -> u8 {
        if self.below(4) == 0 { self.number().to_le_bytes()[0] } else { self.pick(ALPHABET) }
    }

    fn seed(&mut self) -> Vec<u8> {
        let at = self.below(self.seeds.len());
        self.seeds[at].clone()
    }

    /// One to four tokens.
    fn request(&mut self) -> Vec<u8> {
        let mut text = self.token();
        for _ in 0..self.pick(&[0, 0, 0, 0, 1, 1, 2, 3]) {
            text.extend(self.part(JOINTS));
            text.extend(self.token());
        }
        text
    }

    /// Mostly well formed.
    fn token(&mut self) -> Vec<u8> {
        if self.below(10) == 0 {
            return self.part(OTHER_TRES).to_vec();
        }
        let prefix = if self.below(12) == 0 { self.part(PREFIXES) } else { self.prefix };
        let mut text = [prefix, self.part(NAMES)].concat();
        if self.below(4) != 0 {
            let gres_type = if self.below(5) == 0 { self.part(OTHER_TYPES) } else { self.pick(&TYPES) };
            text.extend(self.separator());
            text.extend(gres_type);
        }
        if self.below(3) != 0 {
            text.extend(self.separator());
            text.extend(self.count());
        }
        text
    }

    fn separator(&mut self) -> &'static [u8] {
        if self.below(12) == 0 { self.part(SEPARATORS) } else { b":" }
    }

    fn count(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => self.part(COUNTS).to_vec(),
            1 => (self.number() >> self.below(64)).to_string().into_bytes(),
            _ => self.below(9).to_string().into_bytes(),
        }
    }

    fn splice(&mut self) -> Vec<u8> {
        let (mut text, other) = (self.seed(), self.request());
        text.truncate(self.below(text.len() + 1));
        text.extend(&other[self.below(other.len() + 1)..]);
        text
    }

    fn noise(&mut self) -> Vec<u8> {
        (0..self.below(24)).map(|_| self.byte()).collect()
    }

    fn mutate(&mut self, text: &mut Vec<u8>) {
        let (from, to) = (self.below(text.len() + 1), self.below(text.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match self.below(6) {
            0 => text.insert(from, self.byte()),
            1 => drop(text.drain(from..to.min(from + 3))),
            2 if from < to => text[from] = self.byte(),
            3 => drop(text.splice(from..from, self.part(INSERTIONS).iter().copied())),
            4 if to < text.len() => text[to] = text[to].swap_case(),
            _ => self.shift(text, from),
        }
    }

    /// Adds to a byte what it takes from the fourth after it: Slurm's id of a type that holds both stays the same.
    fn shift(&mut self, text: &mut [u8], at: usize) {
        let by = self.pick(&[1, 2, 13]);
        if let (Some(one), Some(other)) = (text.get(at).copied(), text.get(at + 4).copied()) {
            text[at] = one.wrapping_add(by);
            text[at + 4] = other.wrapping_sub(by);
        }
    }
}

trait SwapCase {
    fn swap_case(self) -> Self;
}

impl SwapCase for u8 {
    fn swap_case(self) -> u8 {
        if self.is_ascii_lowercase() { self.to_ascii_uppercase() } else { self.to_ascii_lowercase() }
    }
}
