//! Rules on shares, and what a free QOS sets.

use super::modes::{remarks, with_record};
use super::*;

mod by_memory;
mod caps;
mod examples;

#[test]
fn shares_are_for_certain_reservations_and_sizes() {
    let shares = ShareRules {
        reservations: patterns("jhl_homework_gpu,jupyterhub_course_"),
        sizes: vec![20, 40],
        only_partitions: patterns("course"),
        ..ShareRules::default()
    };
    let policy = Policy { shares, ..Policy::default() };
    for (partition, reservation, text, expected) in [
        ("p", "", "gres/mps:40", Some(Rule::ShareReservation)),
        ("p", "other", "gres/mps:40", Some(Rule::ShareReservation)),
        ("p", "jupyterhub_course_x,other", "gres/mps:40", Some(Rule::ShareReservation)),
        ("p", "jupyterhub_course_x", "gres/mps:40", None),
        ("p", "jhl_homework_gpu", "gres/shard:20", None),
        ("p", "jhl_homework_gpu", "gres/mps:30", Some(Rule::ShareSize)),
        ("p", "", "gresmps:40", Some(Rule::Unreadable)),
        ("p", "", "gres/gpu:1", None),
        ("p", "", "gresgpu:1", None),
        ("course", "", "gres/gpu:1", Some(Rule::WholeGpu)),
        ("p,course", "", "gres/gpu:1", Some(Rule::WholeGpu)),
        ("course", "", "gresgpu:1", Some(Rule::Unreadable)),
        ("course", "", "cpu=1", None),
        ("course", "", "gres/nic:1,gres/gpu:0", None),
        ("p", "", "gres/mps:0", None),
        ("course", "jhl_homework_gpu", "gres/mps:40", None),
        ("", "x", "gres/gpu:1", Some(Rule::WholeGpu)),
        ("", "", "gres/gpu:1", None),
    ] {
        let request = Request {
            partition: Some(partition.as_bytes()).filter(|text| !text.is_empty()),
            reservation: Some(reservation.as_bytes()).filter(|text| !text.is_empty()),
            ..node("normal", text)
        };
        assert_eq!(rule(&request, &policy), expected, "{partition} {reservation} {text}");
    }
    let whole = Request { partition: Some(b"course"), ..node("normal", "") };
    assert_eq!(rule(&Request { exclusive: true, ..whole }, &policy), Some(Rule::WholeGpu));
    assert_eq!(rule(&Request { ntasks_per_tres: Some(1), ..whole }, &policy), Some(Rule::WholeGpu));
    assert_eq!(rule(&whole, &policy), None);
}

#[test]
fn a_share_is_hidden_only_from_rules_on_shares() {
    let of_sizes = ShareRules { sizes: vec![20], ..ShareRules::default() };
    let of_reservations = ShareRules { reservations: patterns("course"), ..ShareRules::default() };
    let of_partitions = ShareRules { only_partitions: patterns("main"), ..ShareRules::default() };
    let unreadable = Some(Rule::Unreadable);
    for (shares, text, expected) in [
        (&of_sizes, "gresmps:40", unreadable),
        (&of_reservations, "gresmps:40", unreadable),
        (&of_partitions, "gresmps:40", None),
        (&of_sizes, "gresgpu:1", None),
        (&of_partitions, "gresgpu:1", unreadable),
    ] {
        let policy = Policy { shares: shares.clone(), ..Policy::default() };
        assert_eq!(rule(&node("normal", text), &policy), expected, "{shares:?} {text}");
    }
}

#[test]
fn a_share_of_a_whole_gpu_is_none_too_many() {
    let shares = || ShareRules { most: Some(80), ..ShareRules::default() };
    let of_mps = Policy { shares: shares(), ..Policy::default() };
    let own = Policy { shares: shares(), share_gres: ShareGres("gpushare".to_owned()), ..Policy::default() };
    for (policy, text, expected) in [
        (&of_mps, "gres/mps:80", None),
        (&of_mps, "gres/mps:80,gres/mps:10", None),
        (&of_mps, "gres/mps:81,gres/mps:10", Some(Rule::ShareSize)),
        (&own, "gres/gpushare:80", None),
        (&own, "gresgpu:1", None),
        (&own, "gresgpushare:1", Some(Rule::ShareForm)),
    ] {
        assert_eq!(rule(&node("normal", text), policy), expected, "{text}");
    }
}

