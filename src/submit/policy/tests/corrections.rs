//! The suggested commands are complete and accepted.

use super::*;
use crate::submit::message;
use crate::submit::request::Field;

mod commands;

fn advice(request: &Request, policy: &Policy) -> Option<String> {
    tried(&refused(judge(request, policy, &TABLE)))
}

fn lafferty<'a>() -> Request<'a> {
    Request { qos: Some(b"qos_lafferty"), ..Request::new(Spelling::Slash) }
}

fn text(text: &str) -> Option<&[u8]> {
    Some(text.as_bytes())
}

#[test]
fn the_refusal_ends_in_a_command_that_works() {
    assert_eq!(
        message::refusal(&refused(judge(&node("qos_lafferty", "gres/gpu:2"), &Policy::default(), &TABLE))),
        "gpushare: QOS 'qos_lafferty' requires a GPU type; 'gpu:2' has no type\n  \
         this QOS has: a40 (4)\n  \
         try: --qos=qos_lafferty --gres=gpu:a40:2\n  \
         GS101, see `gpushare explain GS101`"
    );
}

#[test]
fn nothing_of_the_request_is_lost() {
    let q = "--qos=qos_lafferty";
    for (options, expected) in [
        ("job=gres/gpu:2", "--gpus=a40:2"),
        ("job=gres/gpu:2 node=gres/gpu:1", "--gres=gpu:a40:1 --gpus=a40:2"),
        ("task=gres/gpu=1 n=2", "-n2 --gpus-per-task=a40:1"),
        ("task=cpu=2,gres/gpu=1 n=2", "-n2 -c2 --gpus-per-task=a40:1"),
        ("task=license/matlab:1,gres/gpu=1 n=1", "-n1 --tres-per-task=license/matlab:1,gres/gpu:a40:1"),
        ("socket=gres/gpu:1 sockets=2", "--sockets-per-node=2 --gpus-per-socket=a40:1"),
        (
            "node=gres/nic:1,gres/gpu:2,gres/gpu:a40:1 N=1 Nmax=1 per-node=4",
            "-N1 --ntasks-per-node=4 --gres=nic:1,gpu:a40:3",
        ),
        ("job=gres/gpu:2 N=1 Nmax=2", "-N1-2 --gpus=a40:2"),
        (
            "node=gres/gpu:2 cpus-per-gpu=gres/gpu:4 mem-per-gpu=gres/gpu:1024",
            "--gres=gpu:a40:2 --cpus-per-gpu=4 --mem-per-gpu=1024M",
        ),
        ("n=4 per-gpu=2", "-n4 --gpus=a40:2 --ntasks-per-gpu=2"),
        ("job=gres/gpu:2 per-gpu=2", "--gpus=a40:2 --ntasks-per-gpu=2"),
        ("node=gres/gpu:2,gres/mps:50", "--gres=gpu:a40:3"),
        ("node=gresgpu:2,gres/shard:2", "--gres=gpu:a40:3"),
        // Several faults of different kinds.
        ("job=gres/gpu:h100:2 node=gresgpu:2", "--gres=gpu:a40:2 --gpus=a40:2"),
        ("node=gres/gpu:a40:2 cpus-per-gpu=gres/gpu:h100:4", "--gres=gpu:a40:2 --cpus-per-gpu=4"),
        // A share is a part of one GPU.
        ("node=gres/mps:50", "--gres=gpu:a40:1"),
        // As Slurm reads them: the last of two counts, and zero requests nothing.
        ("node=gres/gpu:2,gres/gpu:3,gres/nic:0", "--gres=gpu:a40:3"),
    ] {
        let request = Request { qos: text("qos_lafferty"), ..asked(options) };
        let found = advice(&request, &Policy::default());
        assert_eq!(found, Some(format!("{q} {expected}")), "{options}");
    }
    let none = lafferty();
    let few = Policy { shares: ShareRules { most: Some(12), ..ShareRules::default() }, ..Policy::default() };
    let share = Request { tres_per_node: text("gres/mps:50"), ..none };
    let found = advice(&share, &few);
    assert_eq!(found, Some(format!("{q} --gres=gpu:a40:1")), "however many units a GPU has");
    let old = |request| Request { spelling: Spelling::Colon, ..request };
    let two = Request { tres_per_task: text("gres:gpu:1,gres:gpu:3090:1"), num_tasks: Some(2), ..none };
    assert_eq!(
        advice(&old(two), &Policy::default()),
        Some(format!("{q} -n2 --gpus-per-task=a40:2")),
        "before 23.11"
    );
}

