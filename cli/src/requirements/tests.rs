//! slurmctld's values, right and wrong, one setting at a time; and the line that fixes each.

use gpushare_machine::config::Config;

use super::*;
use crate::slurm::{Node, Partition, Slurm};

/// All settings right, for shares under `override` and a contributor whose jobs preempt and are counted by type.
const GOOD: [(&str, &str); 15] = [
    ("JobSubmitPlugins", "lua,gpushare"),
    ("AccountingStorageEnforce", "associations,limits,qos"),
    ("AccountingStorageTRES", "cpu,mem,gres/gpu,gres/gpu:a40,gres/mps"),
    ("PreemptType", "preempt/qos"),
    ("PreemptMode", "REQUEUE"),
    ("JobRequeue", "1"),
    ("PriorityType", "priority/multifactor"),
    ("PriorityWeightQOS", "1000"),
    ("PriorityWeightFairshare", "1000"),
    ("TaskPlugin", "task/affinity,task/cgroup"),
    ("ProctrackType", "proctrack/cgroup"),
    ("PrologFlags", "Alloc,Contain"),
    ("GresTypes", "gpu,mps"),
    ("ConstrainDevices", "yes"),
    ("CgroupPlugin", "cgroup/v2"),
];
const RULES: &str = "Placement=override\nUnitsPerGpu=80\nGpuWeight=a40:1\nQOS=x GPUs=a40:4 Priority=1 Preempt=normal\n\
                     QOS=normal PreemptMode=requeue";

/// A cluster whose settings are right except for these changes to slurm.conf.
pub fn slurm(changes: &[(&str, &str)]) -> Slurm {
    let programs = [("Prolog[0]", "/usr/sbin/gpushare-prolog"), ("Epilog[0]", "/usr/sbin/gpushare-epilog")];
    let kept = GOOD.into_iter().chain(programs).filter(|(key, _)| {
        !changes.iter().any(|(changed, _)| *changed == key.split('[').next().unwrap_or_default())
    });
    let lines = kept.chain(changes.iter().copied()).map(|(key, value)| format!("{key} = {value}\n"));
    Slurm {
        settings: Settings::parse(&lines.collect::<String>()),
        nodes: vec![Node::read("NodeName=n1 Gres=gpu:a40:4,mps:a40:320 Partitions=p").unwrap()],
        partitions: vec![
            Partition::read("PartitionName=p").unwrap(),
            Partition::read("PartitionName=cpu").unwrap(),
        ],
        ..Slurm::default()
    }
}

fn unmet(rules: &str, slurm: &Slurm) -> Vec<Requirement> {
    let requirements = requirements(&Config::parse(rules).unwrap(), slurm, false);
    requirements.into_iter().filter(|requirement| requirement.met(&slurm.settings) != Met::Yes).collect()
}

#[test]
fn a_cluster_without_a_database_needs_nothing_for_one() {
    let none = [("AccountingStorageType", "accounting_storage/none")];
    let of_database = ["AccountingStorage", "Priority", "Preempt", "JobRequeue", "SelectTypeParameters"];
    let rules = format!("{RULES}\nQOS=y GrpTRES=mem=1T");
    let all = requirements(&Config::parse(&rules).unwrap(), &slurm(&none), false);
    let keys: Vec<&str> = all.iter().map(|requirement| requirement.key).collect();
    assert!(keys.contains(&"JobSubmitPlugins") && keys.contains(&"GresTypes"), "{keys:?}");
    assert!(!keys.iter().any(|key| of_database.iter().any(|begin| key.starts_with(begin))), "{keys:?}");
}

#[test]
fn what_an_account_limits_must_be_counted() {
    let mut limited = slurm(&[]);
    limited.accounts.tres = ["gres/gpu:a40", "gres/gpu:v100"].map(str::to_owned).into();
    let unmet_line = |rules: &str, slurm: &Slurm| {
        let unmet = unmet(rules, slurm).into_iter();
        unmet.filter_map(|requirement| requirement.line(&slurm.settings)).collect::<Vec<_>>()
    };
    let line = "AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/mps,gres/gpu:v100";
    assert_eq!(unmet_line(RULES, &limited), [line]);
    assert_eq!(unmet_line(&format!("GovernedAccounts=off\n{RULES}"), &limited), [""; 0]);
}

