//! How often each message was given, as slurmctld's plugin counts it and `gpushare metrics` reads it: the names of the
//! counts in the `RefusalCounts` file.

use crate::submit::policy::{Because, Change, Remark, Rule};

crate::names! {
    /// What happened to a request that broke a rule, as in the counts' names and the metrics' labels.
    pub enum Outcome: word {
        /// It was refused.
        Refused = "refused",
        /// It passed because of `Mode=warn`.
        Warned = "warned",
        /// It passed because of `Mode=audit`.
        Audited = "audited",
        /// It passed because of one of the `Exempt…` keys.
        Exempt = "exempt",
        /// It was changed.
        Changed = "changed",
    }
}

/// The possible outcomes for a request that breaks a rule.
const OF_A_RULE: [Outcome; 4] = [Outcome::Refused, Outcome::Warned, Outcome::Audited, Outcome::Exempt];

impl Outcome {
    /// What happened to a request that breaks a rule: why it passed, if it did.
    pub const fn of(passed: Option<Because>) -> Outcome {
        match passed {
            None => Outcome::Refused,
            Some(Because::Warn) => Outcome::Warned,
            Some(Because::Audit) => Outcome::Audited,
            Some(_) => Outcome::Exempt,
        }
    }
}

/// Every count: the message's number and the outcome.
pub fn all() -> Vec<(&'static str, Outcome)> {
    let of_rules = Rule::ALL.iter().flat_map(|rule| OF_A_RULE.map(|outcome| (rule.number(), outcome)));
    of_rules.chain(Change::NUMBERS.map(|number| (number, Outcome::Changed))).collect()
}

/// The number of a remark's message, and what happened to the request.
pub fn of(remark: &Remark) -> (&'static str, Outcome) {
    match remark {
        Remark::Passed(refusal, because) => (refusal.rule.number(), Outcome::of(Some(*because))),
        Remark::Changed(change) => (change.number(), Outcome::Changed),
    }
}

/// The name of a count in the file.
pub fn name(number: &str, outcome: Outcome) -> String {
    format!("{number} {}", outcome.word())
}

/// The names of all counts, in the order of the file.
pub fn names() -> Vec<String> {
    all().into_iter().map(|(number, outcome)| name(number, outcome)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::policy::{Command, Ground, Refusal};

    fn refusal(rule: Rule) -> Refusal {
        *Refusal::new(rule, Ground::Site, Command::Submit)
    }

    #[test]
    fn a_remark_counts_under_its_number() {
        let passed = |because| Remark::Passed(Box::new(refusal(Rule::TypeMissing)), because);
        for (remark, expected) in [
            (passed(Because::Warn), ("GS101", Outcome::Warned)),
            (passed(Because::Audit), ("GS101", Outcome::Audited)),
            (passed(Because::User), ("GS101", Outcome::Exempt)),
            (passed(Because::Reservation), ("GS101", Outcome::Exempt)),
            (Remark::Changed(Change::UserEnv), ("GS155", Outcome::Changed)),
        ] {
            assert_eq!(of(&remark), expected, "{remark:?}");
        }
        assert_eq!(Outcome::of(None), Outcome::Refused);
    }

    #[test]
    fn every_message_is_counted_and_no_name_is_too_long_for_its_line() {
        let names = names();
        assert_eq!(names.len(), 29 * 4 + 6);
        assert_eq!(
            names[..5],
            ["GS101 refused", "GS101 warned", "GS101 audited", "GS101 exempt", "GS102 refused"]
        );
        assert_eq!(names.last().map(String::as_str), Some("GS156 changed"));
        assert!(names.iter().all(|name| name.len() <= 20));
    }
}
