//! Which lines can't be had on this cluster, and which are odd.
//!
//! An error stops a plan, because Slurm would refuse a part of it or because nobody could ever use what it gives; a
//! warning doesn't. That shares of one type add up to more than there is, is a warning: some sites sell more than they
//! have on purpose.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::node_gres;

use super::field::{FIELDS, Kind};
use super::state::{Actual, lines};
use super::value::{Settings, Value};
use super::{Members, ROOT, Share};

/// What slurmctld says of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its name in the database.
    pub name: String,
    /// The TRES that it counts.
    pub tracked: Vec<String>,
    /// GPUs of each type, on all nodes, whatever their state.
    pub gpus: BTreeMap<String, u64>,
    /// From 23.11.0 to 25.05.0 slurmdbd tells slurmctld of an account's change only what its own users and the accounts just
    /// below inherit, not those accounts' users. They have it when slurmctld starts again.
    pub one_level: bool,
}

/// Something that is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of gpushare.conf.
    pub line: usize,
    /// It stops a plan.
    pub is_error: bool,
    /// One sentence.
    pub text: String,
}

impl Cluster {
    /// Reads `scontrol show config` and `scontrol -o show node`.
    pub fn read(config: &str, nodes: &str) -> Result<Cluster, String> {
        let value = |key: &str| {
            let of = |line: &str| {
                line.strip_prefix(key)?.trim_start().strip_prefix('=').map(|text| text.trim().to_owned())
            };
            config.lines().find_map(of).ok_or_else(|| format!("'scontrol show config' has no {key}"))
        };
        let tracked = value("AccountingStorageTRES")?.split(',').map(str::to_owned).collect();
        let mut gpus = BTreeMap::new();
        for gres in lines(nodes)
            .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("Gres=")))
        {
            for (name, kind, number) in node_gres::read(gres) {
                if let Some(kind) = kind.filter(|_| name == "gpu") {
                    *gpus.entry(kind).or_insert(0) += number;
                }
            }
        }
        let one_level = value("SLURM_VERSION").is_ok_and(|version| tells_one_level(&version));
        Ok(Cluster { name: value("ClusterName")?, tracked, gpus, one_level })
    }

    /// How many GPUs of a type there are. Capitals count: users will write the type as the file does, and Slurm finds
    /// nodes for it letter by letter.
    fn count(&self, kind: &str) -> Option<u64> {
        self.gpus.get(kind).copied()
    }

    /// A TRES as the cluster writes it.
    fn spelling<'a>(&'a self, tres: &str) -> Option<&'a str> {
        self.tracked.iter().find(|known| known.eq_ignore_ascii_case(tres)).map(String::as_str)
    }

    /// The same settings, with TRES as the cluster writes them.
    #[must_use]
    pub fn spelled(&self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        for value in settings.values_mut() {
            if let Value::Tres(limits) = value {
                let again = std::mem::take(limits).into_iter();
                *limits = again
                    .map(|(name, number)| (self.spelling(&name).unwrap_or(&name).to_owned(), number))
                    .collect();
            }
        }
        settings
    }
}

fn tells_one_level(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().unwrap_or_default();
    ((23, 11, 0)..(25, 5, 1)).contains(&(next(), next(), next()))
}

