//! The report as data. All sums are GPU-seconds, as sreport has them with `-t Seconds`.

use std::collections::BTreeMap;

use gpushare_period::{Period, exact};
use gpushare_slurm_text::sreport;
use serde::Serialize;

use super::groups::{ANY, Database, Group, Of};
use super::sum::{OfGroup, Summer, Sums};

/// How a type that accounting doesn't have is named.
pub const UNKNOWN: &str = "unknown";

/// The whole report.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub cluster: String,
    pub start: String,
    pub end: String,
    #[serde(skip)]
    pub period: Period,
    /// The GPUs of the cluster; empty in a group's report.
    pub gpus: Vec<Gpus>,
    pub groups: Vec<OneGroup>,
    /// By type, of jobs whose QOS owns nothing; empty in a group's report.
    pub others: BTreeMap<String, u64>,
    /// What sreport says of each account, by type; empty in a QOS's report.
    pub accounts: Vec<Account>,
    /// Idle GPUs of reservations, which sreport counts as used; empty in a group's report.
    pub reserved: Vec<Reserved>,
    /// Where sreport and the jobs in accounting differ.
    pub differences: Vec<Difference>,
    /// Jobs that started with GPUs in the period.
    pub jobs: u64,
    /// What the numbers don't show, in sentences.
    pub remarks: Vec<String>,
    /// GPUs of the cluster in use, by type and part of the period.
    #[serde(skip)]
    pub columns: Vec<Vec<u64>>,
    #[serde(skip)]
    pub types: Vec<String>,
}

/// The cluster's GPUs of a type, as sreport's Utilization has them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpus {
    pub gpu_type: String,
    pub gpus: u64,
    pub allocated: u64,
    pub down: u64,
    pub planned_down: u64,
    pub planned: u64,
    pub idle: u64,
    pub reported: u64,
}

#[derive(Debug, Serialize)]
pub struct OneGroup {
    pub kind: Of,
    pub name: String,
    pub burst_qos: Option<String>,
    pub types: Vec<OfType>,
    /// Jobs that started; and how many seconds half of them, and nine of ten, waited at most.
    pub jobs: u64,
    pub wait_median: Option<u32>,
    pub wait_90_percent: Option<u32>,
    /// Requests that the plugin refused; null if no log was read.
    pub refused: Option<u64>,
    /// Empty in the report on all groups.
    pub users: Vec<User>,
    pub lent_to: Vec<Loan>,
    pub borrowed_from: Vec<Loan>,
    #[serde(skip)]
    pub columns: Vec<[u64; 3]>,
}

