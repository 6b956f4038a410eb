//! Tests of plans: which changes in which order, and that they are enough.

use gpushare_slurm_text::{Settings, node};

use super::*;
use crate::config::Database;
use crate::state;
use crate::tree::Tree;

mod order;

fn cluster() -> Cluster {
    let config =
        "AccountingStorageTRES = cpu,mem,node,gres/gpu,gres/gpu:a40,gres/gpu:H100\nClusterName = lab\n";
    Cluster::of(&Settings::parse(config), &node::read("NodeName=n Gres=gpu:a40:8,gpu:H100:8\n")).unwrap()
}

/// A QOS as sacctmgr prints it: some columns, the others unset.
fn line(name: &str, set: &[(&str, &str)], description: &str) -> String {
    let unset = [
        ("Priority", "0"),
        ("PreemptMode", "cluster"),
        ("GraceTime", "00:00:00"),
        ("UsageFactor", "1.000000"),
    ];
    let find = |name, list: &[(&str, &str)]| {
        list.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
    };
    let column =
        |field: &Field| find(field.name, set).or_else(|| find(field.name, &unset)).unwrap_or_default();
    let columns: Vec<String> = FIELDS.iter().map(column).collect();
    format!("{name}|{}|{description}\n", columns.join("|"))
}

fn actual(qoses: &[String], rows: &str) -> Actual {
    // Most have no default.
    let rows: String = format!("root|||normal\n{rows}")
        .lines()
        .map(|row| format!("{row}{}\n", if row.matches('|').count() == 3 { "|" } else { "" }))
        .collect();
    let parents: Vec<String> =
        rows.lines().filter_map(|row| row.split('|').next()).map(|name| format!("{name}|root")).collect();
    let qoses = [&[line("normal", &[], "Normal QOS default")], qoses].concat().concat();
    Actual {
        qoses: state::qoses(&qoses).unwrap(),
        tree: Tree::read(&rows, &parents.join("\n").replace("root|root", "root|")).unwrap(),
    }
}

fn made(text: &str, actual: &Actual) -> Plan {
    plan(&Database::parse(text).unwrap().qoses, actual, &cluster(), None)
}