#[test]
fn the_type_is_one_that_has_enough() {
    for (request, expected) in [
        (node("qos_two", "gres/gpu:1"), "--gres=gpu:a40:1"),
        (node("qos_two", "gres/gpu:h100:1,gres/gpu:1"), "--gres=gpu:h100:2"),
        (node("qos_none_of_h100", "gres/gpu:h100:2"), "--gres=gpu:a40:2"),
        (node("qos_minutes", "gres/gpu:9"), "--gres=gpu:a40:9"),
        (node("qos_shards", "gres/shard:2"), "--gres=shard:a40:2"),
        (node("qos_shards_only", "gres/shard:2,gres/gpu:0"), "--gres=shard:a40:2"),
        (node("qos_shards", "gres/shard:2,gres/gpu:1"), "--gres=shard:a40:2,gpu:a40:1"),
        (node("qos_two_and_shards", "gres/gpu:1,gres/shard:2"), "--gres=gpu:a40:1,shard:a40:2"),
        (node("qos_two", "gres/gpu:h100:2,gres/gpu:1"), "--gres=gpu:h100:2,gpu:a40:1"),
        (node("qos_two", "gres/gpu:H100:1,gres/gpu:1"), "--gres=gpu:H100:2"),
        (node("qos_two", "gres/gpu:9,gres/nic:1"), "--gres=gpu:a40:4,nic:1"),
        (node("qos_two", "gres/gpu:9"), "--gres=gpu:a40:4"),
        (
            Request { min_nodes: Some(2), max_nodes: Some(2), ..node("qos_two", "gres/gpu:4") },
            "-N2 --gres=gpu:a40:2",
        ),
    ] {
        let qos = String::from_utf8(request.qos.unwrap().to_vec()).unwrap();
        assert_eq!(
            advice(&request, &Policy::default()),
            Some(format!("--qos={qos} {expected}")),
            "{request:?}"
        );
    }
    let policy = Policy { types: vec!["A40".to_owned()], ..Policy::default() };
    let found = advice(&node("qos_lafferty", "gres/gpu:1"), &policy);
    assert_eq!(found.as_deref(), Some("--qos=qos_lafferty --gres=gpu:A40:1"), "as the file writes it");
}

#[test]
fn what_no_type_has_enough_of_is_said() {
    let none = lafferty();
    let nine = refused(judge(&node("qos_lafferty", "gres/gpu:9"), &Policy::default(), &TABLE));
    let four = refused(judge(&node("qos_lafferty", "gres/gpu:4"), &Policy::default(), &TABLE));
    assert_eq!((&nine.beyond, four.beyond), (&Some((b"gpu".to_vec(), 9)), None));
    let said = message::refusal(&nine);
    assert!(said.contains("this QOS has: a40 (4); the job requests 9 in total\n  try: "), "{said}");
    for request in [
        // Fewer GPUs than the tasks or the fields need don't help.
        Request { num_tasks: Some(5), ntasks_per_tres: Some(1), ..none },
        Request { tres_per_job: text("gres/gpu:8"), tres_per_node: text("gres/gpu:4"), ..none },
        Request { min_nodes: Some(5), max_nodes: Some(5), ..node("qos_lafferty", "gres/gpu:1") },
        Request { min_nodes: Some(5), max_nodes: Some(5), tres_per_job: text("gres/gpu:5"), ..none },
    ] {
        let refusal = refused(judge(&request, &Policy::default(), &TABLE));
        assert_eq!(tried(&refusal), None, "{request:?}");
        assert!(message::refusal(&refusal).contains("; the job requests "), "{request:?}");
    }
}