#[test]
fn each_setting_that_is_not_right_is_named_and_mended() {
    assert_eq!(unmet(RULES, &slurm(&[])), []);
    for (key, value, line) in [
        ("JobSubmitPlugins", "gpushare,lua", Some("JobSubmitPlugins=lua,gpushare")),
        ("JobSubmitPlugins", "lua", Some("JobSubmitPlugins=lua,gpushare")),
        ("JobSubmitPlugins", "(null)", Some("JobSubmitPlugins=gpushare")),
        (
            "AccountingStorageEnforce",
            "associations,limits,safe",
            Some("AccountingStorageEnforce=associations,limits,safe,qos"),
        ),
        ("AccountingStorageEnforce", "none", Some("AccountingStorageEnforce=associations,limits,qos")),
        (
            "AccountingStorageTRES",
            "cpu,gres/gpu,gres/mps",
            Some("AccountingStorageTRES=gres/gpu,gres/mps,gres/gpu:a40"),
        ),
        (
            "AccountingStorageTRES",
            "cpu,gres/gpu:a40,gres/mps",
            Some("AccountingStorageTRES=gres/gpu:a40,gres/mps,gres/gpu"),
        ),
        ("PreemptType", "(null)", Some("PreemptType=preempt/qos")),
        ("PreemptMode", "OFF", Some("PreemptMode=REQUEUE")),
        ("JobRequeue", "0", Some("JobRequeue=1")),
        ("PriorityWeightQOS", "0", Some("PriorityWeightQOS=100000")),
        ("PriorityWeightFairshare", "0", Some("PriorityWeightFairshare=100000")),
        ("PriorityType", "priority/basic", Some("PriorityType=priority/multifactor")),
        ("TaskPlugin", "task/affinity", Some("TaskPlugin=task/affinity,task/cgroup")),
        ("ProctrackType", "proctrack/linuxproc", Some("ProctrackType=proctrack/cgroup")),
        ("PrologFlags", "Alloc", Some("PrologFlags=Alloc,Contain")),
        ("PrologFlags", "(null)", Some("PrologFlags=Contain")),
        ("PrologFlags", "Alloc,NoHold", Some("PrologFlags=Alloc,Contain")),
        (
            "JobSubmitPlugins",
            "job_submit/gpushare,job_submit/lua",
            Some("JobSubmitPlugins=job_submit/lua,gpushare"),
        ),
        ("GresTypes", "gpu", Some("GresTypes=gpu,mps")),
        ("ConstrainDevices", "no", Some("ConstrainDevices=yes")),
        ("Prolog", "(null)", Some("Prolog=/usr/sbin/gpushare-prolog")),
        ("Epilog", "/etc/slurm/epilog.sh", None),
    ] {
        let slurm = slurm(&[(key, value)]);
        let unmet = unmet(RULES, &slurm);
        let lines: Vec<_> =
            unmet.iter().map(|requirement| (requirement.key, requirement.line(&slurm.settings))).collect();
        assert_eq!(lines, [(key, line.map(str::to_owned))], "{key}={value}");
    }
    assert_eq!(unmet(RULES, &slurm(&[("AccountingStorageEnforce", "all")])), []);
}

#[test]
fn the_gres_of_shares_is_counted_before_a_node_has_it() {
    let mut slurm = slurm(&[("AccountingStorageTRES", "cpu,gres/gpu,gres/gpu:a40")]);
    slurm.nodes = vec![Node::read("NodeName=n1 Gres=gpu:a40:4 Partitions=p").unwrap()];
    for (rules, line) in [
        ("Placement=follow\nUnitsPerGpu=100", Some("AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/mps")),
        (
            "NodeName=n9 Placement=follow UnitsPerGpu=8",
            Some("AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/mps"),
        ),
        (
            "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=8",
            Some("AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/gpushare"),
        ),
        ("Placement=off", None),
    ] {
        let unmet = unmet(rules, &slurm);
        let found = unmet.iter().find(|requirement| requirement.key == "AccountingStorageTRES");
        let found = found.and_then(|requirement| requirement.line(&slurm.settings));
        assert_eq!(found.as_deref(), line, "{rules}");
    }
}

