//! `show` shows the database's values, not the file's.

use gpushare_machine::config::Config;
use gpushare_qos::state::Qos;

use super::*;

fn qoses(text: &str) -> Vec<ManagedQos> {
    Config::parse(text).unwrap().qoses
}

fn actual(text: &str) -> Actual {
    let known = |managed: ManagedQos| (managed.name, Qos { settings: managed.settings, ..Qos::default() });
    Actual { qoses: qoses(text).into_iter().map(known).collect(), ..Actual::default() }
}

#[test]
fn the_databases_limits_are_shown_and_where_the_file_differs() {
    let file = &qoses("QOS=qos_a Account=lab GPUs=A40:4 CPUs=8")[0];
    let there = actual("QOS=qos_a GrpTRES=gres/gpu:a40=2,gres/gpu=2,gres/gpu:h100=0 Priority=7");
    let differs = vec!["~ qos qos_a  GrpTRES gres/gpu:a40: 2 -> 4".to_owned()];
    let shown = one(file, &there, None, &[], differs);
    let expected = "qos_a
    owner    account lab
    members  nobody yet
    quota    2 A40
    none of  h100
    set      GrpTRES=gres/gpu=2,gres/gpu:A40=2,gres/gpu:h100=0 Priority=7
    differs  the file has other values; gpushare qos apply would do this:
             ~ qos qos_a  GrpTRES gres/gpu:a40: 2 -> 4
";
    assert_eq!(paragraph(&shown), expected);
}

#[test]
fn a_qos_that_the_database_lacks_has_no_limits() {
    let file = &qoses("QOS=qos_a Account=lab GPUs=A40:4 CPUs=8")[0];
    let shown = one(file, &Actual::default(), None, &[], vec!["+ qos qos_a".to_owned()]);
    let expected = "\
qos_a
    owner    account lab
    members  nobody yet
    missing  not in Slurm's database yet: gpushare qos apply
";
    assert_eq!(paragraph(&shown), expected);
    assert!(!shown.in_database && shown.settings.is_empty());
}

#[test]
fn a_line_of_the_plan_is_of_the_qos_that_it_names() {
    for (line, expected) in [
        ("+ qos q", true),
        ("~ qos q  Priority: 0 -> 1", true),
        ("- qos q for account a", true),
        ("+ qos q2", false),
        ("+ account q", false),
    ] {
        assert_eq!(is_of(line, "q"), expected, "{line}");
    }
}

#[test]
fn where_nothing_is_managed_a_line_says_so() {
    assert_eq!(text(&[]), "gpushare.conf manages no QOS (what you may use: gpushare mine)\n");
}
