//! Slurm's reasons for a job to wait, in plain words (Slurm: src/common/job_state_reason.c).

/// Reasons with their own text.
const REASONS: [(&str, &str); 35] = [
    ("None", "Slurm has not considered it yet"),
    ("Priority", "jobs with a higher priority go first"),
    ("Resources", "the nodes, CPUs, memory or GPUs that it needs are in use"),
    ("Dependency", "it waits for other jobs, as its --dependency says"),
    ("DependencyNeverSatisfied", "a job did not end as its --dependency says; it never starts, cancel it"),
    ("JobHeldUser", "its user holds it; `scontrol release` releases it"),
    ("JobHeldAdmin", "an administrator holds it"),
    ("BeginTime", "its begin time has not come; a requeued job gets one about two minutes ahead"),
    ("JobArrayTaskLimit", "as many tasks of the array run as the array allows (% in --array)"),
    ("Licenses", "the licenses that it needs are in use"),
    ("Reservation", "its reservation is not active"),
    ("ReservationDeleted", "its reservation is gone; cancel it"),
    (
        "ReqNodeNotAvail",
        "needed nodes are down, drained or reserved; before a reservation, only jobs start that end in time (--time)",
    ),
    ("NodeDown", "a node that it needs is down"),
    ("BadConstraints", "no node has what it asks for; cancel it"),
    ("PartitionDown", "its partition is down"),
    ("PartitionInactive", "its partition is inactive"),
    ("PartitionNodeLimit", "it asks for more or fewer nodes than its partition allows"),
    ("PartitionTimeLimit", "its time limit is longer than its partition's"),
    ("PartitionConfig", "its request does not fit its partition's settings"),
    ("QOSNotAllowed", "its partition does not allow its QOS"),
    ("AccountNotAllowed", "its partition does not allow its account"),
    ("InvalidQOS", "its QOS can no longer be used; cancel it"),
    ("InvalidAccount", "its account can no longer be used; cancel it"),
    ("QOSUsageThreshold", "the usage of its account is above what its QOS allows"),
    ("Cleaning", "Slurm is still cleaning up after its last run"),
    ("Prolog", "a prolog still runs"),
    ("JobHoldMaxRequeue", "it was requeued too often and is held"),
    ("DeadLine", "it can't end before its deadline"),
    ("BurstBufferResources", "the burst buffer that it needs is in use"),
    ("launch failed requeued held", "its start failed, and it is held; see slurmctld's log"),
    ("Job's QOS not permitted", "its partition does not allow its QOS: submit it with another one"),
    ("Job's account not permitted", "its partition does not allow its account: submit it with another one"),
    ("job requeued in held state", REQUEUED),
    ("job requeued in special exit state", REQUEUED),
];
const REQUEUED: &str = "it was requeued and is held; `scontrol release` releases it";
/// How the reasons begin for which a job waits until somebody releases it.
const HELD: [&str; 5] = ["JobHeld", "JobHold", "Reservation ", "job requeued in", "launch failed"];

/// What a limit may be on: how reasons write it, and its name here. Longer ones come first.
const LIMITED: [(&str, &str); 10] = [
    ("SubmitJob", "submitted jobs"),
    ("Job", "running jobs"),
    ("GRES", "GPUs or other GRES"),
    ("Cpu", "CPUs"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("Billing", "billing units"),
    ("Wall", "run time"),
    ("License", "licenses"),
    ("Energy", "energy"),
];

/// A reason as one sentence without a period.
pub fn plain(reason: &str) -> String {
    // `Reservation r was deleted`, `Reservation r is invalid`
    if reason.starts_with("Reservation") && (reason.ends_with("deleted") || reason.ends_with("invalid")) {
        return "its reservation no longer exists".to_owned();
    }
    let known = REASONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(reason));
    // Some reasons continue with names of nodes.
    let known = known.or_else(|| REASONS.iter().find(|(name, _)| name.len() > 8 && reason.starts_with(name)));
    match known {
        Some((_, words)) => (*words).to_owned(),
        None => limit(reason).unwrap_or_else(|| "Slurm gives no other explanation".to_owned()),
    }
}

/// Whether the job doesn't start by itself.
pub fn is_held(reason: &str) -> bool {
    HELD.iter().any(|start| reason.starts_with(start))
}

