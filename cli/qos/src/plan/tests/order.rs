//! Calls that must come before others, and those that only some releases need.

use super::*;

#[test]
fn what_no_longer_preempts_comes_first() {
    let actual =
        actual(&[line("a", &[("Preempt", "b")], "gpushare@lab"), line("b", &[], "gpushare@lab")], "");
    let plan = made("QOS=b Preempt=a\nQOS=a\n", &actual);
    assert_eq!(said(&plan), ["~ qos a  Preempt: b -> none", "~ qos b  Preempt: none -> a"]);
    assert_eq!(
        called(&plan),
        ["-i modify qos where name=a set Preempt=", "-i modify qos where name=b set Preempt=a"]
    );
    let fewer = made("QOS=b\nQOS=a\n", &actual);
    assert_eq!(said(&fewer), ["~ qos a  Preempt: b -> none"]);
}

#[test]
fn newer_releases_need_no_care_when_a_qos_goes() {
    let actual = actual(&[line("old", &[], "gpushare@lab")], "a|||normal,old\n");
    let removed = |cuts_lists| {
        let cluster = Cluster { cuts_lists, ..cluster() };
        called(&plan(&[], &actual, &cluster, Some(&InUse::new()))).len()
    };
    assert_eq!((removed(true), removed(false)), (2, 1));
    for (version, expected) in
        [("22.05.8", true), ("23.11.11", true), ("24.11.5", false), ("24.11", false), ("26.05.5", false)]
    {
        let config = format!("AccountingStorageTRES = cpu\nClusterName = lab\nSLURM_VERSION = {version}\n");
        assert_eq!(
            Cluster::of(&Settings::parse(&config), &node::read("")).unwrap().cuts_lists,
            expected,
            "{version}"
        );
    }
}

#[test]
fn a_row_whose_call_would_change_others_is_left_when_a_qos_goes() {
    let rows = "a|||\na|ann||+keep,+old\na|tom||+keep,+old\na|tom|p|+keep,+old\na|eve|p|+keep,+old\n";
    let actual = actual(&[line("old", &[], "gpushare@lab"), line("keep", &[], "x")], rows);
    assert_eq!(
        called(&plan(&[], &actual, &cluster(), Some(&InUse::new()))),
        [
            "-i modify user where name=ann account=a cluster=lab set qos=",
            "-i modify user where name=ann account=a cluster=lab set qos+=keep",
            "-i modify user where name=eve account=a cluster=lab partition=p set qos=",
            "-i modify user where name=eve account=a cluster=lab partition=p set qos+=keep",
            "-i delete qos where name=old",
        ]
    );
}

#[test]
fn a_qos_that_another_one_preempts_stays() {
    let actual = actual(&[line("old", &[], "gpushare@lab"), line("theirs", &[("Preempt", "old")], "x")], "");
    let pruned = |text: &str, actual: &Actual| {
        plan(&Database::parse(text).unwrap().qoses, actual, &cluster(), Some(&InUse::new()))
    };
    let left = pruned("QOS=one\n", &actual);
    assert!(!said(&left).contains(&"- qos old".to_owned()), "{:?}", said(&left));
    let used = left.leftovers[0].used.as_ref().unwrap().to_string();
    assert_eq!(used, "is preempted by qos theirs");
    let mut other = actual;
    other.qoses.remove("theirs");
    let left = pruned("QOS=one Preempt=old\n", &other);
    assert_eq!(left.leftovers[0].used.as_ref().unwrap().to_string(), "is preempted by qos one");
    assert!(said(&pruned("QOS=one\n", &other)).contains(&"- qos old".to_owned()));
    let one = state::qoses(&line("one", &[("Preempt", "old")], "gpushare@lab")).unwrap();
    other.qoses.extend(one);
    assert!(said(&pruned("QOS=one\n", &other)).contains(&"- qos old".to_owned()), "it no longer preempts it");
    assert!(said(&pruned("", &other)).contains(&"- qos one".to_owned()), "both go");
}

