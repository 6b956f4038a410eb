//! Reads a `tres_per_*` string as Slurm does, but recognises only what has a single meaning.
//!
//! Slurm looks for its prefix *anywhere* in the string, accepts an empty type, allows colons in a type, and turns a
//! count that overflows into a type (src/common/gres.c and slurm_protocol_defs.c: `_get_next_gres`,
//! `slurm_get_next_tres`). So this doesn't search for bad tokens: a token is a GRES of the plain form, or a TRES that
//! can never be a GPU, or [`Token::Unrecognised`], which a governed QOS refuses.
//!
//! It doesn't know which types exist; [`crate::submit::policy`] decides that. `tests/differential` compares it with
//! Slurm's own parser.

/// Which prefix this Slurm reads. It ignores the other one, which therefore must not count as a typed request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// `gres:gpu:a40:2`, up to 23.02.
    Colon,
    /// `gres/gpu:a40:2` or `gres/gpu:a40=2`, from 23.11.
    #[default]
    Slash,
}

impl Spelling {
    /// How a token begins.
    pub const fn prefix(self) -> &'static [u8] {
        match self {
            Spelling::Colon => b"gres:",
            Spelling::Slash => b"gres/",
        }
    }
}

/// One comma-separated part of a `tres_per_*` string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A GRES request in the plain form.
    Gres(Gres<'a>),
    /// `cpu=2`, to which sbatch converts `--cpus-per-task` from 23.11 on.
    Cpus(u64),
    /// Another TRES that isn't a GRES, such as `license/matlab:1`.
    Other,
    /// Anything else.
    Unrecognised(Unread<'a>),
}

/// A part that isn't of a known form. What Slurm reads in it depends on its release and on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread<'a> {
    text: &'a [u8],
    spelling: Spelling,
}

impl<'a> Unread<'a> {
    /// It without Slurm's prefix, for a message.
    pub fn shown(&self) -> &'a [u8] {
        self.text.strip_prefix(self.spelling.prefix()).unwrap_or(self.text)
    }

    /// Whether Slurm could find this GRES in it.
    pub fn mentions(&self, name: &[u8]) -> bool {
        name.is_empty() || self.text.windows(name.len()).any(|window| window == name)
    }

    /// The name and type that Slurm may read in it up to 23.02: they follow its prefix, which may be anywhere, and are
    /// between the colons.
    pub fn hidden_type(&self) -> Option<(&'a [u8], &'a [u8])> {
        let prefix = Spelling::Colon.prefix();
        let at = self.text.windows(prefix.len()).position(|window| window == prefix)?;
        let mut fields = self.text.get(at + prefix.len()..)?.split(|byte| *byte == b':');
        Some((fields.next()?, fields.next()?)).filter(|_| self.spelling == Spelling::Colon)
    }

    /// How many GPUs it probably means: Slurm looks for its prefix anywhere in it, and the first number after the name
    /// is the most likely count.
    pub fn likely_gpus(&self) -> Option<u64> {
        let gres = b"gres";
        let at = self.text.windows(gres.len()).rposition(|window| window == gres);
        let rest = at.map_or(self.text, |at| self.text.get(at + gres.len()..).unwrap_or_default());
        let rest = rest.strip_prefix(b":").or_else(|| rest.strip_prefix(b"/")).unwrap_or(rest);
        let words = rest.strip_prefix(b"gpu")?.split(|byte| !byte.is_ascii_alphanumeric());
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
        words.filter_map(number).find(|count| (1..=9999).contains(count)).or(Some(1))
    }
}

/// `gpu:a40:2`: a name, an optional type, and a count (1 by default; 0 requests nothing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gres<'a> {
    /// Its name in GresTypes, such as `gpu`.
    pub name: &'a [u8],
    /// Its type in gres.conf, such as `a40`; never empty.
    pub gres_type: Option<&'a [u8]>,
    /// The number of units, with the suffix (`k`, `kb`, …) applied.
    pub count: u64,
}

impl Gres<'_> {
    /// Whether Slurm makes the same entry of both.
    pub fn is_same_entry(&self, other: &Gres) -> bool {
        self.name == other.name && self.gres_type == other.gres_type
    }
}

/// Each part of a `tres_per_*` string, and its token. Omits empty ones, and a prefix without anything after it
/// (`--gres=`): Slurm reads no request from these.
pub fn tokens(text: &[u8], spelling: Spelling) -> impl Iterator<Item = (&[u8], Token<'_>)> {
    let parts = text.split(|byte| *byte == b',');
    let parts = parts.filter(move |part| !part.is_empty() && *part != spelling.prefix());
    parts.map(move |part| (part, token(part, spelling)))
}

/// Parses one part between commas, which must not be empty.
fn token(part: &[u8], spelling: Spelling) -> Token<'_> {
    let recognised = match part.strip_prefix(spelling.prefix()) {
        Some(rest) => gres(rest, spelling).map(Token::Gres),
        None => other_tres(part),
    };
    recognised.unwrap_or(Token::Unrecognised(Unread { text: part, spelling }))
}

/// The number by which Slurm knows a type: it finds nodes by this number, but counts limits by name (`gres_build_id` in
/// src/common/gres.c). Many names have the same number.
pub fn type_id(gres_type: &[u8]) -> u32 {
    gres_type.iter().zip([0, 8, 16, 24].into_iter().cycle()).fold(0, |id: u32, (byte, shift)| {
        // C's char is signed.
        id.wrapping_add((i32::from(byte.cast_signed()).cast_unsigned()) << shift)
    })
}

