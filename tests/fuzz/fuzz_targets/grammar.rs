//! Any bytes as a `tres_per_*` string: no panic, and what was recognised reads the same when it is printed.
//!
//! Input: a byte for the spelling, then the string.
#![no_main]

use gpushare::submit::grammar::{Gres, Spelling, Token, plain, tokens};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = data.split_first() else { return };
    let spelling = if first % 2 == 0 { Spelling::Colon } else { Spelling::Slash };
    for (_, token) in tokens(text, spelling) {
        match token {
            Token::Gres(gres) => check_print(gres, spelling),
            Token::Cpus(_) | Token::Other => {}
            Token::Unrecognised(part) => {
                assert!(!part.shown().contains(&b','), "a part of the string");
            }
        }
    }
});

fn check_print(gres: Gres, spelling: Spelling) {
    let printed = [spelling.prefix(), &plain(gres)].concat();
    let shown = printed.escape_ascii();
    assert!(
        tokens(&printed, spelling).map(|(_, token)| token).eq([Token::Gres(gres)]),
        "{shown} is read otherwise"
    );
    assert!(
        !gres.name.is_empty() && gres.gres_type.is_none_or(|gres_type| !gres_type.is_empty()),
        "{shown}: an empty part"
    );
}
