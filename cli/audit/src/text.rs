//! The report as text for people, which can be sent by mail, and as CSV for a spreadsheet.

use gpushare::text::print::counted;

use super::report::{Asked, Report};
use gpushare_period::{day, text, zone};
use gpushare_terminal::clean;
use gpushare_terminal::columns::{self, Side, Span};
use gpushare_terminal::csv;

/// How many requests are shown; --csv and --json have all.
const SHOWN: usize = 50;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let mut out = "gpushare audit".to_owned();
    if !report.cluster.is_empty() {
        out += &format!(" of {}", clean(&report.cluster));
    }
    if let Some(period) = report.period {
        out += &format!(", {} to {} ({})", text(period.start), text(period.end), zone(period.end));
    }
    out += &format!("\n\n{}", summary(report));
    let (shown, more) = report.requests.split_at(report.requests.len().min(SHOWN));
    if !shown.is_empty() {
        out += &format!("\n{}", table(report, shown));
    }
    if !more.is_empty() {
        out += &format!("  and {} more, in --csv and --json\n", more.len());
    }
    out += "\n";
    out += &format!("read: {}\n", clean(&report.read.join(", ")));
    for remark in &report.remarks {
        out += &format!("note: {}\n", clean(remark));
    }
    out
}

/// The sentences above the table.
fn summary(report: &Report) -> String {
    let of_users = |users: u64| {
        if report.from_counts { String::new() } else { format!(" of {}", counted(users, "user")) }
    };
    let mut out = match report.would_be_refused {
        0 => {
            let limit = if report.is_partial { ", as far as this can tell: see the notes" } else { "" };
            format!("No request was accepted that Mode=enforce would refuse{limit}.\n")
        }
        count => format!(
            "Accepted, although Mode=enforce would refuse them: {}{}.\n",
            counted(count, "request"),
            of_users(report.users_would_be_refused)
        ),
    };
    if report.users_would_be_refused > 0 {
        out += &format!(
            "{} would be refused if you switched to enforce today.\n",
            counted(report.users_would_be_refused, "user")
        );
    }
    if report.refused > 0 {
        out +=
            &format!("Refused: {}{}.\n", counted(report.refused, "request"), of_users(report.users_refused));
    }
    if report.exempt > 0 {
        out += &format!("Exempt: {}{}.\n", counted(report.exempt, "request"), of_users(report.users_exempt));
    }
    out
}

struct Column {
    head: &'static str,
    /// Whether the counts have this number too.
    is_counted: bool,
    side: Side,
    word: fn(&Asked) -> String,
}

const fn column(head: &'static str, is_counted: bool, side: Side, word: fn(&Asked) -> String) -> Column {
    Column { head, is_counted, side, word }
}

const COLUMNS: [Column; 10] = [
    column("USER", false, Side::Left, user),
    column("ACCOUNT", false, Side::Left, |one| one.account.clone()),
    column("ACCEPTED", true, Side::Right, |one| count(one.accepted())),
    column("REFUSED", true, Side::Right, |one| count(one.refused)),
    column("EXEMPT", true, Side::Right, |one| count(one.exempt)),
    column("FIRST", false, Side::Left, |one| {
        one.times.map_or_else(|| "-".to_owned(), |(first, _)| day(first))
    }),
    column("LAST", false, Side::Left, |one| one.times.map_or_else(|| "-".to_owned(), |(_, last)| day(last))),
    column("JOBS", false, Side::Left, jobs),
    column("REQUEST", false, Side::Left, |one| one.request.clone()),
    column("MESSAGE, AND WHAT TO ASK FOR", true, Side::Left, message),
];

fn table(report: &Report, shown: &[Asked]) -> String {
    let columns = || COLUMNS.iter().filter(|column| column.is_counted || !report.from_counts);
    let sides: Vec<_> = columns().map(|column| (column.side, None)).collect();
    let row = |one: &Asked| columns().map(|column| Span::from((column.word)(one))).collect::<Vec<_>>();
    let head = columns().map(|column| Span::from(column.head)).collect();
    let rows = std::iter::once(head).chain(shown.iter().map(row)).collect();
    columns::aligned(rows, &sides).iter().map(|line| format!("  {}\n", line.render(None, false))).collect()
}

/// Empty for 0, because zeros would hide the other numbers.
fn count(number: u64) -> String {
    if number == 0 { "-".to_owned() } else { number.to_string() }
}

fn user(one: &Asked) -> String {
    match one.user_id {
        Some(number) if one.user.is_empty() => format!("uid {number}"),
        _ => one.user.clone(),
    }
}

fn jobs(one: &Asked) -> String {
    one.jobs.join(", ") + if one.more_jobs { ", …" } else { "" }
}

fn message(one: &Asked) -> String {
    let told = match &one.instead {
        Some(options) => format!("{}: {options}", one.number),
        None => format!("{}: {}", one.number, one.title),
    };
    if one.accepted() > 0 && !one.would_be_refused { format!("{told} (advice only)") } else { told }
}

/// One line for each form of request.
pub fn csv(report: &Report) -> String {
    let head = "user,user_id,account,qos,partition,number,request,instead,jobs,warned,audited,refused,exempt,first,\
                last,would_be_refused";
    let row = |one: &Asked| {
        vec![
            one.user.clone(),
            one.user_id.map(|number| number.to_string()).unwrap_or_default(),
            one.account.clone(),
            one.qos.clone(),
            one.partition.clone(),
            one.number.clone(),
            one.request.clone(),
            one.instead.clone().unwrap_or_default(),
            jobs(one),
            one.warned.to_string(),
            one.audited.to_string(),
            one.refused.to_string(),
            one.exempt.to_string(),
            one.first.clone().unwrap_or_default(),
            one.last.clone().unwrap_or_default(),
            one.would_be_refused.to_string(),
        ]
    };
    csv::text(head, report.requests.iter().map(row))
}
