//! Which records are impossible on this cluster, and which are odd.
//!
//! An error stops a plan, because Slurm would refuse a part of it or because no job could ever use its result; a
//! warning doesn't. It is only a warning if QOSes' GPUs of one type add up to more than the cluster has: some sites
//! oversell on purpose.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gpushare_slurm_text as slurm_text;

use super::state::Actual;
use super::{ROOT, ReadError};
use gpushare_slurm_text::version::{Release, Version};

use crate::config::field::{FIELDS, Kind};
use crate::config::value::{self, Settings, Value};
use crate::config::{ManagedQos, Members};

mod lending;

/// Why owners may not have more GPUs than there are.
const BACK: &str = "; with Burst, each must be able to get its own back";

/// What slurmctld reports about the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its name in the database.
    pub name: String,
    /// The TRES that it counts.
    pub tracked: Vec<String>,
    /// GPUs of each type, on all nodes in any state.
    pub gpus: BTreeMap<String, u64>,
    /// From 23.11.0 to 25.05.0, slurmdbd reports an account's change to slurmctld only for the account's own users and
    /// the accounts directly below, but not for those accounts' users. They get it when slurmctld starts again.
    pub one_level: bool,
    /// Up to 23.11 at least, slurmdbd damages lists when it deletes a QOS that they have (`plan::prune`).
    pub cuts_lists: bool,
    /// Whether QOSes preempt others: `PreemptType` and `PreemptMode`.
    pub preempts: bool,
    /// `PreemptMode`: what happens to preempted jobs of QOSes that have none, in lowercase.
    pub modes: BTreeSet<String>,
    /// Whether preempted batch jobs end for good unless they ask for a requeue: `JobRequeue=0`.
    pub ends_preempted: bool,
    /// Whether Slurm overlooks shares when it chooses whom to preempt on a node: before 25.05, if a node has both.
    pub overlooks_shares: bool,
    /// `PreemptExemptTime` of QOSes that have none, in seconds.
    pub exempt: u64,
    /// Whether jobs above a priority don't give way: `min_exempt_priority` of `PreemptParameters`.
    pub exempts_above: bool,
    /// All partitions, for what groups lend.
    pub partitions: Vec<slurm_text::Partition>,
}

/// An error or a warning about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line of gpushare.conf.
    pub line: usize,
    /// Whether it stops a plan.
    pub is_error: bool,
    /// One sentence.
    pub text: String,
}

/// The GPUs of these nodes, by type.
pub fn gpus(nodes: &[slurm_text::Node]) -> BTreeMap<String, u64> {
    let mut gpus = BTreeMap::new();
    for (name, gres_type, number) in nodes.iter().flat_map(|node| &node.gres) {
        if let Some(gres_type) = gres_type.as_ref().filter(|_| name == "gpu") {
            *gpus.entry(gres_type.clone()).or_insert(0) += number;
        }
    }
    gpus
}

