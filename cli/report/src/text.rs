//! The report as text for people, and as CSV for a spreadsheet.

use std::collections::BTreeSet;

use gpushare::text::time;
use gpushare_history::hours as gpu_hours;
use gpushare_slurm_text::sreport;
use gpushare_terminal::{Table, clean, csv, notes};
use serde::Serialize;

use super::groups::{ANY, Of};
use super::report::{Account, Difference, Loan, OfType, OneGroup, Report, Reserved, UNKNOWN};

/// How many accounts, users and differences are shown; --json has all.
const SHOWN: usize = 12;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let mut out = format!("{}, in GPU-hours\n", clean(&title(report)));
    for table in [gpus(report), groups(report), users(report), loans(report), accounts(report)] {
        out += &aligned(&table);
    }
    out + "\n" + &notes(&said(report))
}

/// The cluster and the period.
pub fn title(report: &Report) -> String {
    format!("{}, {}", report.cluster, report.period)
}

/// The cluster's GPUs.
pub fn gpus(report: &Report) -> Table {
    let row = |one: &super::report::Gpus| {
        let sreport::Used { count, allocated, down, planned_down, idle, planned, reported } = one.used;
        let sums = [allocated, idle, down, planned_down, planned, reported];
        let name = if one.gpu_type == ANY { "all" } else { &one.gpu_type };
        [vec![name.to_owned(), count.to_string()], sums.map(hours).to_vec()].concat()
    };
    // Types first, then all of them.
    let (any, typed): (Vec<_>, Vec<_>) = report.gpus.iter().partition(|one| one.gpu_type == ANY);
    let head = vec!["GPU", "NUMBER", "ALLOCATED", "IDLE", "DOWN", "PLANNED DOWN", "PLANNED", "ALL"];
    Table { head, numbers: 1..8, rows: typed.into_iter().chain(any).map(row).collect() }
}

/// A row for each group and type.
pub fn groups(report: &Report) -> Table {
    let head = "GROUP, GPU, NUMBER, OWNED, USED, BORROWED, LENT, IDLE, JOBS, WAIT, 90 % WAIT, REFUSED";
    let head = head.split(", ").collect();
    let mut rows = Vec::new();
    for group in &report.groups {
        let wait = |time: Option<u32>| time.map_or("-".to_owned(), |seconds| time::text(seconds.into()));
        let refused = group.refused.map_or("not asked".to_owned(), |count| count.to_string());
        let more = [group.jobs.to_string(), wait(group.wait_median), wait(group.wait_90_percent), refused];
        let name = title_of(group);
        if group.types.is_empty() {
            let none = ["-", "0"].map(str::to_owned).into_iter();
            let none = none.chain([0; 5].map(hours));
            rows.push(std::iter::once(name.clone()).chain(none).chain(more.clone()).collect());
        }
        for (at, one) in (0..).zip(&group.types) {
            let sums = [one.owned, one.used, one.borrowed, one.lent, one.idle].map(hours);
            let more = if at == 0 { more.clone() } else { Default::default() };
            let words = [if at == 0 { name.clone() } else { String::new() }, one.gpu_type.clone()];
            rows.push(
                words.into_iter().chain([one.owned_gpus.to_string()]).chain(sums).chain(more).collect(),
            );
        }
    }
    for (gpu_type, used) in &report.others {
        let used = hours(*used);
        let row = ["other QOSes", gpu_type, "", "", &used].map(str::to_owned).into_iter();
        rows.push(row.chain(std::iter::repeat_n(String::new(), 7)).collect());
    }
    Table { head, numbers: 2..12, rows }
}

/// `qos qos_x`.
pub fn title_of(group: &OneGroup) -> String {
    format!("{} {}", kind(group.kind), group.name)
}

fn kind(of: Of) -> &'static str {
    match of {
        Of::Qos => "qos",
        Of::Account => "account",
    }
}

/// Who used a group's GPUs.
pub fn users(report: &Report) -> Table {
    let rows = report.groups.iter().flat_map(|group| {
        let row = |one: &super::report::User| {
            vec![title_of(group), one.user.clone(), one.gpu_type.clone(), hours(one.used)]
        };
        group.users.iter().map(row)
    });
    Table { head: vec!["GROUP", "USER", "GPU", "USED"], numbers: 3..4, rows: rows.collect() }
}

