//! Tests with valid and invalid texts of gpushare.conf.

use std::time::Duration;

use gpushare::config::Problem;
use gpushare::config::names::{Record, all};
use gpushare::submit::policy::{
    ForeignTypes, Governed, GovernedAccounts, GovernedGres, Mode, QosRecord, ShareRules, Throttle,
};
use gpushare::text::pattern::Patterns;
use gpushare_node::config::{
    ComputeMode, ForeignProcesses, FrameworkEnv, GpuFiles, Mps, Nvml, OnMpsFailure, Overcommit, UnitsPerGpu,
    UserMix,
};

use super::*;

mod documents;

#[test]
fn no_lines_are_the_defaults() {
    assert_eq!(Config::parse("\n# nothing\n"), Ok(Config::default()));
    assert_eq!(Config::default().policy.governed, Governed::Auto);
}

#[test]
fn every_key_is_taken() {
    let text = "governedqos = qos_*, hpc # both\nForeignTypes=ALLOW\nPlacement=override\nUnitsPerGpu=80\n\
                GpuFile=/dev/nvidia[0-1]\nOvercommit=refuse\n";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.policy.governed, Governed::Names(names("qos_*,hpc")));
    assert_eq!(config.policy.foreign_types, ForeignTypes::Allow);
    assert_eq!(
        (config.node.placement, config.node.units_per_gpu),
        (Placement::Override, Some(UnitsPerGpu::Each(80)))
    );
    assert_eq!(config.policy.shares.most, Some(80));
    assert_eq!(config.node.overcommit, Overcommit::Refuse);
    assert_eq!(config.node.gpu_files, GpuFiles::parse("/dev/nvidia0,/dev/nvidia1").unwrap());
}

#[test]
fn every_rule_of_daemons_and_load_is_taken() {
    let text = "Mps=multiuser\nMpsControl=/opt/mps-control\nMpsDir=/run/mps\nMpsTimeout=250\nOnMpsFailure=run\n\
                ComputeMode=exclusive\nNvml=/opt/lib/nvml.so\nNvmlTimeout=20\nMemPerUnit=100\nFrameworkEnv=pytorch\n\
                ForeignProcesses=end\n";
    let node = Config::parse(text).unwrap().node;
    let expected = NodeConfig {
        mps: Mps::Multiuser,
        mps_control: "/opt/mps-control".into(),
        mps_dir: "/run/mps".into(),
        mps_timeout: Duration::from_millis(250),
        on_mps_failure: OnMpsFailure::Run,
        compute_mode: ComputeMode::Exclusive,
        nvml: Nvml::At("/opt/lib/nvml.so".into()),
        nvml_timeout: Duration::from_millis(20),
        mem_per_unit: Some(100),
        framework_env: FrameworkEnv::Pytorch,
        foreign_processes: ForeignProcesses::End,
        ..NodeConfig::default()
    };
    assert_eq!(node, expected);
}

#[test]
fn an_exclusive_gpu_needs_one_server() {
    for (lines, allowed) in [
        ("", false),
        ("Mps=per-user", false),
        ("Mps=per-user\nUserMix=deny", true),
        ("Mps=per-user\nUserMix=deny\nPlacement=override\nUnitsPerGpu=80", true),
        ("Mps=per-user\nUserMix=deny\nPlacement=follow\nUnitsPerGpu=80", false),
        ("UserMix=deny", false),
        ("Mps=multiuser", true),
    ] {
        let parsed = Config::parse(&format!("ComputeMode=exclusive\n{lines}"));
        assert_eq!(parsed.is_ok(), allowed, "{lines}: {parsed:?}");
    }
}

fn names(text: &str) -> Patterns {
    Patterns::parse(text).unwrap()
}

