//! Tests of parsing and printing values.

use super::*;

fn field(name: &str) -> &'static Field {
    Field::named(name).unwrap()
}

#[test]
fn what_is_written_and_what_is_printed_are_the_same() {
    for (name, line, sacctmgr) in [
        ("GrpTRES", "mem=998400M,cpu=32", "cpu=32,mem=975G"),
        ("GrpTRES", "mem=998400", "mem=975G"),
        ("GrpTRES", "mem=1T", "mem=1024G"),
        ("GrpTRES", "gres/gpu=4,gres/gpu:a40=4", "gres/gpu:a40=4,gres/gpu=4"),
        ("GrpTRES", "mem=0", "mem=0"),
        ("GrpTRESMins", "cpu=10000000000", "cpu=10000000000"),
        ("GrpJobs", "0", "0"),
        ("MaxWall", "60", "01:00:00"),
        ("MaxWallDurationPerJob", "1-0", "1-00:00:00"),
        ("MaxWall", "60:30", "01:01:00"),
        ("GraceTime", "1:00:00", "01:00:00"),
        ("GraceTime", "3600", "01:00:00"),
        ("PreemptExemptTime", "60", "01:00:00"),
        ("PreemptExemptTime", "0", "00:00:00"),
        ("Flags", "noreserve,DENYONLIMIT", "DenyOnLimit,NoReserve"),
        ("Flags", "RequiresReservaton", "RequiresReservation"),
        ("Preempts", "Normal,qb", "qb,normal"),
        ("PreemptMode", "requeue,within", "within,requeue"),
        ("UsageFactor", ".0", "0.000000"),
        ("UsageFactor", "0.5", "0.500000"),
        ("UsageThreshold", "0.25", "0.250000"),
        ("LimitFactor", "1", "1.000000"),
    ] {
        let field = field(name);
        let wanted = written(field, if line == ".0" { "0" } else { line });
        assert!(matches!(wanted, Ok(Some(_))), "{name}={line}");
        assert_eq!(wanted, printed(field, sacctmgr), "{name}={line}");
    }
}

#[test]
fn the_default_written_is_nothing_set() {
    for (name, line, sacctmgr) in [
        ("Priority", "0", "0"),
        ("GraceTime", "0", "00:00:00"),
        ("UsageFactor", "1", "1.000000"),
        ("UsageFactor", "1.0", "1.000000"),
        ("PreemptMode", "Cluster", "cluster"),
        ("Preempt", "", ""),
        ("Flags", "", ""),
    ] {
        let field = field(name);
        assert_eq!((written(field, line), printed(field, sacctmgr)), (Ok(None), Ok(None)), "{name}={line}");
    }
}

#[test]
fn what_is_no_value_is_refused() {
    for (name, line) in [
        ("GrpTRES", ""),
        ("GrpTRES", "cpu"),
        ("GrpTRES", "cpu=-1"),
        ("GrpTRES", "cpu=x"),
        ("GrpTRES", "cpu=1,cpu=2"),
        ("GrpTRES", "cpu=1,,mem=2"),
        ("GrpTRES", "cpu=32G"),
        ("GrpTRES", "mem=1.5T"),
        ("GrpTRES", "mem=9999999999999999P"),
        ("GrpTRES", "1002=4"),
        ("GrpTRES", "gres/gpu:a\"40=4"),
        ("GrpJobs", "-1"),
        ("GrpJobs", "1e3"),
        ("GrpJobs", "99999999999"),
        ("MaxWall", "soon"),
        ("GraceTime", "1:2:3:4"),
        ("Flags", "Relative"),
        ("Preempt", "a b"),
        ("Preempt", "-x"),
        ("PreemptMode", "kill"),
        ("PreemptMode", "cancel,requeue"),
        ("PreemptMode", "cancel,requeue,within"),
        ("PreemptMode", "cluster,within"),
        ("PreemptMode", "gang,within"),
        ("UsageFactor", "-1"),
        ("UsageFactor", "1,5"),
        ("UsageFactor", "1.5.2"),
        ("UsageFactor", ""),
    ] {
        assert_eq!(written(field(name), line), Err(NotAValue), "{name}={line}");
    }
}

#[test]
fn what_may_be_written_is_named() {
    for (kind, words) in [(Kind::Flags, &FLAGS[..]), (Kind::Modes, &MODES)] {
        let missing: Vec<_> = words.iter().filter(|word| !allowed(kind).contains(**word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn what_slurm_has_beyond_what_may_be_written_is_kept_as_printed() {
    for (name, printed_text) in
        [("PreemptMode", "priority"), ("PreemptMode", "gang,within"), ("Preempt", "größe")]
    {
        let value = printed(field(name), printed_text).unwrap().unwrap();
        assert_eq!(
            (text(&value).as_str(), written(field(name), printed_text)),
            (printed_text, Err(NotAValue))
        );
    }
}

#[test]
fn a_flag_that_is_not_known_here_is_kept_as_printed() {
    let flags = printed(field("Flags"), "Relative,noreserve").unwrap().unwrap();
    assert_eq!(text(&flags), "NoReserve,Relative");
}

#[test]
fn sacctmgr_is_told_what_every_release_understands() {
    for (name, line, expected) in [
        ("GraceTime", "1:00:00", "3600"),
        ("PreemptExemptTime", "90", "01:30:00"),
        ("MaxWall", "1-12:30", "1-12:30:00"),
        ("GrpTRES", "mem=975G,cpu=2", "cpu=2,mem=975G"),
        ("UsageFactor", "0.50", "0.5"),
        ("UsageFactor", "2", "2"),
        ("UsageFactor", "0", "0"),
        ("Flags", "noreserve,nodecay", "NoDecay,NoReserve"),
    ] {
        let field = field(name);
        assert_eq!(argument(field, &written(field, line).unwrap().unwrap()), expected, "{name}={line}");
    }
}

#[test]
fn names_have_nothing_that_is_read_otherwise() {
    for name in ["qos_lafferty", "_x", "0day", "a.b-c", "maria@site", &"q".repeat(100)] {
        assert!(is_name(name), "{name}");
    }
    for name in
        ["", "-x", "+x", "a b", "a'b", "a\"b", "a,b", "a=b", "a|b", "ä", "a\n", "a*", &"q".repeat(101)]
    {
        assert!(!is_name(name), "{name}");
    }
}
