//! Jobs as sacct prints them, day by day.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::LeaksError;
use gpushare_history::stream;
use gpushare_period::Period;
use gpushare_slurm_text::sacct::{self, Job, RUNS};

/// Bytes that no user could know when the jobs were submitted. The first one is rare in command lines.
fn delimiter() -> Vec<u8> {
    format!("\x1f{:016x}", RandomState::new().build_hasher().finish()).into_bytes()
}

/// Shows every run of every job in the period, each once. Returns the number of jobs that were read, and of records
/// that can't be read.
///
/// # Errors
/// sacct fails.
pub fn read(period: Period, mut show: impl FnMut(&Job)) -> Result<(u64, u64), LeaksError> {
    let delimiter = delimiter();
    let option = format!("--delimiter={}", String::from_utf8_lossy(&delimiter));
    let mut read = 0;
    let unread = stream::days(period, |day, seen| {
        let take = |job: &Job| {
            seen(read);
            // A job is in the answer for every day on which it ran.
            let is_first = |start| start < day.end && (start >= day.start || day.start == period.start);
            if job.start.is_some_and(is_first) {
                read += 1;
                show(job);
            }
        };
        stream::read(RUNS, &[option.as_str()], day, |output| {
            sacct::read(output, &delimiter, take).map_err(LeaksError::Sacct)
        })
    })?;
    Ok((read, unread))
}
