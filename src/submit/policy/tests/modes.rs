//! Modes and exemptions: requests that pass although they break a rule.

use super::*;

pub(super) fn with_record(names: &str, record: QosRecord) -> Policy {
    Policy { records: vec![QosRecord { names: patterns(names), ..record }], ..Policy::default() }
}

pub(super) fn remarks(verdict: Verdict) -> Vec<Remark> {
    accepted(verdict).remarks
}

#[test]
fn modes_let_pass_what_they_should_and_only_under_their_qos() {
    for (mode, because) in [(Mode::Warn, Because::Warn), (Mode::Audit, Because::Audit)] {
        let policy = with_record("QOS_laff*", QosRecord { mode: Some(mode), ..QosRecord::default() });
        let passed = remarks(judge(&node("qos_lafferty", "gres/gpu:2"), &policy, &TABLE));
        assert!(
            matches!(&passed[..], [Remark::Passed(fault, why)] if fault.rule == Rule::TypeMissing && *why == because)
        );
        assert_eq!(rule(&node("qos_two", "gres/gpu:2"), &policy), Some(Rule::TypeMissing));
        assert_eq!(
            rule(&node("qos_lafferty,--gres=gpu:2", ""), &policy),
            Some(Rule::OptionInsideQos),
            "Slurm's error"
        );
        assert_eq!(remarks(judge(&node("qos_lafferty", "gres/gpu:a40:2"), &policy, &TABLE)), []);
    }
}

#[test]
fn the_default_type_is_filled_in_where_it_makes_the_request_right() {
    let policy = |gres_type: Option<&str>| {
        let record = QosRecord {
            mode: Some(Mode::Default),
            default_type: gres_type.map(str::to_owned),
            ..QosRecord::default()
        };
        with_record("*", record)
    };
    for (qos, gres_type, text, expected) in [
        ("qos_lafferty", None, "gres/gpu:2", Some("gres/gpu:a40:2")),
        ("qos_lafferty", None, "cpu=2,gres/gpu,gres/nic:1", Some("cpu=2,gres/gpu:a40:1,gres/nic:1")),
        ("qos_lafferty", None, "gres/gpu:2,gresgpu", None),
        ("qos_lafferty", Some("h100"), "gres/gpu:2", None),
        ("qos_lafferty", Some("nonsense"), "gres/gpu:2", None),
        ("qos_two", None, "gres/gpu:2", None),
        ("qos_two", Some("h100"), "gres/gpu:2", Some("gres/gpu:h100:2")),
        ("qos_none_of_h100", None, "gres/gpu:2", Some("gres/gpu:a40:2")),
        ("qos_lafferty", None, "gres/gpu:h100:2", None),
        ("qos_shards", None, "gres/shard:2", None),
    ] {
        let policy = policy(gres_type);
        let verdict = judge(&node(qos, text), &policy, &TABLE);
        let filled = match verdict {
            Ok(accepted) => match &accepted.remarks[..] {
                [Remark::Changed(Change::Type { fields, .. })] => {
                    assert_eq!(fields.len(), 1);
                    Some(String::from_utf8(fields[0].1.clone()).unwrap())
                }
                other => panic!("{other:?}"),
            },
            Err(_) => None,
        };
        assert_eq!(filled.as_deref(), expected, "{qos} {text}");
    }
    let tasks = Request { num_tasks: Some(4), ntasks_per_tres: Some(2), ..node("qos_lafferty", "") };
    let added = remarks(judge(&tasks, &policy(None), &TABLE));
    assert!(
        matches!(&added[..], [Remark::Changed(Change::Type { fields, .. })]
            if fields[..] == [(crate::submit::request::Field::Job, b"gres/gpu:a40:2".to_vec())]),
        "{added:?}"
    );
    let filling = policy(None);
    let update = changed(asked("n=4 per-gpu=2"), &asked("qos=qos_lafferty"), &filling);
    assert_eq!(broken(update), Some(Rule::NtasksPerGpuAlone), "not in an update");
    let uneven = Request { num_tasks: Some(5), ..tasks };
    assert_eq!(rule(&uneven, &policy(None)), Some(Rule::NtasksPerGpuAlone));
}

#[test]
fn exemptions_are_for_all_that_a_job_names() {
    let request = |partition: &'static str, reservation: &'static str, uid| Request {
        partition: Some(partition.as_bytes()).filter(|text| !text.is_empty()),
        reservation: Some(reservation.as_bytes()).filter(|text| !text.is_empty()),
        user_id: uid,
        ..node("qos_lafferty", "gres/gpu:2")
    };
    let exempt = Exempt {
        users: patterns("root,2002"),
        partitions: patterns("debug,main"),
        reservations: patterns("maint*"),
        accounts: patterns("Staff"),
    };
    let policy = Policy { exempt, ..Policy::default() };
    for (partition, reservation, uid, expected) in [
        ("other", "", 2001, None),
        ("other", "", 0, Some(Because::User)),
        ("other", "", 2002, Some(Because::User)),
        ("debug", "", 2001, Some(Because::Partition)),
        ("DEBUG", "", 2001, None),
        ("debug,other", "", 2001, None),
        ("", "", 2001, Some(Because::Partition)),
        ("", "r", 2001, None),
        ("other", "maintenance", 2001, Some(Because::Reservation)),
        ("other", "maintenance,r", 2001, None),
    ] {
        let found = match judge(&request(partition, reservation, uid), &policy, &TABLE) {
            Err(_) => None,
            Ok(accepted) => match &accepted.remarks[..] {
                [Remark::Passed(_, because)] => Some(*because),
                other => panic!("{other:?}"),
            },
        };
        assert_eq!(found, expected, "{partition} {reservation} {uid}");
    }
    let crontab = Request { recurs: true, ..request("other", "maintenance", 2001) };
    assert_eq!(rule(&crontab, &policy), Some(Rule::TypeMissing), "it starts again");
    let of_staff = Request { account: Some(b"staff"), ..request("other", "", 2001) };
    let passed = remarks(judge(&of_staff, &policy, &TABLE));
    assert!(matches!(&passed[..], [Remark::Passed(_, Because::Account)]));
}

