//! Which limits apply to a job, how much of each is in use and by whom, and whether the job fits. Runs no command.
//!
//! This follows slurmctld's tests (Slurm: src/slurmctld/acct_policy.c): of two QOSes, the first that limits a TRES in a
//! field counts; a QOS's limit replaces the same limit of associations; associations' limits each apply, from the
//! user's up to root's. What they say of minutes is in `minutes`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use super::minutes::Verdict;
use super::minutes::{Minutes, USED};
pub use super::records::Scope;
use super::records::{FIELDS, Holder, Known, Record};
use gpushare::text::hostlist;
use gpushare_slurm_text::queue::Row;

/// A limit on something that the job requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Such as `QOS 'q'` or `account 'lab'`.
    pub holder: String,
    /// scontrol's name, such as `GrpTRES`.
    pub field: &'static str,
    pub scope: Scope,
    /// A TRES such as `gres/gpu:a40`, or `jobs`, or `minutes` of a new job's time limit.
    pub tres: String,
    pub limit: u64,
    /// Null if the limit is on each job separately.
    pub used: Option<u64>,
    /// Users whose running jobs the caller can see.
    pub users: Vec<User>,
    /// How much is in use by other jobs.
    pub unseen: u64,
    /// How much of it the job requests; for a limit on nodes, the minimum on the node with the most.
    pub asks: u64,
    pub verdict: Verdict,
    /// For a limit on minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<Minutes>,
    /// It belongs to a QOS or to nodes, not to an association.
    #[serde(skip)]
    pub is_of_qos: bool,
    /// Slurm didn't say who used it.
    #[serde(rename = "untold", skip_serializing_if = "std::ops::Not::not")]
    pub is_untold: bool,
}

/// How much of it one user's jobs use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct User {
    pub user: String,
    pub used: u64,
    pub jobs: Vec<String>,
}

impl Limit {
    pub fn is_never(&self) -> bool {
        self.verdict == Verdict::Never
    }

    /// Whether the job doesn't fit.
    pub fn stops(&self) -> bool {
        self.verdict != Verdict::Fits
    }

    /// How much of it is left for the job.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.unwrap_or(0))
    }
}

/// The limits that concern a job; those that it exceeds come first.
pub fn concerning(job: &Row, known: &Known, rows: &[Row]) -> Vec<Limit> {
    let mut found = Vec::new();
    // If a QOS limits a TRES, the others' limits on it don't count.
    let mut taken: BTreeSet<Key> = BTreeSet::new();
    let of = |record| of_record(record, job, known, rows);
    for record in &known.qoses {
        let mut limits = of(record);
        limits.retain(|limit| !taken.contains(&key(limit)));
        taken.extend(limits.iter().map(key));
        found.extend(limits);
    }
    let others = known.associations.iter().flat_map(of);
    found.extend(others.filter(|limit| !taken.contains(&key(limit))));
    found.extend(known.nodes.iter().flat_map(of));
    found.sort_by_key(|limit| match limit.verdict {
        Verdict::Never => 0,
        Verdict::Waits { .. } => 1,
        Verdict::Fits => 2,
    });
    found
}

