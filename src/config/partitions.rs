//! A line `PartitionName=NAMES Key=Value…`: rules for jobs in some partitions, which replace those for all.

use super::Problem;
use super::qos::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use super::values::{NAMES, names_to};
use crate::submit::policy::PartitionRecord;

/// What such a line begins with.
pub(super) const KEY: &str = "PartitionName";

struct Key {
    name: &'static str,
    allowed: &'static str,
    take: fn(&mut PartitionRecord, &str) -> Option<()>,
}

const KEYS: [Key; 3] = [
    Key { name: KEY, allowed: NAMES, take: |record, value| names_to(&mut record.names, value) },
    Key {
        name: "MaxCPUsPerGpu",
        allowed: CPUS_PER_GPU,
        take: |record, value| per_gpu(value, "cpu").map(|cap| record.caps.cpus = Some(cap)),
    },
    Key {
        name: "MaxMemPerGpu",
        allowed: MEM_PER_GPU,
        take: |record, value| per_gpu(value, "mem").map(|cap| record.caps.mem = Some(cap)),
    },
];

pub(super) fn parse(text: &str) -> Result<PartitionRecord, Problem> {
    let mut record = PartitionRecord::default();
    let mut seen: Vec<&'static str> = Vec::new();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').ok_or_else(|| Problem::NoValue(word.to_owned()))?;
        let key = KEYS.iter().find(|key| key.name.eq_ignore_ascii_case(name));
        let names = || KEYS.iter().map(|key| key.name).collect();
        let Key { name: key, allowed, take } =
            key.ok_or_else(|| Problem::UnknownKey(name.to_owned(), names()))?;
        take(&mut record, value).ok_or_else(|| Problem::BadValue {
            key,
            value: value.to_owned(),
            allowed,
        })?;
        if seen.contains(key) {
            return Err(Problem::Twice { key, first: None });
        }
        seen.push(key);
    }
    Ok(record)
}
