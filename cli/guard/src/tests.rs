//! The checker on snapshots that were made up, as in tests/siege/test_judge.py: it must see each kind of breach, and
//! none where there is none.

use std::collections::HashMap;

use gpushare_slurm_text::record::Records;
use gpushare_slurm_text::{Association, Associations, Qos, Settings, job, node, partition};

use super::*;

/// Columns: name, flags, limits at once.
const QOSES: &str = "normal||||||
typed||gres/gpu:a40=2,gres/gpu:h100=0||||
job|||gres/gpu:a40=1|||
user||||gres/gpu:a40=2||
account|||||gres/gpu:a40=2|
node||||||gres/gpu:a40=1
all||gres/gpu=3||||
units||gres/mps=100||||
big||gres/gpu:a40=4||||
over|OverPartQOS|gres/gpu:a40=3||||
bills||billing=10||||
half|OverPartQOS,Relative|gres/gpu:a40=2,gres/gpu=50|gres/gpu:a40=1||gres/gpu:a40=1|gres/gpu:a40=1
";
/// Columns: account, user, partition, the account above, limits at once.
const ACCOUNTS: &str = "root||||||
acct|||root|||
acct|alice|||||
acct|bob|||||
capped|||root|gres/gpu:a40=2||
capped|alice|||||
group|||root|gres/gpu:a40=3|gres/gpu:a40=2|
sub|||group|||
sub|alice|||||
sub|bob||||gres/gpu:a40=1|
sub|eve|p|||gres/gpu:a40=1|
pernode|||root|||gres/gpu:a40=1
pernode|alice|||||
";
const NODES: &str = "NodeName=n1\n   Gres=gpu:a40:4,mps:a40:400\nNodeName=h1\n   Gres=gpu:h100:4\n   State=X ThreadsPerCore=2\n\
                     NodeName=m1\n   Gres=gpu:a40:2,gpu:h100:2\n   GresUsed=gpu:a40:2(IDX:0-1),gpu:h100:2(IDX:2-3)\n\
                     NodeName=c1\n   Gres=gpu:A40:2\nNodeName=u1\n   Gres=gpu:4\n";
const PARTITIONS: &str = "PartitionName=p QoS=N/A\nPartitionName=limited QoS=typed\nPartitionName=x OverSubscribe=EXCLUSIVE\n\
                          PartitionName=w TRESBillingWeights=GRES/gpu:a40=4\n";

/// A job by default one of alice's, with one A40 of n1, named.
#[derive(Clone)]
struct Made {
    id: u32,
    user: &'static str,
    account: &'static str,
    qos: &'static str,
    partition: &'static str,
    reservation: &'static str,
    state: &'static str,
    start: u64,
    alloc: &'static str,
    on: &'static [(&'static str, &'static str)],
    asks: &'static str,
    name: &'static str,
}

const ONE: Made = Made {
    id: 1,
    user: "alice",
    account: "acct",
    qos: "normal",
    partition: "p",
    reservation: "(null)",
    state: "RUNNING",
    start: 0,
    alloc: "cpu=1,gres/gpu=1,gres/gpu:a40=1",
    on: &[("n1", "gpu:a40:1(IDX:0)")],
    asks: "gres/gpu:a40:1",
    name: "",
};
const TWO: Made =
    Made { alloc: "cpu=1,gres/gpu=2,gres/gpu:a40=2", on: &[("n1", "gpu:a40:2(IDX:0,3)")], ..ONE };
const FOUR: Made =
    Made { alloc: "cpu=1,gres/gpu=4,gres/gpu:a40=4", on: &[("n1", "gpu:a40:4(IDX:0-3)")], ..ONE };

/// Reads lines with these columns: name, flags, limits at once.
fn qoses(text: &str) -> HashMap<String, Qos> {
    let qos = |line: &str| {
        let (name, rest) = line.split_once('|').unwrap();
        let (flags, limits) = rest.split_once('|').unwrap();
        (name.to_owned(), Qos::read(&format!("{name}|{limits}||||||{flags}||")))
    };
    text.lines().map(qos).collect()
}

fn associations() -> Associations {
    let mut all = Associations::default();
    for line in ACCOUNTS.lines() {
        let mut columns = line.splitn(4, '|');
        let [account, user, partition, rest] = [(); 4].map(|()| columns.next().unwrap());
        all.add(Association::read(&format!("{account}|{user}|{partition}|||{rest}|||")));
    }
    all
}