/// A group's GPUs of a type.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OfType {
    pub gpu_type: String,
    pub owned_gpus: u64,
    pub owned: u64,
    pub used: u64,
    pub borrowed: u64,
    pub lent: u64,
    pub idle: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct User {
    pub user: String,
    pub gpu_type: String,
    pub used: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Loan {
    pub qos: String,
    pub gpu_type: String,
    pub used: u64,
}

/// What an account and those below it used; of one user, if it names one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    pub account: String,
    pub user: Option<String>,
    pub gpu_type: String,
    pub used: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub account: String,
    pub user: Option<String>,
    pub gpu_type: String,
    pub sreport: u64,
    pub jobs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reserved {
    pub reservation: String,
    pub gpu_type: String,
    pub idle: u64,
}

/// What sreport says.
#[derive(Debug, Default)]
pub struct Told {
    pub reserved: Vec<Reserved>,
    pub gpus: Vec<(String, sreport::Used)>,
    /// Account, user, type, GPU-seconds.
    pub accounts: Vec<(String, String, String, u64)>,
}

/// What else the report has.
#[derive(Debug, Default)]
pub struct More {
    pub cluster: String,
    pub period: Period,
    /// Whether it is on groups that were named.
    pub is_of_some: bool,
    /// Account, QOS and how many of its requests were refused.
    pub refused: Option<Vec<(String, String, u64)>>,
    pub remarks: Vec<String>,
}

pub fn of(
    summer: &Summer,
    database: &Database,
    groups: &[Group],
    types: &[String],
    told: &Told,
    more: More,
) -> Report {
    let More { cluster, period, is_of_some, refused, remarks } = more;
    let named = names(types);
    let name = |at: usize| named.get(at).cloned().unwrap_or_default();
    let within =
        |account: &str, group: &Group| group.of == Of::Account && database.is_within(account, &group.name);
    let shown = |account: &str| !is_of_some || groups.iter().any(|group| within(account, group));
    let accounts = told.accounts.iter().filter(|(account, user, _, used)| {
        // Of a group its users, of all groups none.
        shown(account) && *used > 0 && (is_of_some != user.is_empty())
    });
    let accounts = accounts.map(|(account, user, gpu_type, used)| Account {
        account: account.clone(),
        user: Some(user.clone()).filter(|user| !user.is_empty()),
        gpu_type: gpu_type.clone(),
        used: *used,
    });
    let accounts: Vec<Account> = accounts.collect();
    let gpus = told.gpus.iter().filter(|_| !is_of_some).map(|(gpu_type, used)| Gpus {
        gpu_type: gpu_type.clone(),
        gpus: used.count,
        allocated: used.allocated,
        down: used.down,
        planned_down: used.planned_down,
        planned: used.planned,
        idle: used.idle,
        reported: used.reported,
    });
    let others = by_type(&summer.others)
        .map(|(at, used)| (if at == types.len() { UNKNOWN.to_owned() } else { name(at) }, used));
    let pairs = groups.iter().zip(&summer.of);
    let is_compared = |account: &str, user: &str| match is_of_some {
        true => pairs.clone().any(|(group, sums)| match group.of {
            Of::Account => database.is_within(account, &group.name),
            // Others may use the account under another QOS.
            Of::Qos => {
                summer.is_used_under(group, account)
                    && (user.is_empty() || sums.users.keys().any(|(known, _)| known == user))
            }
        }),
        // The report on all groups names no users.
        false => user.is_empty(),
    };
    let one = |(group, sums): (&Group, &OfGroup)| {
        group_of(group, sums, &named, period, is_of_some, refused.as_deref(), database)
    };
    Report {
        start: exact(period.start),
        end: exact(period.end),
        period,
        gpus: gpus.collect(),
        groups: pairs.clone().map(one).collect(),
        others: others.filter(|_| !is_of_some).collect(),
        reserved: told.reserved.iter().filter(|_| !is_of_some).cloned().collect(),
        differences: differences(summer, database, &named, told, &is_compared),
        accounts,
        jobs: if is_of_some {
            summer.of.iter().map(|of| of.waits.len() as u64).sum()
        } else {
            summer.started
        },
        remarks,
        columns: if is_of_some { Vec::new() } else { summer.columns.clone() },
        types: named,
        cluster,
    }
}

fn names(types: &[String]) -> Vec<String> {
    types.iter().cloned().chain([ANY.to_owned()]).collect()
}

/// The sum of each type, and with the last number that of GPUs without a type.
fn by_type(sums: &[u64]) -> impl Iterator<Item = (usize, u64)> {
    let (any, typed) = sums.split_last().map_or((0, sums), |(any, typed)| (*any, typed));
    let untyped = any.saturating_sub(typed.iter().sum());
    (0..).zip(typed.iter().copied().chain([untyped])).filter(|(_, sum)| *sum > 0)
}

fn group_of(
    group: &Group,
    sums: &OfGroup,
    names: &[String],
    period: Period,
    with_users: bool,
    refused: Option<&[(String, String, u64)]>,
    database: &Database,
) -> OneGroup {
    let any = names.len().saturating_sub(1);
    let owns_any = group.owned.iter().any(|(gpu_type, _)| gpu_type == ANY);
    let name = |at: usize| names.get(at).cloned().unwrap_or_default();
    let rows = (0..).zip(&sums.types).filter(|(at, _)| (*at == any) == owns_any).map(|(at, sums)| {
        let of_type = |(gpu_type, _): &&(String, u64)| gpu_type.eq_ignore_ascii_case(&name(at));
        let owned_gpus = group.owned.iter().find(of_type).map_or(0, |(_, count)| *count);
        let Sums { used, borrowed, lent, idle, .. } = *sums;
        let owned = owned_gpus * u64::from(period.seconds());
        OfType { gpu_type: name(at), owned_gpus, owned, used, borrowed, lent, idle }
    });
    let mut types: Vec<OfType> = rows.filter(|row| row.owned + row.used > 0).collect();
    let all: Vec<u64> = sums.types.iter().map(|sums| sums.used).collect();
    if let Some((_, used)) = by_type(&all).find(|(at, _)| *at == any && !owns_any) {
        let gpu_type = UNKNOWN.to_owned();
        let borrowed = if group.owned.is_empty() { 0 } else { used };
        types.push(OfType { gpu_type, owned_gpus: 0, owned: 0, used, borrowed, lent: 0, idle: 0 });
    }
    let mut waits = sums.waits.clone();
    waits.sort_unstable();
    let counts = |account: &str, qos: &str| match group.of {
        Of::Qos => qos == group.name || group.burst.as_deref() == Some(qos),
        Of::Account => database.is_within(account, &group.name),
    };
    let refused = refused.map(|all| {
        all.iter().filter(|(account, qos, _)| counts(account, qos)).map(|(.., number)| *number).sum()
    });
    OneGroup {
        kind: group.of,
        name: group.name.clone(),
        burst_qos: group.burst.clone(),
        types,
        jobs: waits.len() as u64,
        wait_median: rank(&waits, 50),
        wait_90_percent: rank(&waits, 90),
        refused,
        users: if with_users { users(sums, names, owns_any) } else { Vec::new() },
        lent_to: loans(&sums.lent_to, names),
        borrowed_from: loans(&sums.borrowed_from, names),
        columns: sums.columns.clone(),
    }
}

/// The least number that so many percent are at most.
fn rank(sorted: &[u32], percent: usize) -> Option<u32> {
    sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied()
}

fn users(sums: &OfGroup, names: &[String], owns_any: bool) -> Vec<User> {
    let mut by_user: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for ((user, at), used) in &sums.users {
        let of = by_user.entry(user).or_insert_with(|| vec![0; names.len()]);
        of.get_mut(*at).into_iter().for_each(|sum| *sum += used);
    }
    let any = names.len().saturating_sub(1);
    let rows = by_user.iter().flat_map(|(user, sums)| {
        let rows: Vec<(usize, u64)> = match owns_any {
            true => sums.last().map(|used| (any, *used)).into_iter().collect(),
            false => by_type(sums).collect(),
        };
        rows.into_iter().map(move |(at, used)| {
            let gpu_type =
                if at == any && !owns_any { UNKNOWN } else { names.get(at).map_or("", String::as_str) };
            User { user: (*user).to_owned(), gpu_type: gpu_type.to_owned(), used }
        })
    });
    let mut rows: Vec<User> = rows.collect();
    rows.sort_by(|a, b| {
        b.used.cmp(&a.used).then_with(|| (&a.user, &a.gpu_type).cmp(&(&b.user, &b.gpu_type)))
    });
    rows
}

fn loans(all: &BTreeMap<(String, usize), u64>, names: &[String]) -> Vec<Loan> {
    let one = |((qos, at), used): (&(String, usize), &u64)| Loan {
        qos: qos.clone(),
        gpu_type: names.get(*at).cloned().unwrap_or_default(),
        used: *used,
    };
    all.iter().map(one).collect()
}

/// Compares accounts and their users with sreport.
fn differences(
    summer: &Summer,
    database: &Database,
    names: &[String],
    told: &Told,
    is_compared: &dyn Fn(&str, &str) -> bool,
) -> Vec<Difference> {
    type Key = (String, String, String);
    let mut both: BTreeMap<Key, [u64; 2]> = BTreeMap::new();
    for ((account, user, at), used) in &summer.users {
        let gpu_type = names.get(*at).cloned().unwrap_or_default();
        let mut add = |account: &str, user: &str| {
            both.entry((account.to_owned(), user.to_owned(), gpu_type.clone())).or_default()[1] += used;
        };
        add(account, user);
        let mut above: Vec<&str> =
            database.ever.above(account).map(|(_, one)| one.account.as_str()).collect();
        if above.is_empty() {
            // The account is no longer there.
            above.extend([account.as_str(), "root"]);
        }
        above.into_iter().for_each(|account| add(account, ""));
    }
    for (account, user, gpu_type, used) in &told.accounts {
        both.entry((account.clone(), user.clone(), gpu_type.clone())).or_default()[0] += used;
    }
    let differ = both
        .into_iter()
        .filter(|((account, user, _), [sreport, jobs])| sreport != jobs && is_compared(account, user));
    let one = |((account, user, gpu_type), [sreport, jobs]): (Key, [u64; 2])| Difference {
        account,
        user: Some(user).filter(|user| !user.is_empty()),
        gpu_type,
        sreport,
        jobs,
    };
    differ.map(one).collect()
}