/// Such as `QOSGrpGRES`, `AssocMaxCpuPerJobLimit`, or a QOS's `MaxGRESRunMinsPerUser`.
fn limit(reason: &str) -> Option<String> {
    let (whose, rest) = match reason.strip_prefix("QOS") {
        Some(rest) => ("QOS", rest),
        None if reason.contains("RunMinsPer") => ("QOS", reason),
        None => ("account", reason.strip_prefix("Assoc")?),
    };
    let rest = rest.strip_prefix("iation").unwrap_or(rest);
    let at = |part: &str| rest.to_ascii_lowercase().find(&part.to_ascii_lowercase());
    let limited = LIMITED.iter().filter_map(|(name, words)| Some((at(name)?, *words)));
    let limited = limited.min_by_key(|(place, _)| *place).map_or("a resource", |(_, words)| words);
    let of_minutes = rest.contains("Minutes") || rest.contains("Mins");
    let limited = if of_minutes { format!("the minutes of {limited}") } else { limited.to_owned() };
    let has = |part: &str| rest.contains(part);
    Some(if has("PerUser") || (whose == "account" && has("MaxJobs")) {
        format!("its user's jobs have reached a limit of the {whose} on {limited}")
    } else if has("PerAccount") {
        format!("its account's jobs have reached a limit of the {whose} on {limited}")
    } else if has("PerJob") || has("PerNode") || has("MaxWall") {
        format!("it asks for more than the {whose} allows one job: {limited}")
    } else if has("Min") && has("NotSatisfied") || has("Min") && !of_minutes {
        format!("it asks for less than the {whose} requires: {limited}")
    } else {
        format!("the jobs of its {whose} together have reached a limit on {limited}")
    })
}

/// Whether the reason is a limit.
pub fn is_limit(reason: &str) -> bool {
    !REASONS.iter().any(|(name, _)| *name == reason) && limit(reason).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_put_into_words() {
        for (reason, expected) in [
            ("QOSGrpGRES", "the jobs of its QOS together have reached a limit on GPUs or other GRES"),
            ("QOSGrpCpuLimit", "the jobs of its QOS together have reached a limit on CPUs"),
            ("QOSGrpJobsLimit", "the jobs of its QOS together have reached a limit on running jobs"),
            ("QOSGrpNodeLimit", "the jobs of its QOS together have reached a limit on nodes"),
            ("QOSMaxGRESPerUser", "its user's jobs have reached a limit of the QOS on GPUs or other GRES"),
            ("QOSMaxJobsPerUserLimit", "its user's jobs have reached a limit of the QOS on running jobs"),
            ("QOSMaxMemoryPerAccount", "its account's jobs have reached a limit of the QOS on memory"),
            ("QOSMaxGRESPerJob", "it asks for more than the QOS allows one job: GPUs or other GRES"),
            ("QOSMaxWallDurationPerJobLimit", "it asks for more than the QOS allows one job: run time"),
            ("QOSMinGRES", "it asks for less than the QOS requires: GPUs or other GRES"),
            (
                "QOSGrpGRESMinutes",
                "the jobs of its QOS together have reached a limit on the minutes of GPUs or other GRES",
            ),
            (
                "MaxGRESRunMinsPerUser",
                "its user's jobs have reached a limit of the QOS on the minutes of GPUs or other GRES",
            ),
            ("AssocGrpGRES", "the jobs of its account together have reached a limit on GPUs or other GRES"),
            ("AssocMaxJobsLimit", "its user's jobs have reached a limit of the account on running jobs"),
            ("AssocMaxGRESPerNode", "it asks for more than the account allows one job: GPUs or other GRES"),
            ("Resources", "the nodes, CPUs, memory or GPUs that it needs are in use"),
            (
                "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
                "needed nodes are down, drained or reserved; before a reservation, only jobs start that end in \
                 time (--time)",
            ),
            ("Reservation r was deleted", "its reservation no longer exists"),
            ("Reservation", REASONS.iter().find(|(name, _)| *name == "Reservation").unwrap().1),
            (
                "Job's QOS not permitted to use this partition (course allows course not normal)",
                "its partition does not allow its QOS: submit it with another one",
            ),
            ("SomethingNew", "Slurm gives no other explanation"),
        ] {
            assert_eq!(plain(reason), expected, "{reason}");
        }
        assert!(is_held("JobHeldUser") && is_held("Reservation r was deleted") && !is_held("Reservation"));
        assert!(is_limit("AssocGrpGRES") && !is_limit("QOSNotAllowed") && !is_limit("Resources"));
    }
}