#[test]
fn a_partition_offers_the_clusters_types_and_keeps_the_list() {
    let policy = Policy { partitions: patterns("owned"), ..Policy::default() };
    let request = |partition, gres| Request { partition: text(partition), ..node("normal", gres) };
    for (partition, gres, expected) in [
        ("owned", "gres/gpu:2", "--partition=owned --gres=gpu:TYPE:2"),
        ("p,owned", "gres/gpu:2", "--partition=p,owned --gres=gpu:TYPE:2"),
        ("owned", "gres/gpu:h100:1,gres/gpu:1", "--partition=owned --gres=gpu:h100:2"),
    ] {
        let found = advice(&request(partition, gres), &policy);
        assert_eq!(found.as_deref(), Some(expected), "{partition} {gres}");
    }
    let main = Policy { partitions: patterns("main"), ..Policy::default() };
    let found = advice(&node("normal", "gres/gpu:2"), &main);
    assert_eq!(found.as_deref(), Some("--partition=main --gres=gpu:TYPE:2"), "the default partition");
}

#[test]
fn names_that_were_at_fault_are_mended_alone() {
    let typed = "gres/gpu:a40:1";
    for (qos, gres, expected) in [
        ("normal,qos_lafferty", typed, "--qos=qos_lafferty"),
        ("normal,qos_lafferty", "gres/gpu:1", "--qos=qos_lafferty --gres=gpu:a40:1"),
        ("qos_lafferty,--gres=gpu:a40:2", "", "--qos=qos_lafferty --gres=gpu:a40:2"),
        ("qos_lafferty,--gres=gpu:2,nic:1", "", "--qos=qos_lafferty --gres=gpu:a40:2,nic:1"),
        ("qos_lafferty,--gpus=2,--time=5", "", "--qos=qos_lafferty --gpus=a40:2 --time=5"),
        ("nobodys,--time=5", "", "--qos=nobodys --time=5"),
        ("q,--comment=$(id)", "", "--qos=q '--comment=$(id)'"),
    ] {
        let request = Request { tres_per_node: text(gres).filter(|text| !text.is_empty()), ..node(qos, "") };
        assert_eq!(advice(&request, &Policy::default()).as_deref(), Some(expected), "{qos} {gres}");
    }
    for (qos, named) in [("qos_lafferty,--gres=gpu:2", "qos_lafferty"), ("--gres=gpu:2,--time=5", "")] {
        let ground = refused(judge(&node(qos, ""), &Policy::default(), &TABLE)).ground;
        assert_eq!(ground, Ground::Qos(named.as_bytes().to_vec()), "{qos}");
    }
    for qos in ["a,b,--time=5", "q,--comment=\u{1b}", "q,--gres=gpu:1"] {
        let request = node(qos, "gres/gpu:a40:1");
        assert_eq!(advice(&request, &Policy::default()), None, "{qos}");
    }
}

