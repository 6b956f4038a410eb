//! An update of a pending job, and the resulting job.

use crate::submit::request::Request;

/// An update of a job, as a user sends it.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The job as the user names it, such as `12_3`.
    pub job: &'a [u8],
    /// What is changed; `None` stays.
    pub request: Request<'a>,
    /// Whether this Slurm makes the job's request anew of its strings, as from 23.02 on. Up to 22.05 it changes entries
    /// of the old request, and keeps those that are named no more.
    pub anew: bool,
    /// Whether it says nothing but QOS, account, partition, reservation and GPUs. slurmctld takes an update's fields
    /// over one by one, the GPUs last, and keeps what it has when one is refused: so with anything else the QOS may
    /// change and the GPUs not.
    pub alone: bool,
}

impl<'a> Update<'a> {
    /// The job as it would be.
    pub(super) fn after<'b>(&self, existing: &Request<'b>) -> Request<'b>
    where
        'a: 'b,
    {
        let request = self.request.over(existing);
        // `scontrol update qos=` gives the job its default QOS again.
        Request { qos: request.qos.filter(|name| !name.is_empty()), ..request }
    }
}
