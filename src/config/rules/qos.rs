//! What a record `QOS=NAMES …` says about jobs under some QOSes. The settings of the database on the same line are
//! others'.

use super::Key;
use super::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, cpus_per_gpu, mem_per_gpu};
use crate::config::Problem;
use crate::config::values::{QOSES, is_gpu_type, keys, number, word};
use crate::submit::policy::{Mode, QosRecord, Throttle};
use crate::text::pattern::Patterns;
use crate::text::time;
use crate::word::Word;

const RULES: &[Key<Line>] = keys! {
    "QOS": QOSES => rules.names = Patterns::parse;
    "Mode": Mode::ALLOWED => rules.mode = Mode::read;
    "DefaultType": "the name of a GPU type" => rules.default_type = gpu_type;
    "Requeue": bool::ALLOWED => rules.requeue = bool::read;
    "OpenMode": "append or truncate" => rules.append = |text| word(text, &[("append", true), ("truncate", false)]);
    "ArrayTasks": "a whole number from 1 to 1000000" => tasks = |text| number(text, 1, 1_000_000);
    "ArrayTasksOver": "minutes, hours:minutes:seconds or days-hours:minutes:seconds" => over_minutes = time::minutes;
    "MaxCPUsPerGpu": CPUS_PER_GPU => rules.caps.cpus = cpus_per_gpu;
    "MaxMemPerGpu": MEM_PER_GPU => rules.caps.mem = mem_per_gpu;
};

fn gpu_type(value: &str) -> Option<String> {
    is_gpu_type(value).then(|| value.to_owned())
}

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
        Key::take_of(RULES, self, key, value)
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
