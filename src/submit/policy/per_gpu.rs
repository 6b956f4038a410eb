//! What gpushare.conf says about resources per GPU: the CPUs and the memory of its job, and the GPU memory of a share's
//! unit.

/// The caps of one place in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// `MaxCPUsPerGpu`
    pub cpus: Option<PerGpu>,
    /// `MaxMemPerGpu`, in MiB.
    pub mem: Option<PerGpu>,
}

impl Caps {
    /// Whether there is one.
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

/// So many for each GPU: `a40:8,h100:16,4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerGpu {
    /// By type.
    pub types: Vec<(String, u64)>,
    /// For all other types; without it they have no cap.
    pub others: Option<u64>,
}

impl PerGpu {
    /// For a GPU of this type. One of no type may turn out to be any, so the lowest counts.
    pub fn of(&self, gres_type: Option<&[u8]>) -> Option<u64> {
        let Some(gres_type) = gres_type else {
            return self.types.iter().map(|(_, cap)| *cap).chain(self.others).min();
        };
        let own = self.types.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(gres_type));
        own.map(|(_, cap)| *cap).or(self.others)
    }
}

/// What a cap is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// CPUs.
    Cpus,
    /// Memory.
    Memory,
}

/// `MemoryGRES`, with what makes units of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGres {
    /// Its name, such as `gpumem`.
    pub name: String,
    /// `MemPerUnit`, in MiB, at least 1.
    pub mem_per_unit: u64,
    /// `UnitsPerGpu` by type, where it is given so.
    pub types: Vec<(String, u64)>,
}

/// Which defaults for a job that names no memory slurm.conf or a partition has. Without any it gets all of its nodes'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultMemory {
    /// `DefMemPerCPU` or `DefMemPerNode`, which are one number: whether it is more than 0, if it is said. 0 is all of a
    /// node's memory.
    pub of_node: Option<bool>,
    /// `DefMemPerGPU`: whether it is more than 0, if it is said.
    pub of_gpu: Option<bool>,
}

impl DefaultMemory {
    /// A partition's own; what it doesn't say slurm.conf does.
    #[must_use]
    pub fn over(self, conf: DefaultMemory) -> DefaultMemory {
        DefaultMemory { of_node: self.of_node.or(conf.of_node), of_gpu: self.of_gpu.or(conf.of_gpu) }
    }

    /// Whether a job is given some; `DefMemPerGPU` counts for one with GPUs, not for one with shares alone.
    #[must_use]
    pub fn is_given(self, has_gpus: bool) -> bool {
        self.of_node == Some(true) || (has_gpus && self.of_gpu == Some(true))
    }
}
