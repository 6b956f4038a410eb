//! Acts on jobs beyond a limit: tells each job's user, and then cancels it, or requeues and holds it.

use std::time::Duration;

use gpushare::config::Guard;
use gpushare_guard::{Finding, Member};

use super::write;
use crate::slurm::run;
use crate::status::complain;

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was done to a job, or why it couldn't be.
pub(super) struct Deed {
    pub job: Member,
    /// `cancelled` or `requeued and held`
    pub what: &'static str,
    /// The limit.
    pub limit: String,
    /// Why it failed.
    pub error: Option<String>,
}

pub(super) fn all(chosen: &[(Member, Finding)], guard: Guard) -> Vec<Deed> {
    let (program, verb, what) = match guard {
        Guard::Report => return Vec::new(),
        Guard::RequeueHold => ("scontrol", Some("requeuehold"), "requeued and held"),
        Guard::Cancel => ("scancel", None, "cancelled"),
    };
    let deed = |(job, finding): &(Member, Finding)| {
        let limit = write::limit(finding);
        let note = format!("gpushare: job {} is beyond {limit}, and is {what}", job.name);
        // Only srun and salloc, and a batch job's output, show it; nothing depends on it.
        let _ = run::within(PATIENCE, "scontrol", &["notify", &job.handle, &note]);
        let words: Vec<&str> = verb.into_iter().chain([job.handle.as_str()]).collect();
        let error = run::within(PATIENCE, program, &words).err().map(|error| error.to_string());
        if let Some(error) = &error {
            complain(&[format!("job {}: {error}", job.name)]);
        }
        Deed { job: job.clone(), what, limit, error }
    };
    chosen.iter().map(deed).collect()
}
