//! The report as text for people, which can be sent by mail, and as CSV for a spreadsheet.

use gpushare::text::print::counted;

use super::report::{Asked, Report};
use gpushare_period::day;
use gpushare_terminal::{Table, clean, csv, notes};

/// How many requests are shown; --csv and --json have all.
const SHOWN: usize = 50;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let mut out = "gpushare audit".to_owned();
    if !report.cluster.is_empty() {
        out += &format!(" of {}", clean(&report.cluster));
    }
    if let Some(period) = report.period {
        out += &format!(", {period}");
    }
    out += &format!("\n\n{}", summary(report));
    if !report.requests.is_empty() {
        out += &format!("\n{}", table(report).text("  ", SHOWN, "--csv and --json"));
    }
    out + &format!("\nread: {}\n", clean(&report.read.join(", "))) + &notes(&report.remarks)
}

/// The sentences above the table.
fn summary(report: &Report) -> String {
    let requests = |number: u64, users: u64| {
        let of = if report.from_counts { String::new() } else { format!(" of {}", counted(users, "user")) };
        counted(number, "request") + &of
    };
    let mut out = match report.would_be_refused {
        0 => {
            let limit = if report.is_partial { ", as far as this can tell: see the notes" } else { "" };
            format!("No request was accepted that Mode=enforce would refuse{limit}.\n")
        }
        count => {
            let all = requests(count, report.users_would_be_refused);
            format!("Accepted, although Mode=enforce would refuse them: {all}.\n")
        }
    };
    if report.users_would_be_refused > 0 {
        let users = counted(report.users_would_be_refused, "user");
        out += &format!("{users} would be refused if you switched to enforce today.\n");
    }
    if report.refused > 0 {
        out += &format!("Refused: {}.\n", requests(report.refused, report.users_refused));
    }
    if report.exempt > 0 {
        out += &format!("Exempt: {}.\n", requests(report.exempt, report.users_exempt));
    }
    out
}

/// A column's name, whether the counts have it too, and its word.
type Column = (&'static str, bool, fn(&Asked) -> String);

const COLUMNS: [Column; 10] = [
    ("USER", false, user),
    ("ACCOUNT", false, |one| one.form.account.clone()),
    ("ACCEPTED", true, |one| count(one.sum.accepted())),
    ("REFUSED", true, |one| count(one.sum.refused)),
    ("EXEMPT", true, |one| count(one.sum.exempt)),
    ("FIRST", false, |one| one.sum.first.map_or_else(|| "-".to_owned(), day)),
    ("LAST", false, |one| one.sum.last.map_or_else(|| "-".to_owned(), day)),
    ("JOBS", false, |one| one.sum.jobs.join(", ") + if one.sum.more_jobs { ", …" } else { "" }),
    ("REQUEST", false, |one| one.form.request.clone()),
    ("MESSAGE, AND WHAT TO ASK FOR", true, message),
];

fn table(report: &Report) -> Table {
    let columns = || COLUMNS.iter().filter(|(_, is_counted, _)| *is_counted || !report.from_counts);
    let numbers = if report.from_counts { 0..3 } else { 2..5 };
    let row = |one: &Asked| columns().map(|(.., word)| word(one)).collect();
    Table {
        head: columns().map(|(name, ..)| *name).collect(),
        numbers,
        rows: report.requests.iter().map(row).collect(),
    }
}

/// Empty for 0, because zeros would hide the other numbers.
fn count(number: u64) -> String {
    if number == 0 { "-".to_owned() } else { number.to_string() }
}

fn user(Asked { form, .. }: &Asked) -> String {
    match form.user_id {
        Some(number) if form.user.is_empty() => format!("uid {number}"),
        _ => form.user.clone(),
    }
}

fn message(Asked { form, title, sum, would_be_refused }: &Asked) -> String {
    let told = form.instead.as_deref().unwrap_or(title);
    let more = if sum.accepted() > 0 && !would_be_refused { " (advice only)" } else { "" };
    format!("{}: {told}{more}", form.number)
}

/// One line for each form of request.
pub fn csv(report: &Report) -> String {
    let head = "user,user_id,account,qos,partition,number,request,instead,jobs,more_jobs,warned,audited,refused,exempt,\
                first,last,would_be_refused";
    csv::of(head, report.requests.iter())
}
