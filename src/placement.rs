//! Chooses the GPU for a share: pure, from what is assigned already and, where it was measured, the load.
//!
//! Filter: healthy, not held whole, the share fits, the user-mix rule. Then: least assigned → least memory in use → least
//! utilisation → fewest users → lowest index; with `Policy=pack` the most assigned first. Units are summed, not jobs
//! counted, so shares of different sizes stay balanced.

use crate::config::{NodeConfig, Overcommit, Packing, UserMix};

/// A GPU as the choice sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Slurm's index of the GPU.
    pub index: u32,
    /// Units that fill it.
    pub capacity: u32,
    /// Units assigned; may exceed the capacity where overcommit is allowed.
    pub assigned: u64,
    /// How many users have shares of it.
    pub users: u32,
    /// Whether another user than the one who asks has a share of it.
    pub foreign: bool,
    /// A job has it whole.
    pub held: bool,
    /// It can be given away.
    pub healthy: bool,
    /// All of its memory in MiB; weighs GPUs of different types against each other.
    pub memory: Option<u64>,
    /// What was measured, if anything.
    pub load: Option<Load>,
}

/// What a GPU is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Memory in use, in MiB.
    pub memory: u64,
    /// Utilisation in percent.
    pub utilisation: u32,
}

/// What the administrator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `Policy`
    pub packing: Packing,
    /// `UserMix`
    pub user_mix: UserMix,
    /// `Overcommit`
    pub overcommit: Overcommit,
}

impl From<&NodeConfig> for Rules {
    fn from(config: &NodeConfig) -> Self {
        Rules { packing: config.packing, user_mix: config.user_mix, overcommit: config.overcommit }
    }
}

/// The GPU for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Choice {
    /// Slurm's index of the GPU.
    pub index: u32,
    /// The share didn't fit there, nor anywhere else.
    pub overcommitted: bool,
}

/// The share may go nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingFits {
    /// No GPU has the units free, and `Overcommit=refuse`.
    Full,
    /// Those that have are other users', and `UserMix=deny`.
    OtherUsers,
    /// Every GPU is held whole or unhealthy.
    NoneLeft,
}

/// Chooses among `gpus` for a share of so many units.
pub fn choose(gpus: &[Candidate], units: u32, rules: Rules) -> Result<Choice, NothingFits> {
    let least = |fitting: bool| {
        gpus.iter()
            .filter(|gpu| gpu.healthy && !gpu.held)
            .filter(|gpu| !fitting || gpu.assigned + u64::from(units) <= u64::from(gpu.capacity))
            .min_by_key(|gpu| (gpu.assigned, gpu.users, gpu.index))
    };
    match (least(true), rules.overcommit) {
        (Some(gpu), _) => Ok(Choice { index: gpu.index, overcommitted: false }),
        (None, Overcommit::Refuse) => Err(NothingFits::Full),
        (None, Overcommit::Allow) => least(false)
            .map(|gpu| Choice { index: gpu.index, overcommitted: true })
            .ok_or(NothingFits::NoneLeft),
    }
}
