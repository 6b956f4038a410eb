//! Shares of a public trace: what tasks of Alibaba's cluster asked for, and jobs drawn from them.
//!
//! The sizes are those of 232 tasks in a row (openb-pod-1447 to -1678) of openb_pod_list_gpushare100.csv in
//! github.com/alibaba/clusterdata, cluster-trace-gpu-v2023. Its authors drew that file at random from the 3,078 shares
//! among the trace's 8,152 tasks (Weng et al., "Beware of Fragmentation", USENIX ATC '23). Only counts are here.
//! Durations are lognormal with the trace's median and mean, 539 s and 5.9 h, and are cut to a minute and a day.

use crate::random::Random;
use crate::trace::{HOUR, Job};

/// Units that fill a GPU: the trace has thousandths.
pub const UNITS: u32 = 1000;
/// Thousandths of a GPU, CPUs (rounded up), and how many of the tasks asked for them.
const ASKED: [(u32, u32, usize); 28] = [
    (50, 6, 1),
    (110, 4, 2),
    (110, 8, 1),
    (160, 4, 6),
    (160, 6, 2),
    (220, 4, 2),
    (220, 8, 2),
    (230, 4, 11),
    (230, 8, 1),
    (270, 5, 1),
    (290, 1, 1),
    (320, 1, 1),
    (320, 4, 16),
    (320, 8, 6),
    (330, 4, 1),
    (350, 4, 1),
    (370, 5, 4),
    (460, 6, 6),
    (460, 12, 1),
    (470, 8, 30),
    (470, 12, 22),
    (480, 4, 3),
    (550, 5, 3),
    (590, 4, 6),
    (650, 8, 1),
    (650, 12, 18),
    (810, 4, 79),
    (810, 5, 4),
];
const MEDIAN: f64 = 539.0;
const MEAN: f64 = 5.9 * HOUR;

/// Makes a trace of that many jobs, which together ask for `load` times what `gpus` GPUs hold from the first arrival to
/// the last. The same seed gives the same jobs at any load, closer together or further apart.
pub fn draw(count: usize, seed: u64, gpus: usize, load: f64) -> Vec<Job> {
    let mut random = Random::new(seed);
    let mut clock = 0.0;
    let mut jobs: Vec<Job> = (0..count)
        .map(|_| {
            clock += random.exponential(1.0);
            job(&mut random, clock)
        })
        .collect();
    let asked: f64 = jobs.iter().map(|job| job.work * f64::from(job.units)).sum();
    let seconds = asked / (load * gpus as f64 * f64::from(UNITS));
    jobs.iter_mut().for_each(|job| job.arrival *= seconds / clock);
    jobs
}

/// The same jobs, each with the smallest of `sizes` that is enough. They ask for more then than their load says.
pub fn rounded(mut jobs: Vec<Job>, sizes: &[u32]) -> Vec<Job> {
    for job in &mut jobs {
        job.units = sizes.iter().copied().filter(|size| *size >= job.units).min().unwrap_or(job.units);
    }
    jobs
}

fn job(random: &mut Random, arrival: f64) -> Job {
    let mut at = random.below(ASKED.iter().map(|(_, _, tasks)| tasks).sum());
    let asked = ASKED.iter().find(|(_, _, tasks)| {
        let found = at < *tasks;
        at = at.saturating_sub(*tasks);
        found
    });
    let (units, cpus, _) = asked.copied().unwrap_or_default();
    let sigma = (2.0 * (MEAN / MEDIAN).ln()).sqrt();
    // From a minute to a day, as few jobs of some days would decide over everything.
    let work = random.lognormal(MEDIAN, sigma).clamp(60.0, 24.0 * HOUR);
    Job { arrival, units, cpus, user: 1, work, utilization: f64::from(units) / 10.0, memory: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_as_the_trace_says() {
        let jobs = draw(20_000, 1, 32, 0.8);
        let part =
            |is: fn(u32) -> bool| jobs.iter().filter(|job| is(job.units)).count() as f64 / jobs.len() as f64;
        // Of all 3,078: 48, 35 and 24 %.
        for (found, expected) in [
            (part(|units| units > UNITS / 2), 0.48),
            (part(|units| units == 810), 0.35),
            (part(|units| units == 470), 0.22),
        ] {
            assert!((found - expected).abs() < 0.02, "{found} {expected}");
        }
    }

    #[test]
    fn a_load_is_what_jobs_ask_for_of_all_gpus_until_the_last_arrives() {
        let jobs = draw(500, 7, 8, 0.6);
        let asked: f64 = jobs.iter().map(|job| job.work * f64::from(job.units)).sum();
        let until = jobs.last().map_or(0.0, |job| job.arrival);
        assert!((asked / until / 8000.0 - 0.6).abs() < 1e-9);
        assert_eq!(jobs, draw(500, 7, 8, 0.6), "a seed gives the same jobs");
    }

    #[test]
    fn sizes_are_rounded_up_and_never_down() {
        let size = |units| {
            let mut jobs = draw(1, 1, 4, 0.5);
            jobs.iter_mut().for_each(|job| job.units = units);
            rounded(jobs, &[250, 500]).first().map(|job| job.units)
        };
        assert_eq!([110, 250, 290, 810].map(size), [250, 250, 500, 810].map(Some));
        assert_eq!(rounded(draw(50, 7, 8, 0.6), &[]), draw(50, 7, 8, 0.6));
    }
}