#[test]
fn what_stays_keeps_what_it_preempts() {
    let there = actual(
        &[
            line("busy", &[("Preempt", "low")], "gpushare@lab"),
            line("low", &[("Preempt", "lowest")], "gpushare@lab"),
            line("lowest", &[], "gpushare@lab"),
            line("default", &[("Preempt", "less")], "gpushare@lab"),
            line("less", &[], "gpushare@lab"),
            line("idle", &[("Preempt", "least")], "gpushare@lab"),
            line("least", &[], "gpushare@lab"),
        ],
        "a|||+default|default\n",
    );
    let used = [("busy".to_owned(), Use { jobs: 1, ..Use::default() })].into();
    let pruned = plan(&[], &there, &cluster(), Some(&used));
    assert_eq!(said(&pruned), ["- qos idle", "- qos least"]);
    let stay = pruned.leftovers.iter().map(|left| format!("{} {}", left.qos, left.used.as_ref().unwrap()));
    assert_eq!(
        stay.collect::<Vec<_>>(),
        [
            "busy has 1 job",
            "less is preempted by qos default",
            "low is preempted by qos busy",
            "lowest is preempted by qos low"
        ]
    );
    assert_eq!(pruned.obstacles.len(), 1);
}

#[test]
fn a_list_that_becomes_empty_opens_what_is_above() {
    let actual = actual(&[line("q", &[], "gpushare@lab")], "a|||\nb|||normal\nb|eve||q\nb|tom||q,normal\n");
    let lines = said(&made("QOS=q Account=a\n", &actual));
    assert!(
        lines.contains(
            &"- qos q for user eve in account b, which then has the QOSes of the account above".to_owned()
        ),
        "{lines:?}"
    );
    assert!(lines.contains(&"- qos q for user tom in account b".to_owned()), "{lines:?}");
}

#[test]
fn who_no_longer_borrows_gives_back_what_they_have() {
    let burst = [("PreemptMode", "requeue")];
    let there = actual(
        &[
            line("x", &[("Preempt", "x_burst"), ("Priority", "1000")], "gpushare@lab"),
            line("y", &[("Preempt", "x_burst")], "gpushare@lab"),
            line("x_burst", &burst, "gpushare@lab burst"),
            line("ml_burst", &burst, "gpushare@lab"),
            line("theirs_burst", &burst, "by hand"),
        ],
        "a|||+x,+x_burst,+ml_burst\n",
    );
    let text = "QOS=x Account=a GPUs=a40:4\nQOS=y\n";
    let lines = said(&made(text, &there));
    assert!(lines.contains(&"- qos x_burst for account a".to_owned()), "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.starts_with("~ qos x  Preempt")
            || line.contains("theirs")
            || line.contains("ml_burst")),
        "{lines:?}"
    );
    let pruned = |used: &[&str]| {
        let used = used.iter().map(|qos| ((*qos).to_owned(), Use { jobs: 1, ..Use::default() })).collect();
        plan(&Database::parse(text).unwrap().qoses, &there, &cluster(), Some(&used))
    };
    let busy = pruned(&["x_burst"]);
    assert!(!said(&busy).iter().any(|line| line.starts_with("~ qos x  Preempt")), "its job must give way");
    let [left] = busy.leftovers.as_slice() else { panic!("{:?}", busy.leftovers) };
    assert!(left.is_burst && left.used.as_ref().is_some_and(|used| used.jobs == 1));
    let lines = said(&pruned(&[]));
    assert!(lines.contains(&"~ qos x  Preempt: x_burst -> none".to_owned()), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("- qos x_burst"));
}

#[test]
fn the_second_qos_is_marked() {
    let text = "QOS=x Account=a GPUs=a40:4 Burst=2x\nQOS=y\n";
    let calls = called(&made(text, &actual(&[], "a|||\n")));
    assert_eq!(
        calls[..2],
        [
            "-i add qos name=x,y set description=gpushare@lab",
            "-i add qos name=x_burst set description=gpushare@lab burst"
        ]
    );
    let there =
        actual(&[line("x_burst", &[], "gpushare@lab"), line("y", &[], "gpushare@lab burst")], "a|||\n");
    let lines = said(&made(text, &there));
    for line in [
        "x_burst  Description: 'gpushare@lab' -> 'gpushare@lab burst'",
        "y  Description: 'gpushare@lab burst' -> 'gpushare@lab'",
    ] {
        assert!(lines.contains(&format!("~ qos {line}")), "{lines:?}");
    }
}