#[test]
fn governed_partitions_need_types_too() {
    let policy = Policy { partitions: patterns("priority"), ..Policy::default() };
    let of_both = asked("qos=qos_lafferty p=priority node=gres/gpu:h100:1");
    assert_eq!(rule(&of_both, &policy), Some(Rule::TypeForeign), "the QOS allows less");
    let moved = changed(asked("p=priority"), &asked("qos=normal p=p node=gres/gpu:a40:1"), &policy);
    assert_eq!(broken(moved), Some(Rule::NotRestated));
    for (partition, reservation, text, expected) in [
        ("priority", "", "gres/gpu:1", Some(Rule::TypeMissing)),
        ("p,priority", "", "gres/gpu:1", Some(Rule::TypeMissing)),
        ("priority", "", "gres/gpu:h100:1", None),
        ("priority", "", "gres/gpu:p100:1", Some(Rule::TypeUnknown)),
        ("priority", "", "gres/mps:1", Some(Rule::TypeMissing)),
        ("p", "", "gres/gpu:1", None),
        ("", "", "gres/gpu:1", None),
        ("", "r", "gres/gpu:1", Some(Rule::TypeMissing)),
    ] {
        let request = Request {
            partition: Some(partition.as_bytes()).filter(|text| !text.is_empty()),
            reservation: Some(reservation.as_bytes()).filter(|text| !text.is_empty()),
            ..node("normal", text)
        };
        assert_eq!(rule(&request, &policy), expected, "{partition} {reservation} {text}");
    }
}

#[test]
fn a_free_qos_sets_what_the_user_leaves_open() {
    let record = QosRecord {
        requeue: Some(true),
        append: Some(true),
        throttle: Some(Throttle { tasks: 8, over_minutes: 120 }),
        ..QosRecord::default()
    };
    let policy = with_record("savio_lowprio,normal", record);
    let numbers = |request: &Request| {
        let found = remarks(judge(request, &policy, &TABLE));
        let number = |remark: &Remark| match remark {
            Remark::Changed(change) => change.number(),
            Remark::Passed(..) => panic!("{remark:?}"),
        };
        found.iter().map(number).collect::<Vec<_>>()
    };
    let job = |qos: Option<&'static str>, batch| Request {
        qos: qos.map(str::as_bytes),
        batch,
        ..Request::new(Spelling::Slash)
    };
    let array = Batch { array: Some(b"0-99".as_slice()), ..Batch::default() };
    assert_eq!(numbers(&job(Some("Savio_lowprio"), Some(array))), ["GS152", "GS153", "GS154"]);
    assert_eq!(numbers(&job(None, Some(array))), ["GS152", "GS153", "GS154"], "root's default QOS");
    assert!(numbers(&job(Some("Savio_lowprio"), None)).is_empty(), "interactive");
    assert!(numbers(&job(Some("other"), Some(array))).is_empty());
    let said = Batch { requeue: Some(false), open_mode: true, time_limit: Some(60), ..array };
    assert!(numbers(&job(Some("savio_lowprio"), Some(said))).is_empty());
}

#[test]
fn the_login_shell_is_asked_where_that_is_allowed() {
    let job = |user_env| Request {
        batch: Some(Batch { user_env, ..Batch::default() }),
        ..Request::new(Spelling::Slash)
    };
    let drops = Policy { drops_user_env: true, ..Policy::default() };
    assert_eq!(remarks(judge(&job(true), &drops, &TABLE)), [Remark::Changed(Change::UserEnv)]);
    assert_eq!(remarks(judge(&job(false), &drops, &TABLE)), []);
    assert_eq!(remarks(judge(&job(true), &Policy::default(), &TABLE)), []);
}

#[test]
fn a_share_of_a_certain_size_is_counted_per_node() {
    let shares = ShareRules { sizes: vec![2], ..ShareRules::default() };
    let policy = Policy { shares, ..Policy::default() };
    let none = Request { qos: Some(b"normal"), ..Request::new(Spelling::Slash) };
    let text = Some(b"gres/shard:2".as_slice());
    assert_eq!(rule(&Request { tres_per_node: text, ..none }, &policy), None);
    for request in [Request { tres_per_task: text, ..none }, Request { tres_per_job: text, ..none }] {
        assert_eq!(rule(&request, &policy), Some(Rule::ShareSize), "{request:?}");
    }
    let typed = Request { tres_per_node: Some(b"gres/shard:a40:3"), ..none };
    assert_eq!(rule(&typed, &policy), Some(Rule::ShareSize));
}

