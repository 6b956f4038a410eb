//! The QOSes that gpushare.conf defines: what the file says about them, what Slurm's database has, and the changes that
//! make the database match the file.
//!
//! A record `QOS=` with an owner or limits is a [`ManagedQos`](crate::config::ManagedQos). What sacctmgr prints
//! becomes an [`Actual`]; [`check`] says which records are impossible on this cluster, and [`plan()`] gives the
//! [`Change`]s in order, each with sacctmgr's arguments. [`stale`] says which changes slurmctld has missed. [`table`]
//! has the users' table, [`lending`] who has whose GPUs. Nothing here runs a program.
#![forbid(unsafe_code)]

pub mod change;
pub mod check;
pub mod config;
mod error;
pub mod foreign;
pub mod lending;
pub mod plan;
pub mod stale;
pub mod state;
pub mod table;
pub mod tree;
pub mod usage;

pub use change::Change;
pub use check::{Cluster, Finding};
pub use error::ReadError;
pub use plan::{Leftover, Obstacle, Plan, plan};
pub use state::Actual;

/// The beginning of a QOS's description if it comes from a gpushare.conf; then follows the name of that file's cluster.
/// Only a QOS with our own cluster's mark is ever removed, because a database has the QOSes of all its clusters.
pub const MARK: &str = "gpushare@";

/// The word after that in the description of a QOS that `Burst` makes.
const BURST: &str = "burst";

/// How the TRES of a GPU type begins.
pub const TYPE: &str = "gres/gpu:";

/// The account above all others.
pub const ROOT: &str = "root";

/// The lines of output from sacctmgr or scontrol, without empty ones.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}