fn snapshot(made: &[Made]) -> Snapshot {
    let mut records = Records::default();
    let mut jobs = Vec::new();
    for job in made {
        let (id, start) = (job.id, if job.start == 0 { u64::from(job.id) } else { job.start });
        let user_id = if job.user == "alice" { 2001 } else { 2002 };
        let line = format!(
            "{id} |{id}{} |{user_id} |{} |{} |{} |{} |{} |{} |{start} |{} |None |{} |",
            job.name,
            job.user,
            job.account,
            job.qos,
            job.partition,
            job.reservation,
            job.state,
            job.on.len(),
            job.alloc
        );
        jobs.push(Job::read(&job::padded(&line)).unwrap());
        let on: String = job
            .on
            .iter()
            .map(|(node, gres)| format!("     Nodes={node} CPU_IDs=0 Mem=0 GRES={gres}\n"))
            .collect();
        let asks = job.asks;
        let text =
            format!("JobId={id} JobName=x\n   UserId={user_id}\n{on}   Command=x\n   TresPerNode={asks}\n");
        text.lines().for_each(|line| records.line(line));
    }
    job::join(&mut jobs, records);
    Snapshot {
        jobs,
        nodes: node::read(NODES).into_iter().map(|node| (node.name.clone(), node)).collect(),
        partitions: partition::read(PARTITIONS).into_iter().map(|one| (one.name.clone(), one)).collect(),
        qoses: qoses(QOSES),
        associations: associations(),
        settings: Settings::parse("AccountingStorageEnforce=limits\n"),
    }
}

fn rules(conf: &str) -> Rules {
    Rules::of(&gpushare::config::rules::Rules::parse(conf).unwrap().policy, Loans::default())
}

fn shown(findings: &[Finding]) -> Vec<String> {
    let one = |found: &Finding| {
        let Finding { what, kind, whose, of, tres, held, limit, counted_by, .. } = found;
        let word = kind.map_or(what.word(), Kind::word);
        format!("{whose} {word} {of} {tres} {held}/{limit} {}", counted_by.words()).replace("  ", " ")
    };
    findings.iter().map(one).collect()
}

fn found(made: &[Made], conf: &str) -> Vec<String> {
    shown(&judge(&snapshot(made), &rules(conf)).over)
}

/// The same finding by both counts.
fn both(text: &str) -> Vec<String> {
    ["AllocTRES", "devices"].map(|counted_by| format!("{text} {counted_by}")).to_vec()
}

#[test]
fn each_kind_of_limit_is_seen_and_none_that_holds() {
    let qos = |id, qos, made: Made| Made { id, qos, ..made };
    let of = |id, account, user, made: Made| Made { id, account, user, ..made };
    for (made, expected) in [
        (vec![ONE, qos(2, "typed", ONE), qos(3, "job", ONE)], vec![]),
        (vec![qos(1, "typed", TWO)], vec![]),
        (vec![qos(1, "typed", FOUR)], both("QOS typed GrpTRES gres/gpu:a40 4/2")),
        (
            vec![qos(1, "typed", TWO), Made { user: "bob", ..qos(2, "typed", ONE) }],
            both("QOS typed GrpTRES gres/gpu:a40 3/2"),
        ),
        (vec![qos(1, "job", TWO)], both("QOS job MaxTRESPerJob gres/gpu:a40 2/1")),
        (vec![qos(1, "job", ONE), qos(2, "job", ONE)], vec![]),
        (
            vec![qos(1, "user", TWO), qos(2, "user", ONE)],
            both("QOS user MaxTRESPerUser user alice gres/gpu:a40 3/2"),
        ),
        (vec![qos(1, "user", TWO), Made { user: "bob", ..qos(2, "user", ONE) }], vec![]),
        (
            vec![qos(1, "account", TWO), Made { user: "bob", ..qos(2, "account", ONE) }],
            both("QOS account MaxTRESPerAccount account acct gres/gpu:a40 3/2"),
        ),
        (vec![qos(1, "account", TWO), Made { account: "sub", ..qos(2, "account", TWO) }], vec![]),
        (vec![qos(1, "node", TWO)], both("QOS node MaxTRESPerNode gres/gpu:a40 2/1")),
        (vec![qos(1, "all", FOUR)], both("QOS all GrpTRES gres/gpu 4/3")),
        (vec![of(1, "capped", "alice", FOUR)], both("account capped GrpTRES gres/gpu:a40 4/2")),
        (
            vec![of(1, "sub", "alice", TWO), of(2, "sub", "alice", TWO)],
            both("account group GrpTRES gres/gpu:a40 4/3"),
        ),
        (vec![of(1, "sub", "bob", TWO)], both("user bob in account sub MaxTRESPerJob gres/gpu:a40 2/1")),
        (
            vec![of(1, "sub", "eve", TWO)],
            both("user eve in account sub and partition p MaxTRESPerJob gres/gpu:a40 2/1"),
        ),
        (vec![of(1, "sub", "alice", TWO)], vec![]),
        (vec![of(1, "pernode", "alice", TWO)], both("account pernode MaxTRESPerNode gres/gpu:a40 2/1")),
        // What the QOS limits, the account doesn't limit again.
        (vec![Made { account: "capped", ..qos(1, "typed", TWO) }, of(2, "capped", "alice", TWO)], vec![]),
        // Neither what waits, nor what is over.
        (vec![Made { state: "PENDING", ..qos(1, "typed", FOUR) }], vec![]),
        (vec![Made { state: "COMPLETED", ..qos(1, "typed", FOUR) }], vec![]),
        (
            vec![Made { state: "SUSPENDED", ..qos(1, "typed", FOUR) }],
            both("QOS typed GrpTRES gres/gpu:a40 4/2"),
        ),
        // A bill counts where a partition bills types.
        (
            vec![Made {
                alloc: "billing=12",
                partition: "w",
                on: &[("n1", "gpu:a40:0(IDX:)")],
                ..qos(1, "bills", ONE)
            }],
            vec!["QOS bills GrpTRES billing 12/10 AllocTRES".to_owned()],
        ),
        (
            vec![Made { alloc: "billing=12", on: &[("n1", "gpu:a40:0(IDX:)")], ..qos(1, "bills", ONE) }],
            vec![],
        ),
    ] {
        assert_eq!(found(&made, ""), expected);
    }
}