/// What only one QOS limits, and no association then: `MaxJobs` is the associations' `MaxJobsPU`.
type Key = (Scope, String, Option<&'static str>);

fn key(limit: &Limit) -> Key {
    (limit.scope, limit.tres.clone(), limit.minutes.as_ref().map(|_| limit.field))
}

fn of_record(record: &Record, job: &Row, known: &Known, rows: &[Row]) -> Vec<Limit> {
    let mut limits = Vec::new();
    for (field, scope) in FIELDS {
        let Some(counts) = record.fields.get(field) else { continue };
        // A limit on a type says more than one on all GPUs, which 22.05 needs beside it.
        let (any_gpu, of_type): (Vec<_>, Vec<_>) = counts.iter().partition(|(tres, _)| *tres == "gres/gpu");
        for (tres, (limit, used)) in of_type.into_iter().chain(any_gpu) {
            let others = rows.iter().filter(|row| row.starts_with(job) && !of_each(scope));
            let others = others.filter(|row| belongs(row, record, scope, job, known));
            let all =
                others.map(|row| asks(row, tres, scope)).fold(asks(job, tres, scope), u64::saturating_add);
            let asks = known.minutes.asks(field, all);
            if let (Some(limit), true) = (*limit, asks > 0) {
                limits.push(one(record, (field, scope), tres, (limit, *used), asks, (job, known, rows)));
            }
        }
    }
    limits
}

/// Whether such a limit is on each job by itself.
fn of_each(scope: Scope) -> bool {
    matches!(scope, Scope::Job | Scope::Node)
}

fn asks(job: &Row, tres: &str, scope: Scope) -> u64 {
    let all = if tres == "jobs" { 1 } else { job.tres.get(tres).copied().unwrap_or(0) };
    if scope == Scope::Node { all.div_ceil(job.nodes.max(1)) } else { all }
}

fn one(
    record: &Record,
    (field, scope): (&'static str, Scope),
    tres: &str,
    (limit, used): (u64, u64),
    asks: u64,
    (job, known, rows): (&Row, &Known, &[Row]),
) -> Limit {
    let used = (!of_each(scope)).then_some(used);
    let running = record.fields.get("GrpTRESRunMins").and_then(|all| all.get(tres));
    let numbers = (limit, used.unwrap_or(0), running.map_or(0, |(_, running)| *running));
    let minutes = known.minutes.of_limit(field, numbers, asks, !record.keeps_minutes);
    // Jobs may share nodes that are already in use, which then count once.
    let verdict = match asks.saturating_add(used.unwrap_or(0)).saturating_sub(limit) {
        0 => Verdict::Fits,
        _ if asks > limit && tres != "node" => Verdict::Never,
        for_more => Verdict::Waits { for_more },
    };
    let (minutes, verdict) = minutes.map_or((None, verdict), |(minutes, verdict)| (Some(minutes), verdict));
    // Whether it has any first: of many jobs, few have GPUs.
    let has = |row: &Row| tres == "jobs" || row.tres.get(tres).is_some_and(|count| *count > 0);
    let counted = |row: &&Row| has(row) && row.counts() && belongs(row, record, scope, job, known);
    // A node that two jobs share counts once. Jobs that have ended used minutes, too (`spent`).
    let by_whom = used.is_some() && tres != "node" && field != USED;
    let uses = |row: &Row| match (tres, row.tres.get(tres).copied().unwrap_or(0)) {
        ("jobs", _) => 1,
        (_, count) if minutes.is_some() => count.saturating_mul(row.time_left.unwrap_or(0)) / 60,
        (_, count) => count,
    };
    let counted = rows.iter().filter(|row| by_whom && counted(row));
    let users = users(counted.map(|row| (row.user.as_str(), uses(row), Some(row.name()))), 1);
    let seen: u64 = users.iter().map(|user| user.used).sum();
    // slurmctld subtracts what a job has run only now and then.
    let is_late = minutes.is_some() && seen > 0;
    let unseen = used.filter(|_| by_whom && !is_late).unwrap_or(0).saturating_sub(seen);
    Limit {
        holder: name(&record.holder),
        field,
        scope,
        tres: tres.to_owned(),
        limit,
        used,
        users,
        unseen,
        asks,
        verdict,
        minutes,
        is_of_qos: matches!(record.holder, Holder::Qos(_) | Holder::Nodes(..)),
        is_untold: false,
    }
}

/// Whether a limit counts a job, once it runs.
fn belongs(row: &Row, record: &Record, scope: Scope, job: &Row, known: &Known) -> bool {
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let of_holder = match &record.holder {
        Holder::Qos(name) => {
            let partitions = known.partitions_of.get(&name.to_ascii_lowercase());
            same(&row.qos, name) || partitions.is_some_and(|all| all.contains(&row.partition))
        }
        Holder::Account(name) => {
            known.below.get(name).is_some_and(|all| all.iter().any(|account| same(account, &row.account)))
        }
        Holder::Nodes(_, nodes) => {
            let its = hostlist::names::each(&row.node_list);
            its.iter().any(|node| nodes.contains(node))
        }
        Holder::Own(account, partition) => {
            row.user == job.user
                && same(account, &row.account)
                && (partition.is_empty() || same(partition, &row.partition))
        }
    };
    let of_scope = match scope {
        Scope::User => row.user == job.user,
        Scope::Account => same(&row.account, &job.account),
        _ => true,
    };
    of_holder && of_scope
}

/// Sums by user, the largest first: of users, what each has with a job, and perhaps that job's name. Counts whole
/// `unit`s.
pub fn users<'t>(all: impl Iterator<Item = (&'t str, u64, Option<String>)>, unit: u64) -> Vec<User> {
    let mut sums: BTreeMap<&str, (u64, Vec<String>)> = BTreeMap::new();
    for (user, used, job) in all.filter(|(_, used, _)| *used > 0) {
        let (sum, jobs) = sums.entry(user).or_default();
        *sum += used;
        jobs.extend(job);
    }
    sums.retain(|_, (used, _)| *used >= unit);
    let user = |(user, (used, jobs)): (&str, _)| User { user: user.to_owned(), used: used / unit, jobs };
    let mut users: Vec<User> = sums.into_iter().map(user).collect();
    users.sort_by_key(|user| Reverse(user.used));
    users
}

