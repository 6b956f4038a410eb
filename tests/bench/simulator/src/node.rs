//! A node with one policy and one trace: jobs wait in slurmctld, get a GPU, slow each other down, and end.
//!
//! slurmctld starts a job when its units are free in sum, or on one GPU where Slurm picks; jobs behind one that waits
//! may go first. Jobs on a GPU run at full speed while their utilizations sum to no more than 100 percent, and else
//! slowed down to 100 / sum, all alike. What NVML shows is what runs, without jobs that began in the last seconds.

use gpushare_node::choose::{Candidate, Load};

use crate::figures::Figures;
use crate::policy::{Picker, Policy};
use crate::trace::{GpuType, Job, Trace};

/// Seconds in which a job that has begun shows no load.
const UNSEEN: f64 = 10.0;
/// What is left of a job's work when it has ended: time is a floating-point number.
const NOTHING: f64 = 1e-6;

/// The simulation did what can't be; it has a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Jobs that didn't run to their end, or more than once.
    Lost(usize),
    /// More units were given than the node has.
    MoreThanTheNode,
    /// A GPU got more than it has though the policy never does that, or says it didn't.
    OverCapacity,
    /// A job was given too full a GPU while another had room.
    OthersHadRoom,
    /// A job took less time than its work.
    TooFast,
    /// Nothing runs, nothing arrives, and jobs wait.
    Stuck,
}

struct Running {
    job: Job,
    number: usize,
    began: f64,
    left: f64,
}

struct Gpu {
    has: GpuType,
    running: Vec<Running>,
}

impl Gpu {
    fn assigned(&self) -> u64 {
        self.running.iter().map(|running| u64::from(running.job.units)).sum()
    }

    fn fits(&self, job: &Job) -> bool {
        self.assigned() + u64::from(job.units) <= u64::from(self.has.units)
    }

    /// How much longer everything takes here.
    fn slowdown(&self) -> f64 {
        (self.running.iter().map(|running| running.job.utilization).sum::<f64>() / 100.0).max(1.0)
    }

    fn memory_in_use(&self) -> u64 {
        self.running.iter().map(|running| running.job.memory).sum()
    }

    fn load(&self, now: f64) -> Load {
        let seen =
            || self.running.iter().filter(|running| now - running.began >= UNSEEN).map(|running| running.job);
        let utilization = seen().map(|job| job.utilization).sum::<f64>().min(100.0);
        let percent = (0..100).find(|percent| f64::from(*percent) >= utilization).unwrap_or(100);
        Load { memory: seen().map(|job| job.memory).sum(), utilization: percent }
    }

    fn candidate(&self, at: usize, now: f64, measured: bool, user: u32) -> Candidate {
        let mut users: Vec<u32> = self.running.iter().map(|running| running.job.user).collect();
        users.sort_unstable();
        users.dedup();
        Candidate {
            index: u32::try_from(at).unwrap_or(u32::MAX),
            capacity: self.has.units,
            assigned: self.assigned(),
            users: u32::try_from(users.len()).unwrap_or(u32::MAX),
            foreign: users.iter().any(|other| *other != user),
            held: false,
            healthy: true,
            memory: Some(self.has.memory),
            load: measured.then(|| self.load(now)),
        }
    }
}

/// Runs the trace to its end.
///
/// # Errors
/// It broke a rule.
pub fn simulate(trace: &Trace, policy: Policy) -> Result<Figures, Broken> {
    let gpus = trace.gpus.iter().map(|has| Gpu { has: *has, running: Vec::new() }).collect();
    let figures = Figures::new(trace.gpus.len());
    let ended = vec![0; trace.jobs.len()];
    let mut node =
        Node { gpus, waiting: Vec::new(), picker: Picker::new(policy), policy, now: 0.0, figures, ended };
    let mut arriving = trace.jobs.iter().copied().enumerate().peekable();
    loop {
        let arrival = arriving.peek().map(|(_, job)| job.arrival);
        let Some(next) = [arrival, node.next_end()].into_iter().flatten().reduce(f64::min) else { break };
        node.advance(next)?;
        while let Some(arrived) = arriving.next_if(|(_, job)| job.arrival <= next) {
            node.waiting.push(arrived);
        }
        node.start_what_may()?;
    }
    match node.ended.iter().filter(|times| **times != 1).count() {
        _ if !node.waiting.is_empty() => Err(Broken::Stuck),
        0 => Ok(node.figures),
        lost => Err(Broken::Lost(lost)),
    }
}