#[test]
fn every_rule_of_submission_is_taken() {
    let text = "GovernedPartitions=priority*\nGovernedGRES=GPU,shard\nMode=warn\nExemptUsers=root,2001\n\
                ExemptAccounts=staff\nExemptPartitions=debug\nExemptReservations=maint*\n\
                ShareReservations=jhl_homework_gpu,jupyterhub_course_\nShareSizes=16,20, 40\n\
                ShareOnlyPartitions=course\n";
    let policy = Config::parse(text).unwrap().policy;
    assert_eq!((policy.partitions, policy.mode), (names("priority*"), Mode::Warn));
    assert_eq!(policy.gres, GovernedGres(vec!["gpu".into(), "shard".into()]));
    let gres = |text: &str| Config::parse(text).unwrap().policy.gres.0.join(",");
    assert_eq!(gres("ShareGRES=gpushare"), "gpu,mps,shard,gpushare", "a share of any name is one");
    assert_eq!(gres("ShareGRES=gpushare\nGovernedGRES=gpu,mps"), "gpu,mps");
    assert_eq!(gres("GovernedGRES=gpu,gpushare"), "gpu,gpushare");
    assert_eq!((policy.exempt.users, policy.exempt.accounts), (names("root,2001"), names("staff")));
    assert_eq!((policy.exempt.partitions, policy.exempt.reservations), (names("debug"), names("maint*")));
    let reservations = names("jhl_homework_gpu,jupyterhub_course_");
    let shares = ShareRules {
        reservations,
        sizes: vec![16, 20, 40],
        only_partitions: names("course"),
        ..ShareRules::default()
    };
    assert_eq!(policy.shares, shares);
}

#[test]
fn accounts_are_governed_by_their_limits_by_name_or_not() {
    for (value, expected) in [
        ("Auto", Some(GovernedAccounts::Auto)),
        ("OFF", Some(GovernedAccounts::Off)),
        ("dept*, \"two words\"", Some(GovernedAccounts::Names(names("dept*,\"two words\"")))),
        ("dept*, off", None),
        ("Auto,dept", None),
        ("a b", None),
    ] {
        let found = Config::parse(&format!("GovernedAccounts={value}")).ok();
        assert_eq!(found.map(|config| config.policy.accounts), expected, "{value}");
    }
}

#[test]
fn auto_in_a_list_of_qoses_is_a_mistake() {
    for value in ["auto,qos_x", "qos_x, Auto", "\"auto\",q"] {
        assert!(Config::parse(&format!("GovernedQOS={value}")).is_err(), "{value}");
    }
    let config = Config::parse("GovernedQOS=auto*,größe").unwrap();
    assert_eq!(config.policy.governed, Governed::Names(names("auto*,größe")));
}

