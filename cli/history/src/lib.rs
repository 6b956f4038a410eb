//! What `gpushare leaks`, `fit` and `report` need to read months of jobs from accounting: sacct's output as a stream, a
//! progress bar, whether this user sees all jobs, and what jobs held and used of GPUs. Changes and judges nothing.
#![forbid(unsafe_code)]

pub mod hours;
pub mod privacy;
mod progress;
pub mod stream;
pub mod usage;
