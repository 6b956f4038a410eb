//! How Slurm processes a request that names its types: entries, counts and nodes.

use super::asked::{judged, submitted};
use super::*;
use crate::submit::request::Field;

fn plain<'a>(qos: &'a str) -> Request<'a> {
    Request { qos: Some(qos.as_bytes()), ..Request::new(Spelling::Slash) }
}

#[test]
fn a_type_per_gpu_is_one_that_the_job_asks_for_letter_by_letter() {
    let typed = node("qos_lafferty", "gres/gpu:a40:4");
    for (text, expected) in [
        ("gres/gpu:4", None),
        ("gres/gpu:a40:4", None),
        ("gres/nic:x:4", None),
        ("gres/gpu:A40:1", Some(Rule::TypeOfNone)),
        ("gres/gpu:h100:1", Some(Rule::TypeOfNone)),
        ("gres/gpu:mAA0zxtUzzzz:1", Some(Rule::TypeOfNone)),
        ("gres/gpu::1", Some(Rule::TypeOfNone)),
        ("gresgpu", Some(Rule::TypeOfNone)),
        ("", None),
    ] {
        for per_gpu in [
            Request { cpus_per_tres: Some(text.as_bytes()), ..typed },
            Request { mem_per_tres: Some(text.as_bytes()), ..typed },
        ] {
            assert_eq!(submitted(&per_gpu).err(), expected, "{text}");
            let change = Request { qos: None, tres_per_node: None, ..per_gpu };
            assert_eq!(judged(change, &typed, true).err(), expected, "an update to {text}");
        }
    }
    // This also applies without GPUs, because an update can add them later.
    let alone = Request { cpus_per_tres: Some(b"gres/gpu:a40:1"), ..plain("qos_lafferty") };
    assert_eq!(submitted(&alone).err(), Some(Rule::TypeOfNone));
    let without_limit =
        Request { cpus_per_tres: Some(b"gres/gpu:A40:1"), ..node("normal", "gres/gpu:a40:4") };
    assert_eq!(submitted(&without_limit).err(), None, "no limit, no rule");
}

#[test]
fn what_slurm_filled_in_for_each_gpu_is_not_held_against_the_job() {
    let filled = |text: &'static str| {
        let text = Some(text.as_bytes());
        Request { cpus_per_tres: text, mem_per_tres: text, ..node("qos_lafferty", "gres/gpu:a40:1") }
    };
    let none = Request::new(Spelling::Slash);
    let more = Request { tres_per_node: Some(b"gres/gpu:a40:2"), ..none };
    let moved = Request { qos: Some(b"qos_lafferty"), ..none };
    for change in [more, moved] {
        assert_eq!(judged(change, &filled("gpu:2"), true).err(), None, "{change:?}");
        for text in ["gpu:", "gpu:a40", "gpu:2,gpu:2", "gres/gpu:h100:1"] {
            assert_eq!(judged(change, &filled(text), true).err(), Some(Rule::TypeOfNone), "{text}");
            let elsewhere = Request { qos: Some(b"normal"), ..filled(text) };
            let moved = Request { tres_per_node: more.tres_per_node, ..moved };
            assert_eq!(judged(moved, &elsewhere, true).err(), Some(Rule::OldRequestStays), "{text}");
        }
    }
    // A user who writes it themselves gets the message, as before.
    let said = Request { cpus_per_tres: Some(b"gpu:2"), ..none };
    assert_eq!(judged(said, &filled("gpu:2"), true).err(), Some(Rule::TypeOfNone));
}

