//! What gpushare decides: whether a request may pass under a QOS, and which GPU of a node a job's share goes to.
//!
//! - Submit side: [`request`] (what was asked) → [`grammar`] (what Slurm's GRES strings mean) → [`policy`] (the
//!   verdict) → [`message`] (what the user reads).
//! - Node side: [`job`] (what slurmd says of a job) → [`claim`] (what it may have) → [`device`] (the node's GPUs) → [`placement`] (the choice) →
//!   [`ledger`] (who is on which GPU, kept in /run) → [`environment`] and [`fence`] (what the job gets and may open).
//!   [`load`] is what NVML says of the GPUs, [`mps`] which MPS daemon serves a share, [`dmem`] the kernel's limit of its
//!   memory; [`process`] is what /proc shows; [`node`] is the pipeline of these.
//! - What happened is counted by either side in a file of its own ([`tally`], [`verdicts`]), for `gpushare metrics`.
//! - Both read one [`config`]. It has contributors' [`shares`] of the cluster too, which the administrator's command makes
//!   QOSes of Slurm's database.
//!
//! Nothing here knows Slurm's structures, reads the clock or the process environment, or is unsafe; paths are
//! parameters. The safe layer over Slurm is the crate `gpushare-slurm`.
#![forbid(unsafe_code)]

pub mod claim;
pub mod config;
pub mod device;
pub mod dmem;
pub mod environment;
pub mod fence;
pub mod grammar;
pub mod job;
pub mod ledger;
pub mod load;
pub mod message;
pub mod mps;
pub mod node;
pub mod node_gres;
pub mod pattern;
pub mod placement;
pub mod policy;
pub mod process;
pub mod request;
pub mod shares;
pub mod tally;
pub mod time;
pub mod verdicts;