struct Node {
    gpus: Vec<Gpu>,
    waiting: Vec<(usize, Job)>,
    picker: Picker,
    policy: Policy,
    now: f64,
    figures: Figures,
    ended: Vec<u32>,
}

impl Node {
    fn next_end(&self) -> Option<f64> {
        let ends = |gpu: &Gpu| {
            let least = gpu.running.iter().map(|running| running.left).reduce(f64::min);
            least.map(|least| self.now + least * gpu.slowdown())
        };
        self.gpus.iter().filter_map(ends).reduce(f64::min)
    }

    /// Lets time pass, and jobs end.
    fn advance(&mut self, to: f64) -> Result<(), Broken> {
        let passed = to - self.now;
        let part = |gpu: &Gpu| gpu.assigned() as f64 / f64::from(gpu.has.units);
        let assigned: Vec<f64> = self.gpus.iter().map(part).collect();
        self.figures.pass(passed, &assigned);
        self.now = to;
        for gpu in &mut self.gpus {
            let slowdown = gpu.slowdown();
            gpu.running.iter_mut().for_each(|running| running.left -= passed / slowdown);
            for done in gpu.running.extract_if(.., |running| running.left <= NOTHING) {
                let took = to - done.began;
                if took < done.job.work - 0.001 {
                    return Err(Broken::TooFast);
                }
                self.figures.end(&done.job, done.began, to);
                self.ended.get_mut(done.number).into_iter().for_each(|times| *times += 1);
            }
        }
        Ok(())
    }

    /// A pass of the scheduler over the jobs that wait, the oldest first.
    fn start_what_may(&mut self) -> Result<(), Broken> {
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        let all: u64 = self.gpus.iter().map(|gpu| u64::from(gpu.has.units)).sum();
        for (number, job) in waiting.by_ref() {
            let given: u64 = self.gpus.iter().map(Gpu::assigned).sum();
            if given == all {
                self.waiting.push((number, job));
                break;
            }
            if given + u64::from(job.units) > all || !self.start(number, job)? {
                self.waiting.push((number, job));
            }
        }
        self.waiting.extend(waiting);
        let given: u64 = self.gpus.iter().map(Gpu::assigned).sum();
        if given > all { Err(Broken::MoreThanTheNode) } else { Ok(()) }
    }