#[test]
fn the_default_partition_counts_and_an_empty_name_is_no_reservation() {
    let shares = ShareRules {
        reservations: patterns("course"),
        only_partitions: patterns("main"),
        ..ShareRules::default()
    };
    let policy = Policy { shares, ..Policy::default() };
    assert_eq!(rule(&node("normal", "gres/gpu:1"), &policy), Some(Rule::WholeGpu));
    let hole =
        Request { reservation: Some(b"course_1,"), partition: Some(b"p"), ..node("normal", "gres/mps:1") };
    assert_eq!(rule(&hole, &policy), Some(Rule::ShareReservation));
}

#[test]
fn a_share_that_the_node_is_told_of_by_us_alone_is_asked_for_once_and_per_node() {
    let shares = ShareRules { most: Some(80), ..ShareRules::default() };
    let policy = Policy { share_gres: ShareGres("gpushare".to_owned()), shares, ..Policy::default() };
    let per_task = Request { tres_per_task: Some(b"gres/gpushare:20"), ..Request::new(Spelling::Slash) };
    for (request, expected) in [
        (node("normal", "gres/gpushare:40"), None),
        (node("normal", "gres/gpushare:80,gres/nic:1"), None),
        (node("normal", "gres/gpushare:81"), Some(Rule::ShareSize)),
        (node("normal", "gres/gpushare:20,gres/gpushare:20"), Some(Rule::ShareForm)),
        (node("normal", "gres/xgpushare=2:x"), Some(Rule::ShareForm)),
        (node("normal", "gres/gpushare:0"), None),
        (node("normal", "gres/mps:400"), None),
        (per_task, Some(Rule::ShareForm)),
    ] {
        assert_eq!(rule(&request, &policy), expected, "{request:?}");
    }
    let off = Policy { shares: ShareRules::default(), ..policy };
    assert_eq!(rule(&per_task, &off), None, "a cluster whose slurmctld knows of no placement");
    let shares = ShareRules { most: Some(80), ..ShareRules::default() };
    let of_mps = Policy { shares, ..Policy::default() };
    assert_eq!(rule(&node("normal", "gres/mps:320"), &of_mps), Some(Rule::ShareSize));
    assert_eq!(rule(&node("normal", "gres/mps:20,gres/mps:20"), &of_mps), None);
    for twice in ["gres/mps:1,gres/mps:320", "gres/mps:0,gres/mps:320", "gres/mps:320,gres/mps:1"] {
        assert_eq!(rule(&node("normal", twice), &of_mps), Some(Rule::ShareSize), "{twice}");
    }
    let per_task = Request { tres_per_task: Some(b"gres/mps:320"), ..Request::new(Spelling::Slash) };
    assert_eq!(rule(&per_task, &of_mps), Some(Rule::ShareSize));
}

