//! Carries out the plan, call after call, with a line for each change made. At the first refusal it stops and reports
//! how far it got.

use gpushare_qos::{Change, Plan};

use super::error::QosError;
use super::site::sacctmgr;
use super::write;
use gpushare_terminal::print;

/// Makes these changes, after others; `all` is the number of both.
///
/// # Errors
/// Slurm refused one of them.
pub fn changes(changes: &[Change], before: usize, all: usize) -> Result<(), QosError> {
    for (done, change) in (before..).zip(changes) {
        let why = |why| QosError::Stopped { change: change.clone(), why: Box::new(why), done, all };
        sacctmgr(&change.arguments).map_err(|error| why(error.into()))?;
        print(&write::progress(change, done + 1, all))?;
    }
    Ok(())
}

/// Carries out a plan, after that many other changes.
///
/// # Errors
/// Slurm refused a change, or something could not be removed.
pub fn apply(plan: &Plan, before: usize) -> Result<(), QosError> {
    let all = before + plan.changes.len();
    changes(&plan.changes, before, all)?;
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
