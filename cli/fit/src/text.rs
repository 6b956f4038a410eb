//! The report as text for people, and as CSV for a spreadsheet.

use std::collections::BTreeMap;
use std::ops::Range;

use gpushare_history::hours::text as number;
use gpushare_terminal::{Table, clean, csv, notes};

use super::collect::Who;
use super::report::{Had, Report};

/// How many users and accounts are shown; --csv and --json have all.
const SHOWN: usize = 12;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let Report { period, fit, checked, .. } = report;
    let mut out = format!("{}, {period}\n", clean(&report.cluster));
    let Report { jobs, jobs_with_gpus, .. } = report;
    let [hours, of_checked, of_fit] = [report.gpu_hours, checked.gpu_hours, fit.gpu_hours].map(number);
    let [freed, gpus] = [report.freed_gpu_hours, report.freed_gpus].map(number);
    out += &format!("{jobs} jobs read, {jobs_with_gpus} of them with GPUs, for {hours} GPU-hours\n");
    let recorded = checked.jobs;
    out += &format!("with one GPU and a record of its memory: {recorded}, for {of_checked} GPU-hours\n");
    out += &format!("a share would have been enough for {}, {of_fit} GPU-hours\n", fit.jobs);
    out += &format!("that would have freed {freed} GPU-hours, {gpus} GPUs on average\n");
    out += &by_share(report);
    let fitting = || report.requests.iter().filter(|one| one.request.is_some());
    out += &table("USER", report, |who| who.user.clone());
    out += &table("ACCOUNT, QOS", report, |who| format!("{}, {}", who.account, who.qos));
    if fitting().next().is_none() {
        out += "\nno job would have fitted a share\n";
    }
    let rows = report.not_checked.iter();
    let rows = rows.map(|one| vec![one.why.to_owned(), one.all.jobs.to_string(), number(one.all.gpu_hours)]);
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
        let Had { all, share_gpu_hours, jobs_low_utilization } = one.had;
        let [enough, low] = match one.units {
            0 => ["whole".to_owned(), "-".to_owned()],
            units => [format!("{units} of {} units", one.units_per_gpu), jobs_low_utilization.to_string()],
        };
        let [jobs, mib] = [all.jobs, one.memory_mib].map(|number| number.to_string());
        vec![one.gpu_type.clone(), enough, mib, jobs, number(all.gpu_hours), number(share_gpu_hours), low]
    });
    shown(head, 2..7, rows.collect(), usize::MAX)
}

/// Those who would free most, with the request that most of their hours need.
fn table(of: &'static str, report: &Report, name: impl Fn(&Who) -> String) -> String {
    /// What one user, or one account, had: all their jobs, those that fit, and the hours of each request.
    type Of = (u64, Had, BTreeMap<String, f64>);
    let mut all: BTreeMap<String, Of> = BTreeMap::new();
    for one in &report.requests {
        let (jobs, fit, requests) = all.entry(name(&one.who)).or_default();
        *jobs += one.had.all.jobs;
        let Some(request) = &one.request else { continue };
        fit.all.jobs += one.had.all.jobs;
        fit.all.gpu_hours += one.had.all.gpu_hours;
        fit.share_gpu_hours += one.had.share_gpu_hours;
        *requests.entry(request.clone()).or_default() += one.had.all.gpu_hours;
    }
    let mut all: Vec<(String, Of)> = all.into_iter().filter(|(_, (_, fit, _))| fit.all.jobs > 0).collect();
    let unused = |(_, fit, _): &Of| fit.all.gpu_hours - fit.share_gpu_hours;
    all.sort_by(|(a, one), (b, other)| unused(other).total_cmp(&unused(one)).then_with(|| a.cmp(b)));
    let rows = all.iter().map(|(name, (jobs, fit, requests))| {
        let most = requests.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(request, _)| request.clone());
        let [jobs, fitting] = [*jobs, fit.all.jobs].map(|number| number.to_string());
        let [had, shares] = [fit.all.gpu_hours, fit.share_gpu_hours].map(number);
        vec![name.clone(), jobs, fitting, had, shares, most.unwrap_or_default()]
    });
    let head = vec![of, "JOBS", "FIT", "GPU-HOURS", "AS SHARES", "REQUEST FOR MOST"];
    shown(head, 1..5, rows.collect(), SHOWN)
}

/// A line for each user, account, QOS, GPU type and share.
pub fn csv(report: &Report) -> String {
    let head = "user,account,qos,gpu_type,request,jobs,gpu_hours,share_gpu_hours,jobs_low_utilization";
    csv::of(head, report.requests.iter())
}
