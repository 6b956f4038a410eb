//! What gpushare.conf says about resources per GPU: the CPUs and the memory of its job.

/// The caps in one place of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// `MaxCPUsPerGpu`
    pub cpus: Option<PerGpu>,
    /// `MaxMemPerGpu`, in MiB.
    pub mem: Option<PerGpu>,
}

impl Caps {
    /// Whether there is any cap.
    pub const fn any(&self) -> bool {
        self.cpus.is_some() || self.mem.is_some()
    }

    pub(super) const fn of(&self, amount: Amount) -> Option<&PerGpu> {
        match amount {
            Amount::Cpus => self.cpus.as_ref(),
            Amount::Memory => self.mem.as_ref(),
        }
    }
}

/// A cap for each GPU: `a40:8,h100:16,4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerGpu {
    /// Caps by type.
    pub types: Vec<(String, u64)>,
    /// The cap for all other types; `None` if they have no cap.
    pub others: Option<u64>,
}

impl PerGpu {
    /// The cap for a GPU of this type. A GPU without a type may be any, so the lowest cap counts.
    pub fn of(&self, gres_type: Option<&[u8]>) -> Option<u64> {
        let Some(gres_type) = gres_type else {
            return self.types.iter().map(|(_, cap)| *cap).chain(self.others).min();
        };
        let own = self.types.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(gres_type));
        own.map(|(_, cap)| *cap).or(self.others)
    }
}

/// What a cap limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// CPUs.
    Cpus,
    /// Memory.
    Memory,
}

/// slurm.conf's or a partition's defaults for a job that requests no memory. Without any default, it gets all memory of
/// its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultMemory {
    /// `DefMemPerCPU` or `DefMemPerNode`, which are one number in Slurm: whether it is above 0, if it is set. 0 means
    /// all memory of a node.
    pub of_node: Option<bool>,
    /// `DefMemPerGPU`: whether it is above 0, if it is set.
    pub of_gpu: Option<bool>,
}

impl DefaultMemory {
    /// A partition's defaults; slurm.conf's apply where the partition sets none.
    #[must_use]
    pub fn over(self, conf: DefaultMemory) -> DefaultMemory {
        DefaultMemory { of_node: self.of_node.or(conf.of_node), of_gpu: self.of_gpu.or(conf.of_gpu) }
    }

    /// Whether a job gets a default. `DefMemPerGPU` counts for a job with GPUs, but not for one with only shares.
    #[must_use]
    pub fn is_given(self, has_gpus: bool) -> bool {
        self.of_node == Some(true) || (has_gpus && self.of_gpu == Some(true))
    }
}
