//! Updates of pending jobs.

use super::modes::with_record;
use super::*;

fn update(change: Request, existing: &Request, policy: &Policy) -> Option<Rule> {
    broken(changed(change, existing, policy))
}

#[test]
fn a_job_comes_into_a_governed_qos_only_with_its_gpus_named_again() {
    let stays = Some(Rule::OldRequestStays);
    let untyped = "qos=normal node=gres/gpu:2";
    let typed = "qos=normal node=gres/gpu:a40:2";
    let governed = "qos=qos_lafferty node=gres/gpu:a40:2";
    for (change, existing, expected) in [
        ("qos=qos_lafferty", untyped, stays),
        ("qos=qos_lafferty", typed, Some(Rule::NotRestated)),
        ("qos=qos_lafferty", "", stays),
        ("qos=qos_lafferty node=gres/gpu:a40:1", "", stays),
        ("qos=qos_lafferty node=gres/gpu:a40:1", typed, None),
        ("qos=qos_lafferty node=gres/gpu:a40:1", "qos=normal node=gres/gpu:h100:1", stays),
        // Until the second step, Slurm might give it more GPUs than it counts.
        ("qos=qos_lafferty job=gres/gpu:a40:2", "job=gres/gpu:a40:1 n=70", stays),
        ("qos=qos_lafferty job=gres/gpu:a40:2", "job=gres/gpu:a40:1 n=70 Nmax=1", None),
        ("qos=qos_lafferty job=gres/gpu:a40:2", "job=gres/gpu:a40:1 n=1", None),
        ("qos=qos_lafferty job=gres/gpu:a40:2", "job=gres/gpu:a40:1 n=1 per-node=2", stays),
        ("qos=qos_lafferty job=gres/gpu:a40:2", "job=gres/gpu:a40:1 n=1 per-node=0", None),
        ("qos=qos_sum", "job=gres/gpu:1 n=70", stays),
        ("qos=qos_sum", "job=gres/gpu:1 n=1", None),
        ("qos=qos_sum", "task=gres/gpu:1 n=3 per-node=2", stays),
        ("qos=QOS_lafferty", governed, None),
        // Where the job already is, its old GPUs are no reason.
        ("qos=QOS_lafferty node=gres/gpu:a40:2", "qos=qos_lafferty node=gres/gpu:2", None),
        ("p=main node=gres/gpu:a40:2", "qos=qos_lafferty p=main node=gres/gpu:2", None),
        ("p=main,p node=gres/gpu:a40:2", "qos=qos_lafferty p=main node=gres/gpu:2", stays),
        ("qos=qos_two", governed, Some(Rule::NotRestated)),
        ("qos=normal", governed, None),
        ("qos=qos_lafferty node=gres/gpu:a40:1", untyped, stays),
        ("qos=qos_lafferty node=gres/gpu:0", typed, Some(Rule::NotRestated)),
        ("qos=qos_lafferty node=", typed, Some(Rule::NotRestated)),
        ("qos=qos_lafferty node=gres:gpu:a40:1", typed, Some(Rule::Unreadable)),
        ("qos=qos_lafferty node=xgres/gpu:2", "", Some(Rule::Unreadable)),
        ("qos=qos_lafferty node=gres/gpu:a40:1", "job=gres/gpu:2", stays),
        ("qos=qos_lafferty node=gres/gpu:a40:1 job=", "job=gres/gpu:2", stays),
        ("node=gres/gpu:2", governed, Some(Rule::TypeMissing)),
        ("node=gresgpu", governed, Some(Rule::Unreadable)),
        ("node=gres/gpu:a40:3", governed, None),
        ("node=gres/gpu:2", untyped, None),
        ("qos=normal,qos_lafferty", untyped, Some(Rule::QosList)),
        ("qos=", "qos=normal node=gres/gpu:2 user=2001", stays),
        ("qos=", untyped, None),
        ("per-gpu=1", "qos=qos_lafferty", Some(Rule::NtasksPerGpuAlone)),
    ] {
        let found = update(asked(change), &asked(existing), &Policy::default());
        assert_eq!(found, expected, "{change} of {existing}");
    }
    let old = |options| Request { spelling: Spelling::Colon, ..asked(options) };
    for (change, expected) in [
        ("qos=qos_lafferty node=gres:gpu:a40:1", None),
        ("qos=qos_lafferty node=gres/gpu:a40:1", Some(Rule::Unreadable)),
    ] {
        let found = update(old(change), &old("node=gres:gpu:a40:2"), &Policy::default());
        assert_eq!(found, expected, "before 23.11: {change}");
    }
}