impl Cluster {
    /// What slurmctld's settings and its nodes say.
    ///
    /// # Errors
    /// A setting is missing.
    pub fn of(settings: &slurm_text::Settings, nodes: &[slurm_text::Node]) -> Result<Cluster, ReadError> {
        let value = |key: &'static str| {
            Some(settings.get(key)).filter(|value| !value.is_empty()).ok_or(ReadError::NoKey(key))
        };
        let tracked = value("AccountingStorageTRES")?.split(',').map(str::to_owned).collect();
        let gpus = gpus(nodes);
        let version = Version::parse(settings.get("SLURM_VERSION"));
        let from = |year, month, micro| Some(Version { release: Release(year, month), micro });
        let one_level = (from(23, 11, None)..from(25, 5, Some(1))).contains(&version);
        let cuts_lists = version < from(24, 11, None);
        let preempts = settings.has("PreemptType", "preempt/qos") && !settings.has("PreemptMode", "OFF");
        let exempt = settings.seconds("PreemptExemptTime");
        let exempts_above = settings.get("PreemptParameters").contains("min_exempt_priority=");
        let name = value("ClusterName")?.to_owned();
        let all = Cluster { name, tracked, gpus, one_level, cuts_lists, preempts, ..Cluster::default() };
        let modes = settings.list("PreemptMode").iter().map(|mode| mode.to_ascii_lowercase()).collect();
        let ends_preempted = settings.get("JobRequeue") == "0";
        let has_both =
            |node: &slurm_text::Node| node.has("gpu") && ["mps", "shard"].iter().any(|name| node.has(name));
        let overlooks_shares = version.is_some() && version < from(25, 5, None) && nodes.iter().any(has_both);
        Ok(Cluster { exempt, exempts_above, modes, ends_preempted, overlooks_shares, ..all })
    }

    /// How many GPUs of a type there are. Case matters: users will write the type as in the file, and Slurm finds nodes
    /// by the exact spelling.
    fn count(&self, gres_type: &str) -> Option<u64> {
        self.gpus.get(gres_type).copied()
    }

    /// A TRES in the cluster's spelling.
    fn spelling<'a>(&'a self, tres: &str) -> Option<&'a str> {
        self.tracked.iter().find(|known| known.eq_ignore_ascii_case(tres)).map(String::as_str)
    }

    /// The same settings, with TRES in the cluster's spelling.
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

/// All findings, in the order of the lines. `strangers` are the members that the system doesn't know.
pub fn check(
    qoses: &[ManagedQos],
    actual: &Actual,
    cluster: &Cluster,
    strangers: &HashSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let in_file: HashMap<&str, &Settings> =
        qoses.iter().map(|managed| (managed.name.as_str(), &managed.settings)).collect();
    let (lenders, mut warned) = (lending::Lenders::of(qoses, actual), HashSet::new());
    let (mut sums, names) = (HashMap::new(), qoses.iter().map(|managed| managed.name.as_str()).collect());
    for managed in qoses {
        let mut say = |is_error, text| findings.push(Finding { line: managed.line, is_error, text });
        for (gres_type, number) in managed.gpus.iter().filter(|_| managed.burst_of.is_none()) {
            match cluster.count(gres_type) {
                None => say(true, no_such_type(gres_type, cluster)),
                Some(count) if *number > count => {
                    say(true, format!("{gres_type}:{number} is more than the cluster's {count}"));
                }
                Some(count) => {
                    let sum = sums.entry(gres_type).or_insert(0_u64);
                    let before = *sum;
                    *sum = sum.saturating_add(*number);
                    // Reported only once, for the line that exceeds the sum.
                    if before <= count && *sum > count {
                        let text = format!("with {gres_type}:{number} the QOSes add up to {sum} {gres_type}");
                        let why = if lenders.lend { BACK } else { "" };
                        say(lenders.lend, format!("{text}, but the cluster has {count}{why}"));
                    }
                }
            }
        }
        let errors = [
            untracked(managed, cluster),
            elsewhere(managed, actual, cluster),
            cycle(managed, &in_file, actual),
        ];
        let errors = errors.into_iter().flatten().chain(unknown_preempted(managed, actual, &names));
        errors.for_each(|text| say(true, text));
        let of_members = wrong_members(managed, actual, strangers).into_iter();
        of_members.for_each(|(is_error, text)| say(is_error, text));
        // What is the same for several owners is one warning.
        for (is_error, text) in lenders.findings(managed, cluster) {
            if is_error || warned.insert(text.clone()) {
                say(is_error, text);
            }
        }
    }
    findings
}

fn no_such_type(gres_type: &str, cluster: &Cluster) -> String {
    let types: Vec<&str> = cluster.gpus.keys().map(String::as_str).collect();
    let none = format!("no node has a GPU of type '{gres_type}'");
    match types.is_empty() {
        true => format!("{none}; nodes have no typed GPUs"),
        false => format!("{none}; there are {}", types.join(", ")),
    }
}

