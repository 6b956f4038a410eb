//! Chooses the GPU for a share: pure, from the assigned units and, if measured, the load.
//!
//! It excludes GPUs that are unhealthy, held whole or smaller than the share, other users' under `UserMix=deny`, and
//! those where the share doesn't fit. Each of these steps keeps the best of the rest, and the first that leaves only
//! one decides ([`Reason`]):
//!
//! 1. under `UserMix=avoid`: empty or the user's own;
//! 2. least assigned; if load counts, also those with less than the least would have with this share;
//! 3. least load, by the scarcer of memory and utilization, each in percent; among equals by memory, then utilization;
//! 4. least assigned, of those that step 2 treated as equal;
//! 5. fewest users;
//! 6. lowest index.
//!
//! With `Packing=pack` step 2 takes the most assigned, then the smallest GPU, and there is no step 4.
//!
//! It sums units instead of counting jobs, so shares of different sizes stay balanced. Because of step 2, GPUs of one
//! size with equal shares never differ by more than one share, measured or not. With unequal shares, load may decide
//! between GPUs that differ by less than this share, because this share can't even them out further. Load comes after
//! shares because a job shows none in its first seconds: by load alone, all jobs that start together would go to one
//! GPU. docs/dev/simulation.md simulates each of these choices.
//!
//! What a unit stands for:
//!
//! - GPUs with different capacities compare by assigned / capacity: the administrator who set the capacities said what
//!   each GPU is worth.
//! - If GPUs have one capacity and different memory, a larger one counts for more, half by its memory and half not,
//!   since a share is a part of the memory and a part of the computing: 40 GiB beside 80 count three quarters. Memory
//!   counts in eighths of the largest, because GPUs of one type differ by a few MiB, which must not decide.
//!
//! Memory sizes and loads count only if every GPU that isn't held or unhealthy has them: an unmeasured one must look
//! neither idle nor busy. With loads but no sizes, utilization comes before MiB in use.
//!
//! If the share fits nowhere and `Overcommit=allow`, it goes where assigned / capacity is least with it; among equals
//! the steps are the same as for spread. It compares fractions by multiplication in 128 bits: assigned is below 2^65
//! with the share and a weight below 2^37, memory below 2^64, so nothing overflows.

use std::cmp::{Ordering, Reverse};

use crate::config::{NodeConfig, Overcommit, Packing, UserMix};
use crate::nvml::answer::GpuState;

/// A GPU as the choice sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Slurm's index of the GPU.
    pub index: u32,
    /// How many units fill it.
    pub capacity: u32,
    /// Units assigned; they may exceed the capacity where overcommit is allowed.
    pub assigned: u64,
    /// How many users have shares of it.
    pub users: u32,
    /// Whether a user other than the requesting one has a share of it.
    pub foreign: bool,
    /// A job has the whole GPU.
    pub held: bool,
    /// It can take a share.
    pub healthy: bool,
    /// Its total memory in MiB, to weigh GPUs of different types against each other.
    pub memory: Option<u64>,
    /// The measured load, if any.
    pub load: Option<Load>,
}

/// What a GPU is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Memory in use, in MiB.
    pub memory: u64,
    /// Utilization in percent.
    pub utilization: u32,
}

impl Load {
    /// What NVML says, if it says both.
    pub fn of(state: &GpuState) -> Option<Load> {
        Some(Load { memory: state.used?.into(), utilization: state.utilization? })
    }
}

/// The administrator's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementRules {
    /// `Packing`
    pub packing: Packing,
    /// `UserMix`
    pub user_mix: UserMix,
    /// `Overcommit`
    pub overcommit: Overcommit,
}

impl From<&NodeConfig> for PlacementRules {
    fn from(config: &NodeConfig) -> Self {
        PlacementRules { packing: config.packing, user_mix: config.user_mix, overcommit: config.overcommit }
    }
}

/// The GPU for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Choice {
    /// Slurm's index of the GPU.
    pub index: u32,
    /// The share didn't fit on this or any other GPU.
    pub overcommitted: bool,
    /// What distinguished this GPU from the others.
    pub reason: Reason,
}

/// The step that left only one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No other GPU was eligible.
    Only,
    /// The other eligible GPUs have other users' shares.
    UserMix,
    /// Units assigned.
    Assigned,
    /// The GPU's size, under `Packing=pack`.
    Size,
    /// Memory in use and utilization.
    Load,
    /// How many users have shares of it.
    Users,
    /// The GPUs were equal in all of that, and this one has the lowest index.
    Index,
}

/// Why no GPU can take the share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingFits {
    /// No GPU has enough free units, and `Overcommit=refuse`.
    Full,
    /// `UserMix=deny`: all eligible GPUs have other users' shares.
    OtherUsers,
    /// Every GPU is held whole, unhealthy or smaller than the share.
    NoneLeft,
}

/// Chooses among `gpus` for a share of `units` units. The order of `gpus` doesn't matter.
///
/// # Errors
/// Why no GPU can take the share.
pub fn choose(gpus: &[Candidate], units: u32, rules: PlacementRules) -> Result<Choice, NothingFits> {
    let large_enough = |gpu: &&Candidate| gpu.capacity >= units;
    let usable: Vec<&Candidate> =
        gpus.iter().filter(|gpu| gpu.healthy && !gpu.held).filter(large_enough).collect();
    let allowed = |gpu: &&&Candidate| rules.user_mix != UserMix::Deny || !gpu.foreign;
    let fits = |gpu: &&&Candidate| gpu.with(units) <= u128::from(gpu.capacity);
    let measured = Measured::of(&usable);
    let decide = |left: Vec<&Candidate>, overcommitted: bool| {
        let field = Field { left, reason: Reason::Only };
        field.decide(units, rules, &measured, overcommitted)
    };
    let fitting = usable.iter().filter(allowed).filter(fits).copied().collect();
    if let Some(choice) = decide(fitting, false) {
        return Ok(choice);
    }
    match rules.overcommit {
        _ if usable.is_empty() => Err(NothingFits::NoneLeft),
        Overcommit::Refuse if usable.iter().any(|gpu| fits(&gpu)) => Err(NothingFits::OtherUsers),
        Overcommit::Refuse => Err(NothingFits::Full),
        Overcommit::Allow => {
            decide(usable.iter().filter(allowed).copied().collect(), true).ok_or(NothingFits::OtherUsers)
        }
    }
}

