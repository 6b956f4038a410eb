//! Carries out the plan: call after call, with a line for each change made. At the first refusal it stops and says how
//! far it got.

use std::process::Command;

use gpushare_qos::{Change, Plan};

use super::site::reason;
use super::write;
use crate::print;
use crate::slurm::run::run;

/// Longer than a busy slurmdbd takes for one change.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Makes the changes. An error is one line.
pub fn apply(plan: &Plan) -> Result<(), String> {
    let all = plan.changes.len();
    for (done, change) in plan.changes.iter().enumerate() {
        if let Err(reason) = call(change) {
            return Err(halt(change, &reason, done, all));
        }
        print(&write::progress(change, done + 1, all))?;
    }
    print(&write::leftovers(plan))?;
    let busy = plan.leftovers.iter().filter(|leftover| leftover.used.is_some()).count();
    let stay = busy + plan.obstacles.len();
    if stay > 0 {
        let were = if stay == 1 { "one thing was" } else { &format!("{stay} things were") };
        return Err(format!("{were} not taken away, see above; run this again when that is possible"));
    }
    if all == 0 { print(write::NOTHING) } else { Ok(()) }
}

fn call(change: &Change) -> Result<(), String> {
    let answer = run(Command::new("sacctmgr").args(&change.arguments), PATIENCE)?;
    if answer.status.success() { Ok(()) } else { Err(reason(&answer)) }
}

fn halt(change: &Change, reason: &str, done: usize, all: usize) -> String {
    let what = change.lines.first().map_or("", |(_, line)| line.as_str());
    let more = match change.lines.len() {
        0 | 1 => String::new(),
        lines => format!(" (and {} more)", lines - 1),
    };
    format!(
        "stopped at '{what}'{more}: {reason}; done: {done} of {all} steps, running this again does the others"
    )
}
