//! Metrics for Prometheus: how many findings of each kind. Labels name no jobs or users.

use std::fmt::Write;

use gpushare_guard::{Finding, What};

use super::Report;

/// The time of the last look.
pub(super) const LAST_SUCCESS: &str = "gpushare_guard_last_success_timestamp_seconds";

/// What a look found.
pub(super) struct Figures {
    over: Vec<(&'static str, usize)>,
    beyond: usize,
    acted: usize,
}

impl Figures {
    pub fn of(report: &Report) -> Figures {
        let over = &report.verdict.over;
        // The same by AllocTRES and by devices is one.
        let is_first = |at: usize, finding: &Finding| {
            let key =
                |one: &Finding| (one.what, one.whose.clone(), one.of.clone(), one.tres.clone(), one.limit);
            !over.iter().take(at).any(|before| key(before) == key(finding) && ids(before) == ids(finding))
        };
        let each: Vec<_> = over
            .iter()
            .enumerate()
            .filter(|(at, finding)| is_first(*at, finding))
            .map(|(_, finding)| finding)
            .collect();
        let count = |word| each.iter().filter(|finding| finding.what.word() == word).count();
        let jobs = over.iter().flat_map(|finding| finding.jobs.iter().filter(|job| job.is_beyond));
        let mut beyond: Vec<u32> = jobs.map(|job| job.id).collect();
        beyond.sort_unstable();
        beyond.dedup();
        let acted = report.acted.iter().filter(|deed| deed.error.is_none()).count();
        Figures { over: What::WORDS.map(|word| (word, count(word))).to_vec(), beyond: beyond.len(), acted }
    }
}

fn ids(finding: &Finding) -> Vec<u32> {
    finding.jobs.iter().map(|job| job.id).collect()
}

/// The whole text; without metrics it couldn't look.
pub(super) fn text(figures: Option<&Figures>, success: Option<u64>) -> String {
    let mut out = String::new();
    let mut gauge = |name: &str, help: &str, samples: &[(String, String)]| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let alone = |value: usize| [(String::new(), value.to_string())];
    let up = usize::from(figures.is_some());
    gauge("gpushare_guard_up", "Whether the last look at the cluster succeeded.", &alone(up));
    if let Some(Figures { over, beyond, acted }) = figures {
        let sample = |(word, count): &(&str, usize)| (format!("{{what=\"{word}\"}}"), count.to_string());
        let over: Vec<_> = over.iter().map(sample).collect();
        gauge("gpushare_guard_over", "Limits exceeded and rules broken by what runs.", &over);
        gauge("gpushare_guard_jobs_beyond", "Running jobs beyond a limit.", &alone(*beyond));
        gauge("gpushare_guard_acted", "Jobs that the last run has cancelled or requeued.", &alone(*acted));
    }
    if let Some(success) = success {
        gauge(LAST_SUCCESS, "When the cluster was last looked at.", &[(String::new(), success.to_string())]);
    }
    out
}
