//! The report as text for people, and as CSV for a spreadsheet.

use std::collections::BTreeMap;
use std::ops::Range;

use gpushare_history::hours::text as number;
use gpushare_terminal::{Table, clean, csv, notes};

use super::report::{Asked, Report};

/// How many users and accounts are shown; --csv and --json have all.
const SHOWN: usize = 12;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let Report { period, fit, checked, .. } = report;
    let mut out = format!("{}, {period}\n", clean(&report.cluster));
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
    let rows = report.not_checked.iter();
    let rows = rows.map(|one| vec![one.why.to_owned(), one.jobs.to_string(), number(one.gpu_hours)]);
    out += &shown(vec!["NOT CHECKED", "JOBS", "GPU-HOURS"], 1..3, rows.collect(), usize::MAX);
    out + "\n" + &notes(&report.remarks)
}

fn shown(head: Vec<&'static str>, numbers: Range<usize>, rows: Vec<Vec<String>>, most: usize) -> String {
    let text = Table { head, numbers, rows }.text("  ", most, "--csv and --json");
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn by_share(report: &Report) -> String {
    let head = vec!["GPU", "ENOUGH", "MIB", "JOBS", "GPU-HOURS", "AS SHARES", "LOW UTIL"];
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
    shown(head, 2..7, rows.collect(), usize::MAX)
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
fn table(of: &'static str, report: &Report, name: impl Fn(&Asked) -> String) -> String {
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
    let rows = all.iter().map(|(name, had)| {
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
    let head = vec![of, "JOBS", "FIT", "GPU-HOURS", "AS SHARES", "REQUEST FOR MOST"];
    shown(head, 1..5, rows.collect(), SHOWN)
}

/// A line for each user, account, QOS, GPU type and share.
pub fn csv(report: &Report) -> String {
    let head = "user,account,qos,gpu_type,request,jobs,gpu_hours,share_gpu_hours,jobs_low_utilization";
    csv::of(head, report.requests.iter())
}
