//! Lending: groups use each other's idle GPUs, and give them back when the owner asks.
//!
//! `Burst=2x` in a group's record makes a second QOS, `NAME_burst`, for twice the group's quota beside its own. As soon
//! as an owner's job needs their GPUs, Slurm requeues its jobs after a grace time: the QOS of each record with `GPUs`
//! preempts all of these QOSes and has a higher priority. So a group never holds more than its quota and what it may
//! borrow, which are two limits that Slurm counts by itself. The pair are plain managed QOSes: everything else treats
//! them like two records.

use std::collections::{BTreeSet, HashSet};

use gpushare::submit::policy::{Policy, QosRecord};

use super::record::{Burst, ManagedQos};
use super::value::{MOST, Settings, Value, names};

/// How the second QOS's name ends.
pub const SUFFIX: &str = "_burst";
/// The priority of an owner's QOS whose record has none. With 0, as borrowers have, their waiting jobs could go first.
const PRIORITY: u64 = 1000;

/// The name of the QOS for what a group borrows.
pub fn name(owner: &str) -> String {
    format!("{owner}{SUFFIX}")
}

/// Whether groups lend.
pub fn is_on(qoses: &[ManagedQos]) -> bool {
    qoses.iter().any(|managed| managed.burst.is_some())
}

/// Whether a record is that of an owner of GPUs.
pub fn owns(managed: &ManagedQos) -> bool {
    !managed.gpus.is_empty() && managed.burst_of.is_none()
}

/// The QOSes for what groups borrow, and all that give way to every owner.
pub fn gives_way(qoses: &[ManagedQos]) -> (HashSet<String>, HashSet<String>) {
    let lent = qoses.iter().filter(|managed| managed.burst_of.is_some()).map(|managed| managed.name.clone());
    let mut owners =
        qoses.iter().filter(|managed| owns(managed)).map(|owner| names(&owner.settings, "Preempt"));
    let mut all: HashSet<String> = owners.next().into_iter().flatten().cloned().collect();
    owners.for_each(|names| all.retain(|name| names.contains(name)));
    (lent.collect(), all)
}

/// The records, and after each one with `Burst` that of its second QOS.
pub(super) fn pairs(qoses: Vec<ManagedQos>) -> Vec<ManagedQos> {
    if !is_on(&qoses) {
        return qoses;
    }
    let borrowing = qoses.iter().filter(|managed| managed.burst.is_some());
    let names: BTreeSet<String> = borrowing.map(|managed| name(&managed.name)).collect();
    let pair = |mut managed: ManagedQos| {
        let second = managed.burst.map(|burst| borrower(&managed, burst));
        if owns(&managed) {
            preempt(&mut managed.settings, names.iter().cloned());
            managed.settings.entry("Priority").or_insert(Value::Count(PRIORITY));
        }
        [Some(managed), second]
    };
    qoses.into_iter().flat_map(pair).flatten().collect()
}

/// Adds QOSes to those that a QOS preempts.
pub(crate) fn preempt(settings: &mut Settings, names: impl IntoIterator<Item = String>) {
    if let Value::Words(words) = settings.entry("Preempt").or_insert_with(|| Value::Words(BTreeSet::new())) {
        words.extend(names);
    }
}

/// Whether a line has a rule.
type IsSet = fn(&QosRecord) -> bool;

/// Which rules hold for a group's QOS, but not for the one for what it borrows.
pub(super) fn unruled(managed: &ManagedQos, policy: &Policy) -> Vec<&'static str> {
    if managed.burst.is_none() {
        return Vec::new();
    }
    let rules: [(&str, IsSet); 7] = [
        ("Mode", |record| record.mode.is_some()),
        ("DefaultType", |record| record.default_type.is_some()),
        ("Requeue", |record| record.requeue.is_some()),
        ("OpenMode", |record| record.append.is_some()),
        ("ArrayTasks", |record| record.throttle.is_some()),
        ("MaxCPUsPerGpu", |record| record.caps.cpus.is_some()),
        ("MaxMemPerGpu", |record| record.caps.mem.is_some()),
    ];
    let second = name(&managed.name);
    let has = |qos: &str, is_set: IsSet| {
        policy.of_qos(qos.as_bytes(), |record| is_set(record).then_some(())).is_some()
    };
    let lacking =
        rules.into_iter().filter(|(_, is_set)| has(&managed.name, *is_set) && !has(&second, *is_set));
    lacking.map(|(key, _)| key).collect()
}

