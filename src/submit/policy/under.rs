//! What makes the rule of types apply to a job.

/// What makes the rule apply.
#[derive(Clone, Copy)]
pub(super) enum Under<'n, Qos> {
    Qos(Qos),
    /// A QOS that limits all GPUs and no type: only how many Slurm counts matters.
    Total(Qos),
    /// A QOS that limits `billing`, where a partition of the job's bills types.
    Billing(Qos),
    /// By name; empty if Slurm will take the partition from the reservation.
    Partition(&'n [u8]),
    /// The associations of [`Judgement::governing`](super::Judgement::governing); there is at least one.
    Account,
}