/// Everything that is wrong, in the order of the lines. `strangers` are the members of whom the system knows nothing.
#[must_use]
pub fn check(
    shares: &[Share],
    actual: &Actual,
    cluster: &Cluster,
    strangers: &HashSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut sums, names) = (HashMap::new(), shares.iter().map(|share| share.qos.as_str()).collect());
    for share in shares {
        let mut say = |is_error, text| findings.push(Finding { line: share.line, is_error, text });
        for (kind, number) in &share.gpus {
            match cluster.count(kind) {
                None => say(true, no_such_type(kind, cluster)),
                Some(count) if *number > count => {
                    say(true, format!("{kind}:{number} is more than the cluster's {count}"));
                }
                Some(count) => {
                    let sum = sums.entry(kind).or_insert(0_u64);
                    let before = *sum;
                    *sum = sum.saturating_add(*number);
                    // Said once, of the line that makes it so.
                    if before <= count && *sum > count {
                        say(
                            false,
                            format!(
                                "with {kind}:{number} shares add up to {sum} {kind}, and the cluster has {count}"
                            ),
                        );
                    }
                }
            }
        }
        if let Some(text) = untracked(share, cluster) {
            say(true, text);
        }
        if let Some(text) = elsewhere(share, actual, cluster) {
            say(true, text);
        }
        for text in unknown_preempted(share, actual, &names) {
            say(true, text);
        }
        for (is_error, text) in unknown_members(share, actual, strangers) {
            say(is_error, text);
        }
    }
    findings
}

fn no_such_type(kind: &str, cluster: &Cluster) -> String {
    let types: Vec<&str> = cluster.gpus.keys().map(String::as_str).collect();
    let there = if types.is_empty() {
        "nodes have no typed GPUs".to_owned()
    } else {
        format!("there are {}", types.join(", "))
    };
    format!("no node has a GPU of type '{kind}'; {there}")
}

/// A limit on what slurmctld doesn't count would limit nothing. Of a type that no node has enough is said.
fn untracked(share: &Share, cluster: &Cluster) -> Option<String> {
    let mut missing: Vec<&str> = Vec::new();
    for field in FIELDS.iter().filter(|field| field.kind == Kind::Tres) {
        let Some(Value::Tres(limits)) = share.setting(field) else { continue };
        for name in limits.keys().filter(|name| cluster.spelling(name).is_none()) {
            let kind = share.gpus.iter().find(|(kind, _)| *name == format!("gres/gpu:{kind}"));
            let nowhere = kind.is_some_and(|(kind, _)| cluster.count(kind).is_none());
            if !nowhere && !missing.contains(&name.as_str()) {
                missing.push(name);
            }
        }
    }
    let (words, them) = if missing.len() == 1 { ("is not a TRES", "it") } else { ("are no TRES", "them") };
    (!missing.is_empty()).then(|| {
        let list = missing.join(",");
        format!("{list} {words} that this cluster counts; add {them} to AccountingStorageTRES in slurm.conf and restart slurmctld")
    })
}

/// Two files that have a QOS would take it from each other for ever.
fn elsewhere(share: &Share, actual: &Actual, cluster: &Cluster) -> Option<String> {
    let owner =
        actual.qoses.get(&share.qos)?.owner().filter(|owner| !owner.eq_ignore_ascii_case(&cluster.name))?;
    Some(format!(
        "QOS '{}' is in the gpushare.conf of cluster '{}', and this database's clusters have the same QOSes",
        share.qos,
        owner.escape_debug()
    ))
}

fn unknown_preempted(share: &Share, actual: &Actual, in_file: &HashSet<&str>) -> Vec<String> {
    let Some(Value::Words(names)) = share.settings.get("Preempt") else { return Vec::new() };
    let unknown =
        names.iter().filter(|name| !in_file.contains(name.as_str()) && !actual.qoses.contains_key(*name));
    unknown
        .map(|name| {
            format!("Preempt names QOS '{name}', which is neither in this file nor in Slurm's database")
        })
        .collect()
}

fn unknown_members(share: &Share, actual: &Actual, strangers: &HashSet<String>) -> Vec<(bool, String)> {
    if share.members.accounts().any(|account| account == ROOT) {
        return vec![(true, "every user is below the account root; write Account=*".to_owned())];
    }
    let Members::Users(account, users) = &share.members else { return Vec::new() };
    let unknown = users.iter().filter(|user| strangers.contains(*user));
    // One who has left is in the database still, and mustn't stop everybody else's plan.
    unknown
        .map(|user| (!actual.tree.has_user(account, user), format!("this system knows no user '{user}'")))
        .collect()
}

#[cfg(test)]
mod tests;
