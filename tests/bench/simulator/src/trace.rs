//! Traces: a node and the jobs that arrive on it, drawn from a seed. Policies see arrivals, users and shares; what a
//! job really needs of its GPU shows only while it runs.

use crate::random::Random;

/// Units that fill most GPUs.
pub const UNITS: u32 = 80;
/// Memory of most GPUs, in MiB.
const MEMORY: u64 = 24 * 1024;
/// In seconds.
pub const HOUR: f64 = 3600.0;

/// A job with a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Seconds after the trace's begin.
    pub arrival: f64,
    /// Units asked for.
    pub units: u32,
    /// CPUs asked for; only the order of several nodes depends on them.
    pub cpus: u32,
    /// Who asks.
    pub user: u32,
    /// Seconds it takes if nothing slows it down.
    pub work: f64,
    /// Percent of a GPU that it keeps busy then.
    pub utilization: f64,
    /// MiB that it uses.
    pub memory: u64,
}

/// What a GPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuType {
    /// MiB.
    pub memory: u64,
    /// The units that fill it.
    pub units: u32,
}

/// A node and its jobs, in order of arrival.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its GPUs.
    pub gpus: Vec<GpuType>,
    /// What arrives.
    pub jobs: Vec<Job>,
}

/// What a trace is made like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One size; each job is as busy as its share is large.
    Equal,
    /// Five sizes; each job is as busy as its share is large.
    Mixed,
    /// 256 small shares at once, again and again.
    Bursts,
    /// A course: many by day, few by night.
    Course,
    /// One size; what jobs need has nothing to do with it.
    EqualShares,
    /// Pareto durations, lognormal sizes; what jobs need is about what they asked for.
    HeavyCorrelated,
    /// As above, but what jobs need has nothing to do with what they asked for.
    HeavyUncorrelated,
    /// Two GPUs with twice the memory of the other two.
    TwoTypes,
    /// The same, and units are counted by memory: those two have twice the units, too.
    UnitsByMemory,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Equal,
        Kind::Mixed,
        Kind::Bursts,
        Kind::Course,
        Kind::EqualShares,
        Kind::HeavyCorrelated,
        Kind::HeavyUncorrelated,
        Kind::TwoTypes,
        Kind::UnitsByMemory,
    ];

    /// As the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Equal => "equal",
            Kind::Mixed => "mixed",
            Kind::Bursts => "bursts",
            Kind::Course => "course",
            Kind::EqualShares => "equal, loads drawn",
            Kind::HeavyCorrelated => "heavy-tailed, correlated",
            Kind::HeavyUncorrelated => "heavy-tailed, uncorrelated",
            Kind::TwoTypes => "two types of GPU",
            Kind::UnitsByMemory => "units by memory",
        }
    }

    fn gpus(self) -> Vec<GpuType> {
        let usual = GpuType { memory: MEMORY, units: UNITS };
        let large = match self {
            Kind::UnitsByMemory => GpuType { memory: 2 * MEMORY, units: 2 * UNITS },
            _ => GpuType { memory: 2 * MEMORY, ..usual },
        };
        match self {
            Kind::Bursts => vec![usual; 8],
            Kind::TwoTypes | Kind::UnitsByMemory => vec![usual, large, usual, large],
            _ => vec![usual; 4],
        }
    }

    /// Makes the trace of that many jobs.
    pub fn draw(self, count: usize, seed: u64) -> Trace {
        let mut random = Random::new(seed + ((self as u64) << 32));
        let mut clock = 0.0;
        let draw = |number| {
            clock += self.pause(&mut random, number, clock);
            self.job(&mut random, clock)
        };
        Trace { gpus: self.gpus(), jobs: (0..count).map(draw).collect() }
    }

    /// Seconds until the next job arrives: as often as keeps GPUs well filled, with now and then a queue.
    fn pause(self, random: &mut Random, number: usize, clock: f64) -> f64 {
        match self {
            Kind::Bursts if number.is_multiple_of(256) => f64::from(u32::from(number > 0)) * 3.0 * HOUR,
            Kind::Bursts => 0.0,
            Kind::Course => {
                let day = (8.0..18.0).contains(&(clock / HOUR).rem_euclid(24.0));
                random.exponential(if day { 360.0 } else { 2400.0 })
            }
            Kind::Equal => random.exponential(300.0),
            Kind::EqualShares => random.exponential(400.0),
            Kind::Mixed => random.exponential(600.0),
            Kind::TwoTypes => random.exponential(220.0),
            Kind::UnitsByMemory => random.exponential(480.0),
            Kind::HeavyCorrelated | Kind::HeavyUncorrelated => random.exponential(420.0),
        }
    }

    fn job(self, random: &mut Random, arrival: f64) -> Job {
        let units = self.units(random);
        let work = match self {
            Kind::HeavyCorrelated | Kind::HeavyUncorrelated => {
                random.pareto(0.3 * HOUR, 1.5).min(72.0 * HOUR)
            }
            Kind::Bursts | Kind::Course => random.lognormal(HOUR, 0.6),
            _ => random.exponential(HOUR),
        };
        let (utilization, memory) = self.need(random, f64::from(units) / f64::from(UNITS));
        let memory = mib(memory.clamp(0.01, 0.95) * MEMORY as f64);
        let user = random.one_of(&[2001, 2002, 2003, 2004, 2005, 2006, 2007, 2008], 2001);
        Job { arrival, units, cpus: 1, user, work, utilization: 100.0 * utilization.clamp(0.01, 1.0), memory }
    }

    /// Utilization and memory, as parts of a GPU of 24 GiB.
    fn need(self, random: &mut Random, share: f64) -> (f64, f64) {
        match self {
            Kind::Equal | Kind::Mixed => (share, share),
            Kind::TwoTypes | Kind::UnitsByMemory => {
                (share * random.lognormal(0.45, 1.0), share * random.lognormal(0.9, 0.7))
            }
            Kind::HeavyCorrelated => (share * random.lognormal(0.9, 0.5), share * random.lognormal(0.7, 0.5)),
            Kind::HeavyUncorrelated => (random.lognormal(0.15, 1.0), random.lognormal(0.12, 0.8)),
            _ => (share * random.lognormal(0.6, 1.0), share * random.lognormal(0.5, 0.7)),
        }
    }

    fn units(self, random: &mut Random) -> u32 {
        match self {
            Kind::Equal | Kind::EqualShares => 20,
            Kind::Bursts => 2,
            Kind::Course => random.one_of(&[16, 20], 16),
            Kind::Mixed => random.one_of(&[16, 20, 32, 40, 80], 16),
            Kind::TwoTypes => random.one_of(&[8, 10, 16, 20], 16),
            Kind::UnitsByMemory => random.one_of(&[8, 16, 20, 40, 100], 16),
            Kind::HeavyCorrelated | Kind::HeavyUncorrelated => {
                let drawn = random.lognormal(12.0, 0.8);
                (1..=UNITS).find(|units| f64::from(*units) >= drawn).unwrap_or(UNITS)
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a GPU has")]
fn mib(memory: f64) -> u64 {
    memory as u64
}