#[test]
fn a_program_may_be_named_by_a_link_in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let pattern = dir.path().join("prolog.d/*").display().to_string();
    std::fs::create_dir(dir.path().join("prolog.d")).unwrap();
    std::fs::write(dir.path().join("gpushare-prolog"), "").unwrap();
    let unmet = |value: &str| unmet(RULES, &slurm(&[("Prolog", value)])).len();
    assert_eq!(unmet(&pattern), 1, "nothing is in it");
    let link = dir.path().join("prolog.d/50-gpushare");
    std::os::unix::fs::symlink(dir.path().join("gpushare-prolog"), &link).unwrap();
    assert_eq!((unmet(&pattern), unmet(&link.display().to_string())), (0, 0));
    assert_eq!(unmet(&pattern.replace("*", "*.sh")), 1);
}

#[test]
fn what_is_right_in_other_words_stays() {
    for (key, value) in [
        ("JobSubmitPlugins", "job_submit/lua,job_submit/gpushare"),
        ("AccountingStorageTRES", "gres/gpu,gres/gpu:A40,gres/mps"),
        ("PreemptMode", "GANG,SUSPEND"),
    ] {
        assert_eq!(unmet(RULES, &slurm(&[(key, value)])), [], "{key}={value}");
    }
    let suspends = "QOS=x Preempt=y\nQOS=y PreemptMode=suspend";
    for (mode, met) in [("GANG,SUSPEND", true), ("REQUEUE", false), ("SUSPEND", false)] {
        let found = unmet(suspends, &slurm(&[("PreemptMode", mode)]));
        assert_eq!(found.is_empty(), met, "{mode}: {found:?}");
    }
}

/// Slurm expects one line for each program, and treats a comma as part of a path.
#[test]
fn several_prologs_are_several_lines() {
    let both = [("Prolog", "/site/prolog"), ("Prolog", "/usr/sbin/gpushare-prolog")];
    let slurm = slurm(&both);
    let all = requirements(&Config::parse(RULES).unwrap(), &slurm, false);
    let prolog = all.iter().find(|requirement| requirement.key == "Prolog").unwrap();
    assert_eq!(prolog.met(&slurm.settings), Met::Yes);
    let lines = prolog.line(&slurm.settings).unwrap();
    assert_eq!(lines, "Prolog=/site/prolog\nProlog=/usr/sbin/gpushare-prolog");
}

/// slurmctld doesn't start if a weight is for something that it doesn't count.
#[test]
fn what_is_weighed_is_counted() {
    let slurm = slurm(&[]);
    let all = requirements(&Config::parse("GpuWeight=a40:1,h100:4").unwrap(), &slurm, false);
    let counted = all.iter().find(|requirement| requirement.key == "AccountingStorageTRES").unwrap();
    let line = counted.line(&slurm.settings).unwrap();
    assert_eq!(line, "AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/mps,gres/gpu:h100");
}

/// If all printed lines are in slurm.conf, nothing is left to do.
#[test]
fn what_is_printed_meets_every_need() {
    for rules in [
        RULES,
        "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=8",
        "QOS=x GPUs=a100:1,h100:2 Mem=1T",
        "# none",
    ] {
        let mut slurm = Slurm::default();
        let printed: String = requirements(&Config::parse(rules).unwrap(), &slurm, false)
            .iter()
            .filter_map(|requirement| requirement.line(&slurm.settings))
            .map(|line| line + "\n")
            .collect();
        slurm.settings = Settings::parse(&printed);
        assert_eq!(unmet(rules, &slurm), [], "{printed}");
    }
}

