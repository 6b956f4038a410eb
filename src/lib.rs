//! What both sides of gpushare share, and the rules by which slurmctld's plugin decides.
//!
//! - [`config`]: gpushare.conf, the administrator's rules for both sides.
//! - [`submit`]: whether a request for GPUs may pass, and what its user reads.
//! - [`text`]: Slurm's formats that more than one room reads.
//! - [`counter_file`] and [`root_file`]: files that both sides keep.
//! - [`errors`], [`names`] and [`word`]: how error enums, enums with names, and settings that are one of a few words
//!   are declared.
//!
//! What happens on a node is in the crate `gpushare-node`, groups' QOSes in the accounting database are in
//! `gpushare-qos`, and the safe layer over Slurm is `gpushare-slurm`. Nothing here knows Slurm's structures, reads the
//! clock or the process environment, or is unsafe; paths are parameters.
#![forbid(unsafe_code)]

pub mod config;
pub mod counter_file;
mod error;
pub mod root_file;
pub mod submit;
pub mod text;
pub mod word;