/// The record of the QOS for what a group borrows: the owner's limits, those on the whole group so many times.
fn borrower(owner: &ManagedQos, burst: Burst) -> ManagedQos {
    let more = |number: u64| number.saturating_mul(burst.times);
    let mut settings: Settings = owner.settings.clone();
    settings.retain(|field, _| !["Preempt", "Priority", "GraceTime"].contains(field));
    for (_, value) in settings.iter_mut().filter(|(field, _)| field.starts_with("Grp")) {
        match value {
            Value::Tres(limits) => limits.values_mut().for_each(|number| *number = more(*number)),
            Value::Count(number) => *number = more(*number).min(MOST),
            Value::Time(seconds) => *seconds = more(*seconds).min(MOST * 60),
            Value::Factor(_) | Value::Words(_) => {}
        }
    }
    settings.extend(burst.time.map(|time| ("MaxWallDurationPerJob", Value::Time(time))));
    settings.insert("PreemptMode", Value::Words(["requeue".to_owned()].into()));
    // slurm.conf may have a time in which no job is preempted.
    settings.insert("PreemptExemptTime", Value::Time(0));
    settings.extend((burst.grace > 0).then_some(("GraceTime", Value::Time(burst.grace))));
    ManagedQos {
        name: name(&owner.name),
        gpus: owner.gpus.iter().map(|(gres_type, number)| (gres_type.clone(), more(*number))).collect(),
        settings,
        old_names: Vec::new(),
        burst: None,
        burst_of: Some(owner.name.clone()),
        ..owner.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Database;
    use crate::table::settings;

    fn said(text: &str) -> Vec<String> {
        let qoses = Database::parse(text).unwrap().qoses;
        qoses.iter().map(|managed| format!("{}: {}", managed.name, settings(managed))).collect()
    }

    #[test]
    fn a_line_with_burst_is_two_qoses_and_every_owner_preempts_the_second() {
        let text = "QOS=Qos_x Account=x GPUs=a40:4,h100:1 CPUs=32 Burst=2x BurstTime=4:00:00 MaxJobsPerUser=3\n\
                    QOS=qos_y Account=y GPUs=a40:1 Priority=7 Preempt=normal\nQOS=free Account=*";
        assert_eq!(
            said(text),
            [
                "qos_x: GrpTRES=cpu=32,gres/gpu=5,gres/gpu:a40=4,gres/gpu:h100=1 MaxJobsPerUser=3 Priority=1000 \
                 Preempt=qos_x_burst",
                "qos_x_burst: GrpTRES=cpu=64,gres/gpu=10,gres/gpu:a40=8,gres/gpu:h100=2 \
                 MaxWallDurationPerJob=04:00:00 MaxJobsPerUser=3 PreemptMode=requeue PreemptExemptTime=00:00:00 \
                 GraceTime=00:05:00",
                "qos_y: GrpTRES=gres/gpu=1,gres/gpu:a40=1 Priority=7 Preempt=normal,qos_x_burst",
                "free: ",
            ]
        );
        let all = Database::parse(text).unwrap().qoses;
        let [owner, burst, ..] = all.as_slice() else { panic!() };
        assert_eq!((&burst.members, burst.burst_of.as_deref()), (&owner.members, Some("qos_x")));
        assert!(burst.keeps_to_its_types && burst.gpus.contains(&("a40".to_owned(), 8)));
    }

    #[test]
    fn a_groups_limits_are_multiplied_and_all_others_are_the_same() {
        let owner = "QOS=q Account=x GPUs=a40:4 Burst=2x BurstGraceTime=0 GrpTRESMins=cpu=100 GrpJobs=2000000000 \
                     GrpWall=10 MaxWall=60 MaxTRESPerUser=cpu=8 Priority=5 Preempt=normal PreemptMode=cancel \
                     GraceTime=9 Flags=OverPartQOS,DenyOnLimit";
        assert_eq!(
            said(owner)[1],
            "q_burst: GrpTRES=gres/gpu=8,gres/gpu:a40=8 GrpTRESMins=cpu=200 GrpJobs=2147483647 GrpWall=00:20:00 \
             MaxWallDurationPerJob=01:00:00 MaxTRESPerUser=cpu=8 PreemptMode=requeue PreemptExemptTime=00:00:00 \
             Flags=DenyOnLimit,OverPartQOS"
        );
    }

    #[test]
    fn what_borrowers_get_is_at_most_what_slurm_knows() {
        let text = "QOS=q Account=x GPUs=a40:4 GrpWall=2000000000 Burst=2x BurstGraceTime=1-0";
        let second = said(text).remove(1);
        assert!(second.contains(" GrpWall=1491308-02:07:00 "), "2147483647 minutes: {second}");
        assert!(second.ends_with(" GraceTime=1-00:00:00"), "a day is allowed: {second}");
    }

    #[test]
    fn an_old_name_is_of_one_line_and_told_once() {
        let all = Database::parse("QOS=q Account=x GPUs=a40:4 GrpCpus=8 Burst=2x").unwrap().qoses;
        assert_eq!(all.iter().map(|managed| managed.old_names.len()).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn all_that_gives_way_gives_way_to_every_owner() {
        let text = "QOS=x Account=x GPUs=a40:4 Preempt=normal,low Burst=1x\nQOS=y Account=y GPUs=a40:1 Preempt=normal";
        let (lent, all) = super::gives_way(&Database::parse(text).unwrap().qoses);
        assert_eq!(lent, ["x_burst".to_owned()].into());
        assert_eq!(all, ["normal", "x_burst"].map(str::to_owned).into());
        assert_eq!(super::gives_way(&[]), Default::default());
    }

    #[test]
    fn without_burst_nothing_is_added() {
        assert_eq!(said("QOS=q Account=x GPUs=a40:4"), ["q: GrpTRES=gres/gpu=4,gres/gpu:a40=4"]);
    }

    #[test]
    fn what_makes_no_pair_says_so() {
        for (text, expected) in [
            (
                "QOS=q Account=x GPUs=a40:4 Burst=2",
                "Burst can't be '2'; allowed is how many times the line's quota",
            ),
            ("QOS=q Account=x GPUs=a40:4 Burst=0x", "Burst can't be '0x'"),
            ("QOS=q Account=x Burst=2x", "Burst needs Account and GPUs"),
            ("QOS=q GPUs=a40:1 Burst=2x", "Burst needs Account and GPUs"),
            ("QOS=q Account=x GPUs=a40:1 BurstTime=60", "BurstTime or BurstGraceTime needs Burst"),
            ("QOS=q Account=x GPUs=a40:1 Burst=1x BurstTime=0", "BurstTime can't be '0'"),
            ("QOS=q Account=x GPUs=a40:1 Burst=1x BurstGraceTime=2-0", "BurstGraceTime can't be '2-0'"),
            (
                "QOS=q Account=x GPUs=a40:1 Burst=1x BurstTime=5",
                "BurstTime needs to be longer than BurstGraceTime",
            ),
            (
                "QOS=q Account=x GPUs=a40:1 Burst=1x\nQOS=Q_burst Priority=1",
                "line 2: the owner or limits of QOS 'q_burst' are already in line 1",
            ),
        ] {
            let said = Database::parse(text).unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
