//! Share lines, good and bad.

use super::*;
use crate::shares::field::Kind;
use crate::shares::value::text;

fn share(line: &str) -> Share {
    parse(7, line).unwrap()
}

fn setting(share: &Share, name: &str) -> Option<String> {
    share.setting(Field::named(name).unwrap()).map(text)
}

#[test]
fn a_contributors_line_is_taken() {
    let share = share(
        "Share=QOS_lafferty Account=Lafferty GPUs=a40:4 CPUs=32 Mem=975G Priority=1000 Preempts=normal GraceTime=1:00:00",
    );
    assert_eq!((share.line, share.qos.as_str()), (7, "qos_lafferty"));
    assert_eq!(share.members, Members::Accounts(vec!["lafferty".into()]));
    assert_eq!(share.gpus, [("a40".to_owned(), 4)]);
    for (name, expected) in [
        ("GrpTRES", "cpu=32,gres/gpu=4,gres/gpu:a40=4,mem=975G"),
        ("Priority", "1000"),
        ("Preempt", "normal"),
        ("GraceTime", "01:00:00"),
    ] {
        assert_eq!(setting(&share, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(share.settings.len(), 4);
}

#[test]
fn several_types_add_up_to_the_untyped_limit() {
    let share = share("Share=q Account=saxena Users=maria,Tom GPUs=a100:20,h100:2 GrpTRES=node=3");
    assert_eq!(share.members, Members::Users("saxena".into(), vec!["maria".into(), "Tom".into()]));
    assert_eq!(
        setting(&share, "GrpTRES").as_deref(),
        Some("gres/gpu=22,gres/gpu:a100=20,gres/gpu:h100=2,node=3")
    );
}

#[test]
fn a_free_qos_is_everybodys() {
    let share =
        share("Share=savio_lowprio Account=* UsageFactor=0 Flags=NoReserve PreemptMode=requeue Priority=0");
    assert_eq!(share.members, Members::All);
    assert_eq!(setting(&share, "UsageFactor").as_deref(), Some("0"));
    assert_eq!(setting(&share, "Priority"), None, "0 is what nobody has to write");
}

#[test]
fn names_of_2009_are_those_of_today() {
    for old in &OLD_NAMES {
        let share = share(&format!("Share=q {}=8", old.name.to_ascii_uppercase()));
        let expected = if old.tres == "mem" { "mem=8M".to_owned() } else { format!("{}=8", old.tres) };
        assert_eq!(setting(&share, old.field), Some(expected), "{}", old.name);
        assert_eq!(share.old_names, [old]);
    }
    assert_eq!(
        share("Share=q GrpCpus=8").old_names.first().unwrap().to_string(),
        "GrpCpus is GrpTRES=cpu today"
    );
}

#[test]
fn every_field_is_a_key_by_each_of_its_names() {
    for field in &FIELDS {
        let value = match field.kind {
            Kind::Tres => "cpu=3",
            Kind::Flags => "NoDecay",
            Kind::Names => "normal",
            Kind::Modes => "requeue",
            _ => "3",
        };
        for name in [field.name].iter().chain(field.also) {
            assert!(share(&format!("Share=q {name}={value}")).setting(field).is_some(), "{name}");
        }
    }
}

#[test]
fn a_line_that_is_wrong_says_what() {
    let bad = |key, value: &str, allowed| ShareError::BadValue(key, value.to_owned(), allowed);
    for (line, expected) in [
        ("Share=q Account", ShareError::NoValue("Account".into())),
        ("Share=q Acount=x", ShareError::UnknownKey("Acount".into())),
        ("Share=\"q\"", bad("Share", "\"q\"", NAME)),
        ("Share=q's", bad("Share", "q's", NAME)),
        ("Share=a,b", bad("Share", "a,b", NAME)),
        ("Share=", bad("Share", "", NAME)),
        ("Share=q Account=a,,b", bad("Account", "a,,b", OWN[1].1)),
        ("Share=q Account=a,A", bad("Account", "a,A", OWN[1].1)),
        ("Share=q Account=a Users=x;y", bad("Users", "x;y", OWN[2].1)),
        ("Share=q GPUs=4", bad("GPUs", "4", OWN[3].1)),
        ("Share=q GPUs=a40:0", bad("GPUs", "a40:0", OWN[3].1)),
        ("Share=q GPUs=:2", bad("GPUs", ":2", OWN[3].1)),
        ("Share=q CPUs=many", bad("CPUs", "many", OWN[4].1)),
        ("Share=q Mem=975X", bad("Mem", "975X", OWN[5].1)),
        ("Share=q GrpJobs=-1", bad("GrpJobs", "-1", value::allowed(Kind::Count))),
        ("Share=q GrpCpus=-1", bad("GrpCpus", "-1", "a whole number")),
        ("Share=q Priority=1 priority=2", ShareError::Twice("Priority")),
        ("Share=q MaxWall=1 MaxWallDurationPerJob=2", ShareError::Twice("MaxWallDurationPerJob")),
        ("Share=q Users=maria", ShareError::UsersWithoutAccount),
        ("Share=q Account=* Users=maria", ShareError::UsersWithoutAccount),
        ("Share=q Account=a,b Users=maria", ShareError::UsersWithoutAccount),
    ] {
        assert_eq!(parse(1, line), Err(expected), "{line}");
    }
}

#[test]
fn one_limit_is_said_once() {
    for (line, field, tres) in [
        ("Share=q CPUs=1 GrpTRES=cpu=2", "GrpTRES", "cpu"),
        ("Share=q GrpTRES=mem=1G GrpMemory=1024", "GrpTRES", "mem"),
        ("Share=q GPUs=a40:1,a40:2", "GrpTRES", "gres/gpu:a40"),
        ("Share=q GPUs=a40:1 GrpTRES=gres/gpu:A40=2", "GrpTRES", "gres/gpu:A40"),
        ("Share=q GPUs=a40:1 GrpTRES=gres/gpu=2", "GrpTRES", "gres/gpu"),
        ("Share=q MaxTRESPerUser=node=1 MaxNodesPerUser=1", "MaxTRESPerUser", "node"),
    ] {
        let expected = ShareError::SaidTwice(SaidTwice { field, tres: tres.into() });
        assert_eq!(parse(1, line), Err(expected), "{line}");
    }
}
