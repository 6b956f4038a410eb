//! The line in slurmctld's log about a request that breaks a rule: slurmctld's plugin writes it, and `gpushare audit`
//! reads it.
//!
//! ```text
//! job_submit/gpushare: accepted (audit) GS101 uid=2001 qos='q' asked='gpu:2' user='alice' name='train'
//! ```
//!
//! docs/audit.md has every key. A value in quotes is escaped as Rust escapes bytes (`\'`, `\"`, `\\`, `\n`, `\x1b`):
//! plain ASCII without an unescaped quote, so no user's text can end its value, begin another line or control a
//! terminal.

use std::fmt;

use super::counters::Outcome;
use super::policy::Because;

/// How every line of the plugin begins.
pub const PREFIX: &str = "job_submit/gpushare: ";

/// No value keeps more bytes of a text.
const LONGEST: usize = 120;

/// What happened to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was refused.
    Refused,
    /// It was accepted although it breaks a rule.
    Passed(Because),
}

const VERDICTS: [(Verdict, &str); 7] = [
    (Verdict::Refused, "refused"),
    (Verdict::Passed(Because::Warn), "accepted (warn)"),
    (Verdict::Passed(Because::Audit), "accepted (audit)"),
    (Verdict::Passed(Because::User), "accepted (exempt user)"),
    (Verdict::Passed(Because::Account), "accepted (exempt account)"),
    (Verdict::Passed(Because::Partition), "accepted (exempt partition)"),
    (Verdict::Passed(Because::Reservation), "accepted (exempt reservation)"),
];

impl Verdict {
    /// The outcome to count.
    pub fn outcome(self) -> Outcome {
        match self {
            Verdict::Refused => Outcome::Refused,
            Verdict::Passed(because) => Outcome::from(&because),
        }
    }
}

/// A key whose value is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The job to update, as its user named it.
    Job,
    /// The job's QOS, or its default QOS if it names none.
    Qos,
    /// The part of the request that breaks the rule.
    Asked,
    /// The user's name.
    User,
    /// The account to charge.
    Account,
    /// Its partition, or a list of them.
    Partition,
    /// That part as an option of sbatch.
    Request,
    /// The job's name.
    Name,
    /// Options that would be accepted.
    Try,
}

/// In the order of a line, with how many bytes of a text each keeps.
const KEYS: [(Key, &str, usize); 9] = [
    (Key::Job, "job", 40),
    (Key::Qos, "qos", LONGEST),
    (Key::Asked, "asked", LONGEST),
    (Key::User, "user", LONGEST),
    (Key::Account, "account", LONGEST),
    (Key::Partition, "partition", LONGEST),
    (Key::Request, "request", LONGEST + 20),
    (Key::Name, "name", 64),
    (Key::Try, "try", 600),
];

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// What happened to the request.
    pub verdict: Verdict,
    /// The message's number, such as GS101.
    pub number: String,
    /// The job's user.
    pub user_id: u32,
    /// The user who sent an update.
    pub by: Option<u32>,
    texts: [Option<Vec<u8>>; 9],
}

impl LogLine {
    /// A line without texts.
    pub fn new(verdict: Verdict, number: &str, user_id: u32) -> LogLine {
        LogLine { verdict, number: number.to_owned(), user_id, by: None, texts: Default::default() }
    }

    /// The line with a text, unless that is empty.
    #[must_use]
    pub fn with(mut self, key: Key, text: &[u8]) -> LogLine {
        let place = KEYS.iter().zip(&mut self.texts).find(|((known, ..), _)| *known == key);
        if let Some(((.., most), place)) = place.filter(|_| !text.is_empty()) {
            *place = Some(text.iter().copied().take(*most).collect());
        }
        self
    }

    /// The text of a key.
    pub fn text(&self, key: Key) -> Option<&[u8]> {
        KEYS.iter().zip(&self.texts).find(|((known, ..), _)| *known == key)?.1.as_deref()
    }

    /// Reads a line from [`PREFIX`] to its end; `None` for any other line, and for one that was cut off. Ignores keys
    /// of a later gpushare.
    pub fn parse(line: &[u8]) -> Option<LogLine> {
        let rest = line.strip_prefix(PREFIX.as_bytes())?;
        let (verdict, mut rest) = VERDICTS
            .iter()
            .find_map(|(verdict, words)| Some((*verdict, rest.strip_prefix(words.as_bytes())?)))?;
        let number = rest.strip_prefix(b" ")?.get(..5)?;
        rest = rest.get(6..)?;
        let is_number = number.starts_with(b"GS") && number.iter().skip(2).all(u8::is_ascii_digit);
        let number = std::str::from_utf8(number).ok().filter(|_| is_number)?;
        let (mut user_id, mut found) = (None, LogLine::new(verdict, number, 0));
        while !rest.is_empty() {
            let (key, after) = rest.strip_prefix(b" ").and_then(|rest| split_at(rest, b'='))?;
            let (value, after) = value(after)?;
            let set = match key {
                b"uid" => user_id.replace(parse_number(&value)?).is_some(),
                b"by" => found.by.replace(parse_number(&value)?).is_some(),
                _ => {
                    let place =
                        KEYS.iter().zip(&mut found.texts).find(|((_, name, _), _)| name.as_bytes() == key);
                    place.is_some_and(|(_, place)| place.replace(value).is_some())
                }
            };
            // Each key may occur only once.
            if set {
                return None;
            }
            rest = after;
        }
        user_id.map(|user_id| LogLine { user_id, ..found })
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let words =
            VERDICTS.iter().find(|(verdict, _)| *verdict == self.verdict).map_or("", |(_, words)| words);
        write!(out, "{PREFIX}{words} {} uid={}", self.number, self.user_id)?;
        for ((key, name, _), text) in KEYS.iter().zip(&self.texts) {
            if let Some(text) = text {
                write!(out, " {name}='{}'", text.escape_ascii())?;
            }
            if let (Key::Job, Some(by)) = (key, self.by) {
                write!(out, " by={by}")?;
            }
        }
        Ok(())
    }
}

