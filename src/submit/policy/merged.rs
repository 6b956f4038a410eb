//! One string of a request, with some of its tokens in another form.

use super::Gres;
use crate::submit::grammar::{self, Spelling, Token};
use crate::submit::request::Part;

/// The new form of a token.
pub(super) enum Now<'a> {
    /// Unchanged.
    Kept,
    /// A request for this.
    Asks(Gres<'a>),
    /// Removed.
    Gone,
    /// Unknown.
    Unclear,
}

/// The string with each token's new form; `None` if one is unknown. Tokens that become the same are merged into one
/// with the sum, because Slurm would use only the last. Tokens that already were the same count once, because Slurm
/// already used only the last of them.
pub(super) fn rewritten<'a, 'p>(
    string: impl Iterator<Item = &'p Part<'a>>,
    spelling: Spelling,
    form: impl Fn(Token<'a>) -> Now<'a>,
) -> Option<Vec<u8>>
where
    'a: 'p,
{
    let mut parts: Vec<New<'a>> = Vec::new();
    for Part { text, token, .. } in string {
        let was = match token {
            Token::Gres(gres) if gres.count == 0 => continue,
            Token::Gres(gres) => Some(*gres),
            _ => None,
        };
        let new = match form(*token) {
            Now::Gone => continue,
            Now::Unclear => return None,
            Now::Kept => New { text, was, is: was, changed: false },
            Now::Asks(is) => New { text, was, is: Some(is), changed: true },
        };
        match parts.iter_mut().find(|old| same(old.was, new.was)) {
            Some(old) => *old = new,
            None => parts.push(new),
        }
    }
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let Some(gres) = part.is else {
            texts.push(part.text.to_vec());
            continue;
        };
        let alike = |other: &&New| same(other.is, part.is);
        if parts.iter().take(at).any(|other| alike(&other)) {
            continue;
        }
        let counts = parts.iter().filter(alike).filter_map(|part| part.is).map(|gres| gres.count);
        let count = counts.fold(0_u64, u64::saturating_add);
        let changed = parts.iter().filter(alike).any(|part| part.changed);
        texts.push(if changed { written(Gres { count, ..gres }, spelling) } else { part.text.to_vec() });
    }
    Some(texts.join(&b','))
}

struct New<'a> {
    text: &'a [u8],
    was: Option<Gres<'a>>,
    is: Option<Gres<'a>>,
    changed: bool,
}

/// Whether Slurm makes one entry of both.
fn same(a: Option<Gres>, b: Option<Gres>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.is_same_entry(&b))
}

/// Puts a token before those of a string.
pub(super) fn before(token: Vec<u8>, old: Option<&[u8]>) -> Vec<u8> {
    match old.filter(|old| !old.is_empty()) {
        Some(old) => [&token, old].join(&b','),
        None => token,
    }
}

/// A token with Slurm's prefix.
pub(super) fn written(gres: Gres, spelling: Spelling) -> Vec<u8> {
    [spelling.prefix(), &grammar::plain(gres)].concat()
}
