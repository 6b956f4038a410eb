//! Reads the output of one of Slurm's commands while it runs, for answers that grow with years of jobs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use gpushare_slurm_run::ProgramError;
use gpushare_slurm_run::run::{self, Output};

/// Runs the command, and lets `read` have its output. There is no time limit: slurmdbd may need long for a long answer.
/// `about` stands for the arguments in a message.
///
/// # Errors
/// The command can't be run or fails, or `read` does.
pub fn read<T, E: From<ProgramError>>(
    command: &mut Command,
    about: &str,
    read: impl FnOnce(&mut dyn BufRead) -> Result<T, E>,
) -> Result<T, E> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ProgramError::Start(program.clone(), error))?;
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
    let status = child.wait().map_err(|error| ProgramError::Talk(program.clone(), error))?;
    let complaints = complaints.join().unwrap_or_default();
    let found = found?;
    run::succeeded(&program, &[about], Output { status, output: Vec::new(), complaints })?;
    Ok(found)
}
