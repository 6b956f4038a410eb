//! A line `QOS=NAMES Key=Value Key=Value…`: settings of some QOSes, as slurm.conf writes a node or a partition.

use super::Problem;
use super::values::{MODES, YES_NO, mode, number, word};
use crate::pattern::Patterns;
use crate::policy::{QosRecord, Throttle};
use crate::time;

/// What such a line begins with.
pub(super) const KEY: &str = "QOS";

struct Key {
    name: &'static str,
    allowed: &'static str,
    take: fn(&mut Draft, &str) -> Option<()>,
}

const KEYS: [Key; 7] = [
    Key {
        name: KEY,
        allowed: "names of QOSes separated by commas, in which * stands for any characters",
        take: |draft, value| {
            draft.record.names = Patterns::parse(value)?;
            Some(())
        },
    },
    Key {
        name: "Mode",
        allowed: MODES,
        take: |draft, value| {
            draft.record.mode = Some(mode(value)?);
            Some(())
        },
    },
    Key {
        name: "DefaultType",
        allowed: "the name of a GPU type",
        take: |draft, value| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_.-+".contains(c);
            draft.record.default_type =
                Some(value).filter(|kind| !kind.is_empty() && kind.chars().all(plain)).map(str::to_owned);
            draft.record.default_type.as_ref().map(|_| ())
        },
    },
    Key {
        name: "Requeue",
        allowed: "yes or no",
        take: |draft, value| {
            draft.record.requeue = Some(word(value, &YES_NO)?);
            Some(())
        },
    },
    Key {
        name: "OpenMode",
        allowed: "append or truncate",
        take: |draft, value| {
            draft.record.append = Some(word(value, &[("append", true), ("truncate", false)])?);
            Some(())
        },
    },
    Key {
        name: "ArrayTasks",
        allowed: "a whole number from 1 to 1000000",
        take: |draft, value| {
            draft.tasks = Some(number(value, 1, 1_000_000)?);
            Some(())
        },
    },
    Key {
        name: "ArrayTasksOver",
        allowed: "minutes, hours:minutes:seconds or days-hours:minutes:seconds",
        take: |draft, value| {
            draft.over_minutes = Some(time::minutes(value)?);
            Some(())
        },
    },
];

#[derive(Default)]
struct Draft {
    record: QosRecord,
    tasks: Option<u32>,
    over_minutes: Option<u32>,
}

/// Every key of a record.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).collect()
}

pub(super) fn parse(line: &str) -> Result<QosRecord, Problem> {
    let mut draft = Draft::default();
    let mut seen: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let (name, value) = word.split_once('=').ok_or_else(|| Problem::NoValue(word.to_owned()))?;
        let key = KEYS
            .iter()
            .find(|key| key.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| Problem::UnknownKey(name.to_owned(), KEYS.iter().map(|key| key.name).collect()))?;
        if seen.contains(&key.name) {
            return Err(Problem::Twice { key: key.name, first: None });
        }
        seen.push(key.name);
        (key.take)(&mut draft, value).ok_or_else(|| Problem::BadValue {
            key: key.name,
            value: value.to_owned(),
            allowed: key.allowed,
        })?;
    }
    draft.record.throttle = match (draft.tasks, draft.over_minutes) {
        (Some(tasks), over) => Some(Throttle { tasks, over_minutes: over.unwrap_or(0) }),
        (None, None) => None,
        (None, Some(_)) => return Err(Problem::Missing { key: "ArrayTasks", because: "ArrayTasksOver" }),
    };
    Ok(draft.record)
}
