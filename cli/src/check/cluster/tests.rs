//! The texts about settings. [`crate::requirements`] has the tests of which settings are wrong.

use super::*;
use crate::check::finding::Status;
use crate::slurm;

fn cluster(settings: &str) -> Slurm {
    let nodes = vec![slurm::Node::read("NodeName=n1 Gres=gpu:a40:4 Partitions=p").unwrap()];
    let partitions = vec![slurm::Partition::read("PartitionName=p").unwrap()];
    Slurm { settings: Settings::parse(settings), nodes, partitions, ..Slurm::default() }
}

/// The findings if both daemons answer.
fn all(config: &Config, slurm: &Slurm, hooks: bool) -> Vec<Finding> {
    findings(config, slurm, &Reach { slurmctld: Ok(()), slurmdbd: Ok(()) }, hooks, false)
}

fn finding(rules: &str, settings: &str, about: &str) -> (String, Status) {
    let found = all(&Config::parse(rules).unwrap(), &cluster(settings), false);
    let finding = found.into_iter().find(|finding| finding.about == about).unwrap();
    (finding.said, finding.status)
}

#[test]
fn a_finding_says_what_is_there_what_follows_and_what_mends_it() {
    let rules = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=8\nGpuWeight=a40:2";
    assert_eq!(
        finding(rules, "PrologFlags = Alloc", "PrologFlags"),
        (
            "'Alloc' lacks Contain: ssh sessions are in no step, and the prolog can't trust the share's size"
                .into(),
            Status::Wrong(
                "slurm.conf: PrologFlags=Alloc,Contain; then restart every slurmd, then slurmctld".into()
            )
        )
    );
    // With autodetect, each node has the version that it mounts.
    assert_eq!(finding(rules, "CgroupPlugin = autodetect", "ConstrainDevices").1, Status::Unknown);
    assert_eq!(
        finding(rules, "CgroupPlugin = cgroup/v1", "ConstrainDevices").1,
        Status::Wrong(
            "cgroup.conf: ConstrainDevices=yes; then restart slurmd on each node that has it".into()
        )
    );
    assert_eq!(
        finding(rules, "Prolog = /etc/slurm/prolog", "Prolog"),
        ("'/etc/slurm/prolog' must call /usr/sbin/gpushare-prolog".into(), Status::Unknown)
    );
    assert_eq!(
        finding(rules, "", "TRESBillingWeights"),
        (
            "partition p doesn't bill GPUs as GpuWeight says".into(),
            Status::Wrong(
                "slurm.conf: PartitionName=p … TRESBillingWeights=GRES/gpu:a40=2; then restart slurmctld"
                    .into()
            )
        )
    );
    assert_eq!(
        finding("# none", "JobSubmitPlugins = gpushare", "JobSubmitPlugins"),
        ("gpushare".into(), Status::Ok)
    );
}

