//! The report as data: whose requests were refused, exempt, or accepted although they break a rule, and what would have
//! been accepted.

use std::collections::BTreeSet;
use std::path::Path;

use gpushare::submit::counters::{self, Outcome};
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Asked {
    /// Empty if slurmctld knows no association of that user.
    pub user: String,
    /// `None` for counts.
    pub user_id: Option<u32>,
    pub account: String,
    pub qos: String,
    pub partition: String,
    /// The number and the title of the message.
    pub number: String,
    pub title: &'static str,
    /// The part of the request that breaks the rule.
    pub request: String,
    /// Options that would be accepted, if gpushare knows some.
    pub instead: Option<String>,
    /// Some of the jobs' names.
    pub jobs: Vec<String>,
    pub more_jobs: bool,
    pub warned: u64,
    pub audited: u64,
    pub refused: u64,
    pub exempt: u64,
    pub first: Option<String>,
    pub last: Option<String>,
    /// Whether Mode=enforce would refuse it.
    pub would_be_refused: bool,
    #[serde(skip)]
    pub times: Option<(u32, u32)>,
}

impl Asked {
    /// Requests that were accepted although they break a rule.
    pub fn accepted(&self) -> u64 {
        self.warned + self.audited
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
        let mut requests: Vec<Asked> =
            collected.forms.into_iter().map(|(form, sum)| asked(form, sum, advice)).collect();
        let whose = |one: &Asked| (one.user.clone(), one.user_id, one.number.clone(), one.request.clone());
        requests.sort_by(|a, b| {
            let counts = |one: &Asked| {
                (one.accepted() * u64::from(one.would_be_refused), one.refused, one.accepted(), one.exempt)
            };
            counts(b).cmp(&counts(a)).then_with(|| whose(a).cmp(&whose(b))).then_with(|| a.qos.cmp(&b.qos))
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
        let mut requests: Vec<Asked> = Vec::new();
        for ((number, outcome), count) in counters::all().into_iter().zip(counts) {
            let mut sum = Sum::default();
            match outcome {
                Outcome::Refused => sum.refused = count,
                Outcome::Warned => sum.warned = count,
                Outcome::Audited => sum.audited = count,
                Outcome::Exempt => sum.exempt = count,
                Outcome::Changed => continue,
            }
            let new = Asked { number: number.to_owned(), ..Asked::default() };
            let last = match requests.iter().position(|one| one.number == number) {
                Some(at) => at,
                None => {
                    requests.push(new);
                    requests.len() - 1
                }
            };
            if let Some(one) = requests.get_mut(last) {
                one.add(&sum, advice);
            }
        }
        requests.retain(|one| one.accepted() + one.refused + one.exempt > 0);
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
        let users = |counts: &dyn Fn(&Asked) -> bool| {
            let ids = requests.iter().filter(|one| counts(one)).filter_map(|one| one.user_id);
            ids.collect::<BTreeSet<_>>().len() as u64
        };
        let would = |one: &Asked| one.would_be_refused && one.accepted() > 0;
        Report {
            read,
            would_be_refused: requests.iter().filter(|one| would(one)).map(Asked::accepted).sum(),
            users_would_be_refused: users(&would),
            refused: requests.iter().map(|one| one.refused).sum(),
            users_refused: users(&|one| one.refused > 0),
            exempt: requests.iter().map(|one| one.exempt).sum(),
            users_exempt: users(&|one| one.exempt > 0),
            requests,
            remarks,
            ..Report::default()
        }
    }
}

impl Asked {
    fn add(&mut self, sum: &Sum, advice: LimitAdvice) {
        self.warned += sum.warned;
        self.audited += sum.audited;
        self.refused += sum.refused;
        self.exempt += sum.exempt;
        self.title = pages::page(&self.number).map_or("", |page| page.title);
        // Only LimitAdvice=refuse refuses requests that would only wait.
        let is_advice = self.number == Rule::BeyondLimit.number() && advice != LimitAdvice::Refuse;
        self.would_be_refused = self.accepted() > 0 && !is_advice;
    }
}

fn asked(form: Form, sum: Sum, advice: LimitAdvice) -> Asked {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let request = if form.is_rest { "other requests".to_owned() } else { text(&form.request) };
    let mut found = Asked {
        user: text(&form.user),
        user_id: Some(form.user_id),
        account: text(&form.account),
        qos: text(&form.qos),
        partition: text(&form.partition),
        number: form.number,
        request,
        instead: Some(text(&form.instead)).filter(|text| !text.is_empty()),
        jobs: sum.names.iter().map(|name| text(name)).collect(),
        more_jobs: sum.more_names,
        first: sum.first.map(exact),
        last: sum.last.map(exact),
        times: sum.first.zip(sum.last),
        ..Asked::default()
    };
    found.add(&sum, advice);
    found
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
