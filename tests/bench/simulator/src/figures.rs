//! Measures of one run, and what is said of several: median and spread.

use crate::trace::Job;

/// The measures, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Time's average of the most assigned less the least, in percent of a GPU.
    Imbalance,
    /// How much of the GPUs' time they have more assigned than they hold, in percent.
    Overcommit,
    /// How much longer jobs run than alone, on average.
    Slowdown,
    /// The same for the job that is worse off than 95 percent of all.
    Slowdown95,
    /// Minutes a job waits in slurmctld, on average.
    Wait,
    /// From arrival to end, all jobs together, as a multiple of their work.
    Total,
    /// Starts after which a GPU has not the memory that its jobs use, of 1000.
    MemoryOver,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 7] = [
        Measure::Imbalance,
        Measure::Overcommit,
        Measure::Slowdown,
        Measure::Slowdown95,
        Measure::Wait,
        Measure::Total,
        Measure::MemoryOver,
    ];

    /// As the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Imbalance => "imbalance",
            Measure::Overcommit => "overcommit",
            Measure::Slowdown => "slowdown",
            Measure::Slowdown95 => "p95",
            Measure::Wait => "wait",
            Measure::Total => "total",
            Measure::MemoryOver => "memory",
        }
    }
}

/// What is summed up while a trace runs.
#[derive(Clone, Debug)]
pub struct Figures {
    gpus: usize,
    time: f64,
    imbalance: f64,
    over: f64,
    slowdowns: Vec<f64>,
    waited: f64,
    stayed: f64,
    work: f64,
    memory_over: u32,
}

impl Figures {
    /// Of a node with so many GPUs.
    pub fn new(gpus: usize) -> Figures {
        Figures {
            gpus,
            time: 0.0,
            imbalance: 0.0,
            over: 0.0,
            slowdowns: Vec::new(),
            waited: 0.0,
            stayed: 0.0,
            work: 0.0,
            memory_over: 0,
        }
    }

    /// Time passed while each GPU had so much of its units assigned, 1 for all of them. An idle node has nothing to
    /// balance and isn't counted.
    pub fn pass(&mut self, seconds: f64, assigned: &[f64]) {
        let least = assigned.iter().copied().reduce(f64::min);
        let (Some(least), Some(most)) = (least, assigned.iter().copied().reduce(f64::max)) else { return };
        if most <= 0.0 {
            return;
        }
        let over = assigned.iter().filter(|part| **part > 1.0).count();
        self.time += seconds;
        self.imbalance += seconds * (most - least);
        self.over += seconds * over as f64;
    }

    /// A job began, and its GPU has or hasn't memory for all that run there.
    pub fn start(&mut self, memory_over: bool) {
        self.memory_over += u32::from(memory_over);
    }

    /// A job ended.
    pub fn end(&mut self, job: &Job, began: f64, now: f64) {
        self.slowdowns.push((now - began) / job.work);
        self.waited += began - job.arrival;
        self.stayed += now - job.arrival;
        self.work += job.work;
    }

    /// One measure of the run.
    pub fn of(&self, measure: Measure) -> f64 {
        let jobs = self.slowdowns.len().max(1) as f64;
        match measure {
            Measure::Imbalance => 100.0 * self.imbalance / self.time,
            Measure::Overcommit => 100.0 * self.over / self.time / self.gpus as f64,
            Measure::Slowdown => self.slowdowns.iter().sum::<f64>() / jobs,
            Measure::Slowdown95 => quantile(&self.slowdowns, 0.95),
            Measure::Wait => self.waited / jobs / 60.0,
            Measure::Total => self.stayed / self.work,
            Measure::MemoryOver => 1000.0 * f64::from(self.memory_over) / jobs,
        }
    }
}

/// The value below which that part of all values lies.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = (0..=last).find(|at| *at as f64 >= part * last as f64).unwrap_or(last);
    sorted.get(at).copied().unwrap_or(0.0)
}