#[test]
fn a_cluster_that_there_is_not_yet_counts_what_the_file_names() {
    let tres = |rules: &str| {
        let slurm = Slurm::default();
        let requirements = requirements(&Config::parse(rules).unwrap(), &slurm, false);
        let counted = requirements.iter().find(|requirement| requirement.key == "AccountingStorageTRES")?;
        counted.line(&slurm.settings)
    };
    for (rules, expected) in [
        ("# none", None),
        (
            "QOS=x GPUs=h100:1,a40:2\nGpuWeight=a40:1,a100:2",
            Some("gres/gpu,gres/gpu:a100,gres/gpu:a40,gres/gpu:h100"),
        ),
        ("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=8", Some("gres/gpushare")),
        ("Placement=follow\nShareGRES=shard\nUnitsPerGpu=8", Some("gres/gpu,gres/shard")),
    ] {
        assert_eq!(tres(rules), expected.map(|tres| format!("AccountingStorageTRES={tres}")), "{rules}");
    }
}

#[test]
fn memory_is_a_resource_where_it_is_limited() {
    for (now, line) in [
        ("CR_CORE", "CR_Core_Memory"),
        ("CR_Core_Memory", "CR_Core_Memory"),
        ("CR_CPU,CR_ONE_TASK_PER_CORE", "CR_CPU_Memory,CR_ONE_TASK_PER_CORE"),
        ("CR_LLN", "CR_Core_Memory,CR_LLN"),
        ("(null)", "CR_Core_Memory"),
    ] {
        let slurm = slurm(&[("SelectTypeParameters", now)]);
        let requirements = requirements(&Config::parse("QOS=x Mem=4G").unwrap(), &slurm, false);
        let requirement =
            requirements.into_iter().find(|requirement| requirement.key == "SelectTypeParameters").unwrap();
        assert_eq!(requirement.met(&slurm.settings) == Met::Yes, now.contains("Memory"), "{now}");
        assert_eq!(requirement.line(&slurm.settings), Some(format!("SelectTypeParameters={line}")), "{now}");
    }
    let without = requirements(&Config::parse("QOS=x CPUs=4").unwrap(), &Slurm::default(), false);
    assert!(without.iter().all(|requirement| requirement.key != "SelectTypeParameters"));
}

#[test]
fn who_is_preempted_decides_how() {
    let mode = |rules: &str| {
        let slurm = Slurm::default();
        let requirements = requirements(&Config::parse(rules).unwrap(), &slurm, false);
        let line =
            |key| requirements.iter().find(|requirement| requirement.key == key)?.line(&slurm.settings);
        (line("PreemptMode"), line("JobRequeue").is_some())
    };
    assert_eq!(mode("QOS=x Priority=1"), (None, false), "nobody is preempted");
    assert_eq!(mode("QOS=x Preempt=y\nQOS=y"), (Some("PreemptMode=REQUEUE".into()), false));
    assert_eq!(
        mode("QOS=x Preempt=y\nQOS=y PreemptMode=requeue"),
        (Some("PreemptMode=REQUEUE".into()), true)
    );
    assert_eq!(mode("QOS=x Preempt=y\nQOS=y PreemptMode=suspend").0, Some("PreemptMode=SUSPEND,GANG".into()));
}

#[test]
fn what_slurmctld_has_by_choice_stays() {
    let config = Config::parse("GpuWeight=a40:1").unwrap();
    let lines = |settings: &str| {
        let slurm = Slurm { settings: Settings::parse(settings), ..Slurm::default() };
        let lines = requirements(&config, &slurm, false)
            .iter()
            .filter_map(|requirement| requirement.line(&slurm.settings))
            .collect::<Vec<_>>();
        lines.join(" ")
    };
    let new = lines("");
    for line in ["PriorityWeightAge=10000", "PriorityMaxAge=5-0", "PriorityWeightTRES=GRES/gpu=20000"] {
        assert!(new.contains(line), "{new}");
    }
    let kept = lines(
        "PriorityWeightAge = 7\nPriorityMaxAge = 9-00:00:00\nPriorityWeightPartition = 0\nPriorityWeightTRES = cpu=1",
    );
    for line in [
        "PriorityWeightAge=7",
        "PriorityMaxAge=9-00:00:00",
        "PriorityWeightPartition=10000",
        "PriorityWeightTRES=cpu=1",
    ] {
        assert!(kept.contains(line), "{kept}");
    }
}

