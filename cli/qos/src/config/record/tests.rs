//! Tests with valid and invalid records of QOSes.

use gpushare::config::{Section, read};

use super::*;
use crate::config::field::{FIELDS, Kind, OLD_NAMES};
use crate::config::value::text;

/// Reads a line as that of a file's with this number.
fn parse(number: usize, line: &str) -> Result<Option<ManagedQos>, Problem> {
    let mut draft = crate::config::Draft::default();
    let sections: &mut [&mut dyn Section] = &mut [&mut draft];
    read(&("\n".repeat(number - 1) + line), sections).map_err(|error| error.problem)?;
    Ok(draft.finish(&gpushare::submit::policy::Policy::default()).qoses.pop())
}

fn managed(line: &str) -> ManagedQos {
    parse(7, line).unwrap().unwrap()
}

fn setting(qos: &ManagedQos, name: &str) -> Option<String> {
    qos.setting(Field::named(name).unwrap()).map(text)
}

#[test]
fn a_groups_line_is_taken() {
    let qos = managed(
        "QOS=QOS_lafferty Account=Lafferty GPUs=a40:4 CPUs=32 Mem=975G Priority=1000 Preempts=normal GraceTime=1:00:00",
    );
    assert_eq!((qos.line, qos.name.as_str()), (7, "qos_lafferty"));
    assert_eq!(qos.members, Members::Accounts(vec!["lafferty".into()]));
    assert_eq!(qos.gpus, [("a40".to_owned(), 4)]);
    for (name, expected) in [
        ("GrpTRES", "cpu=32,gres/gpu=4,gres/gpu:a40=4,mem=975G"),
        ("Priority", "1000"),
        ("Preempt", "normal"),
        ("GraceTime", "01:00:00"),
    ] {
        assert_eq!(setting(&qos, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(qos.settings.len(), 4);
}

#[test]
fn several_types_add_up_to_the_untyped_limit() {
    let qos = managed("QOS=q Account=saxena Users=maria,Tom GPUs=a100:20,h100:2 GrpTRES=node=3");
    assert_eq!(qos.members, Members::Users("saxena".into(), vec!["maria".into(), "Tom".into()]));
    assert_eq!(
        setting(&qos, "GrpTRES").as_deref(),
        Some("gres/gpu=22,gres/gpu:a100=20,gres/gpu:h100=2,node=3")
    );
}

#[test]
fn a_free_qos_is_everybodys() {
    let qos =
        managed("QOS=savio_lowprio Account=* UsageFactor=0 Flags=NoReserve PreemptMode=requeue Priority=0");
    assert_eq!(qos.members, Members::All);
    assert_eq!(setting(&qos, "UsageFactor").as_deref(), Some("0"));
    assert_eq!(setting(&qos, "Priority"), None, "0 is what nobody has to write");
}

#[test]
fn names_of_2009_are_those_of_today() {
    for old in &OLD_NAMES {
        let qos = managed(&format!("QOS=q {}=8", old.name.to_ascii_uppercase()));
        let expected = if old.tres == "mem" { "mem=8M".to_owned() } else { format!("{}=8", old.tres) };
        assert_eq!(setting(&qos, old.field), Some(expected), "{}", old.name);
        assert_eq!(qos.old_names, [old]);
    }
    assert_eq!(
        managed("QOS=q GrpCpus=8").old_names.first().unwrap().to_string(),
        "GrpCpus is now written GrpTRES=cpu"
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
            assert!(managed(&format!("QOS=q {name}={value}")).setting(field).is_some(), "{name}");
        }
    }
}

#[test]
fn a_line_that_is_wrong_says_what() {
    let bad = |key, value: &str, allowed| Problem::BadValue { key, value: value.to_owned(), allowed };
    let alone = || Problem::Against { setting: "Users", needs: "one Account" };
    for (line, expected) in [
        ("QOS=q Account", Problem::NoValue("Account".into())),
        ("QOS=q Acount=x", Problem::UnknownKey("Acount".into(), Some("Account"))),
        ("QOS=\"two words\" CPUs=1", bad("QOS", "two words", ONE_NAME)),
        ("QOS=q's CPUs=1", bad("QOS", "q's", ONE_NAME)),
        ("QOS=a,b CPUs=1", bad("QOS", "a,b", ONE_NAME)),
        ("QOS=a* Mode=warn Account=x", bad("QOS", "a*", ONE_NAME)),
        ("QOS=", bad("QOS", "", QOSES)),
        ("QOS=q Account=a,,b", bad("Account", "a,,b", OWNERS[0].allowed)),
        ("QOS=q Account=a,A", bad("Account", "a,A", OWNERS[0].allowed)),
        ("QOS=q Account=a Users=x;y", bad("Users", "x;y", OWNERS[1].allowed)),
        ("QOS=q GPUs=4", bad("GPUs", "4", QUOTA[0].allowed)),
        ("QOS=q GPUs=a40:0", bad("GPUs", "a40:0", QUOTA[0].allowed)),
        ("QOS=q GPUs=:2", bad("GPUs", ":2", QUOTA[0].allowed)),
        ("QOS=q CPUs=many", bad("CPUs", "many", QUOTA[1].allowed)),
        ("QOS=q Mem=975X", bad("Mem", "975X", QUOTA[2].allowed)),
        ("QOS=q GrpJobs=-1", bad("GrpJobs", "-1", value::allowed(Kind::Count))),
        ("QOS=q GrpCpus=-1", bad("GrpCpus", "-1", "a whole number")),
        ("QOS=q Priority=1 priority=2", Problem::Twice { key: "Priority", first: None }),
        (
            "QOS=q MaxWall=1 MaxWallDurationPerJob=2",
            Problem::Twice { key: "MaxWallDurationPerJob", first: None },
        ),
        ("QOS=q Users=maria", alone()),
        ("QOS=q Account=* Users=maria", alone()),
        ("QOS=q Account=a,b Users=maria", alone()),
    ] {
        assert_eq!(parse(1, line), Err(expected), "{line}");
    }
}

#[test]
fn one_limit_is_said_once() {
    for (line, field, tres) in [
        ("QOS=q CPUs=1 GrpTRES=cpu=2", "GrpTRES", "cpu"),
        ("QOS=q GrpTRES=mem=1G GrpMemory=1024", "GrpTRES", "mem"),
        ("QOS=q GPUs=a40:1,a40:2", "GrpTRES", "gres/gpu:a40"),
        ("QOS=q GPUs=a40:1 GrpTRES=gres/gpu:A40=2", "GrpTRES", "gres/gpu:A40"),
        ("QOS=q GPUs=a40:1 GrpTRES=gres/gpu=2", "GrpTRES", "gres/gpu"),
        ("QOS=q MaxTRESPerUser=node=1 MaxNodesPerUser=1", "MaxTRESPerUser", "node"),
    ] {
        let expected = Problem::SaidTwice { field, tres: tres.into() };
        assert_eq!(parse(1, line), Err(expected), "{line}");
    }
}

#[test]
fn a_line_with_rules_alone_is_no_setting_of_the_database() {
    for (line, name) in [
        ("QOS=free,gpu_* Mode=warn Requeue=yes", None),
        ("QOS=free Mode=warn", None),
        ("QOS=Free Mode=warn UsageFactor=0", Some("free")),
        ("QOS=free UsageFactor=0", Some("free")),
        // It is there, without limits.
        ("QOS=free", Some("free")),
        ("QOS=free*", None),
        ("QOS=\"two words\",größe  Mode=audit", None),
        // A value of the rules is slurmctld's plugin's matter.
        ("QOS=free Mode=perhaps", None),
    ] {
        let found = parse(1, line).unwrap();
        assert_eq!(found.as_ref().map(|managed| managed.name.as_str()), name, "{line}");
    }
}
