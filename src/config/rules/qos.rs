//! What a record `QOS=NAMES …` says about jobs under some QOSes. The settings of the database on the same line are
//! others'.

use super::Key;
use super::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use crate::config::Problem;
use crate::config::values::{QOSES, is_gpu_type, number, word};
use crate::submit::policy::{Mode, QosRecord, Throttle};
use crate::text::pattern::Patterns;
use crate::text::time;
use crate::word::Word;

const RULES: [Key<Line>; 9] = [
    Key {
        name: "QOS",
        allowed: QOSES,
        take: |line, value| Patterns::parse(value).map(|names| line.rules.names = names),
    },
    Key {
        name: "Mode",
        allowed: Mode::ALLOWED,
        take: |line, value| Mode::read(value).map(|mode| line.rules.mode = Some(mode)),
    },
    Key {
        name: "DefaultType",
        allowed: "the name of a GPU type",
        take: |line, value| {
            line.rules.default_type = Some(value.to_owned());
            is_gpu_type(value).then_some(())
        },
    },
    Key {
        name: "Requeue",
        allowed: bool::ALLOWED,
        take: |line, value| bool::read(value).map(|yes| line.rules.requeue = Some(yes)),
    },
    Key {
        name: "OpenMode",
        allowed: "append or truncate",
        take: |line, value| {
            word(value, &[("append", true), ("truncate", false)])
                .map(|append| line.rules.append = Some(append))
        },
    },
    Key {
        name: "ArrayTasks",
        allowed: "a whole number from 1 to 1000000",
        take: |line, value| number(value, 1, 1_000_000).map(|tasks| line.tasks = Some(tasks)),
    },
    Key {
        name: "ArrayTasksOver",
        allowed: "minutes, hours:minutes:seconds or days-hours:minutes:seconds",
        take: |line, value| time::minutes(value).map(|minutes| line.over_minutes = Some(minutes)),
    },
    Key {
        name: "MaxCPUsPerGpu",
        allowed: CPUS_PER_GPU,
        take: |line, value| per_gpu(value, "cpu").map(|cap| line.rules.caps.cpus = Some(cap)),
    },
    Key {
        name: "MaxMemPerGpu",
        allowed: MEM_PER_GPU,
        take: |line, value| per_gpu(value, "mem").map(|cap| line.rules.caps.mem = Some(cap)),
    },
];

/// A line as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    rules: QosRecord,
    tasks: Option<u32>,
    over_minutes: Option<u32>,
}

impl Line {
    /// Takes a key of the line.
    ///
    /// # Errors
    /// The value isn't allowed.
    pub(super) fn take(&mut self, key: &'static str, value: &str) -> Result<(), Problem> {
        Key::take_of(&RULES, self, key, value)
    }

    /// The line's rules; `None` if it has none.
    ///
    /// # Errors
    /// A setting lacks another.
    pub(super) fn finish(mut self) -> Result<Option<QosRecord>, Problem> {
        self.rules.throttle = match (self.tasks, self.over_minutes) {
            (Some(tasks), over) => Some(Throttle { tasks, over_minutes: over.unwrap_or(0) }),
            (None, None) => None,
            (None, Some(_)) => return Err(Problem::Missing { key: "ArrayTasks", because: "ArrayTasksOver" }),
        };
        let no_rules = QosRecord { names: self.rules.names.clone(), ..QosRecord::default() };
        Ok(Some(self.rules).filter(|rules| *rules != no_rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rules::Rules;

    fn records(text: &str) -> Vec<QosRecord> {
        Rules::parse(text).unwrap().policy.records
    }

    #[test]
    fn a_line_has_rules_or_the_databases_settings_or_both() {
        let [free] = records("QOS=free,gpu_* Mode=warn Requeue=yes").try_into().unwrap();
        assert_eq!((free.mode, free.requeue), (Some(Mode::Warn), Some(true)));
        assert_eq!(records("QOS=Free Mode=warn UsageFactor=0").len(), 1);
        for none in ["QOS=free UsageFactor=0", "QOS=free", "QOS=free*", "QOS=q GPUs=many CPUs=-1"] {
            assert_eq!(records(none), [], "{none}");
        }
    }

    #[test]
    fn rules_can_be_for_a_name_with_a_blank() {
        let [rules] = records("QOS=\"two words\",größe  Mode=audit").try_into().unwrap();
        assert_eq!(rules.names.iter().collect::<Vec<_>>(), ["two words", "größe"]);
        assert_eq!(rules.mode, Some(Mode::Audit));
    }
}