#[test]
fn a_share_is_kept_from_nodes_whose_gpus_are_smaller() {
    let line = |nodes: &str, units| LargestGpu { nodes: nodes.to_owned(), units, ..LargestGpu::default() };
    let shares = ShareRules {
        most: Some(24),
        nodes: vec![
            line("n[1-2]", Some(24)),
            line("n[2-4]", Some(12)),
            line("other", None),
            line("gone", Some(1)),
        ],
        elsewhere: line("", Some(16)),
        ..ShareRules::default()
    };
    let policy = Policy { share_gres: ShareGres("gpushare".to_owned()), shares, ..Policy::default() };
    let asked = |tres, nodes: &'static str, excluded: &'static str| {
        let nodes = Some(nodes.as_bytes()).filter(|nodes| !nodes.is_empty());
        let excluded_nodes = Some(excluded.as_bytes()).filter(|nodes| !nodes.is_empty());
        Request { nodes, excluded_nodes, ..node("normal", tres) }
    };
    for (tres, nodes, excluded, expected) in [
        ("gres/gpushare:12", "", "", Ok(None)),
        ("gres/gpushare:13", "", "", Ok(Some("n3,n4"))),
        ("gres/gpushare:24", "", "", Ok(Some("n3,n4"))),
        ("gres/gpushare:24", "", "n[3-4]", Ok(None)),
        ("gres/gpushare:24", "", "n[4,7]", Ok(Some("n[4,7],n3"))),
        ("gres/gpushare:24", "n[1-2]", "", Ok(Some("n3,n4"))),
        ("gres/gpushare:24", "n3", "", Err(("gpushare:24 on n3", 12))),
        ("gres/gpushare:24", "n[1-4]", "", Err(("gpushare:24 on n3", 12))),
        ("gres/gpushare:17", "elsewhere", "", Err(("gpushare:17 on elsewhere", 16))),
        ("gres/gpushare:24", "other", "", Ok(Some("n3,n4"))),
        ("gres/gpushare:24", "n[3", "", Ok(Some("n3,n4"))),
        ("gres/mps:24", "n3", "", Ok(None)),
        ("gres/gpu:a40:4", "n3", "", Ok(None)),
    ] {
        let found = match judge(&asked(tres, nodes, excluded), &policy, &TABLE) {
            Ok(accepted) => Ok(accepted.excluded_nodes),
            Err(refusal) => Err((refusal.rule, refusal.asked, refusal.offer)),
        };
        let expected = expected.map(|nodes| nodes.map(|nodes| nodes.as_bytes().to_vec()));
        let expected = expected
            .map_err(|(asked, units)| (Rule::ShareSize, asked.as_bytes().to_vec(), Offer::UpTo(units)));
        assert_eq!(found, expected, "{tres} {nodes} {excluded}");
    }
    let job = asked("gres/gpushare:24", "", "");
    let request = Request { qos: Some(b"normal"), ..Request::new(Spelling::Slash) };
    let update = Update { job: b"7", array: false, request: request.into(), anew: true, others: &[] };
    let accepted = accepted(judge_update(&update, &job, &policy, &TABLE));
    assert_eq!(accepted.excluded_nodes, None, "a running job's nodes can't be changed");
}

/// A reservation ends without a question to a plugin.
#[test]
fn a_share_that_its_reservation_lets_pass_starts_once_and_is_judged_at_its_release() {
    let shares = ShareRules { reservations: patterns("course"), ..ShareRules::default() };
    let policy = Policy { shares, ..Policy::default() };
    assert!(policy.depends_on_reservations() && !Policy::default().depends_on_reservations());
    let inside = Request { reservation: Some(b"course_1"), ..node("normal", "gres/mps:40") };
    assert!(accepted(judge(&inside, &policy, &TABLE)).once);
    let gpu = Request { tres_per_node: Some(b"gres/gpu:1"), ..inside };
    assert!(!accepted(judge(&gpu, &policy, &TABLE)).once, "not a share");
    assert!(!accepted(judge(&inside, &Policy::default(), &TABLE)).once);
    let warned = Policy { mode: Mode::Warn, ..policy.clone() };
    let elsewhere = Request { reservation: None, ..inside };
    assert!(!accepted(judge(&elsewhere, &warned, &TABLE)).once, "no reservation lets it pass");
    assert!(accepted(judge(&inside, &warned, &TABLE)).once);
    let crontab = Request { recurs: true, ..inside };
    assert_eq!(rule(&crontab, &policy), Some(Rule::ShareReservation), "it starts again and again");
    let release = Request { releases: true, ..Request::new(Spelling::Slash) };
    let again = Request { starts_again: true, ..Request::new(Spelling::Slash) };
    let left = Request { reservation: None, ..inside };
    for change in [release, again] {
        assert!(accepted(changed(change, &inside, &policy)).once);
        assert_eq!(broken(changed(change, &left, &policy)), Some(Rule::ShareReservation));
    }
}

/// Without sizes, a share of the whole GPU is the nearest to what was asked for.
#[test]
fn a_whole_gpu_among_shares_is_answered_with_a_share() {
    let only_partitions = patterns("shared");
    let shares = ShareRules { only_partitions, most: Some(80), ..ShareRules::default() };
    let policy = Policy { shares, share_gres: ShareGres("shard".to_owned()), ..Policy::default() };
    let asked = Request { partition: Some(b"shared"), ..node("normal", "gres/gpu:1") };
    let found = refused(judge(&asked, &policy, &TABLE));
    assert_eq!(found.rule, Rule::WholeGpu);
    assert_eq!(tried(&found).as_deref(), Some("--partition=shared --gres=shard:80"));
    let of_mps = Policy { share_gres: ShareGres::default(), ..policy.clone() };
    let found = refused(judge(&asked, &of_mps, &TABLE));
    assert_eq!((found.gres.as_slice(), tried(&found)), (b"shard".as_slice(), None), "80 units are of mps");
}