#[test]
fn a_type_with_the_number_of_another_is_refused_to_everybody() {
    let plain = Request::new(Spelling::Slash);
    let fake: &[u8] = b"gres/gpu:mAA0zxtUzzzz:1";
    for request in [
        Request { tres_per_node: Some(fake), ..plain },
        Request { tres_per_job: Some(fake), ..plain },
        Request { tres_per_task: Some(fake), ..plain },
        Request { tres_per_socket: Some(fake), ..plain },
        Request { cpus_per_tres: Some(fake), ..plain },
        Request { mem_per_tres: Some(b"gres/gpu:a40:1,gres/gpu:mAA0zxtUzzzz"), ..plain },
        Request { tres_per_job: Some(b"gres/gpu:UlAGHFWPcMgh:1"), ..plain },
        // After an unknown type of another GRES.
        Request { tres_per_node: Some(b"gres/gpu:p100:1,gres/shard:mAA0zxtUzzzz:1"), ..plain },
    ] {
        let request = Request { qos: Some(b"normal"), ..request };
        assert_eq!(submitted(&request).err(), Some(Rule::TypeResembles), "{request:?}");
    }
    for text in
        ["gres/gpu:a40:1", "gres/gpu:A40:1", "gres/gpu:mi300:1", "gres/nic:mAA0zxtUzzzz:1", "gres/gpu:1"]
    {
        assert_eq!(submitted(&node("normal", text)).err(), None, "{text}");
    }
    // The bytes aren't those of a type, but up to 23.02 Slurm reads them anyway.
    let strange: &[u8] = b"xgres:gpu:a40\x01\xff\xff\xff:1";
    let id = crate::submit::grammar::type_id(b"a40\x01\xff\xff\xff");
    assert_ne!(id, crate::submit::grammar::type_id(b"a40"));
    let colon =
        Request { tres_per_node: Some(strange), qos: Some(b"normal"), ..Request::new(Spelling::Colon) };
    assert_eq!(submitted(&colon).err(), None);
    let hidden = Request { tres_per_node: Some(b"x gres:gpu:mAA0zxtUzzzz:1:1"), ..colon };
    assert_eq!(submitted(&hidden).err(), Some(Rule::TypeResembles));
}

#[test]
fn gpus_for_the_whole_job_bound_its_nodes() {
    for (options, expected) in [
        ("qos=qos_two job=gres/gpu:a40:1", Some(1)),
        ("qos=qos_two job=gres/gpu:a40:2", Some(2)),
        ("qos=qos_two job=gres/gpu:a40:4,gres/gpu:h100:2", Some(2)),
        ("qos=qos_two job=gres/gpu:a40:2 Nmax=2", None),
        ("qos=qos_two job=gres/gpu:a40:2 Nmax=1", None),
        ("qos=qos_two job=gres/gpu:a40:2 Nmax=3", Some(2)),
        ("qos=qos_two job=gres/gpu:a40:2 node=gres/gpu:a40:2", Some(1)),
        ("qos=qos_two job=gres/gpu:a40:2 task=gres/gpu:a40:1", Some(2)),
        ("qos=qos_two node=gres/gpu:a40:2 task=gres/gpu:a40:1 n=4", Some(2)),
        ("qos=qos_two node=gres/gpu:a40:2", None),
        ("qos=normal job=gres/gpu:a40:2", None),
        ("qos=qos_two p=most1 job=gres/gpu:a40:2", Some(1)),
        ("qos=qos_two p=most3 job=gres/gpu:a40:2", Some(2)),
        ("qos=qos_two p=most1 job=gres/gpu:a40:2 Nmax=2", None),
        ("qos=qos_two p=most1 job=gres/gpu:a40:2 Nmax=3", Some(2)),
        ("qos=qos_sum p=most1 job=gres/gpu:2", Some(2)),
        ("p=most1 user=1 job=gres/gpu:a40:2", Some(1)),
        // Of a list, each QOS must pass the partition's maximum.
        ("qos=normal,listed_by_name account=mine p=most1 job=gres/gpu:a40:2", Some(1)),
    ] {
        assert_eq!(submitted(&asked(options)).map(|accepted| accepted.most_nodes), Ok(expected), "{options}");
    }
}

