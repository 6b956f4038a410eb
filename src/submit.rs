//! Submission: [`request`] (what was requested) → [`grammar`] (what Slurm's GRES strings mean) → [`policy`] (the
//! verdict) → [`message`] (what the user sees). [`log_line`] is the line in the log; [`counters`] names the counts.
//! [`whole_nodes`]: what only limits in the database prevent.

pub mod counters;
pub mod grammar;
pub mod log_line;
pub mod message;
pub mod policy;
pub mod request;
pub mod whole_nodes;