/// The holder, in words.
pub fn name(holder: &Holder) -> String {
    match holder {
        Holder::Qos(name) => format!("QOS '{name}'"),
        Holder::Account(name) => format!("account '{name}'"),
        Holder::Nodes(partition, _) => format!("partition '{partition}'"),
        Holder::Own(account, partition) if partition.is_empty() => {
            format!("the user's association with account '{account}'")
        }
        Holder::Own(account, partition) => {
            format!("the user's association with account '{account}' in partition '{partition}'")
        }
    }
}

#[cfg(test)]
pub mod tests {
    use gpushare_slurm_text::queue::row;

    use super::super::records::{known, tests::TEXT};
    use super::*;

    /// A job that requests or has something.
    pub fn job(id: u32, user: &str, state: &str, tres: &str) -> Row {
        let number = if user == "alice" { 2001 } else { 2002 };
        let text = format!(
            "{id}|{id}|N/A|N/A|N/A|{number}|{user}|acct|p|q|{state}|None|1|N/A|N/A||{tres}|gres/gpu:a40:2|N/A|N/A|N/A|"
        );
        row(&text).unwrap()
    }

    pub fn shown(limit: &Limit) -> String {
        let used = limit.used.map_or("-".to_owned(), |used| used.to_string());
        let Limit { holder, field, tres, limit: most, asks, verdict, .. } = limit;
        format!("{holder} {field} {tres} {used}/{most} +{asks} {verdict:?}")
    }

    fn limits(tres: &str, qoses: &[&str]) -> Vec<String> {
        let job = job(7, "alice", "PENDING", tres);
        concerning(&job, &known(TEXT, &job, qoses), &[]).iter().map(shown).collect()
    }

    #[test]
    fn a_limit_on_a_type_comes_before_the_one_on_all_gpus() {
        let both = TEXT.replace("gres/gpu:a40=4(3)", "gres/gpu=4(3),gres/gpu:a40=4(3)");
        let job = job(7, "alice", "PENDING", "gres/gpu=2,gres/gpu:a40=2");
        let found: Vec<String> =
            concerning(&job, &known(&both, &job, &["q"]), &[]).iter().map(shown).collect();
        assert_eq!(found[0], "QOS 'q' GrpTRES gres/gpu:a40 3/4 +2 Waits { for_more: 1 }");
        assert_eq!(found[1], "QOS 'q' GrpTRES gres/gpu 3/4 +2 Waits { for_more: 1 }");
    }