/// A limit on something that slurmctld doesn't count would have no effect. If a type exists on no node, only that is
/// reported.
fn untracked(managed: &ManagedQos, cluster: &Cluster) -> Option<String> {
    let mut missing: Vec<&str> = Vec::new();
    for field in FIELDS.iter().filter(|field| field.kind == Kind::Tres) {
        let Some(Value::Tres(limits)) = managed.setting(field) else { continue };
        for name in limits.keys().filter(|name| cluster.spelling(name).is_none()) {
            let mut lacking = managed.gpus.iter().filter(|(name, _)| cluster.count(name).is_none());
            let nowhere = lacking.any(|(gres_type, _)| *name == format!("gres/gpu:{gres_type}"));
            if !nowhere && !missing.contains(&name.as_str()) {
                missing.push(name);
            }
        }
    }
    let (words, them) = if missing.len() == 1 { ("is not a TRES", "it") } else { ("are no TRES", "them") };
    (!missing.is_empty()).then(|| {
        let list = missing.join(",");
        format!(
            "{list} {words} that this cluster counts; add {them} to AccountingStorageTRES in slurm.conf and restart \
             slurmctld (from Slurm 23.11 on 'scontrol reconfigure' is enough)"
        )
    })
}

/// If two files have the same QOS, each would take it from the other forever. What `Burst` makes must not exist before:
/// the file doesn't name it.
fn elsewhere(managed: &ManagedQos, actual: &Actual, cluster: &Cluster) -> Option<String> {
    let qos = actual.qoses.get(&managed.name)?;
    if managed.burst_of.is_some() && qos.owner().is_none() {
        return Some(format!("with Burst, QOS '{}' exists already; rename or delete it", managed.name));
    }
    let owner = qos.owner().filter(|owner| !owner.eq_ignore_ascii_case(&cluster.name))?;
    Some(format!(
        "QOS '{}' is also in the gpushare.conf of cluster '{}', and all clusters of a database share its QOSes",
        managed.name,
        owner.escape_debug()
    ))
}

/// slurmdbd refuses a QOS that preempts itself, also through others.
fn cycle(managed: &ManagedQos, in_file: &HashMap<&str, &Settings>, actual: &Actual) -> Option<String> {
    let preempted = |name: &str| -> Vec<&str> {
        let of_database = || actual.qoses.get(name).map(|qos| &qos.settings);
        let settings = in_file.get(name).copied().or_else(of_database);
        let names = settings.into_iter().flat_map(|settings| value::names(settings, "Preempt"));
        names.map(String::as_str).collect()
    };
    let mut seen = HashSet::new();
    let mut open = preempted(&managed.name);
    while let Some(name) = open.pop() {
        if name == managed.name {
            return Some(format!("QOS '{name}' would preempt itself, directly or through others (Preempt)"));
        }
        if seen.insert(name.to_owned()) {
            open.extend(preempted(name));
        }
    }
    None
}

fn unknown_preempted(managed: &ManagedQos, actual: &Actual, in_file: &HashSet<&str>) -> Vec<String> {
    let is_known = |name: &String| in_file.contains(name.as_str()) || actual.qoses.contains_key(name);
    let unknown = value::names(&managed.settings, "Preempt").iter().filter(|name| !is_known(name));
    let nowhere = "which is neither in this file nor in Slurm's database";
    unknown.map(|name| format!("Preempt names QOS '{name}', {nowhere}")).collect()
}

fn wrong_members(managed: &ManagedQos, actual: &Actual, strangers: &HashSet<String>) -> Vec<(bool, String)> {
    if managed.members.accounts().any(|account| account == ROOT) {
        return vec![(true, "every user is below the account root; write Account=*".to_owned())];
    }
    let Members::Users(account, users) = &managed.members else { return Vec::new() };
    let unknown = users.iter().filter(|user| strangers.contains(*user));
    // A user who has left is still in the database, and must not stop the plan for all others.
    unknown
        .map(|user| (!actual.tree.has_user(account, user), format!("this system has no user '{user}'")))
        .collect()
}

#[cfg(test)]
mod tests;
