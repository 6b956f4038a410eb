//! The memory that a job requests directly.

/// Memory in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `--mem`; 0 means all of a node's memory.
    PerNode(u64),
    /// `--mem-per-cpu`
    PerCpu(u64),
}

/// The flag with which Slurm marks memory for each CPU (slurm.h, `MEM_PER_CPU`).
const PER_CPU: u64 = 1 << 63;

impl Memory {
    /// From Slurm's number. Slurm treats `--mem-per-cpu=0` as `--mem=0`.
    pub const fn of(number: u64) -> Memory {
        match number & !PER_CPU {
            0 => Memory::PerNode(0),
            of_cpu if number & PER_CPU != 0 => Memory::PerCpu(of_cpu),
            of_node => Memory::PerNode(of_node),
        }
    }
}
