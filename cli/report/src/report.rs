//! The report as data. All sums are GPU-seconds, as sreport has them with `-t Seconds`.

use std::collections::BTreeMap;

use gpushare_period::{Period, exact};
use gpushare_slurm_text::sreport;
use serde::Serialize;

use super::groups::{ANY, Group, Of};
use super::sum::{OfGroup, Place, Summer, Sums};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpus {
    pub gpu_type: String,
    #[serde(flatten)]
    pub used: sreport::Used,
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
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
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
    pub gpus: Vec<Gpus>,
    pub accounts: Vec<Account>,
}

/// How many requests of each account and QOS were refused.
pub type Refused = Vec<(String, String, u64)>;

/// What else the report has.
#[derive(Debug, Default)]
pub struct More {
    pub cluster: String,
    pub period: Period,
    /// Whether it is on groups that were named.
    pub is_of_some: bool,
    pub refused: Option<Refused>,
    pub remarks: Vec<String>,
}

pub fn of(summer: &Summer, told: Told, more: More) -> Report {
    let More { cluster, period, is_of_some, refused, remarks } = more;
    let groups = summer.groups;
    let is_within = |account: &str, group: &Group| {
        group.of == Of::Account && summer.database.is_within(account, &group.name)
    };
    let is_of_account = |account: &str| groups.iter().any(|group| is_within(account, group));
    let is_compared = |account: &str, user: Option<&str>| match is_of_some {
        true => {
            // Others may use the account under another QOS.
            is_of_account(account)
                || summer.users.keys().any(|(place, known, _)| {
                    let of_groups = |place: &&Place| place.account == account && !place.groups.is_empty();
                    summer.places.get(*place).filter(of_groups).is_some()
                        && user.is_none_or(|user| known == user)
                })
        }
        // The report on all groups names no users.
        false => user.is_none(),
    };
    let differences = differences(summer, &told, &is_compared);
    let [started, of_groups] = summer.started;
    let mut report = Report {
        start: exact(period.start),
        end: exact(period.end),
        period,
        groups: (0..)
            .zip(groups)
            .map(|(at, group)| group_of(summer, at, group, is_of_some, &refused))
            .collect(),
        accounts: told.accounts,
        differences,
        remarks,
        types: summer.types.clone(),
        cluster,
        ..Report::default()
    };
    // Of a group its users, of all groups none.
    report.accounts.retain(|one| {
        one.used > 0 && is_of_some == one.user.is_some() && (!is_of_some || is_of_account(&one.account))
    });
    if is_of_some {
        return Report { jobs: of_groups, ..report };
    }
    let is_nobodys = |place: &Place| {
        !place.groups.iter().any(|at| groups.get(*at).is_some_and(|group| group.of == Of::Qos))
    };
    Report {
        gpus: told.gpus,
        others: by_type(summer, summed(summer, is_nobodys).values()).collect(),
        reserved: told.reserved,
        jobs: started,
        columns: summer.columns.clone(),
        ..report
    }
}

/// GPU-seconds of each user by type, in these places.
fn summed<'s>(summer: &'s Summer, is_wanted: impl Fn(&Place) -> bool) -> BTreeMap<&'s str, Vec<u64>> {
    let mut found: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for ((place, user, at), used) in &summer.users {
        if summer.places.get(*place).is_some_and(&is_wanted) {
            let sums = found.entry(user).or_insert_with(|| vec![0; summer.types.len()]);
            sums.get_mut(*at).into_iter().for_each(|sum| *sum += used);
        }
    }
    found
}

/// What these used of each type, and of [`UNKNOWN`] ones.
fn by_type<'s>(
    summer: &'s Summer,
    all: impl Iterator<Item = &'s Vec<u64>>,
) -> impl Iterator<Item = (String, u64)> {
    let mut sums = vec![0; summer.types.len()];
    all.for_each(|one| sums.iter_mut().zip(one).for_each(|(sum, used)| *sum += used));
    let any = sums.pop().unwrap_or(0);
    let untyped = any.saturating_sub(sums.iter().sum());
    let names = summer.types.iter().take(sums.len()).cloned().chain([UNKNOWN.to_owned()]);
    names.zip(sums.into_iter().chain([untyped])).filter(|(_, sum)| *sum > 0)
}

