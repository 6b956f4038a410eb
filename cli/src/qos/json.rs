//! Plans, QOSes and the users' table as JSON objects. Decides nothing.

use std::collections::BTreeMap;

use gpushare_qos::change::Sign;
use gpushare_qos::config::ManagedQos;
use gpushare_qos::{Plan, table};
use serde::Serialize;

use super::show::Shown;
use gpushare_terminal::json::text;

#[derive(Serialize)]
struct Line<'a> {
    /// Counted from 1: lines of the same step belong to one call of sacctmgr.
    step: usize,
    action: &'static str,
    what: &'a str,
}

#[derive(Serialize)]
struct Leftover<'a> {
    qos: &'a str,
    used: Option<String>,
}

#[derive(Serialize)]
struct Object<'a> {
    changes: Vec<Line<'a>>,
    stays: Vec<String>,
    leftovers: Vec<Leftover<'a>>,
    slurmctld_missed: Option<&'a str>,
}

/// The plan.
///
/// # Errors
/// The same as for [`text`].
pub fn plan(plan: &Plan, missed: Option<&str>) -> serde_json::Result<String> {
    let steps = (1..).zip(&plan.changes);
    let changes = steps.flat_map(|(step, change)| {
        change.lines.iter().map(move |(sign, what)| Line { step, action: action(*sign), what })
    });
    let leftover = |leftover: &'_ gpushare_qos::Leftover| leftover.used.as_ref().map(ToString::to_string);
    text(&Object {
        changes: changes.collect(),
        stays: plan.obstacles.iter().map(ToString::to_string).collect(),
        leftovers: plan.leftovers.iter().map(|one| Leftover { qos: &one.qos, used: leftover(one) }).collect(),
        slurmctld_missed: missed,
    })
}

fn action(sign: Sign) -> &'static str {
    match sign {
        Sign::Add => "add",
        Sign::Change => "change",
        Sign::Remove => "remove",
    }
}

/// The answer of `show`.
///
/// # Errors
/// The same as for [`text`].
pub fn shown(shown: &[Shown]) -> serde_json::Result<String> {
    text(&BTreeMap::from([("qoses", shown)]))
}

#[derive(Serialize)]
struct Row {
    qos: String,
    limit: String,
    example: String,
}

/// The users' table.
///
/// # Errors
/// The same as for [`text`].
pub fn docs(qoses: &[ManagedQos]) -> serde_json::Result<String> {
    let rows =
        table::published(qoses).map(table::row).map(|[qos, limit, example]| Row { qos, limit, example });
    text(&BTreeMap::from([("qoses", rows.collect::<Vec<_>>())]))
}
