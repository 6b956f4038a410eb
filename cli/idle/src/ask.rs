//! Asks slurmctld about a job that looks idle: whether it runs, under which QOS, and where. It asks about such a job
//! alone, so busy nodes ask nothing.

use std::time::Duration;

use gpushare_slurm_run::run::{self, ProgramError};
use gpushare_slurm_run::{self as slurm};
use gpushare_slurm_text::{Job, job};

/// How long one of Slurm's commands may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// What squeue says of a job that is gone.
const GONE: &str = "Invalid job id";
/// 1 if the job has a batch script, after the columns of [`job::JOBS`].
const IS_BATCH: &str = "BatchFlag:8|";

/// What Slurm says of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// slurmctld doesn't answer.
    Nothing,
    /// It is gone, suspended, or does anything else than run.
    RunsNot,
    /// It runs.
    Runs(Box<Told>),
}

/// A job that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// As squeue prints it.
    pub job: Job,
    /// Whether it has a batch script; otherwise salloc or srun started it.
    pub is_batch: bool,
}

impl Told {
    /// Whether this node sees all of its GPUs. Those of another node, or of another component, may be busy.
    pub fn is_here_alone(&self) -> bool {
        self.job.nodes == 1 && !self.job.name.contains('+')
    }
}

/// Runs one of Slurm's commands.
///
/// # Errors
/// It fails, or doesn't end in time.
pub fn command(program: &str, arguments: &[&str]) -> Result<String, ProgramError> {
    let (name, value) = job::TIMES;
    let answer = run::run(slurm::command(program).args(arguments).env(name, value), PATIENCE)?;
    let output = run::succeeded(program, arguments, answer)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// What slurmctld says of a job.
///
/// # Errors
/// It doesn't answer.
pub fn job(id: u32) -> Result<Said, ProgramError> {
    let (program, arguments) = job::JOBS;
    let [others @ .., columns] = arguments else { return Ok(Said::Nothing) };
    let (columns, id_text) = (format!("{columns},{IS_BATCH}"), id.to_string());
    match command(program, &[others, &[&columns, "-j", &id_text]].concat()) {
        Ok(output) => Ok(read(&output, id)),
        Err(error) if error.to_string().contains(GONE) => Ok(Said::RunsNot),
        Err(error) => Err(error),
    }
}

/// The number of an array is also that of one of its tasks, so there may be several lines.
fn read(output: &str, id: u32) -> Said {
    let told = |line: &str| {
        let job = Job::read(line).filter(|job| job.id == id && job.state_word == "RUNNING")?;
        let is_batch = line.trim_end().strip_suffix('|')?.rsplit('|').next()?.trim() == "1";
        Some(Box::new(Told { job, is_batch }))
    };
    output.lines().find_map(told).map_or(Said::RunsNot, Said::Runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, name: &str, state: &str, batch: &str) -> String {
        format!(
            "{id} |{name} |2001 |alice |acct |q |p |(null) |{state} |7 |1 |None |cpu=1 |{batch}       |\n"
        )
    }

    #[test]
    fn only_a_job_that_runs_can_be_idle() {
        let waiting = line(12, "12_[4-9]", "PENDING", "1");
        for (text, runs) in [
            (line(12, "12", "RUNNING", "1"), true),
            (waiting.clone() + &line(12, "12_3", "RUNNING", "1"), true),
            (line(13, "12_3", "RUNNING", "1"), false),
            (line(12, "12", "SUSPENDED", "1"), false),
            (line(12, "12", "COMPLETING", "1"), false),
            (waiting, false),
            (String::new(), false),
        ] {
            assert_eq!(matches!(read(&text, 12), Said::Runs(_)), runs, "{text}");
        }
    }

    #[test]
    fn a_job_without_a_script_is_interactive() {
        for (flag, expected) in [("1", true), ("0", false)] {
            let Said::Runs(told) = read(&line(12, "12", "RUNNING", flag), 12) else { panic!("{flag}") };
            assert_eq!((told.is_batch, told.job.start, told.job.nodes), (expected, 7, 1));
        }
    }
}
