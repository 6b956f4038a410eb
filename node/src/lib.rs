//! What acts on a node beside the ledger, through other programs: gpushare-nvml is asked what the GPUs are doing, and
//! NVIDIA's MPS daemons are started, told limits and ended. Used by prolog, epilog and the command `gpushare`.
//!
//! What is decided here is decided in the crate `gpushare`; the calls that std lacks are in `unix`, the only unsafe code
//! outside of the rooms that know Slurm.
#![deny(unsafe_code)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub mod memory;
pub mod mps;
pub mod nvml;
pub mod program;
pub mod squeue;
mod unix;

pub use unix::keep_files_private;

/// The user as whom this process acts.
#[must_use]
#[doc(alias = "geteuid")]
pub fn user_id() -> Option<u32> {
    Some(Path::new("/proc/self").metadata().ok()?.uid())
}
