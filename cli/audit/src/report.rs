//! The report as data: whose requests were refused, exempt, or accepted although they break a rule, and what would have
//! been accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpushare::submit::counters;
use gpushare::submit::message::pages;
use gpushare::submit::policy::{LimitAdvice, Rule};
use serde::Serialize;

use super::collect::{Collector, Form, Sum};
use gpushare_period::{Period, exact, text};

/// The whole report.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Empty if unknown.
    pub cluster: String,
    /// `None` if the counts were read, because they have no times.
    pub start: Option<String>,
    pub end: Option<String>,
    #[serde(skip)]
    pub period: Option<Period>,
    /// The files that were read: logs, or the file of `RefusalCounts`.
    pub read: Vec<String>,
    pub from_counts: bool,
    /// Accepted requests that Mode=enforce would refuse, and their users.
    pub would_be_refused: u64,
    pub users_would_be_refused: u64,
    pub refused: u64,
    pub users_refused: u64,
    pub exempt: u64,
    pub users_exempt: u64,
    pub requests: Vec<Asked>,
    /// What the logs or counts don't show, in sentences.
    pub remarks: Vec<String>,
    /// Whether the remarks tell of a part of the period that the logs don't show, or the counts may not.
    #[serde(skip)]
    pub is_partial: bool,
}

/// One form of request of one user.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    #[serde(flatten)]
    pub form: Form,
    /// The title of the message.
    pub title: &'static str,
    #[serde(flatten)]
    pub sum: Sum,
    /// Whether Mode=enforce would refuse it.
    pub would_be_refused: bool,
}

impl Asked {
    fn of(form: Form, sum: Sum, advice: LimitAdvice) -> Asked {
        // Only LimitAdvice=refuse refuses requests that would only wait.
        let is_advice = form.number == Rule::BeyondLimit.number() && advice != LimitAdvice::Refuse;
        let title = pages::page(&form.number).map_or("", |page| page.title);
        Asked { title, would_be_refused: sum.accepted() > 0 && !is_advice, form, sum }
    }
}

impl Report {
    /// The report from logs.
    pub fn of_logs(collected: Collector, read: Vec<String>, cluster: String, advice: LimitAdvice) -> Report {
        let period = collected.period;
        let remarks = about(&collected);
        let is_partial = begins_late(&collected).is_some()
            || collected.unreadable + collected.evidence.odd > 0
            || collected.evidence.stood_by
            || collected.evidence.without().next().is_some();
        let requests = collected.forms.into_iter().map(|(form, sum)| Asked::of(form, sum, advice));
        let mut requests: Vec<Asked> = requests.collect();
        requests.sort_by(|a, b| {
            let counts = |Asked { sum, would_be_refused, .. }: &Asked| {
                (sum.accepted() * u64::from(*would_be_refused), sum.refused, sum.accepted(), sum.exempt)
            };
            counts(b).cmp(&counts(a)).then_with(|| a.form.cmp(&b.form))
        });
        Report {
            cluster,
            start: Some(exact(period.start)),
            end: Some(exact(period.end)),
            period: Some(period),
            is_partial,
            ..Report::of(requests, read, remarks)
        }
    }

    /// The report from the counts, which are in the order of their names, since a time.
    pub fn of_counts(
        counts: Vec<u64>,
        since: Option<u32>,
        path: &Path,
        reason: &str,
        advice: LimitAdvice,
    ) -> Report {
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        for ((number, outcome), count) in counters::all().into_iter().zip(counts) {
            sums.entry(number).or_default().add(outcome, count);
        }
        sums.retain(|_, sum| *sum != Sum::default());
        let form = |number: &str| Form { number: number.to_owned(), ..Form::default() };
        let requests = sums.into_iter().map(|(number, sum)| Asked::of(form(number), sum, advice)).collect();
        let since = since.map(|time| format!(", at {}", text(time))).unwrap_or_default();
        let remarks = vec![
            format!("no log could be read: {reason}"),
            format!(
                "these are only counts, without users, times, requests or jobs; they began when the file of \
                 RefusalCounts was made{since}, whatever --start and --end say"
            ),
        ];
        Report {
            from_counts: true,
            is_partial: true,
            ..Report::of(requests, vec![path.display().to_string()], remarks)
        }
    }

    fn of(requests: Vec<Asked>, read: Vec<String>, remarks: Vec<String>) -> Report {
        // How many, and of how many users.
        let all = |count: &dyn Fn(&Asked) -> u64| {
            let counted = requests.iter().filter(|one| count(one) > 0);
            let users: BTreeSet<u32> = counted.clone().filter_map(|one| one.form.user_id).collect();
            (counted.map(count).sum(), users.len() as u64)
        };
        let would = |one: &Asked| if one.would_be_refused { one.sum.accepted() } else { 0 };
        let (would_be_refused, users_would_be_refused) = all(&would);
        let (refused, users_refused) = all(&|one| one.sum.refused);
        let (exempt, users_exempt) = all(&|one| one.sum.exempt);
        Report {
            read,
            would_be_refused,
            users_would_be_refused,
            refused,
            users_refused,
            exempt,
            users_exempt,
            requests,
            remarks,
            ..Report::default()
        }
    }
}

/// When the logs begin, if only inside the period.
fn begins_late(collected: &Collector) -> Option<u32> {
    collected.evidence.first.filter(|begin| *begin > collected.period.start)
}

/// What the logs don't show.
fn about(collected: &Collector) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(begin) = begins_late(collected) {
        said.push(format!(
            "the logs begin at {}: this report has nothing from before. Name older logs, too",
            text(begin)
        ));
    }
    said.extend(collected.evidence.without().map(|(since, until)| {
        format!(
            "slurmctld's lines from {} to {} show nothing of gpushare: if it wasn't loaded then, nobody checked the \
             requests",
            text(since),
            text(until)
        )
    }));
    if collected.evidence.stood_by {
        said.push(
            "slurmctld stood by for a part of the time: the other controller's log has the requests of that time"
                .to_owned(),
        );
    }
    if collected.evidence.odd > 0 {
        said.push(format!(
            "{} lines name gpushare in a form that gpushare doesn't know, or aren't slurmctld's: they are not counted",
            collected.evidence.odd
        ));
    }
    if collected.timeless > 0 {
        said.push(format!(
            "{} lines have no date (LogTimeFormat=clock, or standard error): they are counted whatever --start and \
             --end say",
            collected.timeless
        ));
    }
    if collected.unreadable > 0 {
        said.push(format!(
            "{} lines of gpushare's can't be read and are not counted: syslog cuts lines at 500 characters",
            collected.unreadable
        ));
    }
    said
}
