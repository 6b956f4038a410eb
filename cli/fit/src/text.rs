//! The report as text for people, and as CSV for a spreadsheet.

use std::collections::BTreeMap;

use gpushare_period::{text, zone};
use gpushare_terminal::clean;
use gpushare_terminal::columns::{self, Side, Span};
use gpushare_terminal::csv;

use super::report::{Asked, Report};

/// How many users and accounts are shown; --csv and --json have all.
const SHOWN: usize = 12;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let Report { period, fit, checked, .. } = report;
    let mut out = format!(
        "{}, {} to {} ({})\n",
        clean(&report.cluster),
        text(period.start),
        text(period.end),
        zone(period.end)
    );
    out += &format!(
        "{} jobs read, {} of them with GPUs, for {} GPU-hours\n",
        report.jobs,
        report.jobs_with_gpus,
        number(report.gpu_hours)
    );
    out += &format!(
        "with one GPU and a record of its memory: {}, for {} GPU-hours\n",
        checked.jobs,
        number(checked.gpu_hours)
    );
    out += &format!("a share would have been enough for {}, {} GPU-hours\n", fit.jobs, number(fit.gpu_hours));
    out += &format!(
        "that would have freed {} GPU-hours, {} GPUs on average\n",
        number(report.freed_gpu_hours),
        number(report.freed_gpus)
    );
    out += &by_share(report);
    let fitting = || report.requests.iter().filter(|one| one.request.is_some());
    out += &table("USER", report, |one| one.user.clone());
    out += &table("ACCOUNT, QOS", report, |one| format!("{}, {}", one.account, one.qos));
    if fitting().next().is_none() {
        out += "\nno job would have fitted a share\n";
    }
    if !report.not_checked.is_empty() {
        let head = ["NOT CHECKED", "JOBS", "GPU-HOURS"].map(str::to_owned).to_vec();
        let rows = report.not_checked.iter();
        let rows = rows.map(|one| vec![one.why.to_owned(), one.jobs.to_string(), number(one.gpu_hours)]);
        out += &aligned(head, rows.collect(), &[Side::Left, Side::Right, Side::Right]);
    }
    out += "\n";
    for remark in &report.remarks {
        out += &format!("note: {}\n", clean(remark));
    }
    out
}

fn by_share(report: &Report) -> String {
    let head = ["GPU", "ENOUGH", "MIB", "JOBS", "GPU-HOURS", "AS SHARES", "LOW UTIL"];
    let rows = report.shares.iter().map(|one| {
        let is_whole = one.units == 0;
        let enough = if is_whole {
            "whole".to_owned()
        } else {
            format!("{} of {} units", one.units, one.units_per_gpu)
        };
        let low = if is_whole { "-".to_owned() } else { one.jobs_low_utilization.to_string() };
        vec![
            one.gpu_type.clone(),
            enough,
            one.memory_mib.to_string(),
            one.jobs.to_string(),
            number(one.gpu_hours),
            number(one.share_gpu_hours),
            low,
        ]
    });
    let right = Side::Right;
    let sides = [Side::Left, Side::Left, right, right, right, right, right];
    match report.shares.is_empty() {
        true => String::new(),
        false => aligned(head.map(str::to_owned).to_vec(), rows.collect(), &sides),
    }
}

/// What one user, or one account, had.
#[derive(Default)]
struct Had {
    judged: u64,
    fit: u64,
    gpu_hours: f64,
    share_gpu_hours: f64,
    /// The hours of each request.
    requests: BTreeMap<String, f64>,
}

/// Those who would free most, with the request that most of their hours need.
fn table(of: &str, report: &Report, name: impl Fn(&Asked) -> String) -> String {
    let mut all: BTreeMap<String, Had> = BTreeMap::new();
    for one in &report.requests {
        let had = all.entry(name(one)).or_default();
        had.judged += one.jobs;
        let Some(request) = &one.request else { continue };
        had.fit += one.jobs;
        had.gpu_hours += one.gpu_hours;
        had.share_gpu_hours += one.share_gpu_hours;
        *had.requests.entry(request.clone()).or_default() += one.gpu_hours;
    }
    let mut all: Vec<(String, Had)> = all.into_iter().filter(|(_, had)| had.fit > 0).collect();
    let unused = |had: &Had| had.gpu_hours - had.share_gpu_hours;
    all.sort_by(|(a, one), (b, other)| unused(other).total_cmp(&unused(one)).then_with(|| a.cmp(b)));
    if all.is_empty() {
        return String::new();
    }
    let head = [of, "JOBS", "FIT", "GPU-HOURS", "AS SHARES", "REQUEST FOR MOST"].map(str::to_owned).to_vec();
    let rows = all.iter().take(SHOWN).map(|(name, had)| {
        let most = had.requests.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(request, _)| request.clone());
        vec![
            name.clone(),
            had.judged.to_string(),
            had.fit.to_string(),
            number(had.gpu_hours),
            number(had.share_gpu_hours),
            most.unwrap_or_default(),
        ]
    });
    let right = Side::Right;
    let text = aligned(head, rows.collect(), &[Side::Left, right, right, right, right, Side::Left]);
    match all.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text}  and {more} more, in --csv and --json\n"),
    }
}

fn aligned(head: Vec<String>, rows: Vec<Vec<String>>, sides: &[Side]) -> String {
    let rows = std::iter::once(head).chain(rows);
    let rows = rows.map(|row| row.into_iter().map(Span::from).collect()).collect();
    let sides: Vec<_> = sides.iter().map(|side| (*side, None)).collect();
    let lines = columns::aligned(rows, &sides);
    lines.iter().fold("\n".to_owned(), |text, line| text + "  " + &line.render(None, false) + "\n")
}

/// Enough digits that a small number isn't 0.
fn number(hours: f64) -> String {
    if hours < 10.0 { format!("{hours:.3}") } else { format!("{hours:.1}") }
}

/// A line for each user, account, QOS, GPU type and share.
pub fn csv(report: &Report) -> String {
    let head = "user,account,qos,gpu_type,request,jobs,gpu_hours,share_gpu_hours,jobs_low_utilization";
    let row = |one: &Asked| {
        vec![
            one.user.clone(),
            one.account.clone(),
            one.qos.clone(),
            one.gpu_type.clone(),
            one.request.clone().unwrap_or_default(),
            one.jobs.to_string(),
            one.gpu_hours.to_string(),
            one.share_gpu_hours.to_string(),
            one.jobs_low_utilization.to_string(),
        ]
    };
    csv::text(head, report.requests.iter().map(row))
}