#[test]
fn an_update_raises_the_nodes_no_further_than_the_gpus() {
    let none = Request::new(Spelling::Slash);
    let one = Request { tres_per_job: Some(b"gres/gpu:a40:1"), min_nodes: Some(1), ..plain("qos_two") };
    let bounded = Request { max_nodes: Some(1), fewest_nodes: true, ..one };
    let four = Request { tres_per_job: Some(b"gres/gpu:a40:4"), ..none };
    let follows = Request { max_nodes: Some(1), nodes_follow_tasks: true, ..one };
    let most = |change, existing| judged(change, &existing, true).map(|accepted| accepted.most_nodes);
    assert_eq!(most(Request { min_nodes: Some(2), ..none }, one), Err(Rule::TooManyNodes));
    assert_eq!(most(Request { min_nodes: Some(1), ..none }, one), Ok(Some(1)));
    assert_eq!(most(Request { min_nodes: Some(1), ..none }, bounded), Ok(None));
    assert_eq!(most(Request { max_nodes: Some(2), ..none }, bounded), Ok(Some(1)));
    assert_eq!(most(four, bounded), Ok(Some(4)), "more GPUs, more nodes");
    let there = |partition, request| Request { partition: Some(partition), ..request };
    let of_four = Request {
        max_nodes: Some(4),
        ..there(b"most4", Request { qos: bounded.qos, fewest_nodes: true, ..four })
    };
    let of_two = Request { max_nodes: Some(2), ..there(b"most2", of_four) };
    assert_eq!(most(there(b"most2", none), of_four), Ok(Some(2)), "to a smaller partition");
    assert_eq!(most(there(b"most4", none), of_two), Ok(Some(4)), "to a larger one");
    assert_eq!(most(there(b"most2", none), of_two), Ok(None));
    let free = there(b"most4", Request { num_tasks: Some(3), ..asked("qos=normal job=gres/gpu:a40:4") });
    let to_two = there(b"most2", asked("qos=qos_two job=gres/gpu:a40:4"));
    assert_eq!(most(to_two, free), Ok(Some(2)), "the partition's maximum is no reason against a move");
    assert_eq!(
        most(four, Request { fewest_nodes: false, ..bounded }),
        Ok(None),
        "the user's own bound stays"
    );
    assert_eq!(most(Request { num_tasks: Some(70), ..none }, bounded), Ok(None));
    assert_eq!(most(Request { num_tasks: Some(70), ..none }, follows), Err(Rule::TooManyNodes));
    assert_eq!(most(Request { num_tasks: Some(1), ..none }, follows), Ok(None));
    let per_node = Request { tres_per_node: Some(b"gres/gpu:a40:1"), min_nodes: Some(2), ..none };
    assert_eq!(most(per_node, bounded), Err(Rule::TooManyNodes));
}

fn with(mut request: Request<'static>, field: Field, text: &'static str) -> Request<'static> {
    *request.string_mut(field) = Some(text.as_bytes());
    request
}

#[test]
fn gpus_are_counted_in_one_way() {
    let two = |job: &'static str, field, text: &'static str| {
        let request = Request { tres_per_job: Some(job.as_bytes()), num_tasks: Some(1), ..plain("qos_two") };
        submitted(&with(request, field, text)).err()
    };
    let ways = Some(Rule::CountedTwoWays);
    for (job, field, text, expected) in [
        ("gres/gpu:a40:2", Field::Node, "gres/gpu:a40:1", None),
        ("gres/gpu:a40:2", Field::Task, "gres/gpu:a40:1", None),
        ("gres/gpu:a40:1", Field::Node, "gres/gpu:h100:2", ways),
        ("gres/gpu:a40:1", Field::Task, "gres/gpu:h100:2", ways),
        ("gres/gpu:a40:1,gres/gpu:h100:1", Field::Node, "gres/gpu:h100:1", ways),
        ("gres/nic:1", Field::Node, "gres/gpu:a40:4", ways),
        ("gres/gpu:a40:2", Field::Node, "gres/nic:1", None),
        ("gres/gpu:a40:2", Field::Socket, "gres/gpu:a40:1", ways),
        ("gres/gpu:a40:0", Field::Node, "gres/gpu:h100:1", None),
        ("license/x:1", Field::Node, "gres/gpu:h100:1", None),
    ] {
        assert_eq!(two(job, field, text), expected, "{job} {text}");
    }
    let both = Request { tres_per_task: Some(b"gres/gpu:a40:1"), num_tasks: Some(2), ..plain("qos_two") };
    assert_eq!(submitted(&with(both, Field::Socket, "gres/gpu:a40:1")).err(), ways);
}

#[test]
fn an_update_that_means_the_stored_tasks_per_gpu_needs_gpus() {
    let job = Request { tres_per_job: Some(b"gres/gpu:a40:4"), ..plain("qos_lafferty") };
    let none = Request::new(Spelling::Slash);
    let cleared = Request { tres_per_job: Some(b""), ntasks_per_tres: Some(0), ..none };
    assert_eq!(judged(cleared, &job, true).err(), Some(Rule::NtasksPerGpuAlone));
    assert_eq!(judged(Request { ntasks_per_tres: Some(0), ..none }, &job, true).err(), None);
    assert_eq!(judged(Request { ntasks_per_tres: None, ..cleared }, &job, true).err(), None);
}

