//! What NVML says about a node's GPUs, as the text that gpushare-nvml prints ([`printed`](super::printed)); `reading`
//! is for those who read it.
//!
//! ```text
//! gpushare-nvml 1
//! limits=no
//! gpu=GPU-9a40c0de minor=0 memory=46068 used=1210 utilization=37 processes=2 outside=0 mode=default
//! fault=GPU-9a40c0de 2 pages wait to be retired
//! process=GPU-9a40c0de 4711 37 2001 4700 123456 7 812
//! end
//! ```
//!
//! Memory is in MiB, utilization in percent; values that a driver doesn't report are omitted. A process has these
//! words: GPU, number, utilization, user, session, start, place, memory.

use crate::proc::running::Running;

/// How gpushare-nvml's error begins if it finds no library.
pub const NO_LIBRARY: &str = "library not found";
/// How it begins if there is a library but no driver.
pub const NO_DRIVER: &str = "driver not loaded";

pub(super) const FIRST_LINE: &str = "gpushare-nvml 1";
pub(super) const LAST_LINE: &str = "end";
/// No more processes of one GPU are printed or read.
pub const MOST_PROCESSES: usize = 256;

/// What NVML reports about all GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The driver can limit GPU memory for a cgroup (r615).
    pub limits: bool,
    /// In NVML's order, which is that of PCI addresses.
    pub gpus: Vec<GpuState>,
}

/// What NVML reports about a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuState {
    /// `GPU-…`
    pub uuid: String,
    /// The N of /dev/nvidiaN.
    pub minor: Option<u32>,
    /// All the memory that programs can have, in MiB.
    pub memory: Option<u32>,
    /// Memory in use, in MiB.
    pub used: Option<u32>,
    /// Utilization in percent.
    pub utilization: Option<u32>,
    /// The processes that compute on it, including MPS clients.
    pub processes: Option<u32>,
    /// Those of them that are neither MPS clients nor MPS servers.
    pub outside: Option<u32>,
    /// The compute mode.
    pub mode: Option<Mode>,
    /// Why the GPU should take no share: an error from which it can't recover by itself.
    pub fault: Option<String>,
    /// The processes, if requested.
    pub running: Vec<Running>,
}

gpushare::names! {
    /// A GPU's compute mode, `nvmlComputeMode_t`.
    pub enum Mode: word {
        /// Any number of processes.
        Default = "default",
        /// One process, such as an MPS server.
        ExclusiveProcess = "exclusive-process",
        /// No processes.
        Prohibited = "prohibited",
    }
}

impl Mode {
    /// Reads its name.
    pub fn read(text: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.word() == text)
    }
}
