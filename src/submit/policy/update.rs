//! An update of a pending job, and the resulting job.

use super::{Command, shortened};
use crate::submit::request::Request;

/// An update of a job, as a user sends it.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The job as the user names it, such as `12_3`.
    pub job: &'a [u8],
    /// Whether that is a whole array.
    pub array: bool,
    /// The changes; `None` leaves a value as it is.
    pub request: Request<'a>,
    /// Whether this Slurm makes the job's request anew from its strings, as from 23.02 on. Up to 22.05 it changes
    /// entries of the old request, and keeps those that are no longer named.
    pub anew: bool,
    /// What it changes beside QOS, account, partition, reservation, GPUs and what goes with any of them, as scontrol
    /// names it; empty for nothing. slurmctld applies an update's fields one by one, the GPUs after most others, and
    /// keeps those already applied when it refuses one. So if anything else is in the update, the QOS may change
    /// without the GPUs.
    pub others: &'a str,
}

impl<'a> Update<'a> {
    /// Whether it changes nothing else.
    pub(super) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// It as a refusal keeps it.
    pub(super) fn command(&self) -> Command {
        Command::Update { job: shortened(self.job), array: self.array, spelling: self.request.spelling }
    }

    /// The job after the update.
    pub(super) fn after<'b>(&self, existing: &Request<'b>) -> Request<'b>
    where
        'a: 'b,
    {
        let request = self.request.over(existing);
        // `scontrol update qos=` gives the job its default QOS again.
        Request { qos: request.qos.filter(|name| !name.is_empty()), ..request }
    }
}
