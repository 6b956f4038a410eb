//! What both sides of gpushare share, and the rules by which slurmctld's plugin decides.
//!
//! - [`config`]: gpushare.conf, the administrator's rules for both sides.
//! - [`submit`]: whether a request for GPUs may pass, and what its user sees.
//! - [`text`]: Slurm's formats that several crates parse.
//! - [`mend`]: what a test build can leave out.
//! - [`counter_file`] and [`root_file`]: files that both sides keep; [`root_folder`]: directories.
//! - [`errors`], [`names`] and [`word`]: declare error enums, enums with names, and settings that are one of a few
//!   words.
//!
//! The crate `gpushare-node` is for what happens on a node, `gpushare-qos` for groups' QOSes in the accounting
//! database, and `gpushare-slurm` is the safe layer over Slurm. Nothing here knows Slurm's structures, reads the clock
//! or the process environment, or is unsafe; paths are parameters.
#![forbid(unsafe_code)]

pub mod config;
pub mod counter_file;
mod error;
pub mod mend;
pub mod root_file;
pub mod root_folder;
pub mod submit;
pub mod text;
pub mod word;
