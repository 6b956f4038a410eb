//! The keys of the submit side: their allowed values, and where each value goes. Also reads the file.

use std::collections::BTreeMap;

use super::node_keys::{NODE_KEYS, NodeKey};
use super::qos::per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use super::qos::value::factor;
use super::values::{
    Key, NAMES, OFF_OR_PATH, governed, governed_accounts, governed_gres, names_key, number, off_or_path,
    share_gres, word, word_key,
};
use super::{Config, ConfigError, GpuWeight, Problem, memory, nodes, partitions, qos};
use crate::mend::mended;
use crate::submit::policy::{ForeignTypes, LargestGpu, LimitAdvice, Mode, ShareGres};
use crate::text::gres::is_gpu_type;
use crate::text::pattern::Patterns;
use crate::word::{Word, words};

const KEYS: [Key<Draft>; 23] = [
    Key {
        name: "GovernedQOS",
        allowed: "auto alone, or names of QOSes separated by commas, in which * stands for any characters; a name \
                  with a blank in double quotes",
        take: |draft, value| governed(value).map(|found| draft.config.policy.governed = found),
    },
    names_key!("GovernedPartitions" => config.policy.partitions),
    Key {
        name: "GovernedAccounts",
        allowed: "auto or off alone, or names of accounts separated by commas, in which * stands for any \
                  characters; a name with a blank in double quotes",
        take: |draft, value| governed_accounts(value).map(|found| draft.config.policy.accounts = found),
    },
    Key {
        name: "GovernedGRES",
        allowed: "names of GRES such as gpu, mps and shard, separated by commas",
        take: |draft, value| governed_gres(value).map(|found| draft.config.policy.gres = found),
    },
    word_key!("ForeignTypes": ForeignTypes => config.policy.foreign_types),
    word_key!("LimitAdvice": LimitAdvice => config.policy.limit_advice),
    word_key!("Mode": Mode => config.policy.mode),
    Key {
        name: "ExemptUsers",
        allowed: "names or numbers of users separated by commas, in which * stands for any characters; a name with \
                  a blank in double quotes",
        take: |draft, value| Patterns::parse(value).map(|found| draft.config.policy.exempt.users = found),
    },
    names_key!("ExemptAccounts" => config.policy.exempt.accounts),
    names_key!("ExemptPartitions" => config.policy.exempt.partitions),
    names_key!("ExemptReservations" => config.policy.exempt.reservations),
    Key {
        name: "ShareReservations",
        allowed: "parts of names of reservations separated by commas, in which * stands for any characters",
        take: |draft, value| {
            Patterns::parse(value).map(|found| draft.config.policy.shares.reservations = found)
        },
    },
    Key {
        name: "ShareSizes",
        allowed: "whole numbers from 1 to 1000000 separated by commas",
        take: |draft, value| {
            let sizes = value.split(',').map(|size| number(size.trim(), 1, 1_000_000).map(u64::from));
            draft.config.policy.shares.sizes = sizes.collect::<Option<_>>()?;
            Some(())
        },
    },
    names_key!("ShareOnlyPartitions" => config.policy.shares.only_partitions),
    Key {
        name: "GpuWeight",
        allowed: "TYPE:NUMBER, such as a40:1,h100:4.5, separated by commas, each type once",
        take: |draft, value| gpu_weights(value).map(|found| draft.config.gpu_weights = found),
    },
    names_key!("GpuPartitions" => config.policy.gpu_partitions),
    Key {
        name: "MaxCPUsPerGpu",
        allowed: CPUS_PER_GPU,
        take: |draft, value| per_gpu(value, "cpu").map(|cap| draft.config.policy.caps.cpus = Some(cap)),
    },
    Key {
        name: "MaxMemPerGpu",
        allowed: MEM_PER_GPU,
        take: |draft, value| per_gpu(value, "mem").map(|cap| draft.config.policy.caps.mem = Some(cap)),
    },
    Key {
        name: "GetUserEnv",
        allowed: "allow or drop",
        take: |draft, value| {
            word(value, &[("allow", false), ("drop", true)])
                .map(|drops| draft.config.policy.drops_user_env = drops)
        },
    },
    Key {
        name: "ShareGRES",
        allowed: "the name of a GRES, such as mps, shard or gpushare; not gpu",
        take: |draft, value| share_gres(value).map(|found| draft.config.node.share_gres = found),
    },
    Key {
        name: "MemoryGRES",
        allowed: "the name of a GRES that no node has, such as gpumem",
        take: |draft, value| share_gres(value).map(|found| draft.memory_gres = Some(found)),
    },
    Key {
        name: "RefusalCounts",
        allowed: OFF_OR_PATH,
        take: |draft, value| off_or_path(value).map(|found| draft.config.refusal_counts = found),
    },
    word_key!("Guard": Guard => config.guard),
];

words! {
    /// What `gpushare guard --act` does about running jobs beyond a limit.
    pub enum Guard: "report, requeuehold or cancel" {
        /// It only says so.
        #[default]
        Report = "report",
        /// It requeues them and holds them.
        RequeueHold = "requeuehold",
        /// It cancels them.
        Cancel = "cancel",
    }
}

/// Every key with which a line can begin.
pub(super) fn names() -> Vec<&'static str> {
    let of_nodes = NODE_KEYS.iter().map(|key| key.name);
    KEYS.iter().map(|key| key.name).chain(of_nodes).chain([qos::KEY, partitions::KEY, nodes::KEY]).collect()
}

