//! The commands that ask about one job, tell its user and end it.

use std::time::Duration;

use gpushare_slurm_text::job::TIMES;

use super::run::{self, ProgramError};

const PATIENCE: Duration = Duration::from_secs(10);
/// What squeue says of a job that is gone.
pub const GONE: &str = "Invalid job id";
/// ESLURM_DISABLED (Slurm's src/common/slurm_errno.c, the same from 22.05 to 26.05).
pub const DISABLED: &str = "Requested operation is presently disabled";
/// What scontrol says of a job that can't be requeued: `--no-requeue`, `JobRequeue=0`; salloc's and srun's.
const NEVER_REQUEUED: [&str; 2] = [DISABLED, "Only batch jobs are accepted"];

/// Runs one of Slurm's commands.
pub type Ask<'a> = &'a mut dyn FnMut(&str, &[&str]) -> Result<String, String>;

/// Runs it on this machine.
///
/// # Errors
/// It fails, or doesn't end in time.
pub fn command(program: &str, arguments: &[&str]) -> Result<String, ProgramError> {
    let answer = run::run(super::command(program).args(arguments).envs([TIMES]), PATIENCE)?;
    let output = run::succeeded(program, arguments, answer)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The same, with the reason in a line.
///
/// # Errors
/// It fails, or doesn't end in time.
pub fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    command(program, arguments).map_err(|error| error.to_string())
}

/// Requeues a job in this way of scontrol's; false if it never can be.
///
/// # Errors
/// Slurm refuses for another reason, or doesn't answer.
pub fn requeue(way: &str, handle: &str, ask: Ask) -> Result<bool, String> {
    match ask("scontrol", &[way, handle]) {
        Ok(_) => Ok(true),
        Err(error) if NEVER_REQUEUED.iter().any(|why| error.contains(why)) => Ok(false),
        Err(error) => Err(error),
    }
}
