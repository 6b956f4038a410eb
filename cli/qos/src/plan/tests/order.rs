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
    for (version, expected) in [("22.05.8", true), ("23.11.11", true), ("24.11.5", false), ("26.05.5", false)]
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