#[test]
fn rules_on_shares_say_what_is_allowed() {
    let shares = ShareRules {
        reservations: patterns("jhl_homework_gpu,jupyterhub_course_"),
        sizes: vec![16, 20, 40, 80],
        only_partitions: patterns("course"),
        ..ShareRules::default()
    };
    let policy = Policy { shares, ..Policy::default() };
    let share = |reservation, gres| Request {
        reservation: text(reservation),
        partition: text("p"),
        ..node("normal", gres)
    };
    let here = |partition| Request { partition, ..node("normal", "gres/gpu:1") };
    let task =
        Request { tres_per_task: text("gres/mps:40"), num_tasks: Some(1), ..share("jhl_homework_gpu", "") };
    for (request, expected) in [
        (share("jhl_homework_gpu", "gres/mps:30"), Some("--gres=mps:40")),
        (share("jhl_homework_gpu", "gres/mps:100,gres/nic:1"), Some("--gres=mps:80,nic:1")),
        (share("x", "gres/mps:40"), Some("--reservation=NAME --gres=mps:40")),
        (share("x", "gres/mps:30"), Some("--reservation=NAME --gres=mps:40")),
        (Request { tres_per_node: None, ..task }, Some("-n1 --gres=mps:40")),
        (here(text("course")), Some("--partition=course --gres=shard:80")),
        (
            Request { tres_per_node: text("gres/gpu:1,gres/nic:1"), ..here(text("course")) },
            Some("--partition=course --gres=shard:80,nic:1"),
        ),
        (Request { exclusive: true, tres_per_node: None, ..here(text("course")) }, None),
        (Request { reservation: text("jhl_homework_gpu"), ..here(None) }, Some("--partition=NAME")),
    ] {
        // Where only shares are allowed, a share is in a reservation for shares.
        let request = Request { reservation: request.reservation.or(text("jhl_homework_gpu")), ..request };
        assert_eq!(advice(&request, &policy).as_deref(), expected, "{request:?}");
    }
    let own = Policy {
        share_gres: ShareGres("gpushare".to_owned()),
        shares: ShareRules { most: Some(80), ..ShareRules::default() },
        ..Policy::default()
    };
    for (gres, expected) in [
        ("gres/gpushare:20,gres/gpushare:20", "--gres=gpushare:20"),
        ("gres/gpushare:81", "--gres=gpushare:80"),
    ] {
        assert_eq!(advice(&node("normal", gres), &own).as_deref(), Some(expected), "{gres}");
    }
}

#[test]
fn a_line_is_whole_or_it_is_not_there() {
    let policy = Policy::default();
    let many: Vec<_> = (0..80).map(|nic| format!("gres/nic{nic}:1")).collect();
    let long = format!("gres/gpu:1,{}", many.join(","));
    assert_eq!(advice(&node("qos_lafferty", &long), &policy), None, "too long to copy");
    let few = format!("gres/gpu:1,{}", many[..15].join(","));
    let found = advice(&node("qos_lafferty", &few), &policy).unwrap();
    assert!(found.ends_with("nic14:1"), "more than a refusal quotes: {found}");
    for (parts, is_there) in [(64, true), (65, false)] {
        let found = advice(&node("qos_lafferty", &vec!["gres/gpu:1"; parts].join(",")), &policy);
        assert_eq!(found.is_some(), is_there, "{parts} parts: {found:?}");
    }
    for request in [
        // Requests that no option can express.
        Request { tres_per_job: text("gres/gpu:1,gres/nic:1"), ..lafferty() },
        Request { cpus_per_tres: text("gres/gpu:a40:1"), ..node("qos_lafferty", "gres/gpu:1") },
        // Requests that Slurm may read in several ways.
        node("qos_lafferty", "gres/gpu:1,xgres/nic"),
        // Fixing one fault doesn't help.
        Request { tres_per_node: text("gres/gpu:1"), partition: None, ..node("qos_two", "") },
    ] {
        let among_shares = ShareRules { only_partitions: patterns("main"), ..ShareRules::default() };
        let policy = Policy { shares: among_shares, ..Policy::default() };
        assert_eq!(advice(&request, &policy), None, "{request:?}");
    }
}

fn updated(change: Request, existing: &Request, policy: &Policy) -> Option<String> {
    tried(&refused(changed(change, existing, policy)))
}

