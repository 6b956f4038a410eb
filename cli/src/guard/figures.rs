//! Metrics for Prometheus: how many findings of each kind. Labels name no jobs or users.

use std::collections::BTreeSet;

use gpushare_guard::{Finding, What};
use gpushare_machine::textfile::Text;

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
        let key = |one: &Finding| {
            let jobs: Vec<u32> = one.jobs.iter().map(|job| job.id).collect();
            let (what, kind, whose, of, tres) = one.key();
            (what.word(), kind, whose.to_owned(), of.to_owned(), tres.to_owned(), one.limit, jobs)
        };
        let each: BTreeSet<_> = over.iter().map(key).collect();
        let count = |word| each.iter().filter(|(what, ..)| *what == word).count();
        let jobs = over.iter().flat_map(|finding| finding.jobs.iter().filter(|job| job.is_beyond));
        let beyond: BTreeSet<u32> = jobs.map(|job| job.id).collect();
        let acted = report.acted.iter().filter(|deed| deed.error.is_none()).count();
        Figures {
            over: What::ALL.map(|what| (what.word(), count(what.word()))).to_vec(),
            beyond: beyond.len(),
            acted,
        }
    }
}

/// The whole text; without metrics it couldn't look.
pub(super) fn text(figures: Option<&Figures>, success: Option<u64>) -> String {
    let mut text = Text::default();
    let up = u8::from(figures.is_some());
    text.gauge("gpushare_guard_up", "Whether the last look at the cluster succeeded.", up);
    if let Some(Figures { over, beyond, acted }) = figures {
        let help = "Limits exceeded and rules broken by what runs.";
        let samples = over.iter().map(|(word, count)| (vec![("what", *word)], count));
        text.family(("gpushare_guard_over", "gauge", help), samples);
        text.gauge("gpushare_guard_jobs_beyond", "Running jobs beyond a limit.", beyond);
        text.gauge("gpushare_guard_acted", "Jobs that the last run has cancelled or requeued.", acted);
    }
    if let Some(success) = success {
        text.gauge(LAST_SUCCESS, "When the cluster was last looked at.", success);
    }
    text.0
}
