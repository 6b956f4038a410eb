//! The report as data: for each limit by how much it was exceeded, by whose requests, and what gpushare would have
//! replied to them.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use serde::Serialize;

use super::collect::{Cause, Collector, Counts, NO_CAUSE, Series};
use gpushare_slurm_text::Kind;

use super::limits::{Limit, Limits};
use super::sweep::{self, Hold, Interval, Over};
use gpushare_history::hours::of as hours;
use gpushare_history::source::Cluster;
use gpushare_judge::past::{Judge, OptionError, Place, Told};
use gpushare_period::{Period, exact};

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    pub cluster: String,
    pub start: String,
    pub end: String,
    #[serde(skip)]
    pub period: Period,
    /// How many runs of jobs were read, and how many of them had GPUs.
    pub jobs: u64,
    pub jobs_with_gpus: u64,
    pub limits: Vec<OfLimit>,
    /// What accounting doesn't show, in sentences.
    pub remarks: Vec<String>,
}

/// One limit.
#[derive(Debug, Serialize)]
pub struct OfLimit {
    #[serde(flatten)]
    pub limit: Limit,
    pub exceeded: bool,
    /// GPU-hours that ran in the period without having been tested with this limit, whether it was exceeded or not.
    pub unseen_gpu_hours: f64,
    /// The users or accounts that exceeded it, or may have; a single item for a limit on all together.
    pub over: Vec<Exceeded>,
}

/// A limit that was exceeded.
#[derive(Debug, Serialize)]
pub struct Exceeded {
    /// The user or account that exceeded it; `None` for a limit on all together, or on each job.
    pub of: Option<String>,
    pub certain: Sums,
    /// The sums including GPUs of unknown type; `None` if all types are known.
    pub at_most: Option<Sums>,
    /// The certain GPU-hours above the limit that were requested with their type: at that time another limit applied,
    /// or none.
    pub unexplained_gpu_hours: f64,
    pub intervals: Vec<Interval>,
    /// The requests that bypassed the limit and ran while it was exceeded, the largest first.
    pub requests: Vec<Asked>,
    /// For the plot: the maximum in each part of the period, for certain and at most. Empty for limits on single jobs.
    #[serde(skip)]
    pub columns: Vec<(u32, u32)>,
}

/// By how much a limit was exceeded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sums {
    pub times: usize,
    pub hours: f64,
    pub gpu_hours_above: f64,
    pub most_held: u32,
    pub most_held_at: Option<String>,
    #[serde(skip)]
    pub worst: Option<Interval>,
}

/// One form of request of one user.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    #[serde(flatten)]
    pub cause: Cause,
    pub request: String,
    /// Whether its options are those of the command line; otherwise accounting has only what Slurm counted.
    pub on_command_line: bool,
    pub jobs: u64,
    /// GPUs that the limit didn't see, times the hours in which it was exceeded.
    pub gpu_hours: f64,
    /// The message's number, if gpushare would have refused the request, and options that it would have accepted.
    pub number: Option<&'static str>,
    pub command: Option<String>,
    /// The whole text that the user would have seen, or why that is unknown.
    pub told: Option<String>,
}

impl Sums {
    fn of(over: &Over) -> Sums {
        let worst = over.worst().copied();
        Sums {
            times: over.intervals.len(),
            hours: hours(over.seconds()),
            gpu_hours_above: hours(over.above),
            most_held: worst.map_or(0, |one| one.held),
            most_held_at: worst.map(|one| exact(one.at)),
            worst,
        }
    }
}