#[test]
fn an_update_is_one_command() {
    let typed = "qos=qos_lafferty TresPerJob=gres/gpu:a40:2";
    for (change, existing, expected) in [
        ("qos=qos_lafferty", "job=gres/gpu:a40:2", Some(typed)),
        (
            "qos=qos_lafferty",
            "job=gres/gpu:a40:2 node=gres/gpu:a40:1,gres/nic:1",
            Some("qos=qos_lafferty TresPerNode=gres/gpu:a40:1,gres/nic:1 TresPerJob=gres/gpu:a40:2"),
        ),
        (
            "qos=qos_lafferty",
            "qos=normal node=gres/gpu:a40:2",
            Some("qos=qos_lafferty TresPerNode=gres/gpu:a40:2"),
        ),
        ("qos=qos_lafferty", "", None),
        ("qos=qos_lafferty", "qos=normal node=gres/nic:1", None),
        ("qos=qos_lafferty", "job=gres/gpu:2", None),
        ("qos=qos_lafferty node=gres/gpu:a40:1", "job=gres/gpu:2,gres/nic:1", None),
        ("qos=normal,qos_lafferty", "job=gres/gpu:a40:2", Some(typed)),
        ("qos=normal,qos_lafferty job=gres/gpu:a40:2", "job=gres/gpu:a40:2", Some(typed)),
        ("qos=qos_lafferty,--time=5", "qos=qos_lafferty", None),
        // Beside what isn't a GPU, and what has none.
        (
            "qos=qos_lafferty job=",
            "job=gres/gpu:a40:2 node=gres/nic:1",
            Some("qos=qos_lafferty TresPerNode=gres/gpu:a40:COUNT,gres/nic:1 TresPerJob="),
        ),
        (
            "node=gres/nic:1",
            "qos=qos_lafferty job=gres/gpu:2",
            Some("TresPerNode=gres/nic:1 TresPerJob=gres/gpu:a40:2"),
        ),
        (
            "node=gres/gpu:0",
            "qos=qos_lafferty job=gres/gpu:2",
            Some("TresPerNode= TresPerJob=gres/gpu:a40:2"),
        ),
        ("qos=", "job=gres/gpu:a40:2 user=2001", Some(typed)),
        // The new request replaces the old one, whichever field that was in.
        (
            "node=gres/gpu:a40:1",
            "qos=qos_lafferty job=gres/gpu:2",
            Some("TresPerNode=gres/gpu:a40:1 TresPerJob="),
        ),
        // Slurm wouldn't count the GPUs next to it.
        ("node=gres/gpu:a40:1", "qos=qos_lafferty job=gres/gpu:2,gres/nic:1", None),
        (
            "node=gres/gpu:2 n=4 N=1 Nmax=2",
            "qos=qos_lafferty",
            Some("NumNodes=1-2 NumTasks=4 TresPerNode=gres/gpu:a40:2"),
        ),
        (
            "task=gres/gpu:1 cpus-per-gpu=gres/gpu:2 account=a p=p",
            "qos=qos_lafferty",
            Some("account=a partition=p TresPerTask=gres/gpu:a40:1 CpusPerTres=gres/gpu:2"),
        ),
        (
            "node=gres/gpu:2 mem=1000",
            "qos=qos_lafferty",
            Some("MinMemoryNode=1000 TresPerNode=gres/gpu:a40:2"),
        ),
        (
            "node=gres/gpu:2 mem-per-cpu=500",
            "qos=qos_lafferty",
            Some("MinMemoryCPU=500 TresPerNode=gres/gpu:a40:2"),
        ),
        // scontrol can't express it.
        ("per-gpu=1", "qos=qos_lafferty", None),
    ] {
        let expected = expected.map(|expected| format!("scontrol update job=12_3 {expected}"));
        let found = updated(asked(change), &asked(existing), &Policy::default());
        assert_eq!(found, expected, "{change} of {existing}");
    }
}