fn split_at(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|found| *found == byte)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn parse_number(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

/// A value and the text after it: in quotes, or a word without any.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"'") else {
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end)?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+,.[]".contains(byte);
        return (!word.is_empty() && word.iter().all(plain)).then(|| (word.to_vec(), rest));
    };
    let mut found = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'\'' => return Some((found, rest)),
            b'\\' => {
                let (escaped, after) = rest.split_first()?;
                rest = after;
                found.push(match escaped {
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b'\'' | b'"' | b'\\' => *escaped,
                    b'x' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let plain = digits.iter().all(u8::is_ascii_hexdigit);
                        let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
                        u8::from_str_radix(digits, 16).ok()?
                    }
                    _ => return None,
                });
            }
            byte if byte.is_ascii_graphic() || *byte == b' ' => found.push(*byte),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_written_in_one_way() {
        let mut line = LogLine::new(Verdict::Passed(Because::Audit), "GS101", 2001)
            .with(Key::Try, b"--qos=q --gres=gpu:a40:2")
            .with(Key::Name, b"it's \x1b[31m\n")
            .with(Key::Asked, b"gpu:2")
            .with(Key::Qos, b"q")
            .with(Key::Account, b"");
        assert_eq!(
            line.to_string(),
            concat!(
                r"job_submit/gpushare: accepted (audit) GS101 uid=2001 qos='q' asked='gpu:2' ",
                r"name='it\'s \x1b[31m\n' try='--qos=q --gres=gpu:a40:2'"
            )
        );
        line = LogLine { by: Some(0), verdict: Verdict::Refused, ..line.with(Key::Job, b"12_3") };
        assert!(
            line.to_string()
                .starts_with("job_submit/gpushare: refused GS101 uid=2001 job='12_3' by=0 qos='q'")
        );
    }

    #[test]
    fn lines_of_others_and_parts_of_lines_are_not_read() {
        let good = "job_submit/gpushare: refused GS101 uid=1 job=12_3 by=0 qos='a b' later='x' asked='gpu:1'";
        let read = LogLine::parse(good.as_bytes()).unwrap();
        assert_eq!(
            (read.text(Key::Job), read.by, read.text(Key::Qos)),
            (Some(&b"12_3"[..]), Some(0), Some(&b"a b"[..]))
        );
        assert!((0..good.len()).all(|at| {
            let cut = LogLine::parse(&good.as_bytes()[..at]);
            cut.is_none_or(|cut| cut != read && !good[at..].starts_with('\''))
        }));
        for bad in [
            "job_submit/gpushare: refused GS101",
            "job_submit/gpushare: refused GS1011 uid=1",
            "job_submit/gpushare: refused XX101 uid=1",
            "job_submit/gpushare: accepted GS101 uid=1",
            "job_submit/gpushare: refused GS101 uid=1 uid=2",
            "job_submit/gpushare: refused GS101 uid=1 qos='a' qos='b'",
            "job_submit/gpushare: refused GS101 uid=1 qos='a'b",
            "job_submit/gpushare: refused GS101 uid=1 qos='a\\q'",
            "job_submit/gpushare: refused GS101 uid=1 qos='\u{1b}'",
            "job_submit/gpushare: refused GS101 uid=-1",
            "job_submit/gpushare: changed GS151 uid=1",
            " job_submit/gpushare: refused GS101 uid=1",
        ] {
            assert_eq!(LogLine::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let hostile = Just(b"' user='root' job_submit/gpushare: refused GS101 uid=0 \n\x1b".to_vec());
        prop_oneof![3 => proptest::collection::vec(any::<u8>(), 1..40), 1 => hostile]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            verdict in proptest::sample::select(VERDICTS.to_vec()),
            numbers in (0_u32.., proptest::option::of(0_u32..)),
            texts in proptest::array::uniform9(proptest::option::of(texts())),
        ) {
            let mut line = LogLine { by: numbers.1, ..LogLine::new(verdict.0, "GS103", numbers.0) };
            for ((key, ..), text) in KEYS.iter().zip(&texts) {
                line = line.with(*key, text.as_deref().unwrap_or_default());
            }
            let text = line.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{text}");
            prop_assert_eq!(LogLine::parse(text.as_bytes()), Some(line));
        }

        #[test]
        fn any_bytes_are_a_line_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LogLine::parse(&bytes);
            let _ = LogLine::parse(&[b"job_submit/gpushare: refused GS101 uid=1 ".as_slice(), &bytes].concat());
        }
    }
}
