//! What happens on a node: which GPU a job's share gets, what the job may open there, and its MPS daemon.
//!
//! - [`job`] (what slurmd says about a job) → `allocation` (what it may have) → [`gpu`] (the node's GPUs) → [`choose`]
//!   (one of them) → [`ledger`] (which job is on which GPU, kept in /run) → [`environment`] and [`fence`] (what the job
//!   gets and may open). [`place`] is the pipeline of these.
//! - [`config`]: what gpushare.conf says about nodes.
//! - [`mps`]: the MPS daemon that serves a share. [`memory`]: the limit of a whole job's GPU memory.
//! - [`nvml`]: what the GPUs are doing, through the program gpushare-nvml. [`foreign`]: processes that don't belong on
//!   a GPU.
//! - [`proc`]: what /proc shows about a process. [`exec`]: other programs, run without a shell and with a deadline;
//!   [`squeue`] is one of them. [`supervise`]: work in a child process, for a bounded time.
//!
//! Only `unix`, `fence/bpf` and `fence/access` have unsafe code: kernel calls that std lacks.
#![deny(unsafe_code)]

mod allocation;
pub mod choose;
pub mod config;
pub mod environment;
pub mod exec;
#[cfg(test)]
mod fake;
pub mod fence;
pub mod foreign;
pub mod gpu;
pub mod job;
pub mod ledger;
pub mod memory;
pub mod mps;
pub mod nvml;
pub mod place;
pub mod proc;
pub mod squeue;
pub mod supervise;
mod unix;

pub use gpushare::root_folder::user_id;
pub use unix::keep_files_private;