#[test]
fn accounts_with_limits_on_types_are_listed() {
    let accounts = |names: &[&str]| Accounts {
        limited: names.iter().map(|name| (*name).to_owned()).collect(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Accounts::default()
    };
    for (rules, names, expected, status) in [
        ("# none", vec![], "auto: no account has a limit on a GPU type", Status::Ok),
        ("# none", vec!["acct", "bob in dept"], "auto: acct, bob in dept", Status::Ok),
        ("GovernedAccounts=a*", vec!["acct"], "acct", Status::Ok),
        ("GovernedAccounts=off", vec![], "off, and no account has a limit on a GPU type", Status::Ok),
        (
            "GovernedAccounts=Off",
            vec!["acct"],
            "off: requests without a type bypass the limits of acct",
            Status::Unknown,
        ),
    ] {
        let found = governed_accounts(&Config::parse(rules).unwrap(), &accounts(&names)).unwrap();
        assert_eq!((found.said.as_str(), found.status), (expected, status), "{rules}");
    }
}

#[test]
fn epilogs_that_slurm_may_start_as_the_user_are_told_of() {
    let rules = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=8";
    let told = |rules: &str, flags: &str, version: &str| {
        let settings = format!("PrologFlags = Alloc,{flags}\nSLURM_VERSION = {version}");
        let found = all(&Config::parse(rules).unwrap(), &cluster(&settings), false);
        found.iter().any(|finding| finding.about == "PrologFlags" && finding.said.starts_with("RunInJob: "))
    };
    for (version, expected) in [
        ("24.05.8", false),
        ("24.11.0", true),
        ("25.05.8", true),
        ("25.11.7", true),
        ("26.05.3", false),
        ("", false),
    ] {
        assert_eq!(told(rules, "Contain,RunInJob", version), expected, "{version}");
    }
    assert!(told(rules, "Contain,runinjob", "24.11.5"));
    assert!(!told(rules, "Contain", "24.11.5"));
    assert!(!told("# none", "Contain,RunInJob", "24.11.5"));
}

#[test]
fn another_controller_is_to_be_looked_at_itself() {
    let settings = Settings::parse("SlurmctldHost[0] = ctl1(10.0.0.1)\nSlurmctldHost[1] = ctl2");
    assert_eq!(controllers(&settings), ["ctl1", "ctl2"]);
    for (host, other) in [("ctl1", "ctl2"), ("ctl2", "ctl1")] {
        let finding = other_controllers(&["ctl1", "ctl2"], host).unwrap();
        assert!(finding.said.starts_with(&format!("{other}: ")), "{}", finding.said);
        assert_eq!(finding.status, Status::Unknown);
    }
    assert!(other_controllers(&["ctl1"], "ctl1").is_none());
}

#[test]
fn hooks_do_the_work_of_prolog_and_epilog() {
    let config = Config::parse("Placement=follow\nUnitsPerGpu=8").unwrap();
    let found = all(&config, &cluster(""), true);
    for about in ["Prolog", "Epilog"] {
        let of: Vec<_> =
            found.iter().filter(|finding| finding.about == about).map(|finding| &finding.status).collect();
        assert_eq!(of, [&Status::Ok], "{about}");
    }
}

#[test]
fn without_gpus_nothing_is_to_be_counted() {
    let found = all(&Config::default(), &Slurm::default(), false);
    let counted = found.iter().find(|finding| finding.about == "AccountingStorageTRES").unwrap();
    assert_eq!(counted.status, Status::Unknown);
}

#[test]
fn login_shells_outside_of_fences_are_named() {
    let of = |rules: &str, settings: &str| {
        finding(&format!("Placement=follow\nUnitsPerGpu=8{rules}"), settings, "GetUserEnv")
    };
    let (said, status) = of("", "GetEnvTimeout = 2 sec");
    assert!(said.starts_with("allow: slurmd runs login shells of users outside of jobs"), "{said}");
    assert_eq!(status, Status::Unknown);
    assert_eq!(of("", "").1, Status::Unknown);
    assert_eq!(of("\nGetUserEnv=drop", "GetEnvTimeout = 2 sec").1, Status::Ok);
    assert_eq!(of("", "GetEnvTimeout = 0 sec").1, Status::Ok);
    let findings = all(&Config::parse("Placement=off").unwrap(), &cluster(""), false);
    assert!(findings.iter().all(|finding| finding.about != "GetUserEnv"));
}

#[test]
fn whose_limit_of_gpu_memory_holds_is_said() {
    let said = |rules: &str, settings: &str| {
        let found = all(&Config::parse(rules).unwrap(), &cluster(settings), false);
        let finding = found.into_iter().find(|finding| finding.about == "ConstrainDeviceMemory")?;
        Some((finding.status, finding.said))
    };
    let yes = "ConstrainDeviceMemory = yes";
    let follow = "Placement=follow\nUnitsPerGpu=8\n";
    let shards = format!("{follow}ShareGRES=shard\n");
    for (rules, settings) in [("# none", yes), (&*shards, "ConstrainDeviceMemory = no"), (&*shards, "")] {
        assert_eq!(said(rules, settings), None, "{rules}{settings}");
    }
    for (rules, status, part) in [
        (follow, Status::Ok, "gpushare limits its own shares"),
        (&*shards, Status::Ok, "Slurm limits the memory of shards, so gpushare sets no limit for the job"),
        (
            &*format!("{shards}Mps=per-user\n"),
            Status::Ok,
            "MPS also limits each program: the smaller limit applies",
        ),
        (
            "Placement=override\nUnitsPerGpu=8\nShareGRES=shard\n",
            Status::Wrong(
                "cgroup.conf on each node: ConstrainDeviceMemory=no; then restart slurmd there".into(),
            ),
            "on another",
        ),
    ] {
        let (found, text) = said(rules, yes).unwrap();
        assert_eq!(found, status, "{rules}");
        assert!(text.contains(part), "{rules}: {text}");
    }
    let (_, text) = said(&format!("{follow}Mps=per-user\n"), yes).unwrap();
    assert!(!text.contains("MPS"), "Slurm's limit isn't theirs: {text}");
}

#[test]
fn each_daemon_that_does_not_answer_takes_only_its_own_lines() {
    let (up, down) = (|| Ok(()), || Err(ProgramError::Unasked("scontrol")));
    let config = Config::parse("Placement=follow\nUnitsPerGpu=100").unwrap();
    let has = |reach: Reach, about: &str| {
        let mut found = daemons(&reach);
        found.extend(findings(&config, &cluster("ConstrainDevices = yes\n"), &reach, false, false));
        found.iter().any(|finding| finding.about == about)
    };
    for (slurmctld, slurmdbd, about, expected) in [
        (up(), up(), "slurmctld", false),
        (down(), up(), "slurmctld", true),
        (down(), up(), "slurmdbd", false),
        (up(), down(), "slurmdbd", true),
        (down(), up(), "JobSubmitPlugins", false),
        (down(), up(), "GetUserEnv", false),
        (down(), up(), "GovernedQOS", true),
        (down(), up(), "GovernedAccounts", true),
        (up(), down(), "JobSubmitPlugins", true),
        (up(), down(), "GetUserEnv", true),
        (up(), down(), "GovernedQOS", false),
        (up(), down(), "GovernedAccounts", false),
    ] {
        let shown = format!("{slurmctld:?} {slurmdbd:?} {about}");
        assert_eq!(has(Reach { slurmctld, slurmdbd }, about), expected, "{shown}");
    }
    let reach = Reach { slurmctld: up(), slurmdbd: up() };
    let found = findings(&config, &cluster("ConstrainDevices = yes\n"), &reach, false, true);
    assert!(found.iter().all(|finding| finding.about != "ConstrainDevices"), "a node's own file counts");
}