#[test]
fn under_follow_slurm_spreads_shares_over_the_gpus_where_it_can() {
    let follow = "Placement=follow\nUnitsPerGpu=100\n";
    for (rules, version, now, line, met) in [
        (follow, "24.11.5", "CR_CORE", Some("CR_CORE,LL_SHARED_GRES"), false),
        (follow, "24.11.5", "(null)", Some("CR_Core_Memory,LL_SHARED_GRES"), false),
        (follow, "23.11.1", "CR_CORE,LL_SHARED_GRES", Some("CR_CORE,LL_SHARED_GRES"), true),
        (follow, "23.02.7", "CR_CORE", None, true),
        ("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80\n", "24.11.5", "CR_CORE", None, true),
        (
            "QOS=x Mem=4G\nPlacement=follow\nUnitsPerGpu=100\n",
            "24.11.5",
            "CR_CORE",
            Some("CR_Core_Memory,LL_SHARED_GRES"),
            false,
        ),
    ] {
        let slurm = slurm(&[
            ("SelectTypeParameters", now),
            ("SLURM_VERSION", version),
            ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ]);
        let all = requirements(&Config::parse(rules).unwrap(), &slurm, false);
        let found = all.iter().find(|requirement| requirement.key == "SelectTypeParameters");
        let said = found.and_then(|requirement| requirement.line(&slurm.settings));
        assert_eq!(said, line.map(|line| format!("SelectTypeParameters={line}")), "{rules} {version} {now}");
        assert!(found.is_none_or(|found| (found.met(&slurm.settings) == Met::Yes) == met), "{rules} {now}");
    }
}

#[test]
fn the_cgroup_is_of_the_version_that_slurm_uses() {
    let pure = "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let hybrid = "1 0 0:1 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n\
                  2 0 0:2 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    for (plugin, mounts, v2) in [
        ("", pure, true),
        ("autodetect", pure, true),
        ("autodetect", hybrid, false),
        ("cgroup/v1", pure, false),
        ("cgroup/v2", hybrid, true),
    ] {
        assert_eq!(hierarchy(plugin, mounts) == Hierarchy::Unified, v2, "{plugin} {mounts}");
    }
}

#[test]
fn on_v2_nodes_whose_gpus_slurm_does_not_know_need_no_fence_of_slurms() {
    let of = |placement: &str| format!("Placement={placement}\nShareGRES=mps\nUnitsPerGpu=8");
    let mixed = "ShareGRES=mps\nNodeName=n2 Placement=own UnitsPerGpu=8".to_owned();
    let (known, unknown) = ("Gres=gpu:a40:4,mps:a40:320", "Gres=mps:32");
    for (rules, gres, plugin, needed) in [
        (of("own"), unknown, "cgroup/v2", false),
        (of("own"), unknown, "cgroup/v1", true),
        // Nodes may have another version than this machine.
        (of("own"), unknown, "autodetect", true),
        (of("follow"), unknown, "cgroup/v2", true),
        // Where gpushare is off, Slurm hands out what it knows.
        ("GovernedQOS=auto".to_owned(), known, "cgroup/v2", true),
        (mixed.clone(), known, "cgroup/v2", true),
        (mixed, unknown, "cgroup/v2", false),
    ] {
        let mut slurm =
            slurm(&[("TaskPlugin", "task/affinity"), ("ConstrainDevices", "no"), ("CgroupPlugin", plugin)]);
        slurm.nodes = vec![Node::read(&format!("NodeName=n1 {gres} Partitions=p")).unwrap()];
        let keys: Vec<&str> = unmet(&rules, &slurm).iter().map(|requirement| requirement.key).collect();
        let fence = keys.into_iter().filter(|key| ["TaskPlugin", "ConstrainDevices"].contains(key));
        assert_eq!(fence.count(), if needed { 2 } else { 0 }, "{rules} {gres} {plugin}");
    }
}