#[test]
fn weights_of_types_are_numbers() {
    let words = |text: &str| {
        let config = Config::parse(&format!("GpuWeight={text}")).ok()?;
        Some(config.gpu_weights.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    };
    assert_eq!(words("a40:1, H100:4.50").as_deref(), Some("GRES/gpu:a40=1,GRES/gpu:H100=4.5"));
    for wrong in
        ["a40", "a40:", "a40:-1", "a40:1e3", "a40:1,A40:2", "a40:1,", ":1", "a b:1", "a40:1000001", "a40=1"]
    {
        assert_eq!(words(wrong), None, "{wrong}");
    }
}

#[test]
fn types_are_known_from_shares_and_weights() {
    let config = Config::parse("GpuWeight=A5000:1,a40:2\nQOS=q GPUs=V100:4,A5000:2\n").unwrap();
    assert_eq!(config.policy.types, ["A5000", "V100", "a40"]);
}

#[test]
fn a_record_is_taken_with_every_setting() {
    let text = "QOS=savio_lowprio,free* Requeue=yes OpenMode=append ArrayTasks=8 ArrayTasksOver=2:00:00\n\
                qos=qos_x mode=default defaulttype=a40\n";
    let records = Config::parse(text).unwrap().policy.records;
    let free = QosRecord {
        names: names("savio_lowprio,free*"),
        requeue: Some(true),
        append: Some(true),
        throttle: Some(Throttle { tasks: 8, over_minutes: 120 }),
        ..QosRecord::default()
    };
    let typed = QosRecord {
        names: names("qos_x"),
        mode: Some(Mode::Default),
        default_type: Some("a40".into()),
        ..QosRecord::default()
    };
    assert_eq!(records, [free, typed]);
}

#[test]
fn errors_name_line_key_and_what_is_allowed() {
    for (text, expected) in [
        ("GovernedQOS", "line 1: 'GovernedQOS' is not of the form Key=Value"),
        (
            "\nGouvernedQOS=x",
            "line 2: unknown key 'Gouvernedqos' here; did you mean GovernedQOS? gpushare.conf(5) lists the keys",
        ),
        ("ForeignTypes=no", "line 1: ForeignTypes can't be 'no'; allowed is deny or allow"),
        (
            "UnitsPerGpu=1e3",
            "line 1: UnitsPerGpu can't be '1e3'; allowed is a whole number from 1 to 1000000, a list with one for each \
             GPU, or TYPE:NUMBER for each type of GPU",
        ),
        (
            "\nNodeName=n[1-4 UnitsPerGpu=4",
            "line 2: NodeName can't be 'n[1-4'; allowed is names of nodes separated by commas, such as gpu[01-04],big1",
        ),
        ("NodeName=a\nNodeName=b Placement=own", "line 2: Placement=own needs UnitsPerGpu"),
        ("NodeName=a Placement=off placement=own", "line 1: Placement is given twice"),
        ("NodeName=a nodename=b", "line 1: NodeName is given twice"),
        (
            "NodeName=a ShareGRES=shard",
            "line 1: unknown key 'ShareGRES' here; gpushare.conf(5) lists the keys",
        ),
        (
            "ShareSizes=40,0",
            "line 1: ShareSizes can't be '40,0'; allowed is whole numbers from 1 to 1000000 separated by commas",
        ),
        (
            "GovernedGRES=gpu,c/u",
            "line 1: GovernedGRES can't be 'gpu,c/u'; allowed is names of GRES such as gpu, mps and shard, separated \
             by commas",
        ),
        (
            "MaxCPUsPerGpu=a40:8,A40:9",
            "line 1: MaxCPUsPerGpu can't be 'a40:8,A40:9'; allowed is whole numbers from 1 on by type, such as \
             a40:8,h100:16, and one without a type for all other types",
        ),
        (
            "PartitionName=p MaxMemPerGpu=8,9",
            "line 1: MaxMemPerGpu can't be '8,9'; allowed is memory by type, such as a40:64G,h100:128G, and one \
             without a type for all other types; MiB without a unit",
        ),
        ("PartitionName=p Mode=warn", "line 1: unknown key 'Mode' here; gpushare.conf(5) lists the keys"),
        (
            "MaxCPUsPerGpu=0",
            "line 1: MaxCPUsPerGpu can't be '0'; allowed is whole numbers from 1 on by type, such as a40:8,h100:16, \
             and one without a type for all other types",
        ),
        ("Mode=off", "line 1: Mode can't be 'off'; allowed is enforce, warn, audit or default"),
        ("QOS=a Mode", "line 1: 'Mode' is not of the form Key=Value"),
        (
            "\nQOS=a Moode=warn",
            "line 2: unknown key 'Moode' here; did you mean Mode? gpushare.conf(5) lists the keys",
        ),
        ("QOS=a Mode=warn mode=warn", "line 1: Mode is given twice"),
        ("QOS=a DefaultType=a/b", "line 1: DefaultType can't be 'a/b'; allowed is the name of a GPU type"),
        ("QOS=a ArrayTasksOver=2:00:00", "line 1: ArrayTasksOver needs ArrayTasks"),
        (
            "QOS=a*\nQOS=q CPUs=1\n\nqos=Q CPUs=1",
            "line 4: the owner or limits of QOS 'q' are already in line 2",
        ),
        ("QOS=q Users=maria", "line 1: Users needs one Account"),
        ("QOS=q CPUs=1 GrpCpus=2", "line 1: GrpTRES of cpu is given twice"),
        ("QOS=q GrpCpus=1 grpcpus=1", "line 1: GrpCpus is given twice"),
        (
            "QOS=q Flags=Fast",
            "line 1: Flags can't be 'Fast'; allowed is some of DenyOnLimit, EnforceUsageThreshold, NoDecay, NoReserve, \
             OverPartQOS, PartitionMaxNodes, PartitionMinNodes, PartitionTimeLimit, RequiresReservation, \
             UsageFactorSafe",
        ),
        ("QOS=a b", "line 1: 'b' is not of the form Key=Value"),
        ("Overcommit=allow\n\nOvercommit=allow", "line 3: Overcommit is given twice, first in line 1"),
        ("Placement=override", "Placement=override needs UnitsPerGpu"),
        (
            "GovernedQOS=a,,b",
            "line 1: GovernedQOS can't be 'a,,b'; allowed is auto alone, or names of QOSes separated by commas, in \
             which * matches any characters; a name with a blank in double quotes",
        ),
    ] {
        let expected = expected.replace("Gouvernedqos", "GouvernedQOS");
        assert_eq!(Config::parse(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_mistake_in_a_record_of_a_qos_fails_no_job_on_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gpushare.conf");
    std::fs::write(&path, "QOS=q GPUs=many\nMps=per-user\n").unwrap();
    assert!(Config::load(&path).unwrap_err().to_string().contains("line 1: GPUs can't be 'many'"));
    assert_eq!(NodeConfig::load(&path, None).unwrap().unwrap().mps, Mps::PerUser);
    std::fs::write(&path, "QOS=q GPUs=many\nMps=per-user\nNodeName=n1 Mps=off\n").unwrap();
    assert_eq!(NodeConfig::load(&path, Some("n1")).unwrap().unwrap().mps, Mps::Off);
    assert_eq!(NodeConfig::load(&path, Some("n2")).unwrap().unwrap().mps, Mps::PerUser);
    assert!(NodeConfig::load(&path, None).unwrap_err().to_string().contains("SLURMD_NODENAME"));
}

#[test]
fn nodes_have_settings_of_their_own() {
    let text = "# Which line is first among those for all is no matter.\n\
                NodeName=gpu[01-04],big1 UnitsPerGpu=24 Placement=own\nPlacement=follow\n\
                NodeName=gpu[03-09] UnitsPerGpu=16,16,12\nUnitsPerGpu=80\nnodename=cpu1 placement=off\nUserMix=avoid\n";
    let config = Config::parse(text).unwrap();
    for (node, placement, units) in [
        ("gpu03", Placement::Own, UnitsPerGpu::Each(24)),
        ("big1", Placement::Own, UnitsPerGpu::Each(24)),
        ("gpu05", Placement::Follow, UnitsPerGpu::ByIndex(vec![16, 16, 12])),
        ("gpu5", Placement::Follow, UnitsPerGpu::Each(80)),
        ("cpu1", Placement::Off, UnitsPerGpu::Each(80)),
    ] {
        let here = config.of_node(node);
        assert_eq!((here.placement, here.units_per_gpu.as_ref()), (placement, Some(&units)), "{node}");
        assert_eq!(here.user_mix, UserMix::Avoid, "{node}");
    }
    assert_eq!(config.policy.shares.most, Some(80), "the largest of any node's");
    let sizes = config.policy.shares.nodes.iter().map(|line| (line.nodes.as_str(), line.units));
    let expected = [("gpu[01-04],big1", Some(24)), ("gpu[03-09]", Some(16)), ("cpu1", None)];
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
    assert_eq!(config.policy.shares.elsewhere.units, Some(80));
    let alike =
        Config::parse("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80\nNodeName=n1 Packing=pack").unwrap();
    assert_eq!(alike.policy.shares.nodes, [], "nodes don't differ in it");
    let most = |text: &str| Config::parse(text).unwrap().policy.shares.most;
    assert_eq!(most("UnitsPerGpu=80\nNodeName=a Placement=own UnitsPerGpu=a40:48,t4:16"), Some(48));
    assert_eq!(most("UnitsPerGpu=80\nNodeName=a Placement=off"), None);
}

/// The parser's list of a kind of line has the keys of the sections, and no others but those of `gpushare idle`, whose
/// own test has them.
#[test]
fn every_name_is_the_key_of_a_section() {
    for record in [None, Some(Record::Qos), Some(Record::Partition), Some(Record::Node)] {
        for key in all(record).into_iter().filter(|key| !key.starts_with("Idle")) {
            // Each key refuses one of these at least.
            let refused = [",", ";"].into_iter().any(|value| {
                let text = match record {
                    Some(record) if record.key() != key => format!("{}=x {key}={value}", record.key()),
                    _ => format!("{key}={value}"),
                };
                let problem = Config::parse(&text).err().map(|error| error.problem);
                matches!(problem, Some(Problem::BadValue { key: found, .. }) if found == key)
            });
            assert!(refused, "{record:?} {key}");
        }
    }
}

/// Each reader's own mistakes stop it, others' don't; the command finds all.
#[test]
fn a_mistake_stops_those_whose_setting_it_is() {
    let sections = |text: &str| {
        let database = || {
            let mut draft = database::Draft::default();
            read(text, &mut [&mut draft]).is_ok()
        };
        [rules::Rules::parse(text).is_ok(), Nodes::parse(text).is_ok(), database()]
    };
    for (text, [rules, nodes, database]) in [
        ("Mode=off", [false, true, true]),
        ("QOS=q Requeue=maybe", [false, true, true]),
        ("PartitionName=p MaxCPUsPerGpu=0", [false, true, true]),
        ("PartitionName=p Mode=warn", [false, true, true]),
        ("RefusalCounts=here", [false, true, true]),
        ("Mps=perhaps", [true, false, true]),
        ("NodeName=n Packing=tight", [true, false, true]),
        ("ComputeMode=exclusive", [true, false, true]),
        ("QOS=q GPUs=many", [true, true, false]),
        ("QOS=q CPUs=1\nQOS=Q Mem=1", [true, true, false]),
        ("GpuWeight=a40", [true, true, false]),
        ("Guard=off", [true, true, false]),
        // What two need, stops both.
        ("Placement=own", [false, false, true]),
        ("NodeName=n Placement=own", [false, false, true]),
        ("UnitsPerGpu=0", [false, false, true]),
        ("NodeName=n[1-", [false, false, true]),
        ("QOS=q,,r", [false, true, false]),
        ("QOS=q Qos=r", [false, true, false]),
        ("QOS=q Moode=warn", [false, true, false]),
        // The form of the file is everybody's.
        ("Mpss=off", [false, false, false]),
        ("Mps=off\nMps=off", [false, false, false]),
        ("Mps", [false, false, false]),
    ] {
        assert_eq!(sections(text), [rules, nodes, database], "{text}");
        assert!(Config::parse(text).is_err(), "{text}");
    }
    let right = "Mode=warn\nMps=off\nGpuWeight=a40:1\nQOS=q Mode=audit CPUs=1\nNodeName=n Packing=pack\n";
    assert_eq!(sections(right), [true; 3]);
}

proptest::proptest! {
    #[test]
    fn any_text_gives_an_answer(text in "\\PC{0,200}") {
        let _ = Config::parse(&text);
        let _ = (rules::Rules::parse(&text), Nodes::parse(&text), Database::parse(&text));
    }
}

#[test]
fn the_ledger_is_no_folder_for_files_of_others() {
    let parsed = |path: &str| Config::parse(&format!("JobstatsDir={path}\n"));
    assert_eq!(parsed("/run/gpustat").unwrap().node.jobstats_dir, Some("/run/gpustat".into()));
    assert_eq!(parsed("off").unwrap().node.jobstats_dir, None);
    for path in ["/run/gpushare", "/run/gpushare/jobs", "/run//gpushare/jobs/"] {
        assert!(parsed(path).is_err(), "{path}");
        assert!(Config::parse(&format!("DcgmJobMappingDir={path}\n")).is_err(), "{path}");
    }
    let both = |other: &str| Config::parse(&format!("JobstatsDir=/run/gpustat\nDcgmJobMappingDir={other}\n"));
    assert!(both("/run/dcgm-job-mapping").is_ok());
    assert!(both("/run/gpustat/").unwrap_err().to_string().contains("a directory of its own"));
}
