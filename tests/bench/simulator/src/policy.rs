//! Policies that are compared: gpushare's own code, Slurm's two ways of picking a GPU for a share, and simple ones.

use std::cmp::Ordering;

use gpushare_node::choose::{Candidate, PlacementRules, choose};
use gpushare_node::config::{Overcommit, Packing, UserMix};

use crate::random::Random;

/// Who picks the GPU, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// gpushare, `Packing=spread`, with the load that NVML shows.
    Spread,
    /// The same from the ledger alone.
    SpreadUnmeasured,
    /// gpushare, `Packing=pack`, with load.
    Pack,
    /// What no site can have: gpushare as [`Policy::Spread`], with jobs that wait as they do where Slurm picks.
    SpreadWaiting,
    /// Slurm: the first GPU on which the share fits (22.05: cons_common/gres_select_filter.c:979-1070).
    FirstFit,
    /// Slurm with `LL_SHARED_GRES`: the greatest fraction of shares free (26.05: gres_select_filter.c:374,412).
    LeastLoaded,
    /// SURF's prolog: the fewest jobs.
    FewestJobs,
    /// Any on which the share fits.
    Random,
    /// The next on which the share fits.
    RoundRobin,
}

impl Policy {
    /// All of them, gpushare first.
    pub const ALL: [Policy; 9] = [
        Policy::Spread,
        Policy::SpreadUnmeasured,
        Policy::Pack,
        Policy::SpreadWaiting,
        Policy::LeastLoaded,
        Policy::FirstFit,
        Policy::FewestJobs,
        Policy::RoundRobin,
        Policy::Random,
    ];

    /// As the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Spread => "gpushare",
            Policy::SpreadUnmeasured => "gpushare without load",
            Policy::Pack => "gpushare, pack",
            Policy::SpreadWaiting => "gpushare, if jobs waited",
            Policy::FirstFit => "Slurm, first fit",
            Policy::LeastLoaded => "Slurm, LL_SHARED_GRES",
            Policy::FewestJobs => "fewest jobs",
            Policy::Random => "random",
            Policy::RoundRobin => "round robin",
        }
    }

    /// slurmctld knows the GPUs: a job waits until one has its units free.
    pub fn waits_for_one_gpu(self) -> bool {
        matches!(self, Policy::SpreadWaiting | Policy::FirstFit | Policy::LeastLoaded)
    }
}

/// A policy at work: some remember something.
pub struct Picker {
    policy: Policy,
    random: Random,
    turn: usize,
}

impl Picker {
    /// At the begin of a trace.
    pub fn new(policy: Policy) -> Picker {
        Picker { policy, random: Random::new(1), turn: 0 }
    }

    /// The GPU for a share and whether it's too full for it, or none if the job must wait. `jobs` is how many each GPU
    /// has.
    pub fn pick(&mut self, gpus: &[Candidate], jobs: &[usize], units: u32) -> Option<(usize, bool)> {
        let fits = |at: usize| {
            gpus.get(at).is_some_and(|gpu| gpu.assigned + u64::from(units) <= u64::from(gpu.capacity))
        };
        let fitting: Vec<usize> = (0..gpus.len()).filter(|at| fits(*at)).collect();
        let any = if fitting.is_empty() { (0..gpus.len()).collect() } else { fitting.clone() };
        let at = match self.policy {
            Policy::Spread | Policy::SpreadUnmeasured | Policy::Pack | Policy::SpreadWaiting => {
                let waits = self.policy.waits_for_one_gpu();
                let overcommit = if waits { Overcommit::Refuse } else { Overcommit::Allow };
                let packing = if self.policy == Policy::Pack { Packing::Pack } else { Packing::Spread };
                let rules = PlacementRules { packing, user_mix: UserMix::Allow, overcommit };
                let choice = choose(gpus, units, rules).ok()?;
                let at = gpus.iter().position(|gpu| gpu.index == choice.index)?;
                return Some((at, choice.overcommitted));
            }
            Policy::FirstFit => *fitting.first()?,
            Policy::LeastLoaded => {
                let part =
                    |at: &usize| gpus.get(*at).map(|gpu| gpu.assigned as f64 / f64::from(gpu.capacity));
                fitting
                    .iter()
                    .copied()
                    .min_by(|a, b| part(a).partial_cmp(&part(b)).unwrap_or(Ordering::Equal))?
            }
            Policy::FewestJobs => (0..gpus.len()).min_by_key(|at| jobs.get(*at))?,
            Policy::Random => self.random.one_of(&any, 0),
            Policy::RoundRobin => {
                let from = |at: &usize| (*at + gpus.len() - self.turn) % gpus.len().max(1);
                any.iter().copied().min_by_key(from)?
            }
        };
        self.turn = (at + 1) % gpus.len().max(1);
        Some((at, !fits(at)))
    }
}
