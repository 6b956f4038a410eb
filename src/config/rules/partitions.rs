//! A line `PartitionName=NAMES Key=Value…`: rules for jobs in some partitions, which replace those for all.

use super::Key;
use super::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, cpus_per_gpu, mem_per_gpu};
use crate::config::values::{NAMES, keys};
use crate::submit::policy::PartitionRecord;
use crate::text::pattern::Patterns;

pub(super) const KEYS: &[Key<PartitionRecord>] = keys! {
    "PartitionName": NAMES => names = Patterns::parse;
    "MaxCPUsPerGpu": CPUS_PER_GPU => caps.cpus = cpus_per_gpu;
    "MaxMemPerGpu": MEM_PER_GPU => caps.mem = mem_per_gpu;
};
