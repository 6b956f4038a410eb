//! The changes that make the database match gpushare.conf. Their order ensures that each change finds what it needs,
//! and that no user can use a QOS before it has its limits: accounts, bare QOSes, their fields (which name other
//! QOSes), users, grants, revocations, and last what is no longer in the file.
//!
//! If a QOS is in the file, the plan controls all of its fields, and unsets those that its record doesn't have. It only
//! adds limits of 0 on other GPU types, by [`foreign`]. It doesn't touch any other QOS, except those with our [`MARK`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::change::{BATCH, Change, Sign, named};
use super::check::Cluster;
use super::state::{Actual, Qos};
use super::tree::Association;
use super::{BURST, MARK, foreign};
use crate::config::field::{FIELDS, Field, Kind};
use crate::config::value::{self, Settings, Value};
use crate::config::{ManagedQos, Members};
use gpushare::text::print::counted;
use gpushare::text::shown::shell_word;

mod grant;
mod prune;
mod retired;

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes in order; empty if there is nothing to do.
    pub changes: Vec<Change>,
    /// QOSes with our mark that the file no longer has, but that stay.
    pub leftovers: Vec<Leftover>,
    /// QOSes that should be revoked but can't be.
    pub obstacles: Vec<Obstacle>,
}

/// A QOS that is no longer in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its name.
    pub qos: String,
    /// Why it can't be removed; `None` if its removal wasn't requested.
    pub used: Option<Use>,
    /// Whether it was for what a group borrowed: the plan has revoked it from everybody.
    pub is_burst: bool,
}

/// What a QOS is used for. slurmctld 26.05 does not start if a partition names a QOS that doesn't exist, and until then
/// that partition is open to all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// How many jobs use it.
    pub jobs: usize,
    /// The partitions that name it.
    pub partitions: BTreeSet<String>,
    /// A QOS that preempts it.
    pub preempted_by: Option<String>,
}

/// A QOS that is a default: Slurm never revokes it from its owner, although 22.05 reports that it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    qos: String,
    /// Who should not have it; `None` if the QOS itself should not exist.
    whose: Option<String>,
    account: String,
    /// Empty for the account's own default.
    user: String,
    cluster: String,
}

impl Obstacle {
    fn new(qos: &str, whose: Option<&Association>, default_of: &Association, cluster: &str) -> Obstacle {
        Obstacle {
            qos: qos.to_owned(),
            whose: whose.map(Association::in_words),
            account: default_of.account.clone(),
            user: default_of.user.clone(),
            cluster: cluster.to_owned(),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Obstacle { qos, whose, account, user, cluster } = self;
        let with = whose.as_ref().map(|whose| format!(" with {whose}")).unwrap_or_default();
        // A coordinator may have named the account; this becomes a command of root's.
        let word = |name: &str| shell_word(name.as_bytes()).unwrap_or_else(|| "?".to_owned());
        let (of, what) = if user.is_empty() {
            (format!("account {account}"), format!("account where name={}", word(account)))
        } else {
            let names = format!("name={} account={}", word(user), word(account));
            (format!("user {user} in account {account}"), format!("user where {names}"))
        };
        write!(out, "qos {qos} stays{with}: it is the default of {of}; first run: ")?;
        write!(out, "sacctmgr modify {what} cluster={cluster} set DefaultQOS=-1")
    }
}

impl fmt::Display for Use {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let partitions: Vec<&str> = self.partitions.iter().map(String::as_str).collect();
        let has = (self.jobs > 0).then(|| format!("has {}", counted(self.jobs, "job")));
        let named =
            (!partitions.is_empty()).then(|| format!("is named by partition {}", partitions.join(", ")));
        let preempted = self.preempted_by.as_ref().map(|qos| format!("is preempted by qos {qos}"));
        let all: Vec<String> = [has, named, preempted].into_iter().flatten().collect();
        out.write_str(&all.join(" and "))
    }
}

/// Each QOS in use.
pub type InUse = HashMap<String, Use>;

/// Makes the plan. With `prune`, it removes QOSes that are no longer in the file; `prune` has those that are in use on
/// the cluster.
pub fn plan(qoses: &[ManagedQos], actual: &Actual, cluster: &Cluster, prune: Option<&InUse>) -> Plan {
    let retired = retired::bursts(qoses, actual, cluster);
    let kept = retired::preempted_still(qoses, &retired, actual, prune);
    let qoses = kept.as_deref().unwrap_or(qoses);
    let mut tree = actual.tree.clone();
    let mut changes = new_accounts(qoses, &mut tree, &cluster.name);
    changes.extend(new_qoses(qoses, actual, &cluster.name));
    let (fewer, known) = fewer_preempted(qoses, &actual.qoses);
    changes.extend(fewer);
    changes.extend(fields(qoses, known.as_ref().unwrap_or(&actual.qoses), cluster));
    changes.extend(new_users(qoses, &mut tree, &cluster.name));
    let mut obstacles = Vec::new();
    let (grants, mut revocations) = grant::grants(qoses, &tree, cluster, &mut obstacles);
    revocations.extend(grant::grants(&retired, &tree, cluster, &mut obstacles).1);
    changes.extend(grants);
    changes.extend(revocations);
    let (removals, leftovers) = prune::removals(qoses, actual, cluster, prune, &mut obstacles);
    changes.extend(removals);
    Plan { changes, leftovers, obstacles }
}

