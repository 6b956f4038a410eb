//! The keys of the submit side, each on a line of its own: what each allows, and where its value goes. And the file as it is read.

use std::collections::BTreeMap;

use super::node_keys::{NODE_KEYS, NodeKey};
use super::values::{
    MODES, NAMES, OFF_OR_PATH, governed, governed_accounts, governed_gres, gpu_weights, mode, names_to,
    number, off_or_path, share_gres, word,
};
use super::{Config, ConfigError, Placement, Problem, Shares, nodes, record, share};
use crate::policy::{ForeignTypes, LimitAdvice, ShareGres};

/// One key: its name, what it allows, and how a value is taken over.
struct Key {
    name: &'static str,
    allowed: &'static str,
    take: fn(&mut Draft, &str) -> Option<()>,
}

const KEYS: [Key; 18] = [
    Key {
        name: "GovernedQOS",
        allowed: "auto, or names of QOSes separated by commas, in which * stands for any characters",
        take: |draft, value| governed(value).map(|found| draft.config.policy.governed = found),
    },
    Key {
        name: "GovernedPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.partitions, value),
    },
    Key {
        name: "GovernedAccounts",
        allowed: "auto, off, or names of accounts separated by commas, in which * stands for any characters",
        take: |draft, value| governed_accounts(value).map(|found| draft.config.policy.accounts = found),
    },
    Key {
        name: "GovernedGRES",
        allowed: "names of GRES such as gpu, mps and shard, separated by commas",
        take: |draft, value| governed_gres(value).map(|found| draft.config.policy.gres = found),
    },
    Key {
        name: "ForeignTypes",
        allowed: "deny or allow",
        take: |draft, value| {
            let known = [("deny", ForeignTypes::Deny), ("allow", ForeignTypes::Allow)];
            draft.config.policy.foreign_types = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "LimitAdvice",
        allowed: "warn, refuse or off",
        take: |draft, value| {
            let known =
                [("warn", LimitAdvice::Warn), ("refuse", LimitAdvice::Refuse), ("off", LimitAdvice::Off)];
            draft.config.policy.limit_advice = word(value, &known)?;
            Some(())
        },
    },
    Key {
        name: "Mode",
        allowed: MODES,
        take: |draft, value| mode(value).map(|found| draft.config.policy.mode = found),
    },
    Key {
        name: "ExemptUsers",
        allowed: "names or numbers of users separated by commas, in which * stands for any characters",
        take: |draft, value| names_to(&mut draft.config.policy.exempt.users, value),
    },
    Key {
        name: "ExemptAccounts",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.exempt.accounts, value),
    },
    Key {
        name: "ExemptPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.exempt.partitions, value),
    },
    Key {
        name: "ExemptReservations",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.exempt.reservations, value),
    },
    Key {
        name: "ShareReservations",
        allowed: "parts of names of reservations separated by commas, in which * stands for any characters",
        take: |draft, value| names_to(&mut draft.config.policy.shares.reservations, value),
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
    Key {
        name: "ShareOnlyPartitions",
        allowed: NAMES,
        take: |draft, value| names_to(&mut draft.config.policy.shares.only_partitions, value),
    },
    Key {
        name: "GpuWeight",
        allowed: "TYPE:NUMBER, such as a40:1,h100:4.5, separated by commas, each type once",
        take: |draft, value| gpu_weights(value).map(|found| draft.config.gpu_weights = found),
    },
    Key {
        name: "GetUserEnv",
        allowed: "allow or drop",
        take: |draft, value| {
            draft.config.policy.drops_user_env = word(value, &[("allow", false), ("drop", true)])?;
            Some(())
        },
    },
    Key {
        name: "ShareGRES",
        allowed: "the name of a GRES, such as mps, shard or gpushare; not gpu",
        take: |draft, value| share_gres(value).map(|found| draft.config.node.share_gres = found),
    },
    Key {
        name: "RefusalCounts",
        allowed: OFF_OR_PATH,
        take: |draft, value| off_or_path(value).map(|found| draft.config.refusal_counts = found),
    },
];

