//! The QOSes that gpushare.conf defines: what the file says about them, what Slurm's database has, and the changes that
//! make the database match the file.
//!
//! A record `QOS=` with an owner or limits is a [`ManagedQos`](gpushare::config::ManagedQos). What sacctmgr prints
//! becomes an [`Actual`]; [`check`] says which records are impossible on this cluster, and [`plan()`] gives the
//! [`Change`]s in order, each with sacctmgr's arguments. [`stale`] says which changes slurmctld has missed. [`table`]
//! has the users' table. Nothing here runs a program.
#![forbid(unsafe_code)]

pub mod change;
pub mod check;
mod error;
pub mod foreign;
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

/// What a QOS's description begins with if a gpushare.conf has it; then comes the cluster whose file that is. Only a
/// QOS with our own cluster's mark is ever removed: a database has the QOSes of all its clusters.
pub const MARK: &str = "gpushare@";

/// What the TRES of a type of GPU begins with.
const TYPE: &str = "gres/gpu:";

/// The account above all others.
pub const ROOT: &str = "root";

/// What sacctmgr or scontrol printed, without empty lines.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}
