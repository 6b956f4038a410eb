//! Reduces every job to a few numbers, since there may be millions of jobs.

use std::collections::HashMap;

use indexmap::IndexSet;
use serde::Serialize;

use super::form::Form;
use gpushare_slurm_text::{Kind, text};

use super::held;
use super::limits::Limits;
use super::sweep::Hold;
use gpushare_history::nodes::Nodes;
use gpushare_period::Period;
use gpushare_slurm_text::sacct::Row;
use gpushare_slurm_text::version::Release;

/// The limit saw all GPUs of the job, so no request is a cause.
pub const NO_CAUSE: u32 = u32::MAX;

/// A user's request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cause {
    pub user: String,
    pub account: String,
    pub qos: String,
    pub partition: String,
    #[serde(skip)]
    pub form: Form,
}

/// A sum over time: for one limit and, if it applies to each user or account separately, for one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    pub limit: usize,
    /// The user or account.
    pub subject: Option<String>,
}

/// How many jobs were read, and how much about them is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs of jobs, with and without GPUs.
    pub read: u64,
    pub with_gpus: u64,
    /// Jobs that were still running when the accounting was read.
    pub running: u64,
    /// Jobs whose GPU types are known only from the nodes, and those whose types are unknown.
    pub by_nodes: u64,
    pub untold: u64,
    /// As long as no job had GPUs: whether one requested some nevertheless.
    pub is_unrecorded: bool,
}

/// Collects jobs one by one.
pub struct Collector<'l> {
    limits: &'l Limits,
    nodes: Nodes,
    period: Period,
    release: Release,
    /// The limits for each combination of user, account, QOS and partition.
    places: HashMap<Vec<u8>, Vec<usize>>,
    key: Vec<u8>,
    pub series: IndexSet<Series>,
    pub causes: IndexSet<Cause>,
    pub holds: Vec<Hold>,
    pub counts: Counts,
}

impl<'l> Collector<'l> {
    pub fn new(limits: &'l Limits, nodes: Nodes, period: Period, release: Release) -> Collector<'l> {
        Collector {
            limits,
            nodes,
            period,
            release,
            places: HashMap::new(),
            key: Vec::new(),
            series: IndexSet::new(),
            causes: IndexSet::new(),
            holds: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Takes one run of a job.
    pub fn take(&mut self, job: &Row) {
        self.counts.read += 1;
        let (Some(start), false) = (job.start, job.is_elsewhere()) else { return };
        let (start, end) = (start.max(self.period.start), job.end.unwrap_or(u32::MAX).min(self.period.end));
        if start >= end {
            return;
        }
        if !job.has_gpus() {
            let is_unknown = self.counts.with_gpus == 0 && !self.counts.is_unrecorded;
            self.counts.is_unrecorded |= is_unknown && Form::is_on(job.line, self.release);
            return;
        }
        self.counts.with_gpus += 1;
        self.counts.running += u64::from(job.end.is_none());
        self.key.clear();
        for part in [job.user, job.account, job.qos, job.partition] {
            self.key.extend_from_slice(part);
            self.key.push(0);
        }
        if !self.places.contains_key(&self.key) {
            let [user, account, qos, partition] = [job.user, job.account, job.qos, job.partition].map(text);
            self.places.insert(self.key.clone(), self.limits.counting(&user, &account, &qos, &partition));
        }
        let under = self.places.get(&self.key).cloned().unwrap_or_default();
        if under.is_empty() {
            return;
        }
        let held = held::held(&mut self.nodes, job, self.limits);
        let limits = self.limits;
        let counted: Vec<_> = under
            .into_iter()
            .filter_map(|at| Some((at, limits.all.get(at)?)))
            .filter_map(|(at, limit)| {
                Some((at, limit, *held.get(limit.gpu_type.as_str())?)).filter(|(.., held)| held.most > 0)
            })
            .collect();
        self.counts.by_nodes += u64::from(counted.iter().any(|(.., held)| held.by_nodes));
        self.counts.untold += u64::from(counted.iter().any(|(.., held)| held.most > held.sure));
        let cause = match counted.iter().any(|(.., held)| held.unseen > 0) {
            true => self.cause(job),
            false => NO_CAUSE,
        };
        for (at, limit, held) in counted {
            let subject: &[u8] = match limit.scope {
                Kind::Grp | Kind::PerNode => b"",
                Kind::PerUser => job.user,
                Kind::PerAccount => job.account,
                // Nothing is summed for such a limit, so jobs within it don't matter.
                Kind::PerJob if held.most <= limit.limit => continue,
                Kind::PerJob => b"",
            };
            let series = self.series_of(at, subject);
            let small = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
            let (sure, most, unseen) = (small(held.sure), small(held.most), small(held.unseen));
            let cause = if unseen > 0 { cause } else { NO_CAUSE };
            self.holds.push(Hold { series, start, end, cause, sure, most, unseen });
        }
    }

    fn series_of(&mut self, limit: usize, subject: &[u8]) -> u32 {
        let subject = Some(text(subject)).filter(|name| !name.is_empty());
        index(self.series.insert_full(Series { limit, subject }).0)
    }

    fn cause(&mut self, job: &Row) -> u32 {
        let form = Form::of(job, self.release);
        let [user, account, qos, partition] = [job.user, job.account, job.qos, job.partition].map(text);
        index(self.causes.insert_full(Cause { user, account, qos, partition, form }).0)
    }
}

/// Memory can't hold more items than a u32 counts.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(NO_CAUSE - 1)
}