fn group_of(
    summer: &Summer,
    at: usize,
    group: &Group,
    with_users: bool,
    refused: &Option<Refused>,
) -> OneGroup {
    let any = summer.any();
    let owns_any = group.owned.iter().any(|(gpu_type, _)| gpu_type == ANY);
    let OfGroup { types, columns, mut waits, .. } = summer.of.get(at).cloned().unwrap_or_default();
    let rows = (0..).zip(&types).zip(&summer.types).filter(|((at, _), _)| (*at == any) == owns_any);
    let rows = rows.map(|((_, sums), name)| {
        let of_type = |(gpu_type, _): &&(String, u64)| gpu_type.eq_ignore_ascii_case(name);
        let owned_gpus = group.owned.iter().find(of_type).map_or(0, |(_, count)| *count);
        let Sums { used, borrowed, lent, idle } = *sums;
        let owned = owned_gpus * u64::from(summer.period.seconds());
        OfType { gpu_type: name.clone(), owned_gpus, owned, used, borrowed, lent, idle }
    });
    let mut rows: Vec<OfType> = rows.filter(|row| row.owned + row.used > 0).collect();
    let all: Vec<u64> = types.iter().map(|sums| sums.used).collect();
    let unknown = by_type(summer, [&all].into_iter()).find(|(name, _)| name == UNKNOWN && !owns_any);
    rows.extend(unknown.map(|(gpu_type, used)| {
        let borrowed = if group.owned.is_empty() { 0 } else { used };
        OfType { gpu_type, used, borrowed, ..OfType::default() }
    }));
    waits.sort_unstable();
    let counts = |account: &str, qos: &str| match group.of {
        Of::Qos => qos == group.name || group.burst.as_deref() == Some(qos),
        Of::Account => summer.database.is_within(account, &group.name),
    };
    let refused = refused.as_ref().map(|all| {
        all.iter().filter(|(account, qos, _)| counts(account, qos)).map(|(.., number)| *number).sum()
    });
    let mut users: Vec<User> = Vec::new();
    for (user, sums) in summed(summer, |place| with_users && place.groups.contains(&at)) {
        let rows: Vec<_> = match owns_any {
            true => sums.last().map(|used| (ANY.to_owned(), *used)).into_iter().collect(),
            false => by_type(summer, [&sums].into_iter()).collect(),
        };
        let row = |(gpu_type, used)| User { user: user.to_owned(), gpu_type, used };
        users.extend(rows.into_iter().map(row));
    }
    users.sort_by(|a, b| {
        b.used.cmp(&a.used).then_with(|| (&a.user, &a.gpu_type).cmp(&(&b.user, &b.gpu_type)))
    });
    let loans = summer.lent.iter().filter(|_| group.of == Of::Qos);
    let loan = |qos: &String, gpu_type: &String, used: &u64| Loan {
        qos: qos.clone(),
        gpu_type: gpu_type.clone(),
        used: *used,
    };
    let lent_to = loans.clone().filter(|((lender, ..), _)| *lender == group.name);
    let borrowed_from = loans.filter(|((_, borrower, _), _)| Some(borrower) == group.burst.as_ref());
    OneGroup {
        kind: group.of,
        name: group.name.clone(),
        burst_qos: group.burst.clone(),
        types: rows,
        jobs: waits.len() as u64,
        wait_median: rank(&waits, 50),
        wait_90_percent: rank(&waits, 90),
        refused,
        users,
        lent_to: lent_to.map(|((_, to, gpu_type), used)| loan(to, gpu_type, used)).collect(),
        borrowed_from: borrowed_from.map(|((from, _, gpu_type), used)| loan(from, gpu_type, used)).collect(),
        columns,
    }
}

/// The least number that so many percent are at most.
fn rank(sorted: &[u32], percent: usize) -> Option<u32> {
    sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied()
}

/// Compares accounts and their users with sreport.
fn differences(
    summer: &Summer,
    told: &Told,
    is_compared: &dyn Fn(&str, Option<&str>) -> bool,
) -> Vec<Difference> {
    let mut both: BTreeMap<(&str, Option<&str>, &str), [u64; 2]> = BTreeMap::new();
    for ((place, user, at), used) in &summer.users {
        let (Some(Place { account, .. }), Some(gpu_type)) =
            (summer.places.get(*place), summer.types.get(*at))
        else {
            continue;
        };
        let mut add = |account, user| both.entry((account, user, gpu_type)).or_default()[1] += used;
        add(account, Some(user));
        let mut above: Vec<&str> =
            summer.database.ever.above(account).map(|(_, one)| one.account.as_str()).collect();
        if above.is_empty() {
            // The account is no longer there.
            above.extend([account.as_str(), "root"]);
        }
        above.into_iter().for_each(|account| add(account, None));
    }
    for Account { account, user, gpu_type, used } in &told.accounts {
        both.entry((account, user.as_deref(), gpu_type)).or_default()[0] += used;
    }
    let differ = both
        .into_iter()
        .filter(|((account, user, _), [sreport, jobs])| sreport != jobs && is_compared(account, *user));
    let one =
        |((account, user, gpu_type), [sreport, jobs]): ((&str, Option<&str>, &str), [u64; 2])| Difference {
            account: account.to_owned(),
            user: user.map(str::to_owned),
            gpu_type: gpu_type.to_owned(),
            sreport,
            jobs,
        };
    differ.map(one).collect()
}
