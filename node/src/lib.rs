//! What acts on a node beside the ledger, through other programs: gpushare-nvml is asked what the GPUs are doing, and
//! NVIDIA's MPS daemons are started, told limits and ended. Used by prolog, epilog and the command `gpushare`.
//!
//! What is decided here is decided in the crate `gpushare`; the calls that std lacks are in `unix`, the only unsafe code
//! outside of the rooms that know Slurm.
#![deny(unsafe_code)]

pub mod memory;
pub mod mps;
pub mod nvml;
pub mod program;
mod unix;

pub use unix::keep_files_private;