/// The request as a user would type it after `--gres=`, including the count.
pub fn plain(gres: Gres) -> Vec<u8> {
    let mut text = gres.name.to_vec();
    if let Some(gres_type) = gres.gres_type {
        text.push(b':');
        text.extend_from_slice(gres_type);
    }
    text.extend_from_slice(format!(":{}", gres.count).as_bytes());
    text
}

/// Parses NAME, NAME:COUNT, NAME:TYPE, NAME:TYPE:COUNT, and from 23.11 also `=` before the count. Slurm sees a type
/// between two colons up to 23.02, and then between the first colon and the last `=` or, without any, the last colon
/// (`_get_next_gres` in src/common/gres.c, `slurm_get_next_tres` in src/common/slurm_protocol_defs.c).
fn gres(rest: &[u8], spelling: Spelling) -> Option<Gres<'_>> {
    let (name, gres_type, tail, has_equals) = match spelling {
        Spelling::Colon => {
            let mut parts = rest.splitn(3, |byte| *byte == b':');
            let (name, second, third) = (parts.next()?, parts.next(), parts.next());
            (name, second.filter(|_| third.is_some()), third.or(second), false)
        }
        Spelling::Slash => {
            let last = |byte: u8| rest.iter().rposition(|found| *found == byte);
            let equals = last(b'=');
            let (head, tail) = rest.split_at_checked(equals.or_else(|| last(b':')).unwrap_or(rest.len()))?;
            let mut parts = head.splitn(2, |byte| *byte == b':');
            (parts.next()?, parts.next(), tail.get(1..), equals.is_some())
        }
    };
    let (gres_type, count) = match (tail, tail.and_then(number)) {
        (None, _) => (gres_type, 1),
        (Some(_), Some(count)) => (gres_type, count),
        (Some(tail), None) => {
            let is_type = gres_type.is_none() && !has_equals && !resembles_number(tail);
            (Some(tail).filter(|tail| is_type && !matches!(tail.first(), Some(b'+' | b'-'))).map(Some)?, 1)
        }
    };
    let is_name = is_word(name) && !resembles_number(name);
    (is_name && gres_type.is_none_or(is_type)).then_some(Gres { name, gres_type, count })
}

/// Whether it may be a type: Slurm takes any bytes, but lists of TRES have a count behind `=`, and a blank is rather
/// the end of an option.
fn is_type(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| *byte > b' ' && !matches!(byte, b'=' | 0x7f))
}

/// Whether it has only letters, digits and `_ . - +`, and begins with a letter, a digit or `_`. Nothing in it could be
/// a separator, sign or blank for Slurm.
fn is_word(text: &[u8]) -> bool {
    text.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'_')
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-+".contains(byte))
}

/// Whether it is a word, or `NAME@SERVER`.
fn is_licence(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'@').all(is_word)
}

/// Digits and one of Slurm's suffixes: `k`/`kib` × 1024, `kb` × 1000, similarly m, g, t, p; any case (`suffix_mult` in
/// src/common/xstring.c). `None` also if the result doesn't fit into 64 bits.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, suffix) = text.split_at_checked(digits)?;
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0_u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')))
    })?;
    let factor = multiplier(suffix)?;
    value.checked_mul(factor).filter(|value| *value != u64::MAX)
}

/// Digits and a suffix, of which either may be missing. If [`number`] refuses it, Slurm may see a type (a count that
/// doesn't fit into 64 bits), the count 0 (only a suffix, up to 23.02) or a product that overflowed (`20000000p`).
fn resembles_number(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.get(digits..).and_then(multiplier).is_some()
}

fn multiplier(suffix: &[u8]) -> Option<u64> {
    let Some((letter, unit)) = suffix.split_first() else { return Some(1) };
    let power = b"kmgtp".iter().position(|known| known.eq_ignore_ascii_case(letter))?;
    let base: u64 = if unit.is_empty() || unit.eq_ignore_ascii_case(b"ib") {
        1024
    } else if unit.eq_ignore_ascii_case(b"b") {
        1000
    } else {
        return None;
    };
    base.checked_pow(u32::try_from(power).ok()? + 1)
}

/// A TRES that is built into Slurm and isn't a GRES (slurm.conf(5), AccountingStorageTRES), with or without a count.
fn other_tres(part: &[u8]) -> Option<Token<'_>> {
    const PLAIN: [&[u8]; 7] = [b"mem", b"node", b"billing", b"energy", b"vmem", b"pages", b"none"];
    const WITH_NAME: [&[u8]; 4] = [b"license/", b"bb/", b"fs/", b"ic/"];
    let end = part.iter().position(|byte| b":=".contains(byte)).unwrap_or(part.len());
    let (name, tail) = part.split_at_checked(end)?;
    let count = tail.split_first().map_or(Some(1), |(_, count)| number(count))?;
    if name == b"cpu" {
        return Some(Token::Cpus(count));
    }
    let known = PLAIN.contains(&name)
        || WITH_NAME.iter().any(|prefix| name.strip_prefix(*prefix).is_some_and(is_licence));
    // Slurm also finds its prefix in the middle of a token: `license/gres/gpu:2` would be two GPUs.
    let hides_gres = part.windows(4).any(|window| window.eq_ignore_ascii_case(b"gres"));
    (known && !hides_gres).then_some(Token::Other)
}

#[cfg(test)]
mod tests;
