//! Whether slurmctld and slurmdbd answer. If a daemon is down, Slurm's commands try for 10 s and more. These two
//! queries show it at once, or after two seconds, and a daemon that doesn't answer gets no further query.

use std::thread;
use std::time::Duration;

use super::command;
use super::run;

/// Longer than a busy daemon takes for a question that it needn't look anything up for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Which daemon answers; an error is one line.
pub struct Reach {
    pub slurmctld: Result<(), String>,
    pub slurmdbd: Result<(), String>,
}

impl Reach {
    /// Asks both at once.
    pub fn ask() -> Reach {
        thread::scope(|scope| {
            let database =
                scope.spawn(|| answered("sacctmgr", &["-nP", "show", "cluster", "format=cluster"]));
            let slurmctld = answered("scontrol", &["ping"]);
            let slurmdbd = database.join().unwrap_or_else(|_| Err("sacctmgr can't be asked".to_owned()));
            Reach { slurmctld, slurmdbd }
        })
    }
}

/// Both fail if nothing answers: scontrol only if no controller does.
fn answered(program: &str, arguments: &[&str]) -> Result<(), String> {
    let answer = run::run(command(program).args(arguments), PATIENCE)?;
    run::succeeded(program, arguments, answer).map(|_| ())
}
