//! Tells users, and ends jobs. A user's files are never touched: slurmstepd, srun or salloc prints the line in the
//! user's own process.

use std::collections::HashMap;

use gpushare::text::time;
use gpushare_slurm_run::control::{Ask, DISABLED, requeue};
use gpushare_slurm_text::record::{Records, Trust};
use gpushare_slurm_text::running::Running;

use crate::config::{IdleAction, Rule};
use crate::decide::Step;

/// What a user is told at a step.
pub fn note(told: &Running, rule: &Rule, idle: u64, step: Step, node: &str) -> String {
    let place = if told.is_on_one_node() { String::new() } else { format!(" on {node}") };
    let what =
        format!("gpushare: job {} has not used its GPUs{place} for {}", told.job.name, time::text(idle));
    match step {
        Step::Warn(number) if rule.action != IdleAction::Warn && told.is_on_one_node() => {
            let left = rule.warn.get(number).map_or(0, |at| rule.limit.saturating_sub(*at));
            format!("{what}; it will be {} in {} unless it uses one", ending(rule.action), time::text(left))
        }
        Step::End(action) => {
            format!("{what} and is {} (IdleLimit={})", ending(action), time::text(rule.limit))
        }
        _ => what,
    }
}

fn ending(action: IdleAction) -> &'static str {
    match action {
        IdleAction::Requeue => "requeued, or cancelled if it can't be requeued,",
        IdleAction::Warn | IdleAction::Cancel => "cancelled",
    }
}

/// Tells a user; whether there is somebody: an allocation of `salloc --no-shell` without steps has no output.
///
/// # Errors
/// Nothing was delivered.
pub fn tell(told: &Running, note: &str, ask: Ask) -> Result<bool, String> {
    match ask("scontrol", &["notify", told.job.handle(), note]) {
        Err(error) if !told.is_batch && error.contains(DISABLED) => Ok(false),
        said => said.map(|_| true),
    }
}

/// Whether scrontab made a job.
///
/// # Errors
/// slurmctld doesn't answer.
pub fn is_cron(told: &Running, ask: Ask) -> Result<bool, String> {
    let (id, mut records) = (told.job.id, Records::default());
    ask("scontrol", &["show", "job", &id.to_string()])?.lines().for_each(|line| records.line(line));
    let record = records.of(&HashMap::from([(id, told.job.nodes)])).remove(&id).unwrap_or_default();
    Ok(record.asked.is_cron && record.trust != Trust::Unclear)
}

/// Ends a job; what was done.
///
/// # Errors
/// Slurm refuses, or doesn't answer.
pub fn end(told: &Running, action: IdleAction, ask: Ask) -> Result<&'static str, String> {
    let handle = told.job.handle();
    if action == IdleAction::Requeue && requeue("requeue", handle, ask)? {
        return Ok("requeued");
    }
    ask("scancel", &[handle]).map(|_| "cancelled")
}
