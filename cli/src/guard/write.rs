//! The report as text and as JSON.

use std::fmt::Write;

use gpushare::text::print::counted;
use gpushare::word::Word;
use gpushare_guard::{ASSOCIATIONS, CountedBy, Finding, Member, What};
use gpushare_slurm_text::Kind;
use serde_json::{Value, json};

use super::Report;
use gpushare_terminal::clean;

/// How many jobs of a finding the text names.
const NAMED: usize = 12;

/// `QOS qos_lafferty GrpTRES=gres/gpu:a40=2`
pub(super) fn limit(finding: &Finding) -> String {
    let Finding { what, kind, whose, of, tres, limit, .. } = finding;
    let of = if of.is_empty() { String::new() } else { format!(" ({of})") };
    match what {
        What::Limit => format!("{whose} {}={tres}={limit}{of}", kind.map_or("", Kind::word)),
        What::Unnamed => format!("{whose}: {tres} that the request doesn't name"),
        What::Miscounted => format!("{whose}: {tres} that AllocTRES counts as {limit}"),
        What::Cpus | What::Memory => format!("{whose}: {tres}={limit} with these GPUs"),
        What::NoGpu => format!("{whose}: a job without a GPU"),
        What::Uncounted => format!("{whose}: {tres}, of which it has no limit"),
        What::OutsideReservation => format!("{whose}: {tres} outside these reservations"),
        What::Kept => format!("{whose}: {tres} that owners don't get back, because another component stays"),
        What::Unclear if tres == ASSOCIATIONS => {
            format!("'{whose}' of sacctmgr: a name has a bar, so its limits are unknown")
        }
        What::Unclear if !tres.is_empty() => {
            format!("{whose}: a job's {tres} is too long to be read, so only its devices count")
        }
        What::Unclear => {
            format!("{whose}: a job's name or comment imitates scontrol's lines, so its devices are unknown")
        }
    }
}

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    let mut said: Vec<&Finding> = Vec::new();
    for finding in &report.verdict.over {
        // The same by AllocTRES and by devices is said once.
        if said.iter().any(|before| is_same(before, finding)) {
            continue;
        }
        said.push(finding);
        let both = report.verdict.over.iter().filter(|other| is_same(other, finding)).count() > 1;
        let counted = if both { "AllocTRES and devices" } else { finding.counted_by.words() };
        let held = match finding.what {
            What::Limit => format!(": {} in use by {counted}", finding.held),
            What::Unclear | What::NoGpu => String::new(),
            _ => format!(": {}", finding.held),
        };
        let _ = writeln!(out, "over: {}{held}", clean(&limit(finding)));
        jobs(&mut out, finding);
    }
    for finding in report.verdict.ending.iter().filter(|finding| finding.counted_by == CountedBy::Devices) {
        let Finding { held, completing, .. } = finding;
        let of = clean(&limit(finding));
        let _ = writeln!(
            out,
            "ending: {of}: {held} in use, and {completing} of jobs that end and may still have them"
        );
    }
    for deed in &report.acted {
        let failed = |error: &String| format!("not {}: {error}", deed.what);
        let done = deed.error.as_ref().map_or_else(|| deed.what.to_owned(), failed);
        let (user, done, of) = (clean(&deed.job.user), clean(&done), clean(&deed.limit));
        let _ = writeln!(out, "job {} of {user}, beyond {of}: {done}", clean(&deed.job.name));
    }
    if report.verdict.over.is_empty() {
        let _ = writeln!(out, "no limit is exceeded by what runs ({})", counted(report.running, "job"));
    }
    out
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.key(), one.held, &one.jobs) == (other.key(), other.held, &other.jobs)
}

/// The newest first.
fn jobs(out: &mut String, finding: &Finding) {
    let is_limit = finding.what == What::Limit;
    for job in finding.jobs.iter().rev().take(NAMED) {
        let held = if is_limit { format!(" has {}", job.held) } else { String::new() };
        let beyond = if job.is_beyond { ", beyond the limit" } else { "" };
        let _ = writeln!(out, "      job {} of {}{held}{beyond}", clean(&job.name), clean(&job.user));
    }
    let more = finding.jobs.len().saturating_sub(NAMED);
    if more > 0 {
        let _ = writeln!(out, "      and {more} that started before");
    }
}

pub(super) fn object(report: &Report) -> Value {
    let acted = report.acted.iter().map(|deed| {
        let (name, user) = (&deed.job.name, &deed.job.user);
        json!({"job": name, "user": user, "what": deed.what, "limit": deed.limit, "error": deed.error})
    });
    json!({
        "over": report.verdict.over.iter().map(one).collect::<Value>(),
        "ending": report.verdict.ending.iter().map(one).collect::<Value>(),
        "running": report.running,
        "guard": report.guard.word(),
        "acted": acted.collect::<Value>(),
    })
}

fn one(finding: &Finding) -> Value {
    json!({
        "what": finding.what.word(),
        "limit_kind": finding.kind.map(Kind::word),
        "whose": finding.whose,
        "of": finding.of,
        "tres": finding.tres,
        "held": finding.held,
        "limit": finding.limit,
        "counted_by": finding.counted_by.words(),
        "completing": finding.completing,
        "jobs": finding.jobs.iter().map(member).collect::<Value>(),
    })
}

fn member(job: &Member) -> Value {
    let Member { id, name, user, start, held, is_beyond, .. } = job;
    json!({"id": id, "job": name, "user": user, "start": start, "held": held, "beyond": is_beyond})
}
