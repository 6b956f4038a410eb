//! Each managed QOS as Slurm's database has it: its members, limits and current use, and what the next `apply` would
//! change.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use gpushare::text::print::counted;
use gpushare_qos::config::field::FIELDS;
use gpushare_qos::config::value::{self, Settings, Value, limits};
use gpushare_qos::config::{ManagedQos, Members};
use gpushare_qos::lending::{self, Loan};
use gpushare_qos::tree::Tree;
use gpushare_qos::usage::{self, Usage};
use gpushare_qos::{Actual, Change, Cluster, TYPE, check, table};
use gpushare_slurm_text::assoc_mgr;
use serde::Serialize;

use super::error::QosError;
use super::site;
use crate::explain::job;
use gpushare_slurm_run::Snapshot;
use gpushare_slurm_run::run::question;

/// A QOS to show.
#[derive(Debug, Serialize)]
pub struct Shown {
    qos: String,
    in_database: bool,
    /// The owner as text.
    owner: String,
    /// Users of the owner's accounts who may use it; null if the file names no account, or if all users may.
    members: Option<Vec<String>>,
    /// The database's values, by field.
    settings: BTreeMap<&'static str, String>,
    /// Running jobs; null if slurmctld doesn't know the QOS.
    jobs: Option<u64>,
    /// What these jobs have, by TRES; memory in MiB.
    in_use: BTreeMap<String, u64>,
    /// GPUs of the group that jobs of other QOSes have.
    lent: Vec<Side>,
    /// GPUs of other groups that its jobs have.
    borrowed: Vec<Side>,
    /// What `apply` would change, as `plan` prints it.
    differs: Vec<String>,
    #[serde(skip)]
    words: Words,
}

/// A loan, with the other QOS.
#[derive(Debug, Serialize)]
struct Side {
    qos: String,
    gres_type: String,
    gpus: u64,
}

/// The same as text; empty if there is nothing to report.
#[derive(Debug, Default)]
struct Words {
    quota: String,
    none_of: String,
    set: String,
    in_use: String,
    minutes: String,
    lent: String,
    borrowed: String,
}

/// The managed QOSes in the file, or only the named ones.
///
/// # Errors
/// The file or the database can't be read, or the file has no such QOS.
pub fn show(conf: Option<&Path>, names: &[String]) -> Result<Vec<Shown>, QosError> {
    let (path, qoses) = site::qoses(conf)?;
    for name in names {
        if !qoses.iter().any(|managed| managed.name.eq_ignore_ascii_case(name)) {
            return Err(QosError::NoQos(path, name.clone()));
        }
    }
    let snapshot = Snapshot::default();
    let cluster = Cluster::of(snapshot.settings()?, &[])?;
    let actual = site::actual(&cluster)?;
    let plan = gpushare_qos::plan(&qoses, &actual, &cluster, None);
    let usages = usage::read(&question(assoc_mgr::QOSES, &[])?);
    // Nodes may be hidden from users.
    let gpus = check::gpus(snapshot.nodes().unwrap_or_default());
    let loans = lending::loans(&qoses, &usages, &gpus);
    let wanted = |managed: &&ManagedQos| {
        names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(&managed.name))
    };
    let changes: String = plan.changes.iter().map(Change::text).collect();
    let shown = |managed: &ManagedQos| {
        let differs = changes.lines().filter(|line| is_of(line, &managed.name)).map(str::to_owned).collect();
        one(managed, &actual, usages.get(&managed.name), &loans, differs)
    };
    let mut all: Vec<Shown> = qoses.iter().filter(wanted).map(shown).collect();
    for one in &mut all {
        let settings = actual.qoses.get(&one.qos).map(|qos| &qos.settings);
        if let Some(Value::Tres(limits)) = settings.and_then(|settings| settings.get("GrpTRESMins")) {
            let limited: Vec<&str> = limits.keys().map(String::as_str).collect();
            one.words.minutes = job::of_qos_in_words(&one.qos, &limited, &snapshot);
        }
    }
    Ok(all)
}

/// Whether a line of the plan is about the QOS: `+ qos NAME …`.
fn is_of(line: &str, qos: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    words.next() == Some("qos") && words.next() == Some(qos)
}

