//! How often each message was given, as slurmctld's plugin counts it and `gpushare metrics` reads it: the names of the
//! counts in the file of `RefusalCounts`.

use crate::message::pages::PAGES;
use crate::policy::Because;

/// What became of a request that a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was refused.
    Refused,
    /// It passed, by `Mode=warn`.
    Warned,
    /// It passed, by `Mode=audit`.
    Audited,
    /// It passed, by one of the `Exempt…` keys.
    Exempt,
    /// It was changed.
    Changed,
}

/// What a request that breaks a rule can come to.
const OF_A_RULE: [Verdict; 4] = [Verdict::Refused, Verdict::Warned, Verdict::Audited, Verdict::Exempt];

impl From<&Because> for Verdict {
    fn from(because: &Because) -> Verdict {
        match because {
            Because::Warn => Verdict::Warned,
            Because::Audit => Verdict::Audited,
            Because::User | Because::Account | Because::Partition | Because::Reservation => Verdict::Exempt,
        }
    }
}

impl Verdict {
    /// As the counts' names and the metrics' labels have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Refused => "refused",
            Verdict::Warned => "warned",
            Verdict::Audited => "audited",
            Verdict::Exempt => "exempt",
            Verdict::Changed => "changed",
        }
    }
}

/// Every count: the message's number and the verdict. Numbers from GS151 on go with accepted jobs that were changed.
#[must_use]
pub fn all() -> Vec<(&'static str, Verdict)> {
    let changed = |number: &str| number > "GS150";
    let of = |number: &'static str| {
        let verdicts: &[Verdict] = if changed(number) { &[Verdict::Changed] } else { &OF_A_RULE };
        verdicts.iter().map(move |verdict| (number, *verdict))
    };
    PAGES.iter().flat_map(|page| of(page.number)).collect()
}

/// What a count is called in the file.
#[must_use]
pub fn name(number: &str, verdict: Verdict) -> String {
    format!("{number} {}", verdict.word())
}

/// The names of all counts, in the order of the file.
#[must_use]
pub fn names() -> Vec<String> {
    all().into_iter().map(|(number, verdict)| name(number, verdict)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_counted_and_no_name_is_too_long_for_its_line() {
        let names = names();
        assert_eq!(names.len(), 22 * 4 + 5);
        assert_eq!(
            names[..5],
            ["GS101 refused", "GS101 warned", "GS101 audited", "GS101 exempt", "GS102 refused"]
        );
        assert_eq!(names.last().map(String::as_str), Some("GS155 changed"));
        assert!(names.iter().all(|name| name.len() <= 20));
        let numbers = PAGES.iter().map(|page| page.number);
        assert!(numbers.into_iter().all(|number| all().iter().any(|(known, _)| *known == number)));
    }
}
