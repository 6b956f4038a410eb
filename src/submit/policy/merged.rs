//! One string of a request, with some of its tokens in another form.

use super::Gres;
use crate::submit::grammar::{self, Spelling, Token};

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
pub(super) fn rewritten<'a>(
    text: &'a [u8],
    spelling: Spelling,
    form: impl Fn(Token<'a>) -> Now<'a>,
) -> Option<Vec<u8>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for part in grammar::parts(text, spelling) {
        let token = grammar::token(part, spelling);
        let new = match (token, form(token)) {
            (Token::Gres(gres), _) if gres.count == 0 => continue,
            (_, Now::Gone) => continue,
            (_, Now::Unclear) => return None,
            (Token::Gres(gres), Now::Kept) => {
                Part { text: part, was: Some(gres), is: Some(gres), changed: false }
            }
            (_, Now::Kept) => Part { text: part, was: None, is: None, changed: false },
            (Token::Gres(gres), Now::Asks(is)) => {
                Part { text: part, was: Some(gres), is: Some(is), changed: true }
            }
            (_, Now::Asks(is)) => Part { text: part, was: None, is: Some(is), changed: true },
        };
        let same = |old: &Part| old.was.is_some() && old.was.map(entry) == new.was.map(entry);
        match parts.iter_mut().find(|old| same(old)) {
            Some(old) => *old = new,
            None => parts.push(new),
        }
    }
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut done: Vec<(&[u8], Option<&[u8]>)> = Vec::new();
    for part in &parts {
        let Some(gres) = part.is else {
            texts.push(part.text.to_vec());
            continue;
        };
        let alike = || parts.iter().filter(|other| other.is.map(entry) == Some(entry(gres)));
        if done.contains(&entry(gres)) {
            continue;
        }
        done.push(entry(gres));
        let count =
            alike().filter_map(|part| part.is).fold(0_u64, |sum, gres| sum.saturating_add(gres.count));
        let changed = alike().any(|part| part.changed);
        texts.push(if changed { written(Gres { count, ..gres }, spelling) } else { part.text.to_vec() });
    }
    Some(texts.join(&b','))
}

struct Part<'a> {
    text: &'a [u8],
    was: Option<Gres<'a>>,
    is: Option<Gres<'a>>,
    changed: bool,
}

/// What distinguishes entries of one string in Slurm.
fn entry<'a>(gres: Gres<'a>) -> (&'a [u8], Option<&'a [u8]>) {
    (gres.name, gres.gres_type)
}

/// A token with Slurm's prefix.
pub(super) fn written(gres: Gres, spelling: Spelling) -> Vec<u8> {
    [spelling.prefix(), &grammar::plain(gres)].concat()
}
