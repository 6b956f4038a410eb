//! Judges each job as it is read, and keeps a few numbers of it, since there may be millions of jobs.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use gpushare_history::nodes::Nodes;
use gpushare_history::stream::is_first;
use gpushare_period::Period;
use gpushare_slurm_text::sacct::{self, Row};
use gpushare_slurm_text::text;
use indexmap::IndexSet;
use serde::Serialize;

use super::job::Open;
use super::share::{Gpu, Shares};

/// No node has more GPUs, whatever accounting says.
const MOST_GPUS: u32 = 1024;

/// Whose job it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Who {
    pub user: String,
    pub account: String,
    pub qos: String,
}

/// GPUs of one type that a job had, for the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub start: u32,
    pub end: u32,
    pub who: u32,
    /// The type's number.
    pub gres_type: u32,
    /// The share that would have been enough; 0 if it stays a job with whole GPUs.
    pub units: u32,
}

/// How many GPUs of a run were on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub node: u32,
    /// The run's start, by which they are sorted.
    pub start: u32,
    pub run: u32,
    pub count: u32,
}

/// Jobs of one kind: their number, and the seconds for which they held a GPU, each GPU for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub jobs: u64,
    pub seconds: u64,
    /// The jobs that never showed more utilization than their share of the GPU.
    pub light: u64,
}

impl Sum {
    /// Adds another one.
    pub fn add(&mut self, other: &Sum) {
        self.jobs += other.jobs;
        self.seconds += other.seconds;
        self.light += other.light;
    }
}

/// Which of the judged jobs a sum is of. 0 units are the whole GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub who: u32,
    pub gres_type: u32,
    pub units: u32,
    pub capacity: u32,
    /// The memory of the share, or of the whole GPU.
    pub mib: u64,
}

/// Why a job isn't judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    Several,
    Edge,
    Failed,
    Unrecorded,
    Unseen,
    Unknown,
}

impl Why {
    pub fn text(self) -> &'static str {
        match self {
            Why::Several => "several GPUs or nodes",
            Why::Edge => "didn't begin and end in the period",
            Why::Failed => "failed, out of memory, preempted, or lost a node",
            Why::Unrecorded => "no GPU memory in accounting",
            Why::Unseen => "0 GPU memory: idle, or shorter than a sample",
            Why::Unknown => "GPU type or its memory unknown, or it takes no shares",
        }
    }
}

/// Collects jobs one by one.
#[derive(Default)]
pub struct Collector {
    pub shares: Rc<Shares>,
    period: Period,
    day: Period,
    current: Option<Open>,
    /// Jobs that had not ended on the days before.
    open: HashMap<(u64, u32), Open>,
    gpus: HashMap<(u32, u32), Gpu>,
    pub nodes: Nodes,
    pub whos: IndexSet<Who>,
    /// GPU types by number, in lowercase; empty if unknown.
    pub types: IndexSet<String>,
    pub runs: Vec<Run>,
    pub places: Vec<Place>,
    pub judged: BTreeMap<Kind, Sum>,
    pub others: BTreeMap<Why, Sum>,
    /// Runs of jobs that were read; with GPUs; and of these, with a record of their GPU memory.
    pub read: u64,
    pub with_gpus: u64,
    pub recorded: u64,
}

impl Collector {
    pub fn new(shares: Rc<Shares>, nodes: Nodes, period: Period) -> Collector {
        Collector { shares, nodes, period, ..Collector::default() }
    }

    /// The lines that follow are those of this day.
    pub fn day(&mut self, day: Period) {
        self.close();
        self.day = day;
    }

    /// Takes a line.
    pub fn take(&mut self, row: &Row) {
        if let Some(step) = row.step {
            if let Some(open) = self.current.as_mut().filter(|open| open.job == row.job) {
                open.step(step, row);
            }
            return;
        }
        self.close();
        let Some(start) = row.start.filter(|_| !row.is_elsewhere()) else { return };
        // slurmdbd also answers with the jobs that ended as the day began, and the day before has counted them.
        if row.end == Some(self.day.start)
            && start < self.day.start
            && !self.open.contains_key(&(row.job, start))
        {
            return;
        }
        self.read += u64::from(is_first(start, self.day, self.period));
        if !row.has_gpus() {
            return;
        }
        self.current = Some(match self.open.remove(&(row.job, start)) {
            Some(mut open) => {
                open.again(row);
                open
            }
            None => Open::of(row, start, self.who(row)),
        });
    }

    /// After the last line.
    pub fn end(&mut self) {
        self.close();
        let open = std::mem::take(&mut self.open);
        let mut open: Vec<Open> = open.into_values().collect();
        open.sort_unstable_by_key(|open| (open.job, open.start));
        for one in open {
            self.finish(&one);
        }
    }

