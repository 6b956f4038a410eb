//! The line in slurmctld's log about a request that breaks a rule: slurmctld's plugin writes it, and `gpushare audit`
//! reads it.
//!
//! ```text
//! job_submit/gpushare: accepted (audit) GS101 uid=2001 qos='q' asked='gpu:2' user='alice' name='train'
//! ```
//!
//! docs/commands.md has every key. A value in quotes is escaped as Rust escapes bytes (`\'`, `\"`, `\\`, `\n`, `\x1b`):
//! plain ASCII without an unescaped quote, so no user's text can end its value, begin another line or control a
//! terminal.

use std::fmt;

use super::policy::Because;

/// How every line of the plugin begins.
pub const PREFIX: &str = "job_submit/gpushare: ";

/// No value keeps more bytes of a text.
const LONGEST: usize = 120;

crate::names! {
    /// A key whose value is a text, in the order of a line.
    pub enum Key: word {
        /// The job to update, as its user named it.
        Job = "job",
        /// The job's QOS, or its default QOS if it names none.
        Qos = "qos",
        /// The part of the request that breaks the rule.
        Asked = "asked",
        /// The user's name.
        User = "user",
        /// The account to charge.
        Account = "account",
        /// Its partition, or a list of them.
        Partition = "partition",
        /// That part as an option of sbatch.
        Request = "request",
        /// The job's name.
        Name = "name",
        /// Options that would be accepted.
        Try = "try",
    }
}

impl Key {
    /// How many bytes of a text it keeps.
    const fn most(self) -> usize {
        match self {
            Key::Job => 40,
            Key::Request => LONGEST + 20,
            Key::Name => 64,
            Key::Try => 600,
            Key::Qos | Key::Asked | Key::User | Key::Account | Key::Partition => LONGEST,
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Why the request was accepted although it breaks a rule; `None` if it was refused.
    pub passed: Option<Because>,
    /// The message's number, such as GS101.
    pub number: String,
    /// The job's user.
    pub user_id: u32,
    /// The user who sent an update.
    pub by: Option<u32>,
    texts: [Option<Vec<u8>>; Key::ALL.len()],
}

impl LogLine {
    /// A line without texts.
    pub fn new(passed: Option<Because>, number: &str, user_id: u32) -> LogLine {
        LogLine { passed, number: number.to_owned(), user_id, by: None, texts: Default::default() }
    }

    /// The line with a text, unless that is empty.
    #[must_use]
    pub fn with(mut self, key: Key, text: &[u8]) -> LogLine {
        if let Some(place) = self.texts.get_mut(key as usize).filter(|_| !text.is_empty()) {
            *place = Some(text.iter().copied().take(key.most()).collect());
        }
        self
    }

    /// The text of a key.
    pub fn text(&self, key: Key) -> Option<&[u8]> {
        self.texts.get(key as usize)?.as_deref()
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.passed {
            None => write!(out, "{PREFIX}refused")?,
            Some(because) => write!(out, "{PREFIX}accepted ({})", because.word())?,
        }
        write!(out, " {} uid={}", self.number, self.user_id)?;
        for (key, text) in Key::ALL.into_iter().zip(&self.texts) {
            if let Some(text) = text {
                write!(out, " {}='{}'", key.word(), text.escape_ascii())?;
            }
            if let (Key::Job, Some(by)) = (key, self.by) {
                write!(out, " by={by}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_longer_than_its_key_keeps() {
        for (key, most) in [
            (Key::Job, 40),
            (Key::Request, 140),
            (Key::Name, 64),
            (Key::Try, 600),
            (Key::Qos, 120),
            (Key::Asked, 120),
            (Key::User, 120),
            (Key::Account, 120),
            (Key::Partition, 120),
        ] {
            let line = LogLine::new(None, "GS101", 2001).with(key, &[b'x'; 1000]);
            assert_eq!(line.text(key).map(<[u8]>::len), Some(most), "{}", key.word());
        }
    }

    #[test]
    fn a_line_is_written_in_one_way() {
        let mut line = LogLine::new(Some(Because::Audit), "GS101", 2001)
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
        assert_eq!((line.text(Key::Qos), line.text(Key::Account)), (Some(b"q".as_slice()), None));
        line = LogLine { by: Some(0), passed: None, ..line.with(Key::Job, b"12_3") };
        assert!(
            line.to_string()
                .starts_with("job_submit/gpushare: refused GS101 uid=2001 job='12_3' by=0 qos='q'")
        );
    }
}