fn gpu_weights(value: &str) -> Option<Vec<GpuWeight>> {
    let mut weights: Vec<GpuWeight> = Vec::new();
    for part in value.split(',') {
        let (gres_type, number) = part.trim().split_once(':')?;
        let millionths = factor(number).filter(|millionths| *millionths <= 1_000_000 * 1_000_000)?;
        // A type may be in uppercase, and is then the same type.
        if !is_gpu_type(gres_type)
            || weights.iter().any(|known| known.gres_type.eq_ignore_ascii_case(gres_type))
        {
            return None;
        }
        weights.push(GpuWeight { gres_type: gres_type.to_owned(), millionths });
    }
    Some(weights)
}

/// Reads a record `QOS=` or `PartitionName=` and its line's number. It is passed as a function, so that the plugins for
/// nodes, which don't need it, are built without it.
pub(super) type TakeRecord = fn(&mut Draft, usize, &str) -> Result<(), Problem>;

/// Reads a record for [`TakeRecord`].
///
/// # Errors
/// A key or value that isn't allowed, settings that don't go together, or a QOS that an earlier line has.
pub(super) fn take_record(draft: &mut Draft, number: usize, line: &str) -> Result<(), Problem> {
    let name = line.split('=').next().unwrap_or_default().trim();
    if name.eq_ignore_ascii_case(partitions::KEY) {
        draft.config.policy.partition_records.push(partitions::parse(line)?);
        return Ok(());
    }
    let (rules, managed) = qos::parse(number, line)?;
    draft.config.policy.records.extend(rules);
    if let Some(managed) = managed {
        if let Some(first) = draft.qoses.insert(managed.name.clone(), number) {
            return Err(Problem::SameQos(managed.name, first));
        }
        draft.config.qoses.push(managed);
    }
    Ok(())
}

/// What has been read so far.
pub(super) struct Draft {
    records: Option<TakeRecord>,
    config: Config,
    lines_of_nodes: Vec<nodes::Line>,
    seen: Vec<(&'static str, usize)>,
    memory_gres: Option<String>,
    /// Line numbers by QOS. Not a hash map, because that would use and keep memory in each of slurmctld's threads.
    qoses: BTreeMap<String, usize>,
}

impl Draft {
    pub(super) fn new(records: Option<TakeRecord>) -> Draft {
        let (config, seen, qoses) = (Config::default(), Vec::new(), BTreeMap::new());
        Draft { records, config, lines_of_nodes: Vec::new(), seen, memory_gres: None, qoses }
    }

    /// Reads a line, which has its number.
    ///
    /// # Errors
    /// The line is not `Key=Value`, its key is unknown or was given before, or its value isn't allowed. Of a record,
    /// also what is wrong with its keys.
    pub(super) fn take(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoValue(line.to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case(nodes::KEY) {
            self.lines_of_nodes.push(nodes::Line::parse(number, line)?);
            return Ok(());
        }
        if [qos::KEY, partitions::KEY].iter().any(|key| name.eq_ignore_ascii_case(key)) {
            return self.records.map_or(Ok(()), |take| take(self, number, line));
        }
        if let Some(key) = NodeKey::named(&NODE_KEYS, name) {
            self.once(key.name, number)?;
            return key.take(&mut self.config.node, value);
        }
        let key = Key::named(&KEYS, name).ok_or_else(|| Problem::UnknownKey(name.to_owned(), names()))?;
        self.once(key.name, number)?;
        key.take(self, value)
    }

    fn once(&mut self, key: &'static str, number: usize) -> Result<(), Problem> {
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == key) {
            return Err(Problem::Twice { key, first: Some(*first) });
        }
        self.seen.push((key, number));
        Ok(())
    }

    /// The configuration that all lines make together.
    ///
    /// # Errors
    /// Settings that don't go together; with the line, if that is one for single nodes.
    pub(super) fn finish(mut self) -> Result<Config, ConfigError> {
        let all = &self.config.node;
        all.is_sound().map_err(|problem| ConfigError { line: None, problem })?;
        for line in self.lines_of_nodes {
            let at = line.number;
            let record = line.over(all).map_err(|problem| ConfigError { line: Some(at), problem })?;
            self.config.nodes.push(record);
        }
        let shares = &mut self.config.policy.shares;
        shares.elsewhere = self.config.node.largest_gpu();
        let lines = self.config.nodes.iter();
        shares.nodes = lines
            .map(|line| LargestGpu { nodes: line.names.clone(), units: line.config.largest_gpu() })
            .collect();
        let sizes = || shares.nodes.iter().map(|line| line.units).chain([shares.elsewhere]).flatten();
        shares.most = sizes().max();
        if sizes().min() == shares.most {
            shares.nodes.clear();
        }
        let by_memory = self.memory_gres.take().map(|name| memory::rule(&self.config, name)).transpose();
        self.config.policy.memory_gres = by_memory.map_err(|problem| ConfigError { line: None, problem })?;
        let policy = &mut self.config.policy;
        let of_partitions = || policy.partition_records.iter().any(|record| record.caps.any());
        policy.has_caps =
            policy.caps.any() || of_partitions() || policy.records.iter().any(|record| record.caps.any());
        if !self.seen.iter().any(|(key, _)| *key == "GovernedGRES") && mended("shares-governed") {
            self.config.policy.gres.add(&self.config.node.share_gres);
        }
        // slurmctld records the size of such a share for the node.
        self.config.policy.share_gres = ShareGres(self.config.node.share_gres.clone());
        let of_qoses = self.config.qoses.iter().flat_map(|qos| &qos.gpus).map(|(gres_type, _)| gres_type);
        let types = of_qoses.chain(self.config.gpu_weights.iter().map(|weight| &weight.gres_type));
        self.config.policy.types = types.cloned().collect();
        self.config.policy.types.sort_unstable();
        self.config.policy.types.dedup();
        for qos in &mut self.config.qoses {
            qos.keeps_to_its_types = self.config.policy.keeps_to_its_types(qos.name.as_bytes());
        }
        Ok(self.config)
    }
}
