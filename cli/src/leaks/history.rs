//! Where jobs come from: sacct, or a file with an earlier dump of its output.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use super::dump::{self, Reader, Writer};
use super::progress::Progress;
use super::sacct::{self, FORMAT, Job};
use super::source::Facts;
use crate::period::{self, Period};
use crate::slurm;
use crate::slurm::run;

/// What nobody knew when the jobs were submitted. The first byte is seldom in a command line.
fn delimiter() -> Vec<u8> {
    format!("\x1f{:016x}", RandomState::new().build_hasher().finish()).into_bytes()
}

/// Shows every run of every job in the period, each once; with `save` those with GPUs are written there too. Gives the
/// number of jobs that were read.
pub fn live(facts: &Facts, save: Option<&Path>, mut show: impl FnMut(&Job)) -> Result<u64, String> {
    let delimiter = delimiter();
    let mut writer = save.map(|path| Writer::new(path, facts, &delimiter)).transpose()?;
    let (mut progress, mut read) = (Progress::new(), 0);
    let days: Vec<Period> = facts.period.days().collect();
    for (done, day) in (0..).zip(&days) {
        ask(*day, &delimiter, |job, record| {
            progress.at(done, days.len() as u64, read);
            // It is in the answer of every day on which it ran.
            let began = job
                .start
                .is_some_and(|start| (day.start..day.end).contains(&start) || (done == 0 && start < day.end));
            if !began {
                return Ok(());
            }
            read += 1;
            show(job);
            match &mut writer {
                Some(writer) if job.has_gpus() => writer.job(record),
                _ => Ok(()),
            }
        })?;
    }
    writer.map_or(Ok(()), |writer| writer.finish(read))?;
    Ok(read)
}

/// One question to sacct. How long it takes is slurmdbd's affair: it may be as long as the answer is.
fn ask(
    day: Period,
    delimiter: &[u8],
    show: impl FnMut(&Job, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut command = slurm::command("sacct");
    let delimiter = String::from_utf8_lossy(delimiter);
    command.args([
        "-a",
        "-X",
        "-n",
        "-P",
        "-D",
        &format!("--delimiter={delimiter}"),
        &format!("--format={FORMAT}"),
    ]);
    command.args(["-S", &format!("uts{}", day.start), "-E", &format!("uts{}", day.end)]);
    // Seconds since 1970, which a change of the clocks doesn't repeat.
    command.env("SLURM_TIME_FORMAT", "%s").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("can't run 'sacct': {error}"))?;
    let (output, complaints) = (child.stdout.take(), child.stderr.take());
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = complaints.map(|mut from| from.read_to_end(&mut text));
        text
    });
    let mut output = BufReader::with_capacity(1 << 18, output.ok_or("sacct has no output")?);
    let found = sacct::read(&mut output, delimiter.as_bytes(), None, show);
    // With its reader gone it ends, too.
    drop(output);
    let status = child.wait().map_err(|error| format!("'sacct': {error}"))?;
    let complaints = complaints.join().unwrap_or_default();
    found?;
    let about = format!("-S {} -E {}", period::exact(day.start), period::exact(day.end));
    run::succeeded("sacct", &[&about], run::Output { status, output: Vec::new(), complaints })?;
    Ok(())
}

/// Shows every job of a file.
pub fn saved(reader: Reader, mut show: impl FnMut(&Job)) -> Result<u64, String> {
    let Reader { facts: _, delimiter, mut jobs, length } = reader;
    let (mut progress, mut count, mut done) = (Progress::new(), 0_u64, 0_u64);
    sacct::read(&mut jobs, &delimiter, Some(&dump::end(&delimiter)), |job, record| {
        count += 1;
        done += record.len() as u64;
        if count % 1024 == 0 {
            progress.at(done, length, count);
        }
        show(job);
        Ok(())
    })
    .map_err(|reason| format!("the file is not whole: {reason}"))?;
    let mut last = String::new();
    jobs.take(32).read_line(&mut last).map_err(|error| error.to_string())?;
    last.trim().parse().map_err(|_| "the file is not whole: it has no number of jobs".to_owned())
}
