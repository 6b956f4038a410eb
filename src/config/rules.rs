//! The rules of submission, which slurmctld's plugin reads: everything that [`Policy`] has, and where refusals are
//! counted.
//!
//! Of the nodes it needs only how large their GPUs are, so that no share is larger; of the database's settings the
//! spelling of types. It reads these from the same lines. A mistake in another setting of nodes or of the database
//! stops no slurmctld; `gpushare check` tells of it.

use std::path::PathBuf;

use super::names::Record;
use super::nodes::{MEM_PER_UNIT, NodeLines, Placement, mem_per_unit};
use super::units::{UNITS_PER_GPU, UnitsPerGpu};
use super::values::{Key, is_gpu_type, keys};
use super::{ConfigError, Problem, Section, read};
use crate::mend::mended;
use crate::submit::policy::{LargestGpu, PartitionRecord, Policy};
use crate::text::sorted;
use crate::word::Word;

mod keys;
mod memory;
mod per_gpu;
mod qos;
#[cfg(test)]
mod tests;

/// The rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// By which submissions and changes are checked.
    pub policy: Policy,
    /// `RefusalCounts`: the file in which slurmctld's plugin counts its messages.
    pub refusal_counts: Option<PathBuf>,
}

impl Rules {
    /// Reads a text.
    ///
    /// # Errors
    /// The first mistake in what the rules need, or in the form of a line.
    pub fn parse(text: &str) -> Result<Rules, ConfigError> {
        let mut draft = Draft::default();
        read(text, &mut [&mut draft])?;
        draft.finish()
    }
}

/// What the rules need of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sizes {
    placement: Placement,
    units_per_gpu: Option<UnitsPerGpu>,
    mem_per_unit: Option<u32>,
}

const SIZES: &[Key<Sizes>] = keys! {
    "Placement": Placement::ALLOWED => placement = Placement::read;
    "UnitsPerGpu": UNITS_PER_GPU => units_per_gpu = UnitsPerGpu::parse;
    "MemPerUnit": MEM_PER_UNIT => mem_per_unit = mem_per_unit;
};

impl Sizes {
    fn largest_gpu(&self) -> Result<Option<u64>, Problem> {
        self.placement.largest_gpu(self.units_per_gpu.as_ref())
    }

    /// The GPUs of these nodes.
    fn gpus(self, nodes: String, by_memory: bool) -> LargestGpu {
        let units = self.largest_gpu().unwrap_or_default();
        let types = match self.units_per_gpu {
            Some(UnitsPerGpu::ByType(types)) if by_memory => types,
            _ => Vec::new(),
        };
        let mem_per_unit = self.mem_per_unit.filter(|_| by_memory).unwrap_or(0);
        LargestGpu { nodes, units, types, mem_per_unit }
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
pub struct Draft {
    rules: Rules,
    sizes: Sizes,
    nodes: NodeLines<Sizes>,
    memory_gres: Option<String>,
    /// Whether the file has `GovernedGRES`.
    has_gres: bool,
    qos: qos::Line,
}

impl Section for Draft {
    fn take(&mut self, record: Option<Record>, key: &'static str, value: &str) -> Result<(), Problem> {
        if matches!(key, "GpuWeight" | "GPUs" | "DefaultType") {
            self.note_types(value);
        }
        match record {
            None => {
                self.has_gres |= key == "GovernedGRES";
                Key::take_of(SIZES, &mut self.sizes, key, value)?;
                Key::take_of(keys::KEYS, self, key, value)
            }
            Some(Record::Qos) => self.qos.take(key, value),
            Some(Record::Partition) => {
                let records = &mut self.rules.policy.partition_records;
                if key == Record::Partition.key() {
                    records.push(PartitionRecord::default());
                }
                records
                    .last_mut()
                    .map_or(Ok(()), |record| Key::take_of(keys::OF_PARTITIONS, record, key, value))
            }
            Some(Record::Node) => self.nodes.take(SIZES, key, value),
        }
    }

    fn reads(&self, _: Record) -> bool {
        true
    }

    fn end(&mut self, record: Record, line: usize) -> Result<(), Problem> {
        match record {
            Record::Qos => self.rules.policy.records.extend(std::mem::take(&mut self.qos).finish()?),
            Record::Partition => {}
            Record::Node => self.nodes.end(line),
        }
        Ok(())
    }
}

impl Draft {
    /// Notes the types of `TYPE:NUMBER,…` or `TYPE`, a value whose numbers others check.
    fn note_types(&mut self, value: &str) {
        let types = value.split(',').filter_map(|part| part.trim().split(':').next());
        self.rules.policy.types.extend(types.filter(|name| is_gpu_type(name)).map(str::to_owned));
    }

    /// The rules that all lines make together.
    ///
    /// # Errors
    /// Settings that don't go together; with the line, if that is one for single nodes.
    pub fn finish(self) -> Result<Rules, ConfigError> {
        let Draft { mut rules, sizes, nodes, memory_gres, has_gres, .. } = self;
        sizes.largest_gpu().map_err(Problem::of_file)?;
        let nodes = nodes.over(&sizes, |sizes| sizes.largest_gpu().map(|_| ()))?;
        let policy = &mut rules.policy;
        let by_memory = memory_gres.is_some();
        let shares = &mut policy.shares;
        shares.elsewhere = sizes.gpus(String::new(), by_memory);
        shares.nodes = nodes.into_iter().map(|(names, sizes)| sizes.gpus(names, by_memory)).collect();
        let sizes = || {
            let taking = shares.nodes.iter().chain([&shares.elsewhere]).filter(|line| line.units.is_some());
            taking.map(|line| (line.units, &line.types, line.mem_per_unit))
        };
        shares.most = sizes().filter_map(|(units, ..)| units).max();
        let differ = sizes().min() != sizes().max();
        if let Some(name) = &memory_gres {
            memory::check(shares, &policy.share_gres.0, name).map_err(Problem::of_file)?;
        }
        // If no other nodes have shares, MemoryGRES needs the lines.
        if !differ && (shares.elsewhere.units.is_some() || !by_memory) {
            shares.nodes.clear();
        }
        policy.memory_gres = memory_gres;
        let of_partitions = || policy.partition_records.iter().any(|record| record.caps.any());
        policy.has_caps =
            policy.caps.any() || of_partitions() || policy.records.iter().any(|record| record.caps.any());
        let share = &policy.share_gres.0;
        if !has_gres && mended("shares-governed") && !policy.gres.has(share.as_bytes()) {
            policy.gres.0.push(share.clone());
        }
        policy.types = sorted(std::mem::take(&mut policy.types).into_iter(), Ord::cmp);
        policy.types.dedup();
        Ok(rules)
    }
}