/// Every key that can begin a line.
pub(super) fn names() -> Vec<&'static str> {
    let of_nodes = NODE_KEYS.iter().map(|key| key.name);
    KEYS.iter().map(|key| key.name).chain(of_nodes).chain([record::KEY, nodes::KEY, share::KEY]).collect()
}

/// What was read so far.
pub(super) struct Draft {
    lines_of_shares: Shares,
    config: Config,
    lines_of_nodes: Vec<nodes::Line>,
    seen: Vec<(&'static str, usize)>,
    /// Line numbers of shares, by QOS.
    /// Not hashed: that would take memory of each thread of slurmctld's, and keep it.
    shares: BTreeMap<String, usize>,
}

impl Draft {
    pub(super) fn new(lines_of_shares: Shares) -> Draft {
        let (config, seen, shares) = (Config::default(), Vec::new(), BTreeMap::new());
        Draft { lines_of_shares, config, lines_of_nodes: Vec::new(), seen, shares }
    }

    pub(super) fn take(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoValue(line.to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case(record::KEY) {
            self.config.policy.records.push(record::parse(line)?);
            return Ok(());
        }
        if name.eq_ignore_ascii_case(nodes::KEY) {
            self.lines_of_nodes.push(nodes::Line::parse(number, line)?);
            return Ok(());
        }
        if name.eq_ignore_ascii_case(share::KEY) {
            if self.lines_of_shares == Shares::Skip {
                return Ok(());
            }
            let share = share::parse(number, line)?;
            if let Some(first) = self.shares.insert(share.qos.clone(), number) {
                return Err(Problem::SameShare(share.qos, first));
            }
            self.config.shares.push(share);
            return Ok(());
        }
        if let Some(key) = NodeKey::named(name) {
            self.once(key.name, number)?;
            return key.take(&mut self.config.node, value);
        }
        let key = KEYS
            .iter()
            .find(|key| key.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| Problem::UnknownKey(name.to_owned(), names()))?;
        self.once(key.name, number)?;
        let (key, allowed) = (key.name, (key.allowed, key.take));
        (allowed.1)(self, value).ok_or_else(|| Problem::BadValue {
            key,
            value: value.to_owned(),
            allowed: allowed.0,
        })
    }

    fn once(&mut self, key: &'static str, number: usize) -> Result<(), Problem> {
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == key) {
            return Err(Problem::Twice { key, first: Some(*first) });
        }
        self.seen.push((key, number));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Config, ConfigError> {
        let all = &self.config.node;
        all.is_sound().map_err(|problem| ConfigError { line: None, problem })?;
        for line in self.lines_of_nodes {
            let at = line.number;
            let record = line.over(all).map_err(|problem| ConfigError { line: Some(at), problem })?;
            self.config.nodes.push(record);
        }
        let units = self
            .config
            .every_node()
            .filter(|node| node.placement != Placement::Off)
            .filter_map(|node| node.units_per_gpu.as_ref());
        self.config.policy.shares.most = units.map(|units| u64::from(units.most())).max();
        if !self.seen.iter().any(|(key, _)| *key == "GovernedGRES") {
            self.config.policy.gres.add(&self.config.node.share_gres);
        }
        // slurmctld notes the size of such a share for the node.
        self.config.policy.share_gres = ShareGres(self.config.node.share_gres.clone());
        let of_shares = self.config.shares.iter().flat_map(|share| &share.gpus).map(|(kind, _)| kind);
        let types = of_shares.chain(self.config.gpu_weights.iter().map(|weight| &weight.kind));
        self.config.policy.types = types.cloned().collect();
        self.config.policy.types.sort_unstable();
        self.config.policy.types.dedup();
        for share in &mut self.config.shares {
            share.keeps_to_its_types = self.config.policy.keeps_to_its_types(share.qos.as_bytes());
        }
        Ok(self.config)
    }
}
