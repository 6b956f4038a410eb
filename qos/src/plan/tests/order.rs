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
}
