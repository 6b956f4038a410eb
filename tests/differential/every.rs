//! Every string of up to six tokens, or one of the parts into which they are divided.
//!
//! The parts are of equal size, each holds strings of all kinds, and together they are all.

use gpushare::submit::grammar::Spelling;

/// Besides the release's prefix, alone and with `gpu`: what the grammar tells apart, another GRES, a known type, one
/// that has its id (`gres_build_id`), numbers, and `k`, which is a suffix and a known type.
const TOKENS: [&[u8]; 14] = [
    b"gres",
    b"gpu",
    b"nic",
    b"a40",
    b"mAA0zxtUzzzz",
    b"license/",
    b":",
    b"=",
    b",",
    b"/",
    b"2",
    b"0",
    b"k",
    b"+",
];
const LONGEST: u32 = 6;
const BASE: u64 = 16;
/// How many there are.
const TOTAL: u64 = (BASE.pow(LONGEST + 1) - 1) / (BASE - 1);
/// A prime: each step of this size reaches a string that no step before did.
const STRIDE: u64 = 11_060_173;
const _: () = assert!(!TOTAL.is_multiple_of(STRIDE) && TOKENS.len() + 2 == 16);

/// Part PART of PARTS, which begin with 1.
pub fn strings(spelling: Spelling, part: u64, parts: u64) -> impl Iterator<Item = Vec<u8>> {
    let step = usize::try_from(parts).unwrap_or(usize::MAX);
    (part - 1..TOTAL).step_by(step).map(move |at| string(at * STRIDE % TOTAL, spelling))
}

/// The string with this number, from 0.
fn string(mut number: u64, spelling: Spelling) -> Vec<u8> {
    let mut length = 0;
    while number >= BASE.pow(length) {
        number -= BASE.pow(length);
        length += 1;
    }
    let digits =
        (0..length).map(|place| usize::try_from(number / BASE.pow(place) % BASE).unwrap_or_default());
    let gpu = [spelling.prefix(), b"gpu"].concat();
    let token = |digit| match digit {
        0 => spelling.prefix(),
        1 => &gpu,
        other => TOKENS.get(other - 2).copied().unwrap_or_default(),
    };
    digits.flat_map(token).copied().collect()
}