    fn start(&mut self, number: usize, job: Job) -> Result<bool, Broken> {
        let measured = self.policy != Policy::SpreadUnmeasured;
        let candidate = |(at, gpu): (usize, &Gpu)| gpu.candidate(at, self.now, measured, job.user);
        let candidates: Vec<Candidate> = self.gpus.iter().enumerate().map(candidate).collect();
        let jobs: Vec<usize> = self.gpus.iter().map(|gpu| gpu.running.len()).collect();
        let Some((at, overcommitted)) = self.picker.pick(&candidates, &jobs, job.units) else {
            return Ok(false);
        };
        let others = self.gpus.iter().any(|gpu| gpu.fits(&job));
        let Some(gpu) = self.gpus.get_mut(at) else { return Ok(false) };
        if overcommitted == gpu.fits(&job) || (overcommitted && self.policy.waits_for_one_gpu()) {
            return Err(Broken::OverCapacity);
        }
        if overcommitted && others && self.policy != Policy::FewestJobs {
            return Err(Broken::OthersHadRoom);
        }
        gpu.running.push(Running { job, number, began: self.now, left: job.work });
        self.figures.start(gpu.memory_in_use() > gpu.has.memory);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Measure;
    use crate::trace::{Kind, UNITS};

    fn job(arrival: f64, units: u32, utilization: f64) -> Job {
        Job { arrival, units, cpus: 1, user: 1, work: 600.0, utilization, memory: 600 }
    }

    fn run(gpus: usize, jobs: Vec<Job>, policy: Policy) -> Figures {
        simulate(&Trace { gpus: vec![GpuType { memory: 1000, units: UNITS }; gpus], jobs }, policy).unwrap()
    }

    #[test]
    fn small_traces_give_what_is_worked_out_by_hand() {
        let two = |utilization| vec![job(0.0, 20, utilization), job(0.0, 20, utilization)];
        // Half of a GPU free on each of two: too little for the third on one of them, not in sum.
        let third = vec![job(0.0, 40, 1.0), job(0.0, 40, 1.0), job(300.0, 60, 1.0)];
        for (gpus, jobs, policy, measure, expected) in [
            (1, two(50.0), Policy::Spread, Measure::Slowdown, 1.0),
            (1, two(100.0), Policy::Spread, Measure::Slowdown, 2.0),
            (2, two(100.0), Policy::Spread, Measure::Slowdown, 1.0),
            (2, two(100.0), Policy::FirstFit, Measure::Slowdown, 2.0),
            (1, two(1.0), Policy::Spread, Measure::MemoryOver, 500.0),
            (2, two(1.0), Policy::Spread, Measure::MemoryOver, 0.0),
            (2, two(1.0), Policy::FirstFit, Measure::Imbalance, 50.0),
            (2, two(1.0), Policy::Spread, Measure::Imbalance, 0.0),
            // 300 s over capacity of 900 s, on one of two GPUs.
            (2, third.clone(), Policy::Spread, Measure::Overcommit, 100.0 / 6.0),
            (2, third.clone(), Policy::LeastLoaded, Measure::Overcommit, 0.0),
            (2, third.clone(), Policy::Spread, Measure::Wait, 0.0),
            (2, third.clone(), Policy::LeastLoaded, Measure::Wait, 5.0 / 3.0),
            (2, third, Policy::LeastLoaded, Measure::Total, 2100.0 / 1800.0),
        ] {
            let found = run(gpus, jobs, policy).of(measure);
            assert!((found - expected).abs() < 1e-6, "{policy:?} {measure:?}: {found}, not {expected}");
        }
    }

    #[test]
    fn load_is_what_jobs_do_that_began_some_seconds_ago() {
        let quiet_and_busy = |arrival| vec![job(0.0, 20, 1.0), job(0.0, 20, 90.0), job(arrival, 20, 50.0)];
        // The third goes beside the quiet one only where load is seen; the busy one has the higher index, so the order
        // of arrival is turned for the second pair.
        let turned = |arrival| vec![job(0.0, 20, 90.0), job(0.0, 20, 1.0), job(arrival, 20, 50.0)];
        for (jobs, policy, slowed) in [
            (turned(60.0), Policy::Spread, false),
            (turned(5.0), Policy::Spread, true),
            (turned(60.0), Policy::SpreadUnmeasured, true),
            (quiet_and_busy(60.0), Policy::SpreadUnmeasured, false),
        ] {
            let slowdown = run(2, jobs, policy).of(Measure::Slowdown);
            assert_eq!(slowdown > 1.0, slowed, "{policy:?} {slowdown}");
        }
    }

    #[test]
    fn jobs_without_a_node_are_stuck() {
        let trace = Trace { gpus: Vec::new(), jobs: Kind::Equal.draw(1, 1).jobs };
        assert_eq!(simulate(&trace, Policy::Spread).err(), Some(Broken::Stuck));
    }
}