#[test]
fn where_updates_keep_the_old_request_no_job_is_moved_in_and_types_stay() {
    let old = |options| Request { spelling: Spelling::Colon, ..asked(options) };
    let a40 = "qos=qos_two node=gres:gpu:a40:1";
    let stays = Some(Rule::OldRequestStays);
    for (change, existing, expected) in [
        (a40, "qos=normal node=gres:gpu:a40:1", stays),
        ("qos=qos_two", "qos=normal", stays),
        ("node=gres:gpu:a40:2", a40, None),
        ("node=gres:gpu:a40:2,gres:gpu:h100:1", a40, None),
        ("node=gres:gpu:h100:1", a40, stays),
        ("node=", a40, None),
        ("node=gres:gpu:A40:1", a40, stays),
        ("node=gres:gpu:a40:1", "qos=qos_two node=", None),
        ("node=gres:gpu:A40:1", "qos=qos_two node=", stays),
        ("node=gres:gpu:h100:1", "qos=normal node=gres:gpu:a40:1", None),
        ("qos=normal", a40, None),
        // A type of another GRES isn't spelled anew.
        ("node=gres:gpu:a40:2,gres:nic:A40:1", "qos=qos_two node=gres:gpu:a40:1,gres:nic:A40:1", None),
    ] {
        assert_eq!(judged(old(change), &old(existing), false).err(), expected, "{change} of {existing}");
    }
}

#[test]
fn more_than_the_qos_ever_has_is_said() {
    let advised = |request: &Request, advice| {
        let policy = Policy { limit_advice: advice, ..Policy::default() };
        match judge(request, &policy, &TABLE) {
            Ok(accepted) => Ok(accepted.remarks.len()),
            Err(refusal) => Err(refusal.rule),
        }
    };
    let two_nodes = Request { min_nodes: Some(2), ..node("qos_lafferty", "gres/gpu:a40:3") };
    let tasks =
        Request { tres_per_task: Some(b"gres/gpu:a40:1"), num_tasks: Some(5), ..plain("qos_lafferty") };
    for (request, beyond) in [
        (node("qos_lafferty", "gres/gpu:a40:4"), false),
        (node("qos_lafferty", "gres/gpu:a40:5"), true),
        (two_nodes, true),
        (tasks, true),
        (Request { num_tasks: Some(4), ..tasks }, false),
        (node("qos_minutes", "gres/gpu:a40:500"), false),
        (node("normal", "gres/gpu:a40:500"), false),
    ] {
        assert_eq!(advised(&request, LimitAdvice::Warn), Ok(usize::from(beyond)), "{request:?}");
        assert_eq!(advised(&request, LimitAdvice::Off), Ok(0));
        assert_eq!(advised(&request, LimitAdvice::Refuse).err(), beyond.then_some(Rule::BeyondLimit));
    }
    let strict = Policy { limit_advice: LimitAdvice::Refuse, ..Policy::default() };
    let refusal = refused(judge(&two_nodes, &strict, &TABLE));
    assert_eq!((refusal.asked.as_slice(), refusal.count), (b"gpu:a40:6".as_slice(), 6), "on both nodes");
}

#[test]
fn what_a_reservation_exempts_is_what_its_strings_show() {
    let policy = Policy {
        exempt: Exempt { reservations: patterns("maint*"), ..Exempt::default() },
        ..Policy::default()
    };
    let verdict = |request: &Request| match judge(request, &policy, &TABLE) {
        Ok(accepted) => Ok(accepted.once),
        Err(refusal) => Err(refusal.rule),
    };
    let inside = Request { reservation: Some(b"maint1"), ..node("qos_lafferty", "gres/gpu:2") };
    assert_eq!(verdict(&inside), Ok(true), "it may not start again");
    assert_eq!(verdict(&Request { tres_per_node: Some(b"gres/gpu:a40:1"), ..inside }), Ok(false));
    let invisible = Request { tres_per_node: None, ntasks_per_tres: Some(1), num_tasks: Some(4), ..inside };
    assert_eq!(verdict(&invisible), Err(Rule::NtasksPerGpuAlone));
    // The reservation has ended, and an operator releases the job.
    let left = Request { reservation: None, ..inside };
    let release = Request { releases: true, ..Request::new(Spelling::Slash) };
    let update = Update { job: b"7", array: false, request: release.into(), anew: true, others: &[] };
    let verdict = judge_update(&update, &left, &policy, &TABLE);
    assert!(matches!(verdict, Err(fault) if fault.rule == Rule::TypeMissing));
    assert!(matches!(judge_update(&update, &inside, &policy, &TABLE), Ok(accepted) if accepted.once));
}