    #[test]
    fn the_limits_of_qos_and_associations_are_judged() {
        let own = "the user's association with account 'acct'";
        assert_eq!(
            limits("gres/gpu:a40=2", &["q"]),
            [
                "QOS 'q' GrpTRES gres/gpu:a40 3/4 +2 Waits { for_more: 1 }",
                "QOS 'q' MaxTRESPU gres/gpu:a40 2/3 +2 Waits { for_more: 1 }",
                "QOS 'q' MaxTRESPN gres/gpu:a40 -/2 +2 Fits",
                &format!("{own} MaxJobs jobs 2/8 +1 Fits"),
                &format!("{own} MaxTRESPJ gres/gpu:a40 -/4 +2 Fits"),
                "account 'limits' GrpJobs jobs 3/9 +1 Fits",
            ]
        );
    }

    #[test]
    fn a_job_above_a_limit_never_starts() {
        let all = limits("gres/gpu:a40=6", &["q"]);
        let never = all.iter().filter(|limit| limit.ends_with("Never")).count();
        assert_eq!(never, 4, "{all:?}");
        assert!(all[0].starts_with("QOS 'q' GrpTRES gres/gpu:a40 3/4 +6 Never"), "{all:?}");
    }

    #[test]
    fn the_first_qos_counts_and_then_the_other() {
        // The partition's QOS limits only CPUs, so the job's QOS limits GPUs. Without the job's QOS, account 'limits'
        // counts.
        let all = limits("cpu=3,gres/gpu:a40=1", &["part", "q"]);
        assert!(all.iter().any(|limit| limit == "QOS 'part' GrpTRES cpu 0/2 +3 Never"), "{all:?}");
        assert!(all.iter().any(|limit| limit == "QOS 'q' GrpTRES gres/gpu:a40 3/4 +1 Fits"), "{all:?}");
        let without = limits("gres/gpu:a40=2", &["part"]);
        assert!(
            without
                .iter()
                .any(|limit| limit == "account 'limits' GrpTRES gres/gpu:a40 5/6 +2 Waits { for_more: 1 }"),
            "{without:?}"
        );
        assert!(!all.iter().any(|limit| limit.starts_with("account 'limits' GrpTRES")), "{all:?}");
    }

    #[test]
    fn components_of_a_heterogeneous_job_ask_together() {
        let component = |id: u32, tres: &str| Row { het: Some((7, id)), ..job(id, "alice", "PENDING", tres) };
        let asked = component(7, "gres/gpu:a40=1");
        let rows = [asked.clone(), component(8, "gres/gpu:a40=2")];
        let known = known(TEXT, &asked, &["q"]);
        let shown: Vec<String> = concerning(&asked, &known, &rows).iter().map(shown).collect();
        assert_eq!(shown[0], "QOS 'q' GrpTRES gres/gpu:a40 3/4 +3 Waits { for_more: 2 }");
        assert!(shown.iter().any(|limit| limit.contains("MaxTRESPN gres/gpu:a40 -/2 +1")), "{shown:?}");
    }

    #[test]
    fn users_are_named_as_far_as_the_caller_sees_their_jobs() {
        let asked = job(7, "alice", "PENDING", "gres/gpu:a40=2");
        let known = known(TEXT, &asked, &["q"]);
        let rows = [
            job(1, "alice", "RUNNING", "gres/gpu:a40=1"),
            job(2, "alice", "SUSPENDED", "gres/gpu:a40=1"),
            job(3, "alice", "COMPLETED", "gres/gpu:a40=9"),
            asked.clone(),
        ];
        let limits = concerning(&asked, &known, &rows);
        let group = limits.iter().find(|limit| limit.field == "GrpTRES").unwrap();
        let alice = User { user: "alice".into(), used: 2, jobs: vec!["1".into(), "2".into()] };
        assert_eq!((group.users.as_slice(), group.unseen), ([alice].as_slice(), 1));
    }
}
