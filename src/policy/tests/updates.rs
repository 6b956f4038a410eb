//! Updates of pending jobs.

use super::modes::with_record;
use super::*;

fn update(change: Request, existing: &Request, policy: &Policy) -> Option<Rule> {
    match judge_update(&Update { job: b"7", request: change }, existing, policy, &Table) {
        Verdict::Accept(_) => None,
        Verdict::Refuse(refusal) => Some(refusal.rule),
    }
}

#[test]
fn a_job_comes_into_a_governed_qos_only_with_its_gpus_named_again() {
    let none = Request::new(Spelling::Slash);
    let untyped = node("normal", "gres/gpu:2");
    let typed = node("normal", "gres/gpu:a40:2");
    let governed = node("qos_lafferty", "gres/gpu:a40:2");
    let qos = |name: &'static str| Request { qos: Some(name.as_bytes()), ..none };
    let gres = |text: &'static str| Request { tres_per_node: Some(text.as_bytes()), ..none };
    let both = |name: &'static str, text: &'static str| Request { qos: Some(name.as_bytes()), ..gres(text) };
    let old = Request { spelling: Spelling::Colon, ..none };
    for (change, existing, expected) in [
        (qos("qos_lafferty"), untyped, Some(Rule::TypeMissing)),
        (qos("qos_lafferty"), typed, Some(Rule::NotRestated)),
        (qos("qos_lafferty"), none, Some(Rule::NotRestated)),
        (qos("QOS_lafferty"), governed, None),
        (qos("qos_two"), governed, Some(Rule::NotRestated)),
        (qos("normal"), governed, None),
        (both("qos_lafferty", "gres/gpu:a40:1"), untyped, None),
        (both("qos_lafferty", "gres/gpu:0"), untyped, Some(Rule::NotRestated)),
        (both("qos_lafferty", ""), untyped, Some(Rule::NotRestated)),
        (both("qos_lafferty", "gres:gpu:a40:1"), untyped, Some(Rule::Unreadable)),
        (both("qos_lafferty", "xgres/gpu:2"), none, Some(Rule::Unreadable)),
        (
            both("qos_lafferty", "gres/gpu:a40:1"),
            Request { tres_per_job: Some(b"gres/gpu:2"), ..none },
            Some(Rule::TypeMissing),
        ),
        (
            Request { tres_per_job: Some(b""), ..both("qos_lafferty", "gres/gpu:a40:1") },
            Request { tres_per_job: Some(b"gres/gpu:2"), ..none },
            None,
        ),
        (gres("gres/gpu:2"), governed, Some(Rule::TypeMissing)),
        (gres("gresgpu"), governed, Some(Rule::Unreadable)),
        (gres("gres/gpu:a40:3"), governed, None),
        (gres("gres/gpu:2"), untyped, None),
        (qos("normal,qos_lafferty"), untyped, Some(Rule::QosList)),
        (qos(""), Request { user_id: 2001, ..untyped }, Some(Rule::TypeMissing)),
        (qos(""), untyped, None),
        (Request { ntasks_per_tres: Some(1), ..none }, qos("qos_lafferty"), Some(Rule::NtasksPerGpuAlone)),
        (
            Request { tres_per_node: Some(b"gres:gpu:a40:1"), qos: Some(b"qos_lafferty"), ..old },
            Request { tres_per_node: Some(b"gres:gpu:2"), ..old },
            None,
        ),
        (
            Request { tres_per_node: Some(b"gres/gpu:a40:1"), qos: Some(b"qos_lafferty"), ..old },
            Request { tres_per_node: Some(b"gres:gpu:2"), ..old },
            Some(Rule::Unreadable),
        ),
    ] {
        assert_eq!(update(change, &existing, &Policy::default()), expected, "{change:?} of {existing:?}");
    }
}

#[test]
fn what_an_update_does_not_say_stays() {
    let warned = with_record("*", QosRecord { mode: Some(Mode::Warn), ..QosRecord::default() });
    let existing = node("normal", "gres/gpu:2");
    let change = Request { qos: Some(b"qos_lafferty"), ..Request::new(Spelling::Slash) };
    assert_eq!(update(change, &existing, &warned), None);
    let filling = with_record("*", QosRecord { mode: Some(Mode::Default), ..QosRecord::default() });
    assert_eq!(
        update(change, &existing, &filling),
        Some(Rule::TypeMissing),
        "the old request is not rewritten"
    );
    let restated = Request { tres_per_node: Some(b"gres/gpu:1"), ..change };
    assert_eq!(update(restated, &existing, &filling), None, "the new one is");
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
fn a_job_leaves_an_exemption_only_with_its_gpus_named_again() {
    let exempt = Exempt {
        partitions: patterns("debug"),
        reservations: patterns("maint"),
        accounts: patterns("staff"),
        ..Exempt::default()
    };
    let policy = Policy { exempt, ..Policy::default() };
    // As Slurm shows a job of --ntasks-per-gpu, or one whose request was emptied.
    let hidden =
        Request { qos: Some(b"qos_lafferty"), partition: Some(b"main"), ..Request::new(Spelling::Slash) };
    let none = Request::new(Spelling::Slash);
    let typed = Request { tres_per_node: Some(b"gres/gpu:a40:1"), ..none };
    let debug = Request { partition: Some(b"debug"), ..hidden };
    let reserved = Request { reservation: Some(b"maint"), ..hidden };
    for (change, existing, expected) in [
        (Request { partition: Some(b"main"), ..none }, debug, Some(Rule::NotRestated)),
        (Request { partition: Some(b"main,debug"), ..none }, debug, Some(Rule::NotRestated)),
        (Request { partition: Some(b"main"), ..typed }, debug, None),
        (Request { reservation: Some(b""), ..none }, reserved, Some(Rule::NotRestated)),
        (Request { reservation: Some(b"maint"), ..none }, debug, None),
        (Request { partition: Some(b"main"), qos: Some(b"normal"), ..none }, debug, None),
        (Request { partition: Some(b"other"), ..none }, hidden, None),
    ] {
        assert_eq!(update(change, &existing, &policy), expected, "{change:?} of {existing:?}");
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
    assert_eq!(update(change, &node("normal", "gres/gpu:2"), &policy), Some(Rule::TypeMissing));
    assert_eq!(update(change, &node("normal", "gres/gpu:a40:2"), &policy), Some(Rule::NotRestated));
}
