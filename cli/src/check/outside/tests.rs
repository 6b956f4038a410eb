use super::*;
use crate::check::finding::Status;
use crate::slurm::qoses::Typed;
use crate::slurm::{self, Settings};

const COUNTED: &str = "AccountingStorageTRES = gres/gpu,gres/gpu:a40,gres/gpu:h100";

/// Two types, each on one node and in one partition, and both in partition p.
fn cluster(settings: &str, qoses: &[(&str, &str)]) -> Slurm {
    let nodes = ["NodeName=n1 Gres=gpu:a40:4 Partitions=p,a", "NodeName=n2 Gres=gpu:H100:4 Partitions=p,h"];
    let partitions = ["PartitionName=p", "PartitionName=a AllowQos=qa", "PartitionName=h AllowQos=qh"];
    let mut slurm = Slurm {
        settings: Settings::parse(settings),
        nodes: nodes.into_iter().filter_map(slurm::Node::read).collect(),
        partitions: partitions.into_iter().filter_map(slurm::Partition::read).collect(),
        ..Slurm::default()
    };
    for (name, gres_types) in qoses {
        let gres_types: BTreeSet<String> = gres_types.split(',').map(str::to_owned).collect();
        let limits = gres_types.iter().map(|gres_type| format!("GrpTRES=gres/gpu:{gres_type}")).collect();
        slurm.qoses.typed.insert((*name).to_owned(), Typed { gres_types, limits, ..Typed::default() });
    }
    slurm
}

fn found(rules: &str, slurm: &Slurm) -> Vec<Finding> {
    findings(&Config::parse(rules).unwrap(), slurm)
}

fn is_wrong(finding: &Finding) -> bool {
    matches!(finding.status, Status::Wrong(_))
}

#[test]
fn a_type_without_a_limit_is_named_with_the_command() {
    let slurm = cluster(COUNTED, &[("q1", "a40"), ("q2", "a40"), ("q3", "h100"), ("both", "a40,h100")]);
    let found = found("QOS=q3 GrpTRES=gres/gpu:h100=1", &slurm);
    let said: Vec<_> = found.iter().map(|finding| (finding.said.as_str(), finding.status.clone())).collect();
    let rest = "a job that takes whole nodes (--exclusive) gets these GPUs too";
    assert_eq!(
        said,
        [
            (
                format!("QOS q1, q2: without a limit on gres/gpu:h100 {rest}").as_str(),
                Status::Wrong("sacctmgr modify qos where name=q1,q2 set GrpTRES=gres/gpu:h100=0".into())
            ),
            (
                format!("QOS q3: without a limit on gres/gpu:a40 {rest}").as_str(),
                Status::Wrong(Fix::qos_apply())
            ),
        ]
    );
}

#[test]
fn nothing_is_said_where_no_other_type_can_be_had() {
    let one = |gres_types: &str| cluster(COUNTED, &[("q", gres_types)]);
    for (rules, wrong) in [
        ("# none", true),
        ("Mode=default", true),
        ("GovernedQOS=q", true),
        ("GovernedQOS=other", false),
        ("ForeignTypes=allow", false),
        ("QOS=q Mode=audit", false),
    ] {
        assert_eq!(found(rules, &one("a40")).iter().any(is_wrong), wrong, "{rules}");
    }
    assert_eq!(found("# none", &one("a40,h100")).first().map(|finding| &finding.status), Some(&Status::Ok));
    assert_eq!(found("# none", &cluster(COUNTED, &[])), []);
    // A type that isn't counted can't be limited; another finding reports that.
    assert_eq!(found("# none", &cluster("AccountingStorageTRES = gres/gpu:a40", &[("q", "a40")])), []);
    let mut slurm = one("a40");
    slurm.nodes.pop();
    assert_eq!(found("# none", &slurm), [], "one type");
    let mut slurm = one("a40");
    slurm.partitions.retain(|partition| partition.name != "p");
    assert_eq!(found("# none", &slurm), [], "no partition for this QOS");
    let mut slurm = cluster(COUNTED, &[("qa", "a40"), ("qh", "a40")]);
    slurm.partitions.retain(|partition| partition.name != "p");
    let wrong = found("# none", &slurm);
    assert!(
        wrong.len() == 1 && wrong.iter().all(|finding| finding.said.starts_with("QOS qh: ")),
        "{wrong:?}"
    );
}

