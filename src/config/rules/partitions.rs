//! A line `PartitionName=NAMES Key=Value…`: rules for jobs in some partitions, which replace those for all.

use super::Key;
use super::keys::names_key;
use super::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use crate::submit::policy::PartitionRecord;

pub(super) const KEYS: [Key<PartitionRecord>; 3] = [
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
