//! Whether slurmctld and slurmdbd answer. If a daemon is down, Slurm's commands keep trying for 10 s and more. These
//! two queries show it at once, or after two seconds. A daemon that doesn't answer gets no further query.

use std::thread;
use std::time::Duration;

use super::run::{self, ProgramError};

/// Longer than a busy daemon needs for a query without any look-up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Which daemons answer.
pub struct Reach {
    /// slurmctld, or why it doesn't.
    pub slurmctld: Result<(), ProgramError>,
    /// slurmdbd, or why it doesn't.
    pub slurmdbd: Result<(), ProgramError>,
}

impl Reach {
    /// Asks both at the same time.
    pub fn ask() -> Reach {
        thread::scope(|scope| {
            let database =
                scope.spawn(|| answered("sacctmgr", &["-nP", "show", "cluster", "format=cluster"]));
            let slurmctld = Reach::of_slurmctld();
            let slurmdbd = database.join().unwrap_or(Err(ProgramError::Unasked("sacctmgr")));
            Reach { slurmctld, slurmdbd }
        })
    }

    /// Asks slurmctld alone.
    ///
    /// # Errors
    /// It doesn't answer.
    pub fn of_slurmctld() -> Result<(), ProgramError> {
        answered("scontrol", &["ping"])
    }
}

/// The query fails if there is no answer; scontrol fails only if no controller answers.
fn answered(program: &str, arguments: &[&str]) -> Result<(), ProgramError> {
    run::within(PATIENCE, program, arguments).map(|_| ())
}