#[test]
fn a_move_with_more_nodes_than_counted_passes_where_a_submission_would() {
    let change = || asked("qos=qos_lafferty job=gres/gpu:a40:1");
    let existing = asked("qos=normal job=gres/gpu:a40:1 n=70");
    for (mode, because) in [(Mode::Warn, Because::Warn), (Mode::Audit, Because::Audit)] {
        let policy = with_record("qos_lafferty", QosRecord { mode: Some(mode), ..QosRecord::default() });
        let accepted = accepted(changed(change(), &existing, &policy));
        let Some(Remark::Passed(fault, why)) = accepted.remarks.last() else { panic!("{accepted:?}") };
        assert_eq!((fault.rule, *why), (Rule::OldRequestStays, because));
    }
    for (exempt, expected) in [
        (Exempt { users: patterns("alice"), ..Exempt::default() }, None),
        (Exempt { users: patterns("bob"), ..Exempt::default() }, Some(Rule::OldRequestStays)),
    ] {
        let policy = Policy { exempt, ..Policy::default() };
        let change = Request { user_id: 1, ..change() };
        assert_eq!(update(change, &Request { user_id: 1, ..existing }, &policy), expected);
    }
}

#[test]
fn what_an_update_does_not_say_stays() {
    let warned = with_record("*", QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    let existing = node("normal", "gres/gpu:2");
    let change = Request { qos: Some(b"qos_lafferty"), ..Request::new(Spelling::Slash) };
    assert_eq!(update(change, &existing, &warned), None);
    let filling = with_record("*", QosRecord { mode: Some(Mode::Default), ..QosRecord::default() });
    let stays = Some(Rule::OldRequestStays);
    assert_eq!(update(change, &existing, &filling), stays, "the old request is not rewritten");
    let restated = Request { tres_per_node: Some(b"gres/gpu:1"), ..change };
    assert_eq!(update(restated, &existing, &filling), stays);
    let typed = node("normal", "gres/gpu:a40:2");
    assert_eq!(update(restated, &typed, &filling), None, "the new one is");
    let shares = ShareRules { reservations: patterns("course"), ..ShareRules::default() };
    let policy = Policy { shares, ..Policy::default() };
    let in_course = Request { reservation: Some(b"course_1"), ..node("normal", "gres/mps:40") };
    let elsewhere = Request { reservation: Some(b"other"), ..Request::new(Spelling::Slash) };
    assert_eq!(update(elsewhere, &in_course, &policy), Some(Rule::ShareReservation));
    let left = Request { reservation: Some(b""), ..Request::new(Spelling::Slash) };
    assert_eq!(update(left, &in_course, &policy), Some(Rule::ShareReservation));
    assert!(!Request::new(Spelling::Slash).touches_rules(), "a hold touches nothing");
}

#[test]
fn a_share_that_only_our_note_tells_the_node_stays_as_it_was_submitted() {
    let policy = Policy { share_gres: ShareGres("gpushare".to_owned()), ..Policy::default() };
    let to = |text: &'static [u8]| Request { tres_per_node: Some(text), ..Request::new(Spelling::Slash) };
    let hold = Request { partition: Some(b"p2"), ..Request::new(Spelling::Slash) };
    for (change, was, expected) in [
        (to(b"gres/gpushare:1"), "gres/gpushare:4", Some(Rule::ShareFixed)),
        (to(b""), "gres/gpushare:4", Some(Rule::ShareFixed)),
        (to(b"gres/gpushare:0"), "gres/gpushare:4", Some(Rule::ShareFixed)),
        (to(b"gres/gpushare:4"), "gres/nic:1", Some(Rule::ShareFixed)),
        (to(b"gres/gpushare:4"), "gres/gpushare:4", None),
        (to(b"gres/nic:2"), "gres/nic:1", None),
        (hold, "gres/gpushare:4", None),
    ] {
        assert_eq!(update(change, &node("normal", was), &policy), expected, "{change:?} of {was}");
    }
    assert_eq!(update(to(b"gres/mps:40"), &node("normal", "gres/mps:80"), &Policy::default()), None);
}

#[test]
fn a_job_leaves_an_exemption_only_with_its_gpus_named_again() {
    let exempt = Exempt {
        partitions: patterns("debug"),
        reservations: patterns("maint"),
        accounts: patterns("staff"),
        ..Exempt::default()
    };
    let policy = Policy { exempt, ..Policy::default() };
    let stays = Some(Rule::OldRequestStays);
    // Slurm shows a job of --ntasks-per-gpu like this, and one whose request was emptied.
    let debug = "qos=qos_lafferty p=debug";
    for (change, existing, expected) in [
        ("p=main", debug, stays),
        ("p=main,debug", debug, stays),
        ("p=main node=gres/gpu:a40:1", debug, stays),
        ("p=main", "qos=qos_lafferty p=debug node=gres/gpu:2", stays),
        ("p=main node=gres/gpu:a40:1", "qos=qos_lafferty p=debug node=gres/gpu:2", stays),
        ("p=main", "qos=qos_lafferty p=debug node=gres/gpu:a40:2", Some(Rule::NotRestated)),
        ("p=main node=gres/gpu:a40:1", "qos=qos_lafferty p=debug node=gres/gpu:a40:2", None),
        ("reservation=", "qos=qos_lafferty p=main reservation=maint", stays),
        (
            "reservation= node=gres/gpu:a40:1",
            "qos=qos_lafferty reservation=maint p=main node=gres/gpu:2",
            stays,
        ),
        ("reservation=maint", debug, None),
        ("p=main qos=normal", debug, None),
        ("p=other", "qos=qos_lafferty p=main", None),
    ] {
        assert_eq!(update(asked(change), &asked(existing), &policy), expected, "{change} of {existing}");
    }
}

#[test]
fn a_list_of_qoses_is_no_way_into_a_governed_partition() {
    let policy = Policy { partitions: patterns("owned"), ..Policy::default() };
    let list = Request { partition: Some(b"owned"), ..node("normal,free", "gres/gpu:2") };
    assert_eq!(rule(&list, &policy), Some(Rule::TypeMissing));
    assert_eq!(rule(&Request { tres_per_node: Some(b"gres/gpu:a40:2"), ..list }, &policy), None);
    assert_eq!(rule(&Request { partition: Some(b"main"), ..list }, &policy), None);
    let change = Request { tres_per_node: None, ..list };
    assert_eq!(update(change, &node("normal", "gres/gpu:2"), &policy), Some(Rule::OldRequestStays));
    assert_eq!(update(change, &node("normal", "gres/gpu:a40:2"), &policy), Some(Rule::NotRestated));
}

#[test]
fn a_job_comes_among_shares_or_out_of_their_reservation_only_with_its_gres_named_again() {
    let shares = ShareRules {
        reservations: patterns("course"),
        only_partitions: patterns("shared"),
        ..ShareRules::default()
    };
    let policy = Policy { shares, ..Policy::default() };
    for (change, existing, expected) in [
        ("p=shared", "qos=normal node=", Some(Rule::OldRequestStays)),
        ("p=shared", "qos=normal p=p node=gres/mps:1 reservation=course_1", Some(Rule::NotRestated)),
        ("p=shared", "qos=normal node=gres/gpu:1", Some(Rule::WholeGpu)),
        ("p=shared", "qos=normal node= p=shared", None),
        ("p=p", "qos=normal node=", None),
        (
            "p=shared node=gres/mps:1",
            "qos=normal p=p node= reservation=course_1",
            Some(Rule::OldRequestStays),
        ),
        ("p=shared node=gres/mps:1", "qos=normal p=p node=gres/mps:2 reservation=course_1", None),
        (
            "p=shared node=gres/mps:1",
            "qos=normal p=p node=gres/gpu:1 reservation=course_1",
            Some(Rule::OldRequestStays),
        ),
        ("reservation=", "qos=normal node= reservation=course_1", Some(Rule::OldRequestStays)),
        ("reservation=", "qos=normal node=gres/gpu:1 reservation=course_1", Some(Rule::NotRestated)),
        (
            "reservation= node=gres/gpu:1",
            "qos=normal node= reservation=course_1",
            Some(Rule::OldRequestStays),
        ),
        (
            "reservation= node=gres/gpu:1",
            "qos=normal node=gres/mps:1 reservation=course_1",
            Some(Rule::OldRequestStays),
        ),
        ("reservation= node=gres/gpu:1", "qos=normal node=gres/gpu:2 reservation=course_1", None),
        (
            "reservation= node=gres/mps:1",
            "qos=normal node= reservation=course_1",
            Some(Rule::ShareReservation),
        ),
        ("reservation=course_2", "qos=normal node=gres/mps:1 reservation=course_1", None),
        ("node=", "qos=normal node=gres/mps:1 reservation=course_1", None),
    ] {
        assert_eq!(update(asked(change), &asked(existing), &policy), expected, "{change} of {existing}");
    }
}

#[test]
fn every_field_of_the_old_job_counts_until_it_is_changed() {
    let none = Request::new(Spelling::Slash);
    let text = Some(b"gres/gpu:2".as_slice());
    let change = Request { qos: Some(b"qos_lafferty"), tres_per_node: Some(b"gres/gpu:a40:1"), ..none };
    for existing in [
        Request { tres_per_job: text, ..none },
        Request { tres_per_task: text, ..none },
        Request { tres_per_socket: text, ..none },
    ] {
        assert_eq!(
            update(change, &existing, &Policy::default()),
            Some(Rule::OldRequestStays),
            "{existing:?}"
        );
        let inside = Request { qos: Some(b"qos_lafferty"), ..existing };
        let more = Request { qos: None, ..change };
        assert_eq!(update(more, &inside, &Policy::default()), Some(Rule::TypeMissing), "{existing:?}");
    }
    let tasks = Request { ntasks_per_tres: Some(1), ..Request { qos: Some(b"qos_lafferty"), ..none } };
    let node_only = Request { tres_per_node: Some(b"gres/gpu:a40:0"), ..none };
    assert_eq!(update(node_only, &tasks, &Policy::default()), Some(Rule::NtasksPerGpuAlone));
    let merged = change.over(&Request {
        account: Some(b"a"),
        partition: Some(b"p"),
        reservation: Some(b"r"),
        num_tasks: Some(3),
        exclusive: true,
        user_id: 7,
        ..none
    });
    let kept = (merged.account, merged.partition, merged.reservation, merged.num_tasks);
    assert_eq!(kept, (Some(b"a".as_slice()), Some(b"p".as_slice()), Some(b"r".as_slice()), Some(3)));
    assert!(merged.exclusive && merged.user_id == 7);
}

#[test]
fn whatever_a_rule_looks_at_is_looked_at() {
    let none = Request::new(Spelling::Slash);
    let text = Some(b"x".as_slice());
    for change in [
        Request { qos: text, ..none },
        Request { account: text, ..none },
        Request { partition: text, ..none },
        Request { reservation: text, ..none },
        Request { tres_per_job: text, ..none },
        Request { tres_per_node: text, ..none },
        Request { tres_per_socket: text, ..none },
        Request { tres_per_task: text, ..none },
        Request { ntasks_per_tres: Some(1), ..none },
        Request { exclusive: true, ..none },
    ] {
        assert!(change.touches_rules(), "{change:?}");
    }
}

#[test]
fn an_update_to_the_default_qos_is_judged_under_it_and_pins_it() {
    let back = Request { qos: Some(b""), ..Request::new(Spelling::Slash) };
    let accept = |change: &Request, existing: &Request| {
        accepted(changed(*change, existing, &Policy::default())).pin_qos.map(<[u8]>::to_vec)
    };
    let typed = Request { user_id: 2001, ..node("normal", "gres/gpu:a40:1") };
    let restated = Request { tres_per_node: Some(b"gres/gpu:a40:1"), ..back };
    assert_eq!(accept(&restated, &typed), Some(b"qos_lafferty".to_vec()));
    let other = Request { tres_per_node: Some(b"gres/gpu:a40:1"), ..Request::new(Spelling::Slash) };
    assert_eq!(accept(&other, &Request { qos: None, ..typed }), None, "the update says nothing of the QOS");
    // Which default QOS it gets depends on the reservation; one of them is governed.
    let reserved = Request { reservation: Some(b"r"), ..node("normal", "gres/gpu:1") };
    assert_eq!(update(back, &reserved, &Policy::default()), Some(Rule::OldRequestStays));
    let long = "x".repeat(1025);
    let long = Request { account: Some(long.as_bytes()), ..back };
    assert_eq!(update(long, &typed, &Policy::default()), Some(Rule::TooLong));
}

/// What a refused update of this job says to try.
fn advised(change: &str, job: &[u8], array: bool, others: &[&'static str]) -> Option<String> {
    let update = Update { job, array, request: asked(change).into(), anew: true, others };
    match judge_update(&update, &asked("qos=normal node=gres/gpu:a40:2"), &Policy::default(), &TABLE) {
        Err(refusal) => asked::tried(&refusal),
        Ok(_) => panic!("{change} is accepted"),
    }
}

#[test]
fn a_command_is_never_answered_with_itself() {
    let typed = "qos=qos_lafferty node=gres/gpu:a40:1";
    let command = "scontrol update job=12 qos=qos_lafferty TresPerNode=gres/gpu:a40:1";
    assert_eq!(advised(typed, b"12", false, &["Nice"]), None, "another plugin may have set it");
    assert_eq!(
        advised("qos=qos_lafferty node=gres/gpu:1", b"12", false, &["Nice"]).as_deref(),
        Some(command)
    );
    assert_eq!(advised("qos=qos_lafferty node=gres/gpu:1", b"12", false, &[]).as_deref(), Some(command));
    // What moves the job goes alone.
    let more = "qos=qos_lafferty node=gres/gpu:1 n=4";
    assert_eq!(advised(more, b"12", false, &["NumTasks"]).as_deref(), Some(command));
    let more = "qos=qos_lafferty node=gres/gpu:a40:1 n=4";
    assert_eq!(advised(more, b"12", false, &["NumTasks"]), None);
    let jobs = "1".repeat(QUOTED + 1);
    assert_eq!(advised("qos=qos_lafferty", jobs.as_bytes(), false, &[]), None, "too long to copy");
}

#[test]
fn each_of_several_tasks_is_moved_by_a_request_of_its_own() {
    let rest = "qos=qos_lafferty TresPerNode=gres/gpu:a40:2";
    for (job, array, expected) in [
        ("12_3", false, Some("12_3")),
        ("12+1", false, Some("12+1")),
        ("12_2-4,7", false, Some("12_2,12_3,12_4,12_7")),
        ("12_[2-3]", false, Some("12_2,12_3")),
        ("12", true, Some("$(squeue -hrt PD -o %A -j 12 | sort -nru | paste -sd,)")),
        ("12_0-4294967295", false, None),
        ("12_0-9:2", false, None),
        ("12_-", false, None),
    ] {
        let found = advised("qos=qos_lafferty", job.as_bytes(), array, &[]);
        let expected = expected.map(|job| format!("scontrol update job={job} {rest}"));
        assert_eq!(found, expected, "{job}");
    }
}

#[test]
fn tasks_whose_records_are_too_large_are_to_be_updated_one_after_another() {
    let request = asked("qos=qos_lafferty node=gres/gpu:a40:1").into();
    let update = Update { job: b"12", array: true, request, anew: true, others: &[] };
    let number = Rule::TooMuchAtOnce.number();
    assert_eq!(
        crate::submit::message::refusal(&update.too_much()),
        format!(
            "gpushare: the scripts and environments of these jobs are too large for one update; update fewer tasks \
             at a time; {number}, see `gpushare explain {number}`"
        )
    );
}
