//! Asks slurmctld about a job that looks idle: whether it runs, under which QOS, and where. It asks about such jobs
//! alone, so nodes whose jobs are all busy ask nothing.

use std::time::Duration;

use gpushare_slurm_run::run::{self, ProgramError};
use gpushare_slurm_run::{self as slurm};
use gpushare_slurm_text::job::TIMES;
use gpushare_slurm_text::running::{self, Running};

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What squeue says of a job that is gone.
const GONE: &str = "Invalid job id";

/// What Slurm says of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// slurmctld doesn't answer.
    Nothing,
    /// It is gone, suspended, or does anything else than run.
    RunsNot,
    /// It runs.
    Runs(Box<Running>),
}

/// Runs one of Slurm's commands.
///
/// # Errors
/// It fails, or doesn't end in time.
pub fn command(program: &str, arguments: &[&str]) -> Result<String, ProgramError> {
    let (name, value) = TIMES;
    let answer = run::run(slurm::command(program).args(arguments).env(name, value), PATIENCE)?;
    let output = run::succeeded(program, arguments, answer)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// What slurmctld says of a job.
///
/// # Errors
/// It doesn't answer.
pub fn job(id: u32) -> Result<Said, ProgramError> {
    let (program, arguments) = running::question(id);
    match command(program, &arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(output) => {
            Ok(running::read(&output, id).map_or(Said::RunsNot, |running| Said::Runs(Box::new(running))))
        }
        Err(error) if error.to_string().contains(GONE) => Ok(Said::RunsNot),
        Err(error) => Err(error),
    }
}
