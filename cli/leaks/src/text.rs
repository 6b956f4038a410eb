//! The report as text for people, and as CSV for a spreadsheet.

use serde::Serialize;

use super::limits::Limit;
use super::report::{Asked, Exceeded, OfLimit, Report, Sums};
use gpushare_history::hours::text as number;
use gpushare_period::second;
use gpushare_terminal::{Table, clean, csv, notes};

/// How many requests are shown for each limit; --csv and --json have all.
const SHOWN: usize = 12;

/// The report as text.
pub fn lines(report: &Report) -> String {
    let (cluster, period) = (clean(&report.cluster), report.period);
    let (jobs, with_gpus) = (report.jobs, report.jobs_with_gpus);
    let mut out =
        format!("{cluster}, {period}: {jobs} jobs read, {with_gpus} of them with GPUs in that time\n");
    let over = report.limits.iter().filter(|one| one.exceeded).count();
    out += &match (report.limits.len(), over) {
        (0, _) => "no QOS or association has a limit on a GPU type\n".to_owned(),
        (all, 0) => format!("limits on GPU types: {all}, none exceeded\n"),
        (all, over) => format!("limits on GPU types: {all}, exceeded: {over}\n"),
    };
    for limit in &report.limits {
        for over in limit.over.iter().take(SHOWN) {
            out += &exceeded(&limit.limit, over);
        }
        match limit.over.len().saturating_sub(SHOWN) {
            0 => {}
            more => {
                out += &format!("\n{}: and {more} more, in --csv and --json\n", clean(&limit.limit.name()))
            }
        }
    }
    let kept: Vec<&OfLimit> = report.limits.iter().filter(|one| one.over.is_empty()).collect();
    if !kept.is_empty() {
        out += "\nnot exceeded:\n";
    }
    for limit in kept {
        let unseen = match limit.unseen_gpu_hours {
            hours if hours > 0.0 => format!("  (Slurm did not count {} GPU-hours against it)", number(hours)),
            _ => String::new(),
        };
        out += &format!("  {}{unseen}\n", clean(&limit.limit.name()));
    }
    out + "\n" + &notes(&report.remarks)
}

fn exceeded(limit: &Limit, over: &Exceeded) -> String {
    let whose = if limit.field == "MaxTRESPU" { "user" } else { "account" };
    let of = over.of.as_ref().map(|name| format!(", {whose} '{name}'")).unwrap_or_default();
    let mut out = format!("\n{}\n", clean(&format!("{}{of}", limit.name())));
    let Exceeded { certain, at_most, .. } = over;
    if certain.times > 0 {
        out += &sums("exceeded", certain, limit.limit);
    }
    if let Some(most) = at_most {
        out += &sums("possibly exceeded, if GPUs of unknown type count", most, limit.limit);
    }
    if over.unexplained_gpu_hours > 0.0 {
        out += &format!(
            "  {} of the GPU-hours above the limit were requested by type: the limit was higher then, or a limit of \
             a QOS or partition took precedence\n",
            number(over.unexplained_gpu_hours)
        );
    }
    if !over.requests.is_empty() {
        out += "  requests that Slurm did not count against it, while it was exceeded:\n";
        let head = vec!["USER", "JOBS", "GPU-HOURS", "REQUEST", "GPUSHARE WOULD SAY"];
        let rows = over.requests.iter().map(row).collect();
        out += &Table { head, numbers: 1..3, rows }.text("    ", SHOWN, "--csv and --json");
    }
    out
}

fn sums(how: &str, sums: &Sums, limit: u32) -> String {
    let worst = sums.worst.map(|one| {
        let (held, above) = (one.held, one.held.saturating_sub(limit));
        let (at, start, end) = (second(one.at), second(one.start), second(one.end));
        format!("  most: {held} held, {above} above, at {at} (exceeded from {start} to {end})\n")
    });
    let times = if sums.times == 1 { "once".to_owned() } else { format!("{} times", sums.times) };
    let (hours, above) = (number(sums.hours), number(sums.gpu_hours_above));
    format!("  {how}: {times}, {hours} hours, {above} GPU-hours above the limit\n")
        + &worst.unwrap_or_default()
}

fn row(asked: &Asked) -> Vec<String> {
    let request = match (asked.request.as_str(), asked.on_command_line) {
        ("", _) => "whole nodes, no GPU option".to_owned(),
        (request, true) => request.to_owned(),
        (request, false) => format!("{request} (not on the command line)"),
    };
    let told = match (asked.number, &asked.command, &asked.told) {
        (Some(number), Some(command), _) => format!("{number}, try: {command}"),
        (Some(number), None, _) => number.to_owned(),
        (None, _, Some(reason)) => reason.clone(),
        (None, _, None) => "not refused".to_owned(),
    };
    vec![asked.cause.user.clone(), asked.jobs.to_string(), number(asked.gpu_hours), request, told]
}

/// One line for each request.
pub fn requests_csv(report: &Report) -> String {
    let head = "owner_kind,owner,field,gpu_type,limit,of,user,account,qos,partition,request,on_command_line,jobs,\
                gpu_hours,number,command";
    each(report, head, |over| &over.requests)
}

/// One line for each time during which a limit was exceeded.
pub fn times_csv(report: &Report) -> String {
    let head = "owner_kind,owner,field,gpu_type,limit,of,start,end,most_held";
    each(report, head, |over| &over.intervals)
}

/// A line: the limit, who exceeded it, and one request or time.
#[derive(Serialize)]
struct Row<'r, T> {
    #[serde(flatten)]
    limit: &'r Limit,
    of: Option<&'r str>,
    #[serde(flatten)]
    one: &'r T,
}

fn each<T: Serialize>(report: &Report, head: &str, all: impl Fn(&Exceeded) -> &[T]) -> String {
    let mut rows = Vec::new();
    for OfLimit { limit, over, .. } in &report.limits {
        for over in over {
            rows.extend(all(over).iter().map(|one| Row { limit, of: over.of.as_deref(), one }));
        }
    }
    csv::of(head, rows.into_iter())
}