#[test]
fn a_partitions_qos_that_takes_the_place_of_a_jobs_is_named() {
    let both = "a40,h100";
    let made = |partition: &str, own: &str| {
        let mut slurm = cluster(COUNTED, &[("q1", both), ("q2", both), ("own", own)]);
        slurm.partitions.push(slurm::Partition::read(partition).unwrap());
        slurm
    };
    let of = |slurm: &Slurm| -> Vec<Finding> {
        found("ForeignTypes=allow", slurm).into_iter().filter(is_wrong).collect()
    };
    let wrong = of(&made("PartitionName=x AllowQos=ALL QoS=own", "a40"));
    let said: Vec<_> = wrong.iter().map(|finding| finding.said.as_str()).collect();
    let what = "partition x has QOS own, whose GrpTRES=gres/gpu:a40 replaces the same limit of QOS q1, q2";
    assert_eq!(said, [what]);
    let fix = "sacctmgr modify qos where name=q1,q2 set Flags+=OverPartQOS; for QOSes in gpushare.conf \
               Flags=OverPartQOS there";
    assert_eq!(wrong.first().map(|finding| &finding.status), Some(&Status::Wrong(fix.into())));
    assert_eq!(of(&made("PartitionName=x QoS=N/A", "a40")), []);
    assert_eq!(of(&made("PartitionName=x AllowQos=own QoS=own", "a40")), []);
    assert_eq!(of(&made("PartitionName=x QoS=own", "v100")), [], "another type");
    let denied = found("# none", &made("PartitionName=x QoS=own", "v100"));
    assert!(!denied.iter().any(is_wrong), "what it lacks is the site's affair: {denied:?}");
    let mut flagged = made("PartitionName=x AllowQos=q1 QoS=own", "a40");
    flagged.qoses.over_partition = flagged.qoses.typed.keys().cloned().collect();
    assert_eq!(of(&flagged), []);
}

#[test]
fn limited_types_that_slurmctld_does_not_count_are_named_with_their_nodes() {
    let of = |settings: &str, nodes: &[&str], tres: &str| -> Vec<(String, Status)> {
        let mut slurm = cluster(settings, &[]);
        slurm.nodes = nodes.iter().filter_map(|text| slurm::Node::read(text)).collect();
        slurm.qoses.of_several.insert(tres.to_owned());
        found("# none", &slurm).into_iter().map(|finding| (finding.said, finding.status)).collect()
    };
    let counted = "AccountingStorageTRES = gres/gpu,gres/gpu:a40,gres/shard,gres/shard:A40";
    let untyped = "NodeName=n1\n   Gres=gpu:a40:4,shard:a40:160\n   CfgTRES=cpu=64,gres/gpu=4,gres/shard=160";
    let typed = "NodeName=n2 Gres=shard:a40:160 CfgTRES=mem=2000M,gres/shard=160,gres/shard:a40=160";
    let said =
        "limits on gres/shard:a40 don't count what runs on n1: slurm.conf names no type of shard there";
    let fix = "slurm.conf: Gres=…,shard:a40:N, not shard:N, and for nodes with several types gres.conf: Type= and \
               File= in each shard line; then restart slurmd there, then slurmctld";
    let wrong = vec![(said.to_owned(), Status::Wrong(fix.into()))];
    assert_eq!(of(counted, &[typed, untyped], "gres/shard:a40"), wrong);
    assert_eq!(of(counted, &[typed], "gres/shard:a40"), []);
    assert_eq!(of(counted, &[untyped], "gres/shard"), [], "no limit on the type");
    assert_eq!(of(counted, &[untyped], "gres/gpu:a40"), [], "jobs with gpu are counted all the same");
    let capitals = untyped.replace("shard:a40", "shard:A40");
    assert_eq!(of(counted, &[&capitals], "gres/shard:a40"), [], "may be counted");
    assert_eq!(
        of("AccountingStorageTRES = gres/shard", &[untyped], "gres/shard:a40"),
        [],
        "another finding's"
    );
    assert_eq!(of(counted, &["NodeName=n3 Gres=shard:a40:160"], "gres/shard:a40"), [], "not known");
    let mut slurm = cluster(counted, &[]);
    slurm.nodes = slurm::Node::read(untyped).into_iter().collect();
    slurm.accounts.tres.insert("gres/shard:a40".to_owned());
    assert_eq!(found("# none", &slurm), [], "on single jobs alone, which Slurm tests");
    slurm.accounts.of_several.insert("gres/shard:a40".to_owned());
    assert!(matches!(found("# none", &slurm).as_slice(), [one] if one.said == said), "an account's");
    assert_eq!(found("GovernedAccounts=off", &slurm), []);
}

