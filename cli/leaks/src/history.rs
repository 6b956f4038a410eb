//! Where jobs come from: sacct, or a file with an earlier dump of its output.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, Read};
use std::path::Path;

use super::LeaksError;
use super::dump::{self, Reader, Writer};
use super::source::Facts;
use gpushare_history::progress::Progress;
use gpushare_history::stream;
use gpushare_period::Period;
use gpushare_slurm_text::sacct::{self, Job, RUNS};

/// Bytes that no user could know when the jobs were submitted. The first one is rare in command lines.
fn delimiter() -> Vec<u8> {
    format!("\x1f{:016x}", RandomState::new().build_hasher().finish()).into_bytes()
}

/// Shows every run of every job in the period, each once. With `save`, writes those with GPUs there, too. Returns the
/// number of jobs that were read, and of records that can't be read.
///
/// # Errors
/// sacct fails, or the file can't be written.
pub fn live(
    facts: &Facts,
    save: Option<&Path>,
    mut show: impl FnMut(&Job),
) -> Result<(u64, u64), LeaksError> {
    let delimiter = delimiter();
    let mut writer = save.map(|path| Writer::new(path, facts, &delimiter)).transpose()?;
    let (mut progress, mut read, mut unread) = (Progress::start(), 0, 0);
    let days: Vec<Period> = facts.period.days().collect();
    for (done, day) in (0..).zip(&days) {
        unread += ask(*day, &delimiter, |job, record| {
            progress.at(done, days.len() as u64, read);
            // A job is in the answer for every day on which it ran.
            let began = job
                .start
                .is_some_and(|start| (day.start..day.end).contains(&start) || (done == 0 && start < day.end));
            if !began {
                return Ok(());
            }
            read += 1;
            show(job);
            match &mut writer {
                Some(writer) if job.has_gpus() => Ok(writer.job(record)?),
                _ => Ok(()),
            }
        })?;
    }
    writer.map_or(Ok(()), |writer| writer.finish(read))?;
    Ok((read, unread))
}

/// Runs sacct once.
fn ask(
    day: Period,
    delimiter: &[u8],
    show: impl FnMut(&Job, &[u8]) -> Result<(), LeaksError>,
) -> Result<u64, LeaksError> {
    let option = format!("--delimiter={}", String::from_utf8_lossy(delimiter));
    stream::read(RUNS, &[option], day, |output| sacct::read(output, delimiter, None, show))
}

/// Shows every job of a file.
///
/// # Errors
/// The file isn't complete.
pub fn saved(reader: Reader, mut show: impl FnMut(&Job)) -> Result<(u64, u64), LeaksError> {
    let Reader { facts: _, delimiter, mut jobs, length } = reader;
    let not_whole = |why| LeaksError::NotWhole(Box::new(why));
    let (mut progress, mut count, mut done) = (Progress::start(), 0_u64, 0_u64);
    let unread = sacct::read(&mut jobs, &delimiter, Some(&dump::end(&delimiter)), |job, record| {
        count += 1;
        done += record.len() as u64;
        if count % 1024 == 0 {
            progress.at(done, length, count);
        }
        show(job);
        Ok(())
    })
    .map_err(not_whole)?;
    let mut last = String::new();
    jobs.take(32).read_line(&mut last)?;
    let read = last.trim().parse().map_err(|_| not_whole(LeaksError::NoCount))?;
    Ok((read, unread))
}