/// Who had whose GPUs.
pub fn loans(report: &Report) -> Table {
    let row = |from: &str, to: &str, loan: &Loan| {
        vec![from.to_owned(), to.to_owned(), loan.gpu_type.clone(), hours(loan.used)]
    };
    let of = |group: &OneGroup| {
        let burst = group.burst_qos.clone().unwrap_or_default();
        let lent = group.lent_to.iter().map(|loan| row(&group.name, &loan.qos, loan));
        let borrowed = group.borrowed_from.iter().map(|loan| row(&loan.qos, &burst, loan));
        lent.chain(borrowed).collect::<Vec<_>>()
    };
    // What one group lends, another one borrows.
    let rows: BTreeSet<Vec<String>> = report.groups.iter().flat_map(of).collect();
    let rows = rows.into_iter().collect();
    Table { head: vec!["LENT BY", "TO", "GPU", "USED"], numbers: 3..4, rows }
}

/// What sreport says of accounts.
pub fn accounts(report: &Report) -> Table {
    let with_users = report.accounts.iter().any(|one| one.user.is_some());
    let is_shown = |one: &&Account| one.gpu_type != ANY && (with_users || one.account != "root");
    let row = |one: &Account| {
        let words = [Some(one.account.clone()), one.user.clone(), Some(one.gpu_type.clone())];
        words.into_iter().flatten().chain([hours(one.used)]).collect()
    };
    let head = match with_users {
        true => vec!["ACCOUNT", "USER", "GPU", "USED"],
        false => vec!["ACCOUNT", "GPU", "USED"],
    };
    let last = head.len() - 1;
    Table { head, numbers: last..last + 1, rows: report.accounts.iter().filter(is_shown).map(row).collect() }
}

/// The remarks, and how the report compares with sreport.
pub fn said(report: &Report) -> Vec<String> {
    let mut said = report.remarks.clone();
    if report.differences.is_empty() {
        said.push("sreport has the same numbers, to the second".to_owned());
    }
    let reserved = report.reserved.iter().filter(|one| one.gpu_type != ANY);
    said.extend(reserved.take(SHOWN).map(|Reserved { reservation, gpu_type, idle }| {
        format!(
            "reservation {reservation}: sreport counts its {} idle GPU-hours ({gpu_type}) as used",
            hours(*idle)
        )
    }));
    for Difference { account, user, gpu_type, sreport, jobs } in report.differences.iter().take(SHOWN) {
        let of = user.as_ref().map_or(String::new(), |user| format!(", user {user}"));
        said.push(format!(
            "account {account}{of}: sreport has {sreport} GPU-seconds ({gpu_type}), jobs in accounting {jobs}"
        ));
    }
    if !report.differences.is_empty() {
        said.push(format!(
            "{} sums differ. sreport also counts idle time of reservations, omits time without slurmctld, and has \
             neither jobs that were purged nor an hour that slurmdbd hasn't summed yet",
            report.differences.len()
        ));
    }
    let unknown = |group: &&OneGroup| group.types.iter().any(|one| one.gpu_type == UNKNOWN);
    if report.groups.iter().any(|group| unknown(&group)) || report.others.contains_key(UNKNOWN) {
        said.push(
            "unknown: GPUs whose type accounting lacks, so sreport can't count it either: AccountingStorageTRES needs \
             gres/gpu:TYPE"
                .to_owned(),
        );
    }
    said
}

/// Hours, with enough digits that a small number isn't 0.
pub fn hours(seconds: u64) -> String {
    gpu_hours::text(gpu_hours::of(seconds))
}

fn aligned(table: &Table) -> String {
    let all_shown = table.head.first() == Some(&"GROUP") && table.numbers.start == 2;
    let text = table.text("  ", if all_shown { usize::MAX } else { SHOWN }, "--json and --html");
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// A line for each group and GPU type, in GPU-seconds.
pub fn csv(report: &Report) -> String {
    #[derive(Serialize)]
    struct Row<'r> {
        #[serde(flatten)]
        group: &'r OneGroup,
        #[serde(flatten)]
        of_type: &'r OfType,
    }
    let head = "kind,name,gpu_type,owned_gpus,owned,used,borrowed,lent,idle,jobs,wait_median,wait_90_percent,refused";
    let rows = report.groups.iter();
    csv::of(head, rows.flat_map(|group| group.types.iter().map(move |of_type| Row { group, of_type })))
}