fn said(plan: &Plan) -> Vec<String> {
    plan.changes
        .iter()
        .flat_map(|change| change.text().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn called(plan: &Plan) -> Vec<String> {
    plan.changes.iter().map(|change| change.arguments.join(" ")).collect()
}

const LAFFERTY: &str = "QOS=qos_lafferty Account=lafferty GPUs=a40:4 CPUs=32 Mem=975G Priority=1000 Preempts=normal \
                        GraceTime=1:00:00\n";
/// The same in the database.
const IS_LAFFERTY: [(&str, &str); 4] = [
    ("GrpTRES", "cpu=32,gres/gpu:a40=4,gres/gpu:H100=0,gres/gpu=4,mem=975G"),
    ("Priority", "1000"),
    ("Preempt", "normal"),
    ("GraceTime", "01:00:00"),
];

#[test]
fn an_empty_database_gets_all_in_order() {
    let text = format!(
        "{LAFFERTY}QOS=qos_saxena Account=saxena Users=maria,tom GPUs=h100:2\nQOS=free Account=* UsageFactor=0\n"
    );
    let plan = made(&text, &actual(&[], ""));
    assert_eq!(
        called(&plan),
        [
            "-i add account name=lafferty,saxena cluster=lab",
            "-i add qos name=qos_lafferty,qos_saxena,free set description=gpushare@lab",
            "-i modify qos where name=qos_lafferty set \
             GrpTRES=cpu=32,gres/gpu=4,gres/gpu:H100=0,gres/gpu:a40=4,mem=975G Priority=1000 Preempt=normal \
             GraceTime=3600",
            "-i modify qos where name=qos_saxena set GrpTRES=gres/gpu=2,gres/gpu:H100=2,gres/gpu:a40=0",
            "-i modify qos where name=free set UsageFactor=0",
            "-i add user name=maria,tom account=saxena cluster=lab",
            "-i modify account where name=lafferty cluster=lab set qos+=qos_lafferty",
            "-i modify user where name=maria,tom account=saxena cluster=lab set qos+=qos_saxena",
            "-i modify account where name=root cluster=lab set qos+=free",
        ]
    );
    assert_eq!(
        said(&plan)[..7],
        [
            "+ account lafferty",
            "+ account saxena",
            "+ qos qos_lafferty",
            "+ qos qos_saxena",
            "+ qos free",
            "+ qos qos_lafferty  GrpTRES cpu=32,gres/gpu=4,gres/gpu:H100=0,gres/gpu:a40=4,mem=975G",
            "+ qos qos_lafferty  Priority 1000",
        ]
    );
    assert!(said(&plan).contains(&"+ qos free for all accounts (root)".to_owned()));
    let two = called(&made("QOS=q Account=new\nQOS=r Account=new\n", &actual(&[], "")));
    assert_eq!(two[0], "-i add account name=new cluster=lab", "once, though two QOSes are for it");
}

#[test]
fn what_is_there_is_left() {
    let there = actual(
        &[line("qos_lafferty", &IS_LAFFERTY, "gpushare@lab Prof. L.")],
        "lafferty|||+qos_lafferty\nlafferty|alice||\n",
    );
    assert_eq!(made(LAFFERTY, &there), Plan::default());
}

#[test]
fn one_changed_line_is_one_call() {
    let there = actual(&[line("qos_lafferty", &IS_LAFFERTY, "gpushare@lab")], "lafferty|||+qos_lafferty\n");
    let plan = made(
        &LAFFERTY.replace("CPUs=32", "CPUs=64").replace("Mem=975G ", "").replace("1:00:00", "90"),
        &there,
    );
    assert_eq!(
        called(&plan),
        ["-i modify qos where name=qos_lafferty set GrpTRES=cpu=64,mem=-1 GraceTime=90"]
    );
    assert_eq!(
        said(&plan),
        [
            "~ qos qos_lafferty  GrpTRES cpu: 32 -> 64",
            "~ qos qos_lafferty  GrpTRES mem: 975G -> none",
            "~ qos qos_lafferty  GraceTime: 01:00:00 -> 00:01:30",
        ]
    );
}

#[test]
fn what_the_line_does_not_say_is_unset() {
    let drifted = [
        ("GrpTRES", "cpu=32,gres/gpu:a40=8,gres/gpu=4,mem=975G,node=2"),
        ("MaxWallDurationPerJob", "1-00:00:00"),
        ("Flags", "NoDecay"),
        ("PreemptMode", "cancel"),
        ("UsageFactor", "0.000000"),
        ("Priority", "1000"),
        ("Preempt", "normal,qos_lafferty"),
        ("GraceTime", "01:00:00"),
    ];
    let there = actual(&[line("qos_lafferty", &drifted, "by hand")], "lafferty|||+qos_lafferty\n");
    assert_eq!(
        called(&made(LAFFERTY, &there)),
        ["-i modify qos where name=qos_lafferty set Description=gpushare@lab \
          GrpTRES=gres/gpu:H100=0,gres/gpu:a40=4,node=-1 MaxWall=-1 Preempt=normal PreemptMode=cluster Flags=-1 \
          UsageFactor=1"]
    );
    assert_eq!(
        said(&made(LAFFERTY, &there))[..2],
        [
            "~ qos qos_lafferty  Description: 'by hand' -> 'gpushare@lab'",
            "~ qos qos_lafferty  GrpTRES gres/gpu:H100: none -> 0"
        ]
    );
    assert!(said(&made(LAFFERTY, &there)).contains(&"~ qos qos_lafferty  Flags: NoDecay -> none".to_owned()));
}

#[test]
fn equal_qoses_are_told_in_one_call() {
    let text = "QOS=a GPUs=a40:1\nQOS=b CPUs=1\nQOS=c GPUs=a40:1\n";
    let calls = called(&made(text, &actual(&[], "")));
    assert_eq!(
        calls[1..],
        [
            "-i modify qos where name=a,c set GrpTRES=gres/gpu=1,gres/gpu:H100=0,gres/gpu:a40=1",
            "-i modify qos where name=b set GrpTRES=cpu=1",
        ]
    );
    for (qoses, calls) in [(1000, 1000 / BATCH), (BATCH, 1), (BATCH + 1, 2)] {
        let many: String = (0..qoses).map(|number| format!("QOS=q{number} Priority=1\n")).collect();
        assert_eq!(made(&many, &actual(&[], "")).changes.len(), 2 * calls, "{qoses}");
    }
}

#[test]
fn who_may_use_it() {
    let there = |rows: &str| actual(&[line("q", &[], "gpushare@lab")], rows);
    for (line, rows, expected) in [
        ("Account=a", "a|||+q\na|alice||\n", ""),
        ("Account=a", "a|||+q\na|alice||normal\n", "+ qos q for user alice in account a"),
        ("Account=a", "a|||+q\na|alice||-q\n", "+ qos q for user alice in account a"),
        ("Account=a", "a|||\na|alice||q\nb|||+q\n", "+ qos q for account a\n- qos q for account b"),
        ("Account=a", "a|||+q\nb|||\nb|eve||+normal,+q\nb|bob||-q\n", "- qos q for user eve in account b"),
        ("Account=a,b", "a|||+q\nb|||\n", "+ qos q for account b"),
        (
            "Account=a Users=tom",
            "a|||+q\na|tom||\n",
            "+ qos q for user tom in account a\n- qos q for account a",
        ),
        ("Account=a Users=Tom", "a|||\na|tom||normal,q\n", ""),
        (
            "Account=a Users=tom",
            "a|||\na|tom||+q\na|eve||+q\nb|||\nb|tom||+q\n",
            "- qos q for user eve in account a\n- qos q for user tom in account b",
        ),
        ("Account=a Users=tom", "a|||\na|tom||+q\na|tom|p|\n", "+ qos q for user tom in account a"),
        (
            "Account=*",
            "a|||-q\na|tom||\na|eve||normal\n",
            "+ qos q for all accounts (root)\n+ qos q for account a\n+ qos q for user eve in account a",
        ),
        ("", "a|||+q\nb|eve||q\n", ""),
    ] {
        let plan = made(&format!("QOS=q {line}\n"), &there(rows));
        assert_eq!(said(&plan).join("\n"), expected, "{line}: {rows}");
    }
}

/// From 23.11.0 to 25.05.0 slurmctld learns about only one level of heirs.
#[test]
fn every_account_is_told_where_slurmctld_hears_of_one_level() {
    let rows = "a|||\na|tom||\nb|||-q\nc|||+q\nd|||normal\n";
    let there = |rows: &str| actual(&[line("q", &[], "gpushare@lab")], rows);
    let deep = |rows: &str| {
        let found = there(rows);
        let tree = "root|||normal|\nup||||\na||||\na|tom|||\nb||||\nb|eve|||\nother||||\nc||||\n";
        let tree = Tree::read(tree, "root|\nup|root\na|up\nb|a\nother|root\nc|other\n").unwrap();
        Actual { tree, ..found }
    };
    let made = |line: &str, actual: &Actual, version: &str| {
        let config = format!("AccountingStorageTRES = cpu\nClusterName = lab\nSLURM_VERSION = {version}\n");
        let cluster = Cluster::of(&Settings::parse(&config), &node::read("")).unwrap();
        said(&plan(&Database::parse(line).unwrap().qoses, actual, &cluster, None)).join("\n")
    };
    for version in ["23.11.0", "24.11.5", "25.05.0-0rc1"] {
        assert_eq!(
            made("QOS=q Account=*", &there(rows), version),
            "+ qos q for account a\n+ qos q for account b\n+ qos q for account d\n+ qos q for all accounts (root)"
        );
        assert_eq!(
            made("QOS=q Account=up", &deep(""), version),
            "+ qos q for account a\n+ qos q for account b\n+ qos q for account up"
        );
    }
    for version in ["22.05.8", "25.05.1", "26.05.5"] {
        let all = "+ qos q for all accounts (root)\n+ qos q for account b\n+ qos q for account d";
        assert_eq!(made("QOS=q Account=*", &there(rows), version), all);
        assert_eq!(made("QOS=q Account=up", &deep(""), version), "+ qos q for account up");
    }
    // Accounts that are added later inherit it from root.
    let tree = Tree::read("root|||normal,q|\na|||+q|\nnew||||\n", "root|\na|root\nnew|root\n").unwrap();
    assert_eq!(made("QOS=q Account=*", &Actual { tree, ..there("") }, "24.11.5"), "");
}

/// Whole-node jobs get all GPUs of their nodes, whatever they request.
#[test]
fn other_types_have_a_limit_of_0_while_they_are_denied() {
    let bare = |line: &str| {
        let plan = made(line, &actual(&[self::line("q", &[], "gpushare@lab")], ""));
        said(&plan).join("; ").replace("~ qos q  GrpTRES ", "")
    };
    let closed = "gres/gpu:H100: none -> 0; gres/gpu:a40: none -> 2";
    for (line, expected) in [
        ("QOS=q GrpTRES=gres/gpu:a40=2", closed),
        ("Mode=default\nQOS=q GrpTRES=gres/gpu:a40=2", closed),
        ("GovernedQOS=q*\nQOS=q GrpTRES=gres/gpu:a40=2", closed),
        ("ForeignTypes=allow\nQOS=q GrpTRES=gres/gpu:a40=2", "gres/gpu:a40: none -> 2"),
        // In these cases a job may request the other type, or may already have done so.
        ("GovernedQOS=others\nQOS=q GrpTRES=gres/gpu:a40=2", "gres/gpu:a40: none -> 2"),
        ("Mode=audit\nQOS=q GrpTRES=gres/gpu:a40=2", "gres/gpu:a40: none -> 2"),
        ("QOS=q Mode=warn\nQOS=q GrpTRES=gres/gpu:a40=2", "gres/gpu:a40: none -> 2"),
        ("GovernedGRES=mps\nQOS=q GrpTRES=gres/gpu:a40=2", "gres/gpu:a40: none -> 2"),
        // For a type in the line, only the line's limit applies.
        ("QOS=q GrpTRES=gres/gpu:a40=2,gres/gpu:h100=1", "gres/gpu:H100: none -> 1; gres/gpu:a40: none -> 2"),
        ("QOS=q GrpTRES=gres/gpu:h100=0", "gres/gpu:H100: none -> 0; gres/gpu:a40: none -> 0"),
        ("QOS=q GrpTRES=gres/gpu=2,cpu=1", "cpu: none -> 1; gres/gpu: none -> 2"),
    ] {
        assert_eq!(bare(line), expected, "{line}");
    }
    let per_user = bare("QOS=q MaxTRESPerUser=gres/gpu:a40=1");
    assert_eq!(per_user, "gres/gpu:H100: none -> 0; ~ qos q  MaxTRESPerUser gres/gpu:a40: none -> 1");
    let minimum = bare("QOS=q MinTRESPerJob=gres/gpu:a40=1");
    assert_eq!(minimum, "~ qos q  MinTRESPerJob gres/gpu:a40: none -> 1");
}

#[test]
fn a_type_that_is_new_and_one_that_is_allowed_again_are_changes() {
    let text = "QOS=q GrpTRES=gres/gpu:a40=2\n";
    let there = actual(&[line("q", &[("GrpTRES", "gres/gpu:a40=2,gres/gpu:H100=0")], "gpushare@lab")], "");
    assert_eq!(said(&made(text, &there)), [""; 0]);
    let allowed = made(&format!("ForeignTypes=allow\n{text}"), &there);
    assert_eq!(said(&allowed), ["~ qos q  GrpTRES gres/gpu:H100: 0 -> none"]);
    let mut more = cluster();
    more.tracked.push("gres/gpu:b200".to_owned());
    let plan = plan(&Database::parse(text).unwrap().qoses, &there, &more, None);
    assert_eq!(said(&plan), ["~ qos q  GrpTRES gres/gpu:b200: none -> 0"]);
    assert_eq!(called(&plan), ["-i modify qos where name=q set GrpTRES=gres/gpu:b200=0"]);
}

#[test]
fn an_account_that_had_it_from_above_keeps_it() {
    let there = actual(&[line("q", &[], "gpushare@lab")], "a|||\n");
    let mut tree = there.tree.clone();
    assert!(!tree.account_has("a", "q", &[]));
    tree = Tree::read("root|||normal,q|\na||||\n", "root|\na|root\n").unwrap();
    let plan = made("QOS=q Account=a\n", &Actual { tree, ..there });
    assert_eq!(said(&plan), ["+ qos q for account a", "- qos q for all accounts (root)"]);
}

#[test]
fn only_what_bears_the_mark_and_is_unused_is_removed() {
    let rows = "a|||+kept,+old\na|alice||+old\na|bob||normal,old\na|eve||old\n";
    let there = actual(
        &[
            line("old", &[], "GPUshare@LAB x"),
            line("busy", &[], "gpushare@lab"),
            line("named", &[], "gpushare@lab"),
            line("theirs", &[], "not gpushare@lab"),
            line("other", &[], "gpushare@lab2"),
            line("kept", &[], "gpushare@lab"),
        ],
        rows,
    );
    let file = "QOS=kept\n";
    let leftover = |qos: &str, used| Leftover { qos: qos.to_owned(), used, is_burst: false };
    let without = made(file, &there);
    assert_eq!(
        (without.changes.len(), without.leftovers),
        (0, vec![leftover("busy", None), leftover("named", None), leftover("old", None)])
    );
    let busy = Use { jobs: 2, ..Use::default() };
    let named = Use { partitions: ["p", "q"].map(str::to_owned).into(), ..Use::default() };
    assert_eq!(named.to_string(), "is named by partition p, q");
    assert_eq!(Use { jobs: 1, ..named.clone() }.to_string(), "has 1 job and is named by partition p, q");
    let used = HashMap::from([("busy".to_owned(), busy.clone()), ("named".to_owned(), named.clone())]);
    let plan = plan(&Database::parse(file).unwrap().qoses, &there, &cluster(), Some(&used));
    assert_eq!(plan.leftovers, [leftover("busy", Some(busy)), leftover("named", Some(named))]);
    assert_eq!(
        called(&plan),
        [
            "-i modify account where name=a cluster=lab set qos=",
            "-i modify account where name=a cluster=lab set qos+=kept",
            "-i modify user where name=bob account=a cluster=lab set qos-=old",
            "-i delete qos where name=old",
        ]
    );
    assert_eq!(said(&plan).last().unwrap(), "- qos old");
}

#[test]
fn what_is_somebodys_default_is_not_taken_away() {
    let there = actual(&[line("q", &[], "gpushare@lab")], "a|||+q\na|alice|||q\nb|||\nb|bob||+q|\n");
    let plan = made("QOS=q Account=b\n", &there);
    assert_eq!(said(&plan), ["+ qos q for account b"], "taking it from a is refused by Slurm");
    let [obstacle] = plan.obstacles.as_slice() else { panic!("{:?}", plan.obstacles) };
    assert_eq!(
        obstacle.to_string(),
        "qos q stays with account a: it is the default of user alice in account a; first run: sacctmgr modify user \
         where name=alice account=a cluster=lab set DefaultQOS=-1"
    );
    let plan = super::plan(&[], &there, &cluster(), Some(&InUse::new()));
    assert_eq!((plan.changes.len(), plan.leftovers.len()), (0, 0));
    let said: Vec<String> = plan.obstacles.iter().map(Obstacle::to_string).collect();
    assert!(
        said[0].starts_with("qos q stays: it is the default of user alice in account a; first run: "),
        "{said:?}"
    );
    let there = actual(&[line("q", &[], "gpushare@lab")], "$(id)|||+q|q\n");
    let plan = super::plan(&[], &there, &cluster(), Some(&InUse::new()));
    assert!(plan.obstacles[0].to_string().contains("where name='$(id)' cluster=lab"), "{:?}", plan.obstacles);
}

#[test]
fn slurms_own_qos_is_never_removed() {
    let mut there = actual(&[], "");
    there.qoses.get_mut("normal").unwrap().description = "gpushare@lab".to_owned();
    assert_eq!(plan(&[], &there, &cluster(), Some(&InUse::new())), Plan::default());
}

#[test]
fn an_argument_is_never_an_option_or_two() {
    let text = "QOS=q Account=a,b Users=x\n";
    assert!(Database::parse(text).is_err());
    for change in &made(LAFFERTY, &actual(&[], "")).changes {
        assert!(
            change
                .arguments
                .iter()
                .skip(1)
                .all(|word| !word.starts_with('-') && !word.contains(char::is_whitespace))
        );
    }
}