#[test]
fn of_two_qoses_the_first_limits_and_the_other_only_what_it_leaves_open() {
    let at = |id, qos, partition, made: Made| Made { id, qos, partition, ..made };
    for (made, expected) in [
        // The partition's QOS comes first.
        (vec![at(1, "big", "limited", FOUR)], both("QOS typed GrpTRES gres/gpu:a40 4/2")),
        (vec![at(1, "big", "p", FOUR)], vec![]),
        // Unless the job's has OverPartQOS.
        (vec![at(1, "over", "limited", FOUR)], both("QOS over GrpTRES gres/gpu:a40 4/3")),
        // A job that the partition's limit doesn't bind doesn't count for it.
        (vec![at(1, "over", "limited", TWO), at(2, "normal", "limited", TWO)], vec![]),
        (
            vec![at(1, "all", "limited", FOUR)],
            [both("QOS all GrpTRES gres/gpu 4/3"), both("QOS typed GrpTRES gres/gpu:a40 4/2")].concat(),
        ),
    ] {
        assert_eq!(found(&made, ""), expected);
    }
}

#[test]
fn percentages_of_a_relative_qos_are_no_counts() {
    let half = Made { qos: "half", ..FOUR };
    assert_eq!(found(std::slice::from_ref(&half), ""), [""; 0]);
    // Other limits count where Slurm's order leaves them, and only there: QOS typed has less.
    assert_eq!(found(&[Made { partition: "limited", ..half.clone() }], ""), [""; 0]);
    assert_eq!(found(&[Made { account: "capped", ..half.clone() }], ""), [""; 0]);
    assert_eq!(agree(&snapshot(std::slice::from_ref(&half)), &snapshot(&[half]), &rules(""), 9), []);
}

#[test]
fn what_was_cut_is_unclear_and_its_devices_count() {
    let mut now = snapshot(&[Made { qos: "typed", ..FOUR }]);
    now.jobs[0].allocated = None;
    let over = shown(&judge(&now, &rules("")).over);
    assert_eq!(
        over,
        ["QOS typed GrpTRES gres/gpu:a40 4/2 devices", "user alice unclear AllocTRES 0/0 devices"]
    );
}

#[test]
fn a_name_that_hides_limits_is_said_and_stops_nothing() {
    let mut now = snapshot(&[Made { qos: "typed", ..FOUR }]);
    let before = shown(&judge(&now, &rules("")).over);
    now.associations.odd.push("a|b||||||".to_owned());
    let over = shown(&judge(&now, &rules("")).over);
    assert_eq!(over.len(), before.len() + 1);
    assert!(over.iter().any(|line| line.starts_with("a|b|||||| unclear associations")), "{over:?}");
}

