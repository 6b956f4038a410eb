//! Reads sacct's answer for a period while it is printed, since it grows with the jobs.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use gpushare_period::{Period, exact};
use gpushare_slurm_run::run::{self, Output};
use gpushare_slurm_run::{self as slurm, ProgramError};
use gpushare_slurm_text::Question;
use gpushare_slurm_text::job::TIMES;

use crate::progress::Progress;

/// Lets `read` ask for each day of the period, so that neither slurmdbd nor sacct needs memory for a month, and say how
/// many jobs it has seen. Returns how many lines can't be read.
///
/// # Errors
/// Those of `read`.
pub fn days<E>(
    period: Period,
    mut read: impl FnMut(Period, &mut dyn FnMut(u64)) -> Result<u64, E>,
) -> Result<u64, E> {
    let (mut progress, mut unread) = (Progress::start(), 0);
    let days: Vec<Period> = period.days().collect();
    for (done, day) in (0..).zip(&days) {
        unread += read(*day, &mut |jobs| progress.at(done, days.len() as u64, jobs))?;
    }
    Ok(unread)
}

/// Asks once about this period, with further options, and lets `read` have the output. There is no time limit: slurmdbd
/// may need long for a long answer.
///
/// # Errors
/// The command can't be run or fails, or `read` does.
pub fn read<T, E: From<ProgramError>>(
    (program, arguments): Question,
    options: &[&str],
    period: Period,
    read: impl FnOnce(&mut dyn BufRead) -> Result<T, E>,
) -> Result<T, E> {
    let mut command = slurm::command(program);
    command.args(arguments).args(options);
    command.args(["-S", &format!("uts{}", period.start), "-E", &format!("uts{}", period.end)]);
    // Times in seconds since 1970, which a change to or from daylight saving time doesn't repeat.
    command.envs([TIMES]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ProgramError::Start(program.to_owned(), error))?;
    let (output, complaints) = (child.stdout.take(), child.stderr.take());
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = complaints.map(|mut from| from.read_to_end(&mut text));
        text
    });
    let output: Box<dyn Read> =
        output.map_or_else(|| Box::new(std::io::empty()) as _, |from| Box::new(from) as _);
    let mut output = BufReader::with_capacity(1 << 18, output);
    let found = read(&mut output);
    // Once its reader is gone, the command also ends.
    drop(output);
    let status = child.wait().map_err(|error| ProgramError::Talk(program.to_owned(), error))?;
    let complaints = complaints.join().unwrap_or_default();
    let found = found?;
    let about = format!("-S {} -E {}", exact(period.start), exact(period.end));
    run::succeeded(program, &[&about], Output { status, output: Vec::new(), complaints })?;
    Ok(found)
}