#[test]
fn an_exemption_that_outlives_its_reservation_is_wrong() {
    let mut slurm = Slurm::default();
    let lines = [
        "ReservationName=course1 Flags=MAINT,NO_HOLD_JOBS_AFTER_END",
        "ReservationName=course2 Flags=NO_HOLD_JOBS_AFTER",
        "ReservationName=course3 Flags=MAINT",
        "ReservationName=other Flags=NO_HOLD_JOBS_AFTER_END",
    ];
    slurm.reservations = lines.into_iter().filter_map(slurm::Reservation::read).collect();
    let wrong = found("ExemptReservations=course*", &slurm);
    assert!(wrong.len() == 1 && wrong.iter().all(is_wrong), "{wrong:?}");
    assert!(wrong.iter().all(|finding| finding.said.starts_with("course1, course2 has ")), "{wrong:?}");
    assert_eq!(found("# none", &slurm), []);
    let shares = found("ShareReservations=course", &slurm);
    assert!(matches!(shares.as_slice(), [one] if one.about == "ShareReservations"), "{shares:?}");
    slurm.reservations =
        slurm::Reservation::read("ReservationName=course4 Flags=FLEX,MAINT").into_iter().collect();
    for key in ["ShareReservations=course", "ExemptReservations=course*"] {
        let flex = found(key, &slurm);
        assert!(matches!(flex.as_slice(), [one] if one.said.starts_with("course4 has FLEX:")), "{flex:?}");
        let fix = "scontrol update reservationname=course4 flags-=FLEX";
        assert_eq!(flex[0].status, Status::Wrong(fix.into()));
    }
}

#[test]
fn gpus_without_a_type_are_wrong_where_a_qos_limits_only_types() {
    let mut slurm = cluster(COUNTED, &[("qa", "a40,h100"), ("qh", "a40,h100")]);
    slurm.nodes.extend(slurm::Node::read("NodeName=n3 Gres=gpu:4 Partitions=h"));
    slurm.partitions.retain(|partition| partition.name != "p");
    let of = |slurm: &Slurm, rules: &str| -> Vec<String> {
        found(rules, slurm).into_iter().filter(is_wrong).map(|finding| finding.said).collect()
    };
    let said = "the GPUs of n3 have no type: a job that takes whole nodes (--exclusive) gets them under QOS qh, beyond \
                every limit on a type";
    assert_eq!(of(&slurm, ""), [said]);
    assert_eq!(of(&slurm, "ForeignTypes=allow"), [""; 0]);
    slurm.qoses.most.entry("qh".to_owned()).or_default().insert("gres/gpu".to_owned(), 4);
    assert_eq!(of(&slurm, ""), [""; 0]);
}

#[test]
fn limits_on_types_of_a_gres_that_no_rule_governs_are_wrong() {
    let mut slurm = cluster(COUNTED, &[]);
    slurm.nodes.extend(slurm::Node::read("NodeName=n3 Gres=gpux:a40:4,nic:4 Partitions=p"));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    slurm.qoses.ungoverned.insert("gpux".to_owned(), names(&["q1", "q2"]));
    slurm.qoses.ungoverned.insert("other".to_owned(), names(&["q3"]));
    slurm.accounts.ungoverned.insert("nic".to_owned(), names(&["acct", "bob in acct"]));
    let wrong = found("", &slurm).into_iter().find(is_wrong).unwrap();
    assert_eq!(
        (wrong.about.as_ref(), wrong.said.as_str()),
        (
            "GovernedGRES",
            "requests without a type exceed the limits on types of gres/gpux, gres/nic: QOS q1, QOS q2, account acct, \
             account bob in acct"
        )
    );
    let fix = "gpushare.conf: GovernedGRES=gpu,mps,shard,gpux,nic; or limit all of gres/gpux, gres/nic";
    assert_eq!(wrong.status, Status::Wrong(fix.into()));
    assert_eq!(found("GovernedQOS=q9\nGovernedAccounts=off", &slurm), []);
}