impl Candidate {
    /// The units assigned if the share is added.
    fn with(&self, units: u32) -> u128 {
        u128::from(self.assigned) + u128::from(units)
    }
}

/// Which measurements exist for every GPU that is neither held nor unhealthy.
struct Measured {
    /// The largest memory, if GPUs differ only in memory.
    largest: Option<u64>,
    /// All report how much memory they have.
    memory: bool,
    /// All have a load.
    load: bool,
}

impl Measured {
    fn of(usable: &[&Candidate]) -> Measured {
        let first = usable.first().map(|gpu| gpu.capacity);
        let memory = usable.iter().all(|gpu| gpu.memory.is_some_and(|memory| memory > 0));
        let one_capacity = usable.iter().all(|gpu| Some(gpu.capacity) == first);
        let largest = usable.iter().filter_map(|gpu| gpu.memory).max();
        Measured {
            largest: largest.filter(|_| memory && one_capacity),
            memory,
            load: usable.iter().all(|gpu| gpu.load.is_some()),
        }
    }

    /// The GPU's memory in eighths of the largest; the same for all GPUs if memory doesn't count.
    fn eighths(&self, gpu: &Candidate) -> u128 {
        let (Some(largest), Some(memory)) = (self.largest.map(u128::from), gpu.memory) else { return 8 };
        (u128::from(memory) * 8 + largest / 2) / largest.max(1)
    }

    /// What assigned units are divided by: half for computing, which is taken as equal, and half for memory.
    fn weight(&self, gpu: &Candidate) -> u128 {
        u128::from(gpu.capacity) * (8 + self.eighths(gpu))
    }

    /// The scarcer of memory and utilization in whole percent, then memory, then utilization; the same for all GPUs if
    /// load doesn't count.
    fn load(&self, gpu: &Candidate) -> Option<(u128, Fraction, u32)> {
        let load = gpu.load.filter(|_| self.load)?;
        let in_use = u128::from(load.memory);
        let all = gpu.memory.filter(|_| self.memory).map(u128::from);
        let percent = all.map_or(0, |all| in_use * 100 / all);
        let scarcer = percent.max(u128::from(load.utilization));
        Some((scarcer, Fraction::of(in_use, all.unwrap_or(1)), load.utilization))
    }
}

/// The remaining GPUs, and the last step that removed any.
struct Field<'a> {
    left: Vec<&'a Candidate>,
    reason: Reason,
}

impl Field<'_> {
    fn decide(
        mut self,
        units: u32,
        rules: PlacementRules,
        measured: &Measured,
        overcommitted: bool,
    ) -> Option<Choice> {
        let spread = rules.packing == Packing::Spread || overcommitted;
        let filled = |gpu: &Candidate, units| Fraction::of(gpu.with(units), u128::from(gpu.capacity));
        let weighed = |gpu: &Candidate, units| Fraction::of(gpu.with(units), measured.weight(gpu));
        if overcommitted {
            self.keep_least(Reason::Assigned, |gpu| filled(gpu, units));
        }
        if rules.user_mix == UserMix::Avoid {
            self.keep_least(Reason::UserMix, |gpu| gpu.foreign);
        }
        if spread && measured.load {
            let least = self.left.iter().map(|gpu| weighed(gpu, units)).min();
            let near = |gpu: &Candidate| Some(weighed(gpu, 0)) < least || Some(weighed(gpu, units)) == least;
            self.keep(Reason::Assigned, near);
            self.keep_least(Reason::Load, |gpu| measured.load(gpu));
        }
        if spread {
            self.keep_least(Reason::Assigned, |gpu| weighed(gpu, units));
        } else {
            self.keep_least(Reason::Assigned, |gpu| Reverse(filled(gpu, 0)));
            self.keep_least(Reason::Size, |gpu| measured.weight(gpu));
            self.keep_least(Reason::Load, |gpu| measured.load(gpu));
        }
        self.keep_least(Reason::Users, |gpu| gpu.users);
        self.keep_least(Reason::Index, |gpu| gpu.index);
        let reason = self.reason;
        self.left.first().map(|gpu| Choice { index: gpu.index, overcommitted, reason })
    }

    fn keep_least<K: Ord>(&mut self, step: Reason, key: impl Fn(&Candidate) -> K) {
        let least = self.left.iter().map(|gpu| key(gpu)).min();
        self.keep(step, |gpu| Some(key(gpu)) == least);
    }

    fn keep(&mut self, step: Reason, good: impl Fn(&Candidate) -> bool) {
        let before = self.left.len();
        self.left.retain(|gpu| good(gpu));
        if self.left.len() < before {
            self.reason = step;
        }
    }
}

/// A fraction that is compared without division. A `whole` of 0 counts as 1.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    part: u128,
    whole: u128,
}

impl Fraction {
    fn of(part: u128, whole: u128) -> Fraction {
        Fraction { part, whole: whole.max(1) }
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Fraction) -> Ordering {
        (self.part * other.whole).cmp(&(other.part * self.whole))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Fraction) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fraction {}

#[cfg(test)]
mod tests;
