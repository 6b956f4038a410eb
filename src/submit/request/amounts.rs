//! The CPUs and the memory that a job requests directly. Those per task and per GPU are in the request itself.

/// The job's values; "not set" is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPUs of the whole job: tasks times CPUs, as sbatch sends them; in an update, `NumCPUs`.
    pub min_cpus: Option<u32>,
    /// `--mincpus`
    pub cpus_per_node: Option<u16>,
    /// `--ntasks-per-socket`
    pub ntasks_per_socket: Option<u16>,
    /// `--mem` or `--mem-per-cpu`
    pub memory: Option<Memory>,
}

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

impl Amounts {
    /// These values, or the existing ones where these are not set.
    #[must_use]
    pub fn over(&self, existing: &Amounts) -> Amounts {
        Amounts {
            min_cpus: self.min_cpus.or(existing.min_cpus),
            cpus_per_node: self.cpus_per_node.or(existing.cpus_per_node),
            ntasks_per_socket: self.ntasks_per_socket.or(existing.ntasks_per_socket),
            memory: self.memory.or(existing.memory),
        }
    }
}
