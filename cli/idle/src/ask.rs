//! Asks slurmctld about a job that looks idle: whether it runs, under which QOS, and where. It asks about such jobs
//! alone, so nodes whose jobs are all busy ask nothing.

use gpushare_slurm_run::ProgramError;
use gpushare_slurm_run::control::{GONE, command};
use gpushare_slurm_text::running::{self, Running};

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
