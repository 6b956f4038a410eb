//! What `gpushare leaks` and `fit` need to read months of jobs from accounting: sacct's output as a stream, a progress
//! bar, whether this user sees all jobs, and what jobs used of their GPUs. Changes nothing, and judges nothing.
#![forbid(unsafe_code)]

pub mod privacy;
pub mod progress;
pub mod stream;
pub mod usage;