fn one(
    managed: &ManagedQos,
    actual: &Actual,
    usage: Option<&Usage>,
    loans: &[Loan],
    differs: Vec<String>,
) -> Shown {
    let sides = |own: fn(&Loan) -> &String, other: fn(&Loan) -> &String| {
        let of_it = loans.iter().filter(|loan| *own(loan) == managed.name);
        let side = |loan: &Loan| Side {
            qos: other(loan).clone(),
            gres_type: loan.gres_type.clone(),
            gpus: loan.number,
        };
        of_it.map(side).collect()
    };
    let [lent, borrowed] = lending::in_words(loans, &managed.name);
    let known = actual.qoses.get(&managed.name);
    let settings = known.map(|qos| qos.settings.clone()).unwrap_or_default();
    let there = as_there(managed, settings);
    let words = |usage: &Usage| {
        let jobs = counted(usage.jobs, "job");
        let used = table::in_use(&there, usage);
        if used.is_empty() { jobs } else { format!("{used}; {jobs}") }
    };
    let set =
        FIELDS.iter().filter_map(|field| Some((field.name, value::text(there.settings.get(field.name)?))));
    Shown {
        qos: managed.name.clone(),
        in_database: known.is_some(),
        owner: table::members(&managed.members),
        members: members(managed, &actual.tree),
        settings: set.collect(),
        jobs: usage.map(|usage| usage.jobs),
        in_use: usage.map(|usage| usage.tres.clone()).unwrap_or_default(),
        lent: sides(|loan| &loan.lender, |loan| &loan.borrower),
        borrowed: sides(|loan| &loan.borrower, |loan| &loan.lender),
        differs,
        words: Words {
            lent,
            borrowed,
            quota: table::group_limit(&there),
            none_of: none_of(&there),
            set: table::settings(&there),
            in_use: usage.map(words).unwrap_or_default(),
            minutes: String::new(),
        },
    }
}

/// The QOS as in the database, but with GPU types spelled as in the file: the database has them in lowercase.
fn as_there(managed: &ManagedQos, mut settings: Settings) -> ManagedQos {
    let mut gpus = Vec::new();
    if let Some(Value::Tres(limits)) = settings.get_mut("GrpTRES") {
        for (gres_type, _) in &managed.gpus {
            let spelled = format!("{TYPE}{gres_type}");
            let there = limits.keys().find(|name| name.eq_ignore_ascii_case(&spelled)).cloned();
            if let Some(number) = there.and_then(|name| limits.remove(&name)) {
                limits.insert(spelled, number);
                gpus.push((gres_type.clone(), number));
            }
        }
    }
    ManagedQos { gpus, settings, ..managed.clone() }
}

/// Types with a limit of 0.
fn none_of(there: &ManagedQos) -> String {
    let zeros = limits(&there.settings, "GrpTRES").iter().filter(|(_, number)| **number == 0);
    zeros.filter_map(|(name, _)| name.strip_prefix(TYPE)).collect::<Vec<_>>().join(", ")
}

/// The text for people.
pub fn text(shown: &[Shown]) -> String {
    if shown.is_empty() {
        return "gpushare.conf manages no QOS (what you may use: gpushare mine)\n".to_owned();
    }
    shown.iter().map(paragraph).collect()
}

fn paragraph(shown: &Shown) -> String {
    let mut text = format!("{}\n", shown.qos);
    let mut put = |title: &str, said: &str| {
        if !said.is_empty() {
            let _ = writeln!(text, "    {title:<8} {said}");
        }
    };
    put("owner", &shown.owner);
    match shown.members.as_deref() {
        None => {}
        Some([]) => put("members", "nobody yet"),
        Some(users) => put("members", &users.join(", ")),
    }
    put("quota", &shown.words.quota);
    put("none of", &shown.words.none_of);
    put("set", &shown.words.set);
    put("in use", &shown.words.in_use);
    put("minutes", &shown.words.minutes);
    put("lent", &shown.words.lent);
    put("borrowed", &shown.words.borrowed);
    match (shown.in_database, shown.differs.len()) {
        (false, _) => put("missing", "not in Slurm's database yet: gpushare qos apply"),
        (true, 0) => {}
        (true, _) => put("differs", "the file has other values; gpushare qos apply would do this:"),
    }
    if shown.in_database {
        for line in &shown.differs {
            put("", line);
        }
    }
    text
}

/// The users of the owner's accounts who may use it now.
fn members(managed: &ManagedQos, tree: &Tree) -> Option<Vec<String>> {
    if matches!(managed.members, Members::All | Members::Unsaid) {
        return None;
    }
    let accounts = managed.members.accounts();
    let may = |account: &str| {
        let from_account = tree.account_has(account, &managed.name, &[]);
        let rows =
            tree.users_of(account).filter(move |row| row.own.says(&managed.name).unwrap_or(from_account));
        rows.map(|row| row.user.clone()).collect::<Vec<_>>()
    };
    let mut users: Vec<String> = accounts.flat_map(may).collect();
    users.sort_unstable();
    users.dedup();
    Some(users)
}

#[cfg(test)]
mod tests;
