//! The QOSes with our mark that are no longer in the file.
//!
//! When Slurm up to 23.11 deletes a QOS, it removes it from an association's list together with a comma, and so loses
//! the neighbours: `q1,q2,q3` without q2 is neither q1 nor q3. So there the plan removes the QOS from lists first.

use std::collections::HashSet;

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
    let (mut unused, mut stay) = (Vec::new(), Vec::new());
    for (name, qos) in &actual.qoses {
        if in_file.contains(name.as_str()) || !qos.is_of(cluster) || name == SLURMS_OWN {
            continue;
        }
        let used = prune.map(|used| {
            let of_slurm = used.get(name).cloned();
            let by = preempting(name, qoses, actual, cluster, &in_file);
            match (of_slurm, by) {
                (None, None) => None,
                (of_slurm, preempted_by) => Some(Use { preempted_by, ..of_slurm.unwrap_or_default() }),
            }
        });
        match used {
            Some(None) => match actual.tree.defaults_to(name).next() {
                Some(default) => obstacles.push(Obstacle::new(name, None, default, cluster)),
                None => unused.push(name.as_str()),
            },
            used => {
                stay.push(Leftover { qos: name.clone(), used: used.flatten(), is_burst: qos.is_burst() });
            }
        }
    }
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
    cluster: &str,
    in_file: &HashSet<&str>,
) -> Option<String> {
    let preempts = |settings: &Settings| names(settings, "Preempt").contains(name);
    let of_file = qoses.iter().find(|managed| preempts(&managed.settings)).map(|managed| &managed.name);
    let of_others = || {
        let mut others = actual.qoses.iter();
        let is_one = |other: &str, qos: &Qos| !in_file.contains(other) && !qos.is_of(cluster);
        others.find(|(other, qos)| is_one(other, qos) && preempts(&qos.settings)).map(|(other, _)| other)
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
