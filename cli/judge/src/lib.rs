//! What the policy of slurmctld's plugin says of options: read as sbatch reads them (`options`, `table`, `submission`),
//! checked with what sacctmgr prints (`accounting`); `past` does that for jobs that accounting has. Submits nothing.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod options;
pub mod past;
pub mod submission;
mod table;
mod time;
