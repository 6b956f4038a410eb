//! A line `PartitionName=NAMES Key=Value…`: rules for jobs in some partitions, which replace those for all.

use super::Problem;
use super::qos::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use super::values::{Key, NAMES, names_key};
use crate::submit::policy::PartitionRecord;
use crate::text::pattern::Patterns;

/// The key that begins such a line.
pub(super) const KEY: &str = "PartitionName";

const KEYS: [Key<PartitionRecord>; 3] = [
    names_key!("PartitionName" => names),
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

/// Reads a line.
///
/// # Errors
/// A word that is not `Key=Value`, a key that is unknown or given twice, or a value that isn't allowed.
pub(super) fn parse(text: &str) -> Result<PartitionRecord, Problem> {
    let mut record = PartitionRecord::default();
    let mut seen: Vec<&'static str> = Vec::new();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').ok_or_else(|| Problem::NoValue(word.to_owned()))?;
        let names = || KEYS.iter().map(|key| key.name).collect();
        let key = Key::named(&KEYS, name).ok_or_else(|| Problem::UnknownKey(name.to_owned(), names()))?;
        key.take(&mut record, value)?;
        if seen.contains(&key.name) {
            return Err(Problem::Twice { key: key.name, first: None });
        }
        seen.push(key.name);
    }
    Ok(record)
}
