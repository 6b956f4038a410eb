//! Submission: [`request`] (what was asked) → [`grammar`] (what Slurm's GRES strings mean) → [`policy`] (the verdict) →
//! [`message`] (what the user reads). [`counters`] names what is counted of them.

pub mod counters;
pub mod grammar;
pub mod message;
pub mod policy;
pub mod request;