#[test]
fn devices_count_by_their_nodes_whatever_they_are_called() {
    let hidden = Made { qos: "job", on: &[("n1", "gpu:a40:1(IDX:0)"), ("m1", "gpu:a40:1(IDX:1)")], ..ONE };
    assert_eq!(
        found(&[hidden], ""),
        ["QOS job MaxTRESPerJob gres/gpu:a40 2/1 devices", "QOS job miscounted gres/gpu:a40 2/1 devices"]
    );
    let other = Made { qos: "typed", alloc: "gres/gpu=1", on: &[("h1", "gpu:a40:1(IDX:0)")], ..ONE };
    assert_eq!(
        found(&[other], ""),
        [
            "QOS typed GrpTRES gres/gpu:h100 1/0 devices",
            "QOS typed unnamed gres/gpu:h100 1/0 devices",
            "QOS typed miscounted gres/gpu:h100 1/0 devices"
        ]
    );
    let alien =
        Made { qos: "job", alloc: "gres/gpu=1,gres/gpu:h100=1", on: &[("m1", "gpu:x:1(IDX:3)")], ..ONE };
    assert_eq!(found(&[alien], ""), ["QOS job unnamed gres/gpu:h100 1/0 devices"]);
}

#[test]
fn a_type_is_named_by_the_request_or_it_is_told() {
    let untyped = Made { asks: "gres/gpu:1", ..ONE };
    assert_eq!(
        found(&[Made { qos: "typed", ..untyped.clone() }], ""),
        ["QOS typed unnamed gres/gpu:a40 1/0 devices"]
    );
    assert_eq!(found(std::slice::from_ref(&untyped), ""), [""; 0]);
    // Up to 22.05 nothing shows what was asked for, if an update has cleared its text. Whole nodes need no request.
    let cleared = Made { qos: "typed", asks: "", ..untyped };
    assert_eq!(found(std::slice::from_ref(&cleared), ""), [""; 0]);
    assert_eq!(
        found(&[Made { partition: "x", ..cleared }], ""),
        ["QOS typed unnamed gres/gpu:a40 1/0 devices"]
    );
    // Slurm gives no A40 of n1 to this one: an update that it refused left the text.
    let otherwise = Made { qos: "typed", asks: "gres/gpu:A40:1", ..ONE };
    assert_eq!(found(std::slice::from_ref(&otherwise), ""), ["QOS typed unnamed gres/gpu:a40 1/0 devices"]);
    // A node that spells it so does.
    assert_eq!(found(&[Made { on: &[("c1", "gpu:A40:1(IDX:0)")], ..otherwise }], ""), [""; 0]);
}

#[test]
fn exempt_jobs_count_nowhere() {
    let over = Made { qos: "typed", reservation: "maint7", ..FOUR };
    for conf in [
        "ExemptReservations=maint*",
        "ExemptUsers=alice",
        "ExemptUsers=2001",
        "ExemptAccounts=ac*",
        "ExemptPartitions=p",
    ] {
        assert_eq!(found(std::slice::from_ref(&over), conf), [""; 0], "{conf}");
    }
    assert_eq!(found(&[over], "ExemptReservations=other").len(), 2);
}

#[test]
fn the_jobs_beyond_are_the_newest_that_do_not_fit() {
    let typed = |id, start, made: Made| Made { id, start, qos: "big", ..made };
    let beyond = |made: &[Made]| {
        let over = judge(&snapshot(made), &rules("")).over;
        let first: Option<Vec<u32>> = over
            .first()
            .map(|found| found.jobs.iter().filter(|job| job.is_beyond).map(|job| job.id).collect());
        first.unwrap_or_default()
    };
    // By when they started, not by number.
    assert_eq!(beyond(&[typed(1, 30, TWO), typed(2, 10, TWO), typed(3, 20, TWO)]), [1]);
    assert_eq!(beyond(&[typed(1, 10, TWO), typed(2, 10, TWO), typed(3, 10, TWO)]), [3]);
    // The one that fits beside those that stay is within.
    assert_eq!(beyond(&[typed(1, 10, TWO), typed(2, 20, FOUR), typed(3, 30, ONE)]), [2]);
    assert_eq!(beyond(&[typed(1, 10, TWO), typed(2, 20, TWO)]), [0; 0]);
}

#[test]
fn what_is_ending_is_said_and_is_not_over() {
    let ends = Made { qos: "big", state: "COMPLETING", ..TWO };
    let made = [ends.clone(), Made { id: 2, qos: "big", ..FOUR }];
    let verdict = judge(&snapshot(&made), &rules(""));
    assert!(verdict.over.is_empty());
    assert_eq!(shown(&verdict.ending), both("QOS big GrpTRES gres/gpu:a40 4/4"));
    assert!(
        verdict
            .ending
            .iter()
            .all(|found| found.completing == 2 && found.jobs.iter().all(|job| !job.is_beyond))
    );
    assert_eq!(judge(&snapshot(&[ends]), &rules("")), Verdict::default());
}

mod acting;
mod others;
