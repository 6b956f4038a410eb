//! Carries out the plan, call after call, with a line for each change made. At the first refusal it stops and reports
//! how far it got.

use std::process::Command;

use gpushare_qos::{Change, Plan};

use super::error::QosError;
use super::site::reason;
use super::write;
use crate::print;
use crate::slurm::run::run;

/// Longer than a busy slurmdbd needs for one change.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Makes the changes.
///
/// # Errors
/// Slurm refused one of them, or something could not be removed.
pub fn apply(plan: &Plan) -> Result<(), QosError> {
    let all = plan.changes.len();
    for (done, change) in plan.changes.iter().enumerate() {
        let why = |why| QosError::Stopped { change: change.clone(), why: Box::new(why), done, all };
        call(change).map_err(why)?;
        print(&write::progress(change, done + 1, all))?;
    }
    print(&write::leftovers(plan))?;
    let busy = plan.leftovers.iter().filter(|leftover| leftover.used.is_some()).count();
    let stay = busy + plan.obstacles.len();
    if stay > 0 {
        return Err(QosError::Stays(stay));
    }
    if all == 0 {
        print(write::NOTHING)?;
    }
    Ok(())
}

fn call(change: &Change) -> Result<(), QosError> {
    let answer = run(Command::new("sacctmgr").args(&change.arguments), PATIENCE)?;
    if answer.status.success() { Ok(()) } else { Err(QosError::NotTaken(reason(&answer))) }
}
