//! Each kind of name.

use super::*;
use crate::check::fix::Fix;
use crate::slurm::{self, Accounts, Partition, Qoses};

fn shown(findings: &[Finding]) -> Vec<String> {
    let line = |Finding { about, said, status }: &Finding| match status {
        Status::Ok => format!("ok {about}: {said}"),
        Status::Unknown => format!("? {about}: {said}"),
        Status::Wrong(fix) => format!("WRONG {about}: {said} | {fix}"),
    };
    findings.iter().map(line).collect()
}

fn names<T: FromIterator<String>>(names: &[&str]) -> T {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Two nodes, a partition `course`, a reservation, and what the database has.
fn cluster() -> Slurm {
    let node =
        |name| slurm::Node::read(&format!("NodeName={name} Gres=gpu:a40:4,mps:400 State=IDLE")).unwrap();
    Slurm {
        qoses: Qoses { names: names(&["QOS_Lafferty", "two words"]), ..Qoses::default() },
        accounts: Accounts {
            names: names(&["root", "lab"]),
            users: names(&["alice", "bob"]),
            ..Accounts::default()
        },
        nodes: vec![node("titan1"), node("titan2")],
        partitions: vec![Partition { name: "course".into(), ..Partition::default() }],
        reservations: vec![slurm::Reservation::read("ReservationName=jhl_homework_2").unwrap()],
        ..Slurm::default()
    }
}

fn judged(text: &str) -> Vec<String> {
    let (config, slurm) = (Config::parse(text).unwrap(), cluster());
    let mut findings = of_database(&config, &slurm);
    findings.extend(of_slurmctld(&config, &slurm));
    shown(&findings)
}

#[test]
fn every_name_that_nothing_has_is_named_with_the_one_that_is_meant() {
    for (text, expected) in [
        (
            "GovernedQOS=qos_laferty,qos_new,x*,qos_lafferty\nQOS=qos_new GPUs=a40:1",
            vec![
                "WRONG GovernedQOS: no QOS 'qos_laferty'; did you mean 'QOS_Lafferty'? no QOS matches 'x*'. | \
                 gpushare.conf: GovernedQOS: QOS_Lafferty instead of qos_laferty; GovernedQOS: without x*, or create \
                 it in Slurm",
            ],
        ),
        (
            "QOS=qos_b Mode=audit\nQOS=\"two words\" Mode=audit",
            vec!["WRONG QOS: no QOS 'qos_b'. | gpushare.conf: QOS: without qos_b, or create it in Slurm"],
        ),
        (
            "QOS=qos_laferty GPUs=a40:1 Account=lba",
            vec![
                "? QOS: no QOS 'qos_laferty'; did you mean 'QOS_Lafferty'? If not, gpushare qos apply makes what is \
                 missing",
            ],
        ),
        (
            "QOS=qos_lafferty GPUs=a40:1 Account=labb Users=alice,bop,carol",
            vec![
                "? Account: no account 'labb'; did you mean 'lab'? no user 'bop'; did you mean 'bob'? If not, gpushare \
                 qos apply makes what is missing",
            ],
        ),
        (
            "GovernedAccounts=lab,labs\nExemptUsers=alice,bop,2001\nExemptAccounts=*",
            vec![
                "WRONG GovernedAccounts: no account 'labs'; did you mean 'lab'? | gpushare.conf: GovernedAccounts: lab \
                 instead of labs",
                "? ExemptUsers: no user 'bop'; did you mean 'bob'?",
            ],
        ),
        (
            "ShareOnlyPartitions=corse\nGpuPartitions=Course\nExemptPartitions=debug\nPartitionName=q MaxCPUsPerGpu=4",
            vec![
                "WRONG ShareOnlyPartitions: no partition 'corse'; did you mean 'course'? | gpushare.conf: \
                 ShareOnlyPartitions: course instead of corse",
                "WRONG GpuPartitions: no partition 'Course'; did you mean 'course'? | gpushare.conf: GpuPartitions: \
                 course instead of Course",
                "? ExemptPartitions: no partition 'debug'.",
                "WRONG PartitionName: no partition 'q'. | gpushare.conf: PartitionName: without q, or create it in \
                 Slurm",
            ],
        ),
        (
            "ExemptReservations=maintenance\nShareReservations=homework,typo_",
            vec![
                "? ExemptReservations: no reservation 'maintenance'.",
                "? ShareReservations: no reservation matches '*typo_*'.",
            ],
        ),
        (
            "NodeName=tian1 Placement=own UnitsPerGpu=4\nNodeName=titan9 Placement=own UnitsPerGpu=4\n\
             NodeName=titan[1-3] Placement=own UnitsPerGpu=4",
            vec![
                "WRONG NodeName: no node 'tian1'; did you mean 'titan1'? | gpushare.conf: correct or remove \
                 NodeName=tian1",
            ],
        ),
        (
            "MaxCPUsPerGpu=a4O:8,A40:4\nGpuWeight=a4O:8,h100:2",
            vec![
                "? GpuWeight: no node has GPUs of type 'h100'.",
                "WRONG GpuWeight: no node has GPUs of type 'a4O'; did you mean 'a40'? | gpushare.conf: GpuWeight: a40 \
                 instead of a4O",
                "WRONG MaxCPUsPerGpu: no node has GPUs of type 'a4O'; did you mean 'a40'? | gpushare.conf: \
                 MaxCPUsPerGpu: a40 instead of a4O",
            ],
        ),
        ("MaxMemPerGpu=h100:8G", vec!["? MaxMemPerGpu: no node has GPUs of type 'h100'."]),
        (
            "GovernedGRES=gpu,mps,gpuu,tpu,shard",
            vec![
                "WRONG GovernedGRES: no GRES 'gpuu'; did you mean 'gpu'? no GRES 'tpu'; did you mean 'gpu'? | \
                 gpushare.conf: GovernedGRES: gpu instead of gpuu; GovernedGRES: gpu instead of tpu",
            ],
        ),
        ("Placement=follow\nUnitsPerGpu=100\nMemPerUnit=400\nMemoryGRES=gpumem\nShareGRES=shares", vec![]),
        (
            "Placement=follow\nUnitsPerGpu=100\nShareSizes=25,50,200",
            vec![
                "WRONG ShareSizes: no GPU has 200 units; UnitsPerGpu is at most 100 | gpushare.conf: take 200 out of \
                 ShareSizes",
            ],
        ),
    ] {
        assert_eq!(judged(text), expected, "{text}");
    }
}

#[test]
fn a_gres_that_nodes_have_can_not_stand_for_memory() {
    let text = "Placement=own\nUnitsPerGpu=100\nMemPerUnit=400\nShareGRES=shares\nMemoryGRES=gpumem";
    let judge = |gres: &str| {
        let nodes = vec![slurm::Node::read(&format!("NodeName=n1 Gres={gres}")).unwrap()];
        shown(&types::findings(&Config::parse(text).unwrap(), &Slurm { nodes, ..cluster() }))
    };
    assert_eq!(judge("shares:400"), [""; 0]);
    assert_eq!(
        judge("shares:400,gpumem:40"),
        ["WRONG MemoryGRES: node n1 has gres/gpumem: requests for it become shares, so no job gets it | \
          gpushare.conf: MemoryGRES with a name that no node has; then the same name in GresTypes of slurm.conf"]
    );
}

#[test]
fn what_a_user_does_not_see_is_not_called_right() {
    let config = Config::parse("GovernedAccounts=nolab\nExemptUsers=x\nGpuPartitions=q").unwrap();
    let accounts = Accounts { names: names(&["own"]), users: names(&["own"]), ..Accounts::default() };
    let slurm = Slurm { accounts, partitions: Vec::new(), ..cluster() };
    assert_eq!(
        shown(&of_database(&config, &slurm)),
        [
            "? names: GovernedAccounts, ExemptUsers not compared: PrivateData hides accounts and users from you"
        ]
    );
    assert_eq!(
        shown(&of_slurmctld(&config, &slurm)),
        ["? names: GpuPartitions not compared: slurmctld shows you no partition"]
    );
}

#[test]
fn a_type_is_told_once_however_it_is_spelled() {
    let said = judged("MaxCPUsPerGpu=a4O:8\nQOS=qos_b MaxCPUsPerGpu=A4O:8").join("\n");
    assert!(said.contains("a4O") && !said.contains("A4O"), "{said}");
}

#[test]
fn types_that_nodes_spell_with_capitals_have_the_line_to_add() {
    let typed = slurm::qoses::Typed { gres_types: names(&["h100"]), ..slurm::qoses::Typed::default() };
    let slurm = Slurm {
        nodes: vec![slurm::Node::read("NodeName=n1 Gres=gpu:H100:4").unwrap()],
        qoses: Qoses { typed: [("q".to_owned(), typed)].into(), names: names(&["q"]), ..Qoses::default() },
        ..Slurm::default()
    };
    let judge = |text: &str| shown(&types::findings(&Config::parse(text).unwrap(), &slurm));
    let refused = "Slurm refuses requests that gpushare writes or advises";
    assert_eq!(
        judge("# none"),
        [format!(
            "WRONG GPU types: nodes spell 'H100', limits 'h100': {refused} | gpushare.conf: QOS=q DefaultType=H100"
        )]
    );
    assert_eq!(judge("QOS=q DefaultType=H100"), Vec::<String>::new());
    assert_eq!(judge("GovernedQOS=other"), Vec::<String>::new());
    // A QOS of several types has no default among them, and one that may have none is told to ask for none.
    for (others, none_of, expected) in [
        ("a40", "a40", Some("QOS=q DefaultType=H100")),
        ("a40", "", Some("spell it H100 in GpuWeight=, or in GPUs= of a QOS= line")),
        ("a40", "h100", None),
        ("a40", "a40 h100", None),
    ] {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let typed = slurm::qoses::Typed {
            gres_types: names(&["h100", others]),
            none_of: words(none_of),
            ..slurm::qoses::Typed::default()
        };
        let slurm = Slurm {
            nodes: vec![slurm::Node::read("NodeName=n1 Gres=gpu:H100:4").unwrap()],
            qoses: Qoses {
                typed: [("q".to_owned(), typed)].into(),
                names: names(&["q"]),
                ..Qoses::default()
            },
            ..Slurm::default()
        };
        let found = shown(&types::findings(&Config::default(), &slurm));
        let fix = found.first().and_then(|line| line.split(" | gpushare.conf: ").nth(1));
        assert_eq!(fix, expected, "{others} {none_of}: {found:?}");
    }
    assert_eq!(
        judge("GpuWeight=h100:2"),
        [format!(
            "WRONG GPU types: nodes spell 'H100', gpushare.conf 'h100': {refused} | gpushare.conf: H100 instead of h100"
        )]
    );
}

#[test]
fn no_fix_follows_a_name_that_is_in_doubt() {
    let fix = "sacctmgr …";
    let mut findings = vec![
        Finding::wrong("GovernedQOS", "no QOS 'x'.", "gpushare.conf: correct it"),
        Finding::wrong("QOS", "~ qos q GrpTRES gres/gpu:h100: 0 -> none", Fix::qos_apply()),
        Finding::wrong("TRESBillingWeights", "partition p", fix),
        Finding::wrong("Prolog", "none is set", fix),
    ];
    before_others(&mut findings);
    let first = "first the names of GovernedQOS in gpushare.conf, then gpushare check again";
    let expected = ["gpushare.conf: correct it", first, first, fix];
    for (finding, fix) in findings.iter().zip(expected) {
        assert_eq!(finding.fix().as_deref(), Some(fix), "{finding:?}");
    }
    // What may be meant as it is holds nothing back.
    let maybe = [
        Finding::unknown("QOS", "no QOS 'qos_laferty'; did you mean 'QOS_Lafferty'?"),
        Finding::unknown("Account", "no account 'labb'; did you mean 'lab'?"),
        Finding::unknown("GpuWeight", "no node has GPUs of type 'h100'."),
    ];
    for more in [&[], maybe.as_slice()] {
        let mut right = vec![Finding::wrong("TRESBillingWeights", "partition p", fix)];
        right.extend(more.iter().cloned());
        before_others(&mut right);
        assert_eq!(right[0].fix().as_deref(), Some(fix));
    }
    // But apply would make what isn't meant.
    let mut pending = vec![
        Finding::wrong("QOS", "+ qos qos_laferty", Fix::qos_apply()),
        Finding::wrong("ForeignTypes", "QOS qos_laferty: …", Fix::qos_apply()),
        Finding::wrong("Prolog", "none is set", "not by gpushare qos apply"),
    ];
    pending.extend(maybe);
    before_others(&mut pending);
    let after = "if the names of Account, QOS (lines with ?) are intentional: gpushare qos apply";
    for (finding, expected) in pending.iter().zip([after, after, "not by gpushare qos apply"]) {
        assert_eq!(finding.fix().as_deref(), Some(expected));
    }
}
