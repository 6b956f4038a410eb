//! What a string asks for: as gpushare's grammar reads it, as Slurm answered, as the table says.

use gpushare::submit::grammar::{self, Spelling, Token};
use std::fmt;

/// What was made of a whole string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Slurm refuses it.
    Error,
    /// These requests, in the order of their first tokens; none for "nothing".
    Wants(Vec<Wanted>),
}

/// One request: tokens of the same name and type count as one, the last count wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Such as `gpu`.
    pub name: Vec<u8>,
    /// Such as `a40`. Slurm from 23.11 may have an empty one.
    pub gres_type: Option<Vec<u8>>,
    /// At least 1.
    pub count: u64,
}

/// What gpushare's grammar reads; `None` where it doesn't recognise a token.
pub fn ours(text: &[u8], spelling: Spelling) -> Option<Vec<Wanted>> {
    let mut all: Vec<Wanted> = Vec::new();
    for (_, token) in grammar::tokens(text, spelling) {
        let gres = match token {
            Token::Unrecognised(_) => return None,
            Token::Gres(gres) if gres.count > 0 => gres,
            Token::Gres(_) | Token::Cpus(_) | Token::Other => continue,
        };
        let same = |known: &&mut Wanted| {
            known.name == gres.name && identity(known.gres_type.as_deref()) == identity(gres.gres_type)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.count = gres.count,
            None => all.push(Wanted {
                name: gres.name.to_vec(),
                gres_type: gres.gres_type.map(<[u8]>::to_vec),
                count: gres.count,
            }),
        }
    }
    Some(all)
}

/// By which Slurm tells types apart: a sum of the bytes, which are signed, each shifted by its place in a group of four
/// (`gres_build_id`).
fn identity(gres_type: Option<&[u8]>) -> u32 {
    let shifts = [0, 8, 16, 24].into_iter().cycle();
    gres_type.unwrap_or_default().iter().zip(shifts).fold(0, |sum, (byte, shift)| {
        sum.wrapping_add(i32::from(byte.cast_signed()).cast_unsigned() << shift)
    })
}

impl fmt::Display for Reading {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Reading::Error => out.write_str("error"),
            Reading::Wants(all) if all.is_empty() => out.write_str("nothing"),
            Reading::Wants(all) => {
                let texts: Vec<String> = all.iter().map(Wanted::to_string).collect();
                out.write_str(&texts.join(", "))
            }
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.name.escape_ascii())?;
        if let Some(gres_type) = &self.gres_type {
            write!(out, ":{}", gres_type.escape_ascii())?;
        }
        write!(out, "={}", self.count)
    }
}