#[test]
fn a_command_that_must_be_alone_keeps_names_and_gpus() {
    let owned = Policy { partitions: patterns("owned"), ..Policy::default() };
    let said = "qos=qos_lafferty account=a partition=p reservation=r TresPerNode=gres/gpu:a40:1";
    for (change, policy, expected, beyond) in [
        ("qos=qos_lafferty account=a p=p reservation=r node=gres/gpu:1", &Policy::default(), said, None),
        ("p=owned node=gres/gpu:2", &owned, "partition=owned TresPerNode=gres/gpu:TYPE:2", None),
        (
            "qos=qos_lafferty node=gres/gpu:9",
            &Policy::default(),
            "qos=qos_lafferty TresPerNode=gres/gpu:a40:4",
            Some(9),
        ),
    ] {
        let (request, existing) = (asked(change).into(), asked("qos=normal node=gres/gpu:a40:1"));
        let update = Update { job: b"7", array: false, request, anew: true, others: &["TimeLimit"] };
        let refusal = refused(judge_update(&update, &existing, policy, &TABLE));
        assert_eq!(tried(&refusal), Some(format!("scontrol update job=7 {expected}")), "{change}");
        assert_eq!(refusal.beyond.map(|(_, asked)| asked), beyond, "{change}");
    }
}

#[test]
fn the_refusal_of_an_update_is_one_line() {
    for (spelling, prefix) in [(Spelling::Colon, "gres:"), (Spelling::Slash, "gres/")] {
        let (old, new) = (format!("{prefix}gpu:a40:2"), format!("{prefix}gpu:2"));
        let existing =
            Request { tres_per_job: text(&old), qos: text("qos_lafferty"), ..Request::new(spelling) };
        let request = Request { tres_per_job: text(&new), ..Request::new(spelling) };
        assert_eq!(
            message::refusal(&refused(changed(request, &existing, &Policy::default()))),
            format!(
                "gpushare: QOS 'qos_lafferty' requires a GPU type; 'gpu:2' has no type; this QOS has: a40 (4); \
                 try: scontrol update job=12_3 TresPerJob={prefix}gpu:a40:2; \
                 GS101, see `gpushare explain GS101`"
            )
        );
        let free = Request { tres_per_job: text(&new), qos: None, ..existing };
        let moves = Request { tres_per_job: None, qos: text("qos_lafferty"), ..request };
        assert_eq!(
            message::refusal(&refused(changed(moves, &free, &Policy::default()))),
            "gpushare: to move a job to QOS 'qos_lafferty', its current GPUs must be visible and acceptable there, \
             because Slurm may apply only part of an update; cancel the job and submit it again with: \
             --qos=qos_lafferty --gpus=a40:2; GS115, see `gpushare explain GS115`"
        );
    }
}

#[test]
fn a_job_leaves_a_reservation_for_shares_with_what_it_has() {
    let shares = ShareRules { reservations: patterns("course"), ..ShareRules::default() };
    let policy = Policy { shares, ..Policy::default() };
    let in_course = Request { reservation: text("course_1"), ..node("normal", "gres/gpu:1") };
    let left = Request { reservation: text(""), ..Request::new(Spelling::Slash) };
    let found = updated(left, &in_course, &policy);
    assert_eq!(found.as_deref(), Some("scontrol update job=12_3 reservation= TresPerNode=gres/gpu:1"));
}

#[test]
fn a_warning_has_the_same_advice() {
    let warns = Policy { mode: Mode::Warn, ..Policy::default() };
    let request = Request { tres_per_job: text("gres/gpu:2"), ..node("qos_lafferty", "gres/gpu:1") };
    let accepted = accepted(judge(&request, &warns, &TABLE));
    let [Remark::Passed(refusal, Because::Warn)] = accepted.remarks.as_slice() else {
        panic!("{accepted:?}")
    };
    assert_eq!(tried(refusal).as_deref(), Some("--qos=qos_lafferty --gres=gpu:a40:1 --gpus=a40:2"));
    assert_eq!(refusal.field, Field::Node);
}
