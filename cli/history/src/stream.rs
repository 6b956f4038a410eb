//! Reads sacct's answer for a period while it is printed, since it grows with the jobs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write, empty, stderr};
use std::process::Stdio;

use gpushare_period::{Period, exact, text};
use gpushare_slurm_run::run::{self, Output};
use gpushare_slurm_run::{self as slurm, ProgramError};
use gpushare_slurm_text::job::TIMES;
use gpushare_slurm_text::sacct::{self, Row, Wanted};

use crate::HistoryError;

/// Lets `read` ask for each day of the period, so that neither slurmdbd nor sacct needs memory for a month; a terminal
/// shows which. Returns what to say of records that can't be read, of which `read` returns the number.
///
/// # Errors
/// Those of `read`.
pub fn days<E>(period: Period, mut read: impl FnMut(Period) -> Result<u64, E>) -> Result<Option<String>, E> {
    let show = |what: &str| {
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r{what}\x1b[K");
        }
    };
    let one = |day: Period| {
        show(&format!("reading jobs of {}", text(day.start)));
        read(day)
    };
    let unread: Result<u64, E> = period.days().map(one).sum();
    show("");
    let say = |unread: u64| format!("records of sacct's that can't be read: {unread}. Jobs may be missing");
    Ok(Some(unread?).filter(|unread| *unread > 0).map(say))
}

/// Whether a run counts on this day of a period: it is in the answer for every day on which it waited or ran.
pub fn is_first(start: u32, day: Period, period: Period) -> bool {
    start < day.end && (start >= day.start || day.start == period.start)
}

/// Asks once about this period, and shows every row. Returns how many records can't be read. There is no time limit:
/// slurmdbd may need long for a long answer.
///
/// # Errors
/// sacct can't be run or fails, or no record can be read.
pub fn rows(wanted: Wanted, period: Period, show: &mut dyn FnMut(&Row)) -> Result<u64, HistoryError> {
    let (program, arguments) = wanted.question();
    // Bytes that no user could know when the jobs were submitted. The first one is rare in command lines.
    let delimiter = format!("\x1f{:016x}", RandomState::new().build_hasher().finish());
    let mut command = slurm::command(program);
    command.args(arguments).arg(format!("--delimiter={delimiter}"));
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
    let mut output: Box<dyn BufRead> = match output {
        Some(from) => Box::new(BufReader::with_capacity(1 << 18, from)),
        None => Box::new(empty()),
    };
    let unread = sacct::read(&mut output, delimiter.as_bytes(), wanted, show);
    // Once its reader is gone, the command also ends.
    drop(output);
    let status = child.wait().map_err(|error| ProgramError::Talk(program.to_owned(), error))?;
    let complaints = complaints.join().unwrap_or_default();
    let unread = unread?;
    let about = format!("-S {} -E {}", exact(period.start), exact(period.end));
    run::succeeded(program, &[&about], Output { status, output: Vec::new(), complaints })?;
    Ok(unread)
}