    /// The lines of the current job have ended, perhaps only those of this day.
    fn close(&mut self) {
        let Some(open) = self.current.take() else { return };
        if open.end.is_some_and(|end| end <= self.day.end) {
            self.finish(&open);
        } else {
            self.open.insert((open.job, open.start), open);
        }
    }

    fn who(&mut self, row: &Row) -> u32 {
        let who = Who { user: text(row.user), account: text(row.account), qos: text(row.qos) };
        index(self.whos.insert_full(who).0)
    }

    fn gres_type(&mut self, name: &str) -> u32 {
        index(self.types.insert_full(name.to_owned()).0)
    }

    fn finish(&mut self, job: &Open) {
        let start = job.start.max(self.period.start);
        let end = job.end.unwrap_or(u32::MAX).min(self.period.end);
        if start >= end {
            return;
        }
        self.with_gpus += 1;
        let memory = job.memory();
        self.recorded += u64::from(memory.is_some());
        let numbers = self.nodes.list(&job.nodes);
        let parts = self.parts(&job.given, &numbers);
        let count: u32 = parts.iter().map(|(_, count)| *count).sum();
        let seconds = u64::from(end - start) * u64::from(count);
        let mut units = 0;
        match self.judge(job, &parts, &numbers, memory) {
            Ok((kind, is_light)) => {
                units = kind.units;
                let sum = self.judged.entry(kind).or_default();
                sum.add(&Sum { jobs: 1, seconds, light: u64::from(is_light) });
            }
            Err(why) => {
                let sum = self.others.entry(why).or_default();
                sum.add(&Sum { jobs: 1, seconds, light: 0 });
            }
        }
        for (gres_type, count) in parts {
            let run = index(self.runs.len());
            self.runs.push(Run { start, end, who: job.who, gres_type, units });
            self.put(run, start, count, &numbers);
        }
    }

    /// Accounting doesn't have how many GPUs were on which node, so this is as even as possible.
    fn put(&mut self, run: u32, start: u32, count: u32, numbers: &[u32]) {
        let all = index(numbers.len());
        for (node, at) in numbers.iter().zip(0..) {
            let count = count / all + u32::from(at < count % all);
            if count > 0 {
                self.places.push(Place { node: *node, start, run, count });
            }
        }
    }

    /// The types of a job's GPUs, and how many of each: of accounting, or else of its nodes.
    fn parts(&mut self, given: &[u8], numbers: &[u32]) -> Vec<(u32, u32)> {
        let (mut all, mut typed, mut parts) = (0, 0, Vec::new());
        let most = index(numbers.len()).saturating_mul(MOST_GPUS);
        for (gres_type, count) in sacct::gpus(given) {
            let sum = if gres_type.is_some() { &mut typed } else { &mut all };
            let count = count.min(most - *sum);
            *sum += count;
            if let Some(name) = gres_type.filter(|_| count > 0) {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                parts.push((self.gres_type(&name), count));
            }
        }
        if all > typed {
            let name = match self.nodes.types(numbers).as_deref() {
                Some([only]) => (*only).to_owned(),
                _ => String::new(),
            };
            parts.push((self.gres_type(&name), all - typed));
        }
        parts
    }

    /// Which share would have been enough, and whether the job also never used more than that part of the GPU.
    fn judge(
        &mut self,
        job: &Open,
        parts: &[(u32, u32)],
        numbers: &[u32],
        memory: Option<u64>,
    ) -> Result<(Kind, bool), Why> {
        let ([(gres_type, 1)], [node]) = (parts, numbers) else { return Err(Why::Several) };
        if job.start < self.period.start || job.end.is_none_or(|end| end > self.period.end) {
            return Err(Why::Edge);
        }
        if !job.is_whole() {
            return Err(Why::Failed);
        }
        let memory = memory.ok_or(Why::Unrecorded)?;
        if memory == 0 {
            return Err(Why::Unseen);
        }
        let gpu = self.gpu(*node, *gres_type);
        if gpu.sizes.is_empty() {
            return Err(Why::Unknown);
        }
        let (units, mib) = self.shares.smallest(&gpu, memory).unwrap_or((0, gpu.memory.unwrap_or(0)));
        let kind = Kind { who: job.who, gres_type: *gres_type, units, capacity: gpu.capacity, mib };
        Ok((kind, job.utilization().saturating_mul(gpu.capacity.into()) <= u64::from(units) * 100))
    }

    /// A GPU of this type on this node.
    pub fn gpu(&mut self, node: u32, gres_type: u32) -> Gpu {
        if let Some(found) = self.gpus.get(&(node, gres_type)) {
            return found.clone();
        }
        let name = self.types.get_index(gres_type as usize).map_or("", String::as_str);
        let found = self.shares.gpu(self.nodes.get(node).map_or("", |node| &node.name), name);
        self.gpus.insert((node, gres_type), found.clone());
        found
    }
}

/// Memory can't hold more items than a u32 counts.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