impl Report {
    /// Makes the report from what was collected.
    pub fn of(
        cluster: Cluster,
        period: Period,
        limits: &Limits,
        collected: Collector,
        judge: &Judge,
    ) -> Report {
        let Collector { series, causes, mut holds, counts, .. } = collected;
        holds.sort_unstable_by_key(|hold| hold.series);
        let none = |limit: &Limit| OfLimit {
            limit: limit.clone(),
            exceeded: false,
            unseen_gpu_hours: 0.0,
            over: Vec::new(),
        };
        let mut all: Vec<OfLimit> = limits.all.iter().map(none).collect();
        let mut unseen = vec![0_u64; limits.all.len()];
        let mut told: Vec<Option<Result<Option<Told>, OptionError>>> = vec![None; causes.len()];
        for part in holds.chunk_by(|a, b| a.series == b.series) {
            let Some(Series { limit: at, subject }) =
                part.first().and_then(|hold| series.get_index(hold.series as usize))
            else {
                continue;
            };
            let (Some(limit), Some(of), Some(unseen)) =
                (limits.all.get(*at), all.get_mut(*at), unseen.get_mut(*at))
            else {
                continue;
            };
            let sure = |hold: &Hold| u64::from(hold.unseen.min(hold.sure)) * u64::from(hold.end - hold.start);
            *unseen += part.iter().map(sure).sum::<u64>();
            let alone = limit.scope == Kind::PerJob;
            let (certain, most) =
                if alone { sweep::over_each(part, limit.limit) } else { sweep::over(part, limit.limit) };
            if most.intervals.is_empty() {
                continue;
            }
            of.exceeded |= !certain.intervals.is_empty();
            let inside = |hold: &Hold| match alone {
                true if u32::from(hold.sure) <= limit.limit => 0,
                true => u64::from(hold.end - hold.start),
                false => certain.within(hold.start, hold.end),
            };
            let asked = requests(part, inside, &causes).into_iter().map(|((cause, jobs), seconds)| {
                let said = told.get_mut(cause as usize);
                request(causes.get_index(cause as usize)?, jobs, seconds, said?, judge)
            });
            let asked = asked.flatten().collect();
            of.over.push(Exceeded {
                of: subject.clone(),
                at_most: (certain != Over { unexplained: certain.unexplained, ..most.clone() })
                    .then(|| Sums::of(&most)),
                certain: Sums::of(&certain),
                unexplained_gpu_hours: hours(certain.unexplained),
                intervals: certain.intervals,
                requests: asked,
                columns: if alone { Vec::new() } else { sweep::columns(part, period) },
            });
        }
        for (of, unseen) in all.iter_mut().zip(unseen) {
            of.unseen_gpu_hours = hours(unseen);
            of.over.sort_by(|a, b| b.above().total_cmp(&a.above()));
        }
        all.sort_by(|a, b| b.above().total_cmp(&a.above()));
        Report {
            cluster: cluster.name,
            start: exact(period.start),
            end: exact(period.end),
            period,
            jobs: counts.read,
            jobs_with_gpus: counts.with_gpus,
            limits: all,
            remarks: remarks(&counts).into_iter().chain(limits.not_judged()).chain(cluster.remarks).collect(),
        }
    }

    /// Whether a limit was certainly exceeded.
    pub fn is_over(&self) -> bool {
        self.limits.iter().any(|one| one.exceeded)
    }
}

impl OfLimit {
    fn above(&self) -> f64 {
        self.over.iter().map(Exceeded::above).sum()
    }
}

impl Exceeded {
    fn above(&self) -> f64 {
        self.certain.gpu_hours_above
    }
}

/// Each cause with its number of jobs, and the GPUs that the limit didn't see times the seconds in which it was
/// exceeded; the largest first.
fn requests(
    holds: &[Hold],
    inside: impl Fn(&Hold) -> u64,
    causes: &IndexSet<Cause>,
) -> Vec<((u32, u64), u64)> {
    let mut by_cause: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.cause != NO_CAUSE) {
        let seconds = inside(hold) * u64::from(hold.unseen.min(hold.sure));
        if seconds > 0 {
            let sum = by_cause.entry(hold.cause).or_default();
            *sum = (sum.0 + 1, sum.1 + seconds);
        }
    }
    let mut found: Vec<_> = by_cause.into_iter().map(|(cause, (jobs, sum))| ((cause, jobs), sum)).collect();
    let name = |cause: u32| causes.get_index(cause as usize).map(|one| (&one.user, one.form.text()));
    found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| name(a.0.0).cmp(&name(b.0.0))));
    found
}

fn request(
    cause: &Cause,
    jobs: u64,
    seconds: u64,
    said: &mut Option<Result<Option<Told>, OptionError>>,
    judge: &Judge,
) -> Option<Asked> {
    let Cause { user, account, qos, partition, form } = cause;
    let said = said.get_or_insert_with(|| judge.told(Place { user, account, qos, partition }, &form.options));
    let (number, command, told) = match said {
        Ok(None) => (None, None, None),
        Ok(Some(told)) => (Some(told.number), told.command.clone(), Some(told.text.clone())),
        Err(reason) => (None, None, Some(format!("can't be checked: {reason}"))),
    };
    Some(Asked {
        request: form.text(),
        on_command_line: form.on_line,
        cause: cause.clone(),
        jobs,
        gpu_hours: hours(seconds),
        number,
        command,
        told,
    })
}

/// What can't be known, in sentences.
fn remarks(counts: &Counts) -> Vec<String> {
    let mut said = vec![
        "limits, accounts and partitions are today's: Slurm keeps no history of them".to_owned(),
        "not checked: limits on GPU minutes, limits per node, and shares (mps, shard)".to_owned(),
    ];
    if counts.running > 0 {
        said.push(format!(
            "jobs without an end in accounting: {}. They count as still running, as most of them are; 'sacctmgr show \
             runawayjobs' lists those that Slurm lost",
            counts.running
        ));
    }
    if counts.by_nodes > 0 {
        said.push(format!(
            "jobs without a GPU type in accounting: {}. They count with the type of their nodes, as the nodes are \
             today",
            counts.by_nodes
        ));
    }
    if counts.untold > 0 {
        said.push(format!(
            "jobs whose GPU type neither accounting nor their nodes show: {}. They count only under \"possibly \
             exceeded\". To record types from now on, list every gres/gpu:TYPE in AccountingStorageTRES",
            counts.untold
        ));
    }
    said
}