#[test]
fn the_mode_of_a_sites_rule_is_that_of_the_strictest_qos_of_the_job() {
    let record =
        |names: &str, mode| QosRecord { names: patterns(names), mode: Some(mode), ..QosRecord::default() };
    let policy = |mode, records: &[QosRecord]| Policy {
        mode,
        records: records.to_vec(),
        shares: ShareRules { sizes: vec![4], ..ShareRules::default() },
        ..Policy::default()
    };
    let audited = policy(Mode::Audit, &[record("normal", Mode::Enforce)]);
    let free = policy(Mode::Enforce, &[record("free*", Mode::Audit)]);
    let open = |qos| Request { qos, ..node("", "gres/shard:3") };
    let unnamed = Request { user_id: 0, ..open(None) };
    let reserved = Request { reservation: Some(b"r"), ..unnamed };
    for (request, policy, expected) in [
        (open(Some(b"normal")), &audited, Some(Rule::ShareSize)),
        (unnamed, &audited, Some(Rule::ShareSize)),
        (open(Some(b"free")), &audited, None),
        (open(Some(b"free")), &free, None),
        (open(Some(b"free,normal")), &free, Some(Rule::ShareSize)),
        (open(Some(b"normal,free")), &free, Some(Rule::ShareSize)),
        (open(Some(b"free,free2")), &free, None),
    ] {
        assert_eq!(rule(&request, policy), expected, "{request:?} {policy:?}");
    }
    let gres = GovernedGres(vec!["gpu".to_owned()]);
    assert_eq!(
        rule(&reserved, &Policy { gres, ..audited }),
        Some(Rule::ShareSize),
        "one of its candidates is normal"
    );
}

#[test]
fn no_type_is_filled_in_where_the_qos_is_not_certain_or_the_string_would_be_too_long() {
    let filling = with_record("*", QosRecord { mode: Some(Mode::Default), ..QosRecord::default() });
    let request = Request { qos: None, reservation: Some(b"r"), ..node("", "gres/gpu:1") };
    assert_eq!(rule(&request, &filling), Some(Rule::TypeMissing));
    let warned = with_record("qos_lafferty", QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    assert_eq!(rule(&request, &warned), None, "nothing is filled in");
    let many = format!("gres/gpu:1,gres/{}:1", "x".repeat(1006));
    assert!(many.len() <= 1024 && many.len() + 4 > 1024);
    assert_eq!(rule(&node("qos_lafferty", &many), &filling), Some(Rule::TypeMissing));
}

#[test]
fn of_several_records_the_first_that_says_something_counts() {
    let mut policy = with_record("qos_*", QosRecord { requeue: Some(true), ..QosRecord::default() });
    let record =
        |mode| QosRecord { names: patterns("qos_lafferty"), mode: Some(mode), ..QosRecord::default() };
    policy.records.extend([record(Mode::Audit), record(Mode::Enforce)]);
    assert_eq!(policy.mode(b"qos_lafferty"), Mode::Audit);
    assert_eq!(policy.mode(b"qos_two"), Mode::Enforce);
}

#[test]
fn nobody_is_exempt_by_a_name_that_is_not_there() {
    let all = || patterns("*");
    let none = Exempt { reservations: all(), ..Exempt::default() };
    let policy = Policy { exempt: none, ..Policy::default() };
    assert_eq!(
        rule(&node("qos_lafferty", "gres/gpu:1"), &policy),
        Some(Rule::TypeMissing),
        "in no reservation"
    );
    let policy = Policy { exempt: Exempt { users: all(), ..Exempt::default() }, ..Policy::default() };
    assert_eq!(rule(&node("qos_lafferty", "gres/gpu:1"), &policy), None);
}

#[test]
fn a_long_name_has_its_own_mode() {
    assert!(LONG_NAME.len() > QUOTED);
    let warned = with_record(LONG_NAME, QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    let request = node(LONG_NAME, "gres/gpu:2");
    assert_eq!(rule(&request, &warned), None);
    let shorter =
        with_record(&LONG_NAME[..QUOTED], QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    assert_eq!(rule(&request, &shorter), Some(Rule::TypeMissing));
}

#[test]
fn a_list_has_the_strictest_mode_of_its_qoses_and_what_a_job_can_leave_does_not_cover_it() {
    let warned = with_record("qos_lafferty", QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    for list in ["qos_lafferty,qos_two", "qos_two,qos_lafferty"] {
        assert_eq!(rule(&node(list, "gres/gpu:2"), &warned), Some(Rule::QosList), "{list}");
    }
    assert_eq!(rule(&node("qos_lafferty,free", "gres/gpu:2"), &warned), None);
    let exempt = Exempt { partitions: patterns("ex*"), ..Exempt::default() };
    let policy = Policy { exempt, ..Policy::default() };
    let list = Request { partition: Some(b"ex1"), ..node("free,qos_lafferty", "gres/gpu:2") };
    assert_eq!(rule(&list, &policy), Some(Rule::QosList));
    let one = Request { partition: Some(b"ex1"), ..node("qos_lafferty", "gres/gpu:2") };
    assert_eq!(rule(&one, &policy), None);
}
