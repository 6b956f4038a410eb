//! What slurmctld says, right and wrong, one setting at a time.

use super::*;
use crate::check::finding::Verdict;

/// All right, for shares under `override`.
const GOOD: [(&str, &str); 12] = [
    ("JobSubmitPlugins", "lua,gpushare"),
    ("AccountingStorageEnforce", "associations,limits,qos"),
    ("AccountingStorageTRES", "cpu,mem,gres/gpu,gres/gpu:a40,gres/mps"),
    ("PreemptType", "preempt/qos"),
    ("PreemptMode", "REQUEUE"),
    ("PriorityType", "priority/multifactor"),
    ("PriorityWeightQOS", "1000"),
    ("TaskPlugin", "task/affinity,task/cgroup"),
    ("ProctrackType", "proctrack/cgroup"),
    ("PrologFlags", "Alloc,Contain"),
    ("GresTypes", "gpu,mps"),
    ("ConstrainDevices", "yes"),
];

fn settings(changes: &[(&str, &str)]) -> Settings {
    let programs = [("Prolog[0]", "/usr/sbin/gpushare-prolog"), ("Epilog[0]", "/usr/sbin/gpushare-epilog")];
    let kept = GOOD.into_iter().chain(programs).filter(|(key, _)| {
        !changes.iter().any(|(changed, _)| *changed == key.split('[').next().unwrap_or_default())
    });
    let lines = kept.chain(changes.iter().copied()).map(|(key, value)| format!("{key} = {value}\n"));
    Settings::parse(&lines.collect::<String>())
}

/// What is wrong, by key, under those changes of slurm.conf.
fn wrong(changes: &[(&str, &str)]) -> Vec<&'static str> {
    let settings = settings(changes);
    let config = Config::parse("Placement=override\nUnitsPerGpu=80").unwrap();
    let accounting = Accounting {
        governed: vec!["qos_lafferty".to_owned()],
        preempting: vec!["qos_lafferty".to_owned()],
        priorities: true,
    };
    let nodes = [slurm_node("NodeName=n1 Gres=gpu:a40:4,mps:a40:320").unwrap()];
    let mut findings = submission(&settings, &config, &accounting);
    findings.extend(super::nodes(&settings, &config, false));
    findings.push(counted(&settings, &config, &nodes));
    let bad = findings.into_iter().filter(|finding| finding.verdict != Verdict::Ok);
    bad.map(|finding| finding.about).collect()
}

#[test]
fn each_setting_that_is_not_right_is_named_and_nothing_else() {
    assert_eq!(wrong(&[]), [""; 0]);
    for (key, value, named) in [
        ("JobSubmitPlugins", "gpushare,lua", "JobSubmitPlugins"),
        ("JobSubmitPlugins", "lua", "JobSubmitPlugins"),
        ("JobSubmitPlugins", "(null)", "JobSubmitPlugins"),
        ("AccountingStorageEnforce", "associations,limits", "AccountingStorageEnforce"),
        ("AccountingStorageEnforce", "none", "AccountingStorageEnforce"),
        ("AccountingStorageTRES", "cpu,gres/gpu,gres/mps", "AccountingStorageTRES"),
        ("AccountingStorageTRES", "cpu,gres/gpu:a40,gres/mps", "AccountingStorageTRES"),
        ("PreemptType", "(null)", "PreemptType"),
        ("PreemptMode", "OFF", "PreemptType"),
        ("PriorityWeightQOS", "0", "PriorityWeightQOS"),
        ("PriorityType", "priority/basic", "PriorityWeightQOS"),
        ("TaskPlugin", "task/affinity", "TaskPlugin"),
        ("ProctrackType", "proctrack/linuxproc", "ProctrackType"),
        ("PrologFlags", "Alloc", "PrologFlags"),
        ("GresTypes", "gpu", "GresTypes"),
        ("ConstrainDevices", "no", "ConstrainDevices"),
        ("Prolog", "(null)", "Prolog"),
        ("Epilog", "/etc/slurm/epilog.sh", "Epilog"),
    ] {
        assert_eq!(wrong(&[(key, value)]), [named], "{key}={value}");
    }
    assert_eq!(wrong(&[("AccountingStorageEnforce", "all")]), [""; 0]);
}

#[test]
fn what_mends_a_setting_can_be_copied() {
    let fix = |finding: Finding| match finding.verdict {
        Verdict::Wrong(fix) => fix,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        fix(order(&settings(&[("JobSubmitPlugins", "gpushare,lua")]))),
        "JobSubmitPlugins=lua,gpushare"
    );
    let config = Config::default();
    let nodes = [
        slurm_node("NodeName=n1 Gres=gpu:a40:4").unwrap(),
        slurm_node("NodeName=n2 Gres=gpu:h100:2").unwrap(),
    ];
    let found = counted(&settings(&[("AccountingStorageTRES", "cpu")]), &config, &nodes);
    assert_eq!(fix(found), "AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/gpu:h100");
}

#[test]
fn a_node_is_read_with_its_gres() {
    let gres = |text: &str| slurm_node(&format!("NodeName=n1 Gres={text} NodeAddr=x")).unwrap().gres;
    assert_eq!(gres("(null)"), []);
    assert_eq!(
        gres("gpu:a40:4(S:0-1),shard:400,x"),
        [("gpu".into(), Some("a40".into()), 4), ("shard".into(), None, 400), ("x".into(), None, 1)]
    );
}
