//! What sacctmgr prints of limits, and what is read.

use super::*;

#[test]
fn a_qos_has_a_limit_of_each_kind() {
    let text = "normal||||||||||||0||1.000000\na|gres/gpu:A40=4|gres/gpu:a40=1|gres/gpu=2|gres/mps=3|cpu=5|||\
                gres/gpu=7|||DenyOnLimit,OverPartQOS,NoDecay|9|normal|0.25\n";
    assert!(is_whole(text, QOSES));
    let found = qoses(text);
    let [normal, a] = found.as_slice() else { panic!("{found:?}") };
    let numbers = Kind::ALL.map(|kind| a.limits.of(kind).iter().map(|(_, count)| count).sum::<u64>());
    assert_eq!(
        (numbers, a.over_partition, a.denies_on_limit, a.preempts),
        ([4, 1, 2, 3, 5], true, true, true)
    );
    assert_eq!(a.limits.of(Kind::Grp).of("gres/gpu:a40"), Some(4));
    assert_eq!((normal.usage_factor, a.usage_factor, Qos::read("old").usage_factor), (1000, 250, 1000));
    assert!(a.keeps_minutes && !normal.keeps_minutes && !a.scales_time_limits);
    assert_eq!(a.limits.iter().last(), Some(("MaxTRESMins", "gres/gpu", 7)));
    assert_eq!(
        (a.lowest("gres/gpu:a40"), a.lowest("cpu")),
        (Some((Some(1), Some(1))), Some((Some(5), None)))
    );
    assert!(!normal.over_partition && !normal.limits.is_any_at_once() && a.limits.is_any_at_once());
}

#[test]
fn percentages_are_no_numbers() {
    let found = qoses(
        "b|gres/gpu=50||||||||||Relative||\na||||gres/gpu=5|||||||relative||\nc|||||||||||Relative||\n",
    );
    assert_eq!(found[0].lowest("gres/gpu"), Some((None, None)));
    assert_eq!(
        not_judged(&found).as_deref(),
        Some("limits of these QOSes are percentages (Relative), and aren't checked: a, b")
    );
    assert_eq!(not_judged(&qoses("normal|gres/gpu=50||||||||||||\n")), None);
}

#[test]
fn no_answer_is_not_a_cluster_without_limits() {
    for text in ["", "\n", "sacctmgr: error: x\n", "normal|||\n"] {
        assert!(!is_whole(text, QOSES) && !is_whole(text, ASSOCIATIONS), "{text}");
    }
}

#[test]
fn a_line_with_a_bar_in_a_name_is_odd_and_the_answer_whole() {
    let text = "root|||||||||||\na|b|||||root||||||\nc|||||a|b|gres/gpu=1|||||\n";
    assert!(is_whole(text, ASSOCIATIONS));
    assert_eq!(Associations::read(text).odd, ["a|b|||||root||||||", "c|||||a|b|gres/gpu=1|||||"]);
    let broken = Associations::read("root|||||||||||\ne\n\n|f|||||root||||||\ne|alice||||||||||\n");
    assert_eq!(broken.odd, ["e\n|f|||||root||||||"], "an account's name may have a line break");
    assert_eq!(broken.own("e\n|f", "", "").map(|(_, one)| one.parent.as_str()), Some("root"));
}

#[test]
fn a_job_is_charged_to_its_user_and_every_account_above() {
    let text = "root|||||||||||\ngroup|||||root|gres/gpu:a40=3|gres/gpu=1||||\nsub|||||group||||||\nsub|bob||||||||||\n\
                sub|bob|p|||||gres/gpu:a40=1||||\n";
    assert!(is_whole(text, ASSOCIATIONS));
    let all = Associations::read(text);
    let names = |user: &str, partition: &str| {
        all.of("sub", user, partition).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(
        names("bob", "q"),
        ["user bob in account sub", "account sub", "account group", "account root"]
    );
    assert_eq!(names("bob", "p")[0], "user bob in account sub and partition p");
    assert_eq!(names("eve", "p"), ["account sub", "account group", "account root"]);
    assert!(all.of("none", "bob", "p").is_empty());
    let (_, group) = all.above("GROUP").next().unwrap();
    assert_eq!((group.limits.iter().count(), group.tested().iter().count()), (2, 1));
    assert_eq!(all.of_user("Bob").count(), 2);
}

#[test]
fn an_account_with_a_bar_in_its_name_is_no_other_one() {
    let found = Association::read("y|||||root|gres/gpu:a40=1|||||x|bob||||group||||||");
    assert_eq!((found.user.as_str(), found.parent.as_str()), ("bob", "group"));
    assert!(found.account.starts_with("y|") && !found.limits.is_any_at_once());
}

#[test]
fn an_account_above_itself_has_an_end() {
    assert_eq!(Associations::read("a|||||a|\n").above("a").count(), 1);
}