fn new_accounts(qoses: &[ManagedQos], tree: &mut super::tree::Tree, cluster: &str) -> Vec<Change> {
    let mut missing: Vec<&str> = Vec::new();
    for account in qoses.iter().flat_map(|managed| managed.members.accounts()) {
        if !tree.has_account(account) {
            tree.add_account(account);
            missing.push(account);
        }
    }
    let at = format!("cluster={cluster}");
    let call = |names: &[&str]| {
        let lines = names.iter().map(|name| (Sign::Add, format!("account {name}"))).collect();
        Change::call(lines, ["add", "account", &named(names), &at])
    };
    missing.chunks(BATCH).map(call).collect()
}

fn new_qoses(qoses: &[ManagedQos], actual: &Actual, cluster: &str) -> Vec<Change> {
    let mut missing: BTreeMap<bool, Vec<&ManagedQos>> = BTreeMap::new();
    for managed in qoses.iter().filter(|managed| !actual.qoses.contains_key(&managed.name)) {
        missing.entry(managed.burst_of.is_some()).or_default().push(managed);
    }
    let call = |some: &[&ManagedQos]| {
        let names: Vec<&str> = some.iter().map(|managed| managed.name.as_str()).collect();
        let lines = names.iter().map(|name| (Sign::Add, format!("qos {name}"))).collect();
        let mark = some.first().map(|managed| format!("description={}", mark(managed, cluster)));
        Change::call(lines, ["add", "qos", &named(&names), "set"].into_iter().chain(mark.as_deref()))
    };
    missing.values().flat_map(|some| some.chunks(BATCH)).map(call).collect()
}

/// The description of a QOS of the file.
fn mark(managed: &ManagedQos, cluster: &str) -> String {
    let burst = managed.burst_of.as_ref().map(|_| format!(" {BURST}")).unwrap_or_default();
    format!("{MARK}{cluster}{burst}")
}

fn new_users(qoses: &[ManagedQos], tree: &mut super::tree::Tree, cluster: &str) -> Vec<Change> {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for managed in qoses {
        let Members::Users(account, users) = &managed.members else { continue };
        for user in users.iter().filter(|user| !tree.has_user(account, user)).collect::<Vec<_>>() {
            tree.add_user(account, user);
            missing.entry(account).or_default().push(user);
        }
    }
    let (at, mut changes) = (format!("cluster={cluster}"), Vec::new());
    for (account, users) in missing {
        let of = format!("account={account}");
        for names in users.chunks(BATCH) {
            let lines =
                names.iter().map(|name| (Sign::Add, format!("user {name} in account {account}"))).collect();
            changes.push(Change::call(lines, ["add", "user", &named(names), &of, &at]));
        }
    }
    changes
}

/// QOSes with the same changes, which take one call together.
struct Group<'s> {
    arguments: Vec<String>,
    names: Vec<&'s str>,
    lines: Vec<(Sign, String)>,
}

/// If some QOSes are to preempt others, and some no longer: first the calls for the latter, since slurmdbd refuses each
/// call after which a QOS would preempt itself. Also returns the QOSes as they then are.
fn fewer_preempted(
    qoses: &[ManagedQos],
    known: &BTreeMap<String, Qos>,
) -> (Vec<Change>, Option<BTreeMap<String, Qos>>) {
    let words = |settings: &Settings| value::names(settings, "Preempt").clone();
    let both = qoses.iter().map(|managed| {
        (
            managed,
            known.get(&managed.name).map(|qos| words(&qos.settings)).unwrap_or_default(),
            words(&managed.settings),
        )
    });
    let both: Vec<_> = both.filter(|(_, old, new)| old != new).collect();
    let field = FIELDS.iter().find(|field| field.name == "Preempt");
    let Some(field) = field.filter(|_| both.iter().any(|(_, old, new)| !new.is_subset(old))) else {
        return (Vec::new(), None);
    };
    let (mut changes, mut after) = (Vec::new(), known.clone());
    for (managed, old, new) in both.iter().filter(|(_, old, new)| !old.is_subset(new)) {
        let Some(qos) = after.get_mut(&managed.name) else { continue };
        let kept: BTreeSet<String> = old.intersection(new).cloned().collect();
        let kept = Some(Value::Words(kept)).filter(|kept| *kept != Value::Words(BTreeSet::new()));
        let (argument, said) = difference(field, qos.settings.get(field.name), kept.as_ref());
        let line = |said| (Sign::Change, format!("qos {}  {said}", managed.name));
        let words = ["modify", "qos", "where", &named(&[&managed.name]), "set", &argument];
        changes.push(Change::call(said.into_iter().map(line).collect(), words));
        match kept {
            Some(kept) => qos.settings.insert(field.name, kept),
            None => qos.settings.remove(field.name),
        };
    }
    (changes, Some(after))
}

