//! The QOSes with our mark that are no longer in the file.
//!
//! When Slurm up to 23.11 deletes a QOS, it removes it from an association's list together with a comma, and so loses
//! the neighbours: `q1,q2,q3` without q2 is neither q1 nor q3. So there the plan removes the QOS from lists first.

use std::collections::{BTreeSet, HashSet};

use super::{InUse, Leftover, Obstacle, Use};
use crate::Cluster;
use crate::change::{BATCH, Change, Sign, named};
use crate::config::ManagedQos;
use crate::config::value::{Settings, names};
use crate::state::{Actual, Qos};
use crate::tree::{Association, Own, Tree};

/// The default for every job. A line of the file may have managed it, and it stays even without the line.
const SLURMS_OWN: &str = "normal";

/// The calls that remove these QOSes, and the QOSes that stay.
pub(super) fn removals(
    qoses: &[ManagedQos],
    actual: &Actual,
    at: &Cluster,
    prune: Option<&InUse>,
    obstacles: &mut Vec<Obstacle>,
) -> (Vec<Change>, Vec<Leftover>) {
    let cluster = at.name.as_str();
    let in_file: HashSet<&str> = qoses.iter().map(|managed| managed.name.as_str()).collect();
    let is_old = |name: &str, qos: &Qos| !in_file.contains(name) && qos.is_of(cluster) && name != SLURMS_OWN;
    let old = actual.qoses.iter().filter(|(name, qos)| is_old(name, qos));
    let default_to = |name: &str| actual.tree.defaults_to(name).next();
    let is_free = |used: &InUse, name: &str| !used.contains_key(name) && default_to(name).is_none();
    let all = old.clone().map(|(name, _)| name.as_str());
    let mut unused: BTreeSet<&str> =
        all.filter(|name| prune.is_some_and(|used| is_free(used, name))).collect();
    let by = |name: &str, unused: &BTreeSet<&str>| preempting(name, qoses, actual, &in_file, unused);
    // What stays keeps what it preempts.
    while let Some(name) = unused.iter().copied().find(|name| by(name, &unused).is_some()) {
        unused.remove(name);
    }
    let mut stay = Vec::new();
    for (name, qos) in old.filter(|(name, _)| !unused.contains(name.as_str())) {
        let used = prune.map(|used| Use {
            preempted_by: by(name, &unused),
            ..used.get(name).cloned().unwrap_or_default()
        });
        match default_to(name).filter(|_| used == Some(Use::default())) {
            Some(default) => obstacles.push(Obstacle::new(name, None, default, cluster)),
            None => stay.push(Leftover { qos: name.clone(), used, is_burst: qos.is_burst() }),
        }
    }
    let unused: Vec<&str> = unused.into_iter().collect();
    let mut changes = Vec::new();
    for qos in unused.iter().filter(|_| at.cuts_lists) {
        for row in actual.tree.naming(qos) {
            changes.extend(without(row, qos, &unused, &actual.tree, cluster));
        }
    }
    for names in unused.chunks(BATCH) {
        let lines = names.iter().map(|name| (Sign::Remove, format!("qos {name}"))).collect();
        changes.push(Change::call(lines, ["delete", "qos", "where", &named(names)]));
    }
    (changes, stay)
}

/// A QOS that stays and preempts this one. Slurm would keep the dead number, and the file's next plan would stop.
fn preempting(
    name: &str,
    qoses: &[ManagedQos],
    actual: &Actual,
    in_file: &HashSet<&str>,
    unused: &BTreeSet<&str>,
) -> Option<String> {
    let preempts = |settings: &Settings| names(settings, "Preempt").contains(name);
    let of_file = qoses.iter().find(|managed| preempts(&managed.settings)).map(|managed| &managed.name);
    let of_others = || {
        let mut others = actual.qoses.iter();
        let stays = |other: &str| !in_file.contains(other) && !unused.contains(other);
        others.find(|(other, qos)| stays(other) && preempts(&qos.settings)).map(|(other, _)| other)
    };
    of_file.or_else(of_others).cloned()
}

/// Removes a QOS from an association's list, if the list has others.
fn without(row: &Association, qos: &str, unused: &[&str], tree: &Tree, cluster: &str) -> Vec<Change> {
    let call = |set: &[String], sign: Sign, line: String| {
        let (at, of) = (format!("cluster={cluster}"), format!("account={}", row.account));
        let name = if row.user.is_empty() { named(&[&row.account]) } else { named(&[&row.user]) };
        let partition = Some(format!("partition={}", row.partition)).filter(|_| !row.partition.is_empty());
        let mut words = vec!["modify", "account", "where", &name, &at];
        if !row.user.is_empty() {
            words = vec!["modify", "user", "where", &name, &of, &at];
            words.extend(partition.as_deref());
        }
        words.push("set");
        Change::call(vec![(sign, line)], words.into_iter().chain(set.iter().map(String::as_str)))
    };
    let who = row.in_words();
    match &row.own {
        Own::List(names) if names.len() > 1 => {
            vec![call(&[format!("qos-={qos}")], Sign::Remove, format!("qos {qos} for {who}"))]
        }
        // A row may name several of them; the call for the first one removes all.
        Own::Inherits(deltas)
            if deltas.len() > 1
                && deltas
                    .keys()
                    .find(|name| unused.contains(&name.as_str()))
                    .is_some_and(|first| first == qos)
                && is_only_row(row, tree) =>
        {
            let kept = deltas.iter().filter(|(name, _)| !unused.contains(&name.as_str()));
            let again: Vec<String> =
                kept.map(|(name, added)| format!("qos{}={name}", if *added { '+' } else { '-' })).collect();
            let mut calls = vec![call(&["qos=".to_owned()], Sign::Remove, format!("qos {qos} for {who}"))];
            if !again.is_empty() {
                calls.push(call(&again, Sign::Add, format!("the other QOSes of {who} again")));
            }
            calls
        }
        Own::List(_) | Own::Inherits(_) => Vec::new(),
    }
}

/// A call for a user without a partition would also change the rows with a partition.
fn is_only_row(row: &Association, tree: &Tree) -> bool {
    row.user.is_empty() || tree.users_of(&row.account).filter(|other| other.user == row.user).count() == 1
}
