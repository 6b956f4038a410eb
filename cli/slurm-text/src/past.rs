//! What accounting has of single jobs, as sacct prints it.

use crate::{Question, Tres, columns};

/// Asks for what [`ended`] reads; the caller adds which job.
pub const ENDED: Question = ("sacct", &["-nPX", "-o", "jobid,user,state,end"]);

/// Asks for a job's time limit; the caller adds which job.
pub const TIME: Question = ("sacct", &["-nPX", "-o", "timelimit"]);

/// What it says of a waiting job that was submitted without one.
pub const NO_TIME: &str = "Partition_Limit";

/// Asks for what [`spent`] reads of the last 30 days; the caller adds which jobs.
pub const SPENT: Question =
    ("sacct", &["-anPXT", "-S", "now-30days", "-E", "now", "-o", "user,elapsedraw,alloctres"]);

/// A job's user, for how many seconds it ran, and what it had.
pub fn spent(line: &str) -> Option<(&str, u64, Tres)> {
    let [user, seconds, given] = columns(line).collect::<Vec<_>>().try_into().ok()?;
    Some((user, seconds.parse().ok()?, Tres::read(given)))
}

/// A job's name, its user, its state and when it ended.
pub fn ended(line: &str) -> Option<[&str; 4]> {
    columns(line).collect::<Vec<_>>().try_into().ok()
}