fn fields(qoses: &[ManagedQos], known: &BTreeMap<String, Qos>, cluster: &Cluster) -> Vec<Change> {
    let mut groups: Vec<Group> = Vec::new();
    let mut open: HashMap<Vec<String>, usize> = HashMap::new();
    for managed in qoses {
        let (arguments, lines) = of_one(managed, known.get(&managed.name), cluster);
        if arguments.is_empty() {
            continue;
        }
        let group =
            open.get(&arguments).and_then(|at| groups.get_mut(*at)).filter(|group| group.names.len() < BATCH);
        if let Some(group) = group {
            group.names.push(&managed.name);
            group.lines.extend(lines);
        } else {
            open.insert(arguments.clone(), groups.len());
            groups.push(Group { arguments, names: vec![&managed.name], lines });
        }
    }
    let call = |group: Group| {
        let name = named(&group.names);
        let head = ["modify", "qos", "where", name.as_str(), "set"];
        Change::call(group.lines, head.into_iter().chain(group.arguments.iter().map(String::as_str)))
    };
    groups.into_iter().map(call).collect()
}

/// sacctmgr's arguments for one QOS, and the text about the change.
fn of_one(managed: &ManagedQos, qos: Option<&Qos>, cluster: &Cluster) -> (Vec<String>, Vec<(Sign, String)>) {
    let (wanted, none) = (foreign::wanted(managed, cluster), Settings::new());
    let found = qos.map_or(&none, |qos| &qos.settings);
    let (mut arguments, mut lines) = (Vec::new(), Vec::new());
    let is_marked = |qos: &&Qos| qos.is_of(&cluster.name) && qos.is_burst() == managed.burst_of.is_some();
    if let Some(qos) = qos.filter(|qos| !is_marked(qos)) {
        let (old, new) =
            (gpushare::text::print::printable(&qos.description, 60), mark(managed, &cluster.name));
        arguments.push(format!("Description={new}"));
        lines.push((Sign::Change, format!("qos {}  Description: '{old}' -> '{new}'", managed.name)));
    }
    for field in &FIELDS {
        let (from, to) = (found.get(field.name), wanted.get(field.name));
        if from == to {
            continue;
        }
        let (argument, said) = difference(field, from, to);
        arguments.push(argument);
        match to {
            Some(to) if qos.is_none() => {
                lines.push((Sign::Add, format!("qos {}  {} {}", managed.name, field.name, value::text(to))));
            }
            _ => lines
                .extend(said.into_iter().map(|said| (Sign::Change, format!("qos {}  {said}", managed.name)))),
        }
    }
    (arguments, lines)
}

/// sacctmgr's argument, and one line for each limit that differs.
fn difference(field: &Field, from: Option<&Value>, to: Option<&Value>) -> (String, Vec<String>) {
    if field.kind == Kind::Tres {
        return tres_changes(field, limits(from), limits(to));
    }
    let argument = to.map_or_else(|| field.unset.to_owned(), |to| value::argument(field, to));
    let none = match field.unset {
        "" | "-1" => "none",
        unset => unset,
    };
    let text = |value: Option<&Value>| value.map_or_else(|| none.to_owned(), value::text);
    (format!("{}={argument}", field.column), vec![format!("{}: {} -> {}", field.name, text(from), text(to))])
}

fn limits(value: Option<&Value>) -> BTreeMap<&str, u64> {
    match value {
        Some(Value::Tres(limits)) => limits.iter().map(|(name, number)| (name.as_str(), *number)).collect(),
        _ => BTreeMap::new(),
    }
}

/// Only the TRES that differ: sacctmgr doesn't change the others.
fn tres_changes(field: &Field, from: BTreeMap<&str, u64>, to: BTreeMap<&str, u64>) -> (String, Vec<String>) {
    let mut names: Vec<&str> = from.keys().chain(to.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let (mut parts, mut lines) = (Vec::new(), Vec::new());
    for name in names {
        let (old, new) = (from.get(name), to.get(name));
        if old == new {
            continue;
        }
        parts.push(new.map_or_else(|| format!("{name}=-1"), |new| value::limit(name, *new)));
        let amount = |number: Option<&u64>| {
            number.map_or_else(|| "none".to_owned(), |number| value::amount(name, *number))
        };
        lines.push(format!("{} {name}: {} -> {}", field.name, amount(old), amount(new)));
    }
    (format!("{}={}", field.column, parts.join(",")), lines)
}

#[cfg(test)]
mod tests;
