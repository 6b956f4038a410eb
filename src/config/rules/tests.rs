//! Texts, and the rules or the error that they give.

use super::*;
use crate::submit::policy::{Governed, GovernedAccounts};

fn policy(text: &str) -> Policy {
    Rules::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).policy
}

fn problem(text: &str) -> Option<Problem> {
    Rules::parse(text).err().map(|error| error.problem)
}

/// Whether a value of a key isn't allowed.
fn refuses(text: &str) -> bool {
    matches!(problem(text), Some(Problem::BadValue { .. }))
}

#[test]
fn a_word_of_a_key_stands_alone() {
    assert_eq!(policy("GovernedQOS=AUTO").governed, Governed::Auto);
    assert_eq!(policy("GovernedAccounts=Auto").accounts, GovernedAccounts::Auto);
    assert_eq!(policy("GovernedAccounts=OFF").accounts, GovernedAccounts::Off);
    assert!(matches!(policy("GovernedQOS=a,auto*").governed, Governed::Names(_)));
    assert!(matches!(policy("GovernedAccounts=a,b").accounts, GovernedAccounts::Names(_)));
    // `off` is no word of GovernedQOS.
    assert!(matches!(policy("GovernedQOS=off").governed, Governed::Names(_)));
    for text in ["GovernedQOS=a,Auto", "GovernedAccounts=a,off", "GovernedAccounts=auto,a", "GovernedQOS="] {
        assert!(refuses(text), "{text}");
    }
}

#[test]
fn gres_are_names_and_slurms_own_have_one_spelling() {
    assert_eq!(policy("GovernedGRES=GPU, Mps,shard,own_1-x").gres.0, ["gpu", "mps", "shard", "own_1-x"]);
    for text in
        ["GovernedGRES=gpu,", "GovernedGRES=gpu:a40", "GovernedGRES=g pu", "ShareGRES=gpu", "ShareGRES=a.b"]
    {
        assert!(refuses(text), "{text}");
    }
    let (fits, long) = ("x".repeat(64), "x".repeat(65));
    assert_eq!(policy(&format!("ShareGRES={fits}")).share_gres.0, fits);
    assert!(refuses(&format!("ShareGRES={long}")));
}

#[test]
fn shares_are_governed_unless_a_list_says_what_is() {
    assert!(policy("ShareGRES=gpushare").gres.has(b"gpushare"));
    assert!(!policy("ShareGRES=gpushare\nGovernedGRES=gpu").gres.has(b"gpushare"));
    assert!(!policy("GovernedGRES=gpu\nShareGRES=gpushare").gres.has(b"gpushare"));
    let known = policy("Mode=warn").gres.0;
    assert_eq!(policy("ShareGRES=mps").gres.0, known, "it is there already");
}

#[test]
fn numbers_have_limits() {
    assert_eq!(policy("ShareSizes=1, 20,1000000").shares.sizes, [1, 20, 1_000_000]);
    for text in [
        "ShareSizes=0",
        "ShareSizes=1000001",
        "ShareSizes=20,",
        "ShareSizes=x",
        "MemPerUnit=0",
        "MemPerUnit=1000001",
        "MaxCPUsPerGpu=0",
        "MaxCPUsPerGpu=8,4",
        "MaxCPUsPerGpu=a40:8,A40:4",
        "MaxMemPerGpu=a40:",
        "QOS=q ArrayTasks=0",
        "QOS=q ArrayTasks=1000001",
        "UnitsPerGpu=1000001",
    ] {
        assert!(refuses(text), "{text}");
    }
    let caps = policy("MaxCPUsPerGpu=a40:8, 4\nMaxMemPerGpu=a40:64G,1500").caps;
    let (cpus, mem) = (caps.cpus.unwrap(), caps.mem.unwrap());
    assert_eq!((cpus.types, cpus.others), (vec![("a40".to_owned(), 8)], Some(4)));
    assert_eq!((mem.types, mem.others), (vec![("a40".to_owned(), 64 << 10)], Some(1500)));
    assert!(policy("GetUserEnv=drop").drops_user_env && !policy("GetUserEnv=Allow").drops_user_env);
}

#[test]
fn a_cap_anywhere_is_known_as_one() {
    for (text, expected) in [
        ("MaxCPUsPerGpu=8", true),
        ("MaxMemPerGpu=8G", true),
        ("PartitionName=p MaxCPUsPerGpu=8", true),
        ("QOS=q MaxMemPerGpu=8G", true),
        ("QOS=q Mode=warn", false),
        ("PartitionName=p", false),
        ("", false),
    ] {
        assert_eq!(policy(text).has_caps, expected, "{text}");
    }
    let records =
        policy("PartitionName=p MaxCPUsPerGpu=8\nPartitionName=q MaxCPUsPerGpu=4").partition_records;
    let cpus: Vec<_> = records.iter().map(|record| record.caps.cpus.as_ref().unwrap().others).collect();
    assert_eq!(cpus, [Some(8), Some(4)], "each line has its own");
}

#[test]
fn types_are_spelled_as_the_file_has_them() {
    let text =
        "GpuWeight=h100:2,A40:1,0.5\nQOS=q GPUs=l4:2,A40:4\nQOS=r DefaultType=v100\nUnitsPerGpu=t4:8\n";
    assert_eq!(policy(text).types, ["0.5", "A40", "h100", "l4", "v100"]);
    assert!(refuses("QOS=r DefaultType=_v"));
}

#[test]
fn a_throttle_needs_its_number_of_tasks() {
    let throttle = |text: &str| {
        let [record] = policy(text).records.try_into().unwrap();
        record.throttle.map(|throttle| (throttle.tasks, throttle.over_minutes))
    };
    assert_eq!(throttle("QOS=q ArrayTasks=8 ArrayTasksOver=2:00:00"), Some((8, 120)));
    assert_eq!(throttle("QOS=q ArrayTasks=8"), Some((8, 0)));
    assert_eq!(throttle("QOS=q OpenMode=append"), None);
    let missing = Problem::Missing { key: "ArrayTasks", because: "ArrayTasksOver" };
    assert_eq!(problem("QOS=q ArrayTasksOver=10"), Some(missing));
    for (value, append) in [("append", Some(true)), ("Truncate", Some(false))] {
        let [record] = policy(&format!("QOS=q OpenMode={value}")).records.try_into().unwrap();
        assert_eq!(record.append, append);
    }
}

#[test]
fn lines_of_nodes_stay_only_if_their_gpus_differ() {
    let shares = |text: &str| policy(&format!("Placement=own\nUnitsPerGpu=80\n{text}")).shares;
    let nodes = |text: &str| shares(text).nodes.iter().map(|gpu| gpu.units).collect::<Vec<_>>();
    assert_eq!((shares("").most, shares("").elsewhere.units), (Some(80), Some(80)));
    assert_eq!(nodes("NodeName=n UnitsPerGpu=80"), []);
    assert_eq!(nodes("NodeName=n UnitsPerGpu=40\nNodeName=m Mps=off"), [Some(40), Some(80)]);
    assert_eq!(shares("NodeName=n UnitsPerGpu=160").most, Some(160));
    // Nodes without shares have no GPUs that differ.
    assert_eq!(nodes("NodeName=n Placement=off"), []);
    let only = |text: &str| {
        let shares =
            policy(&format!("NodeName=n Placement=own UnitsPerGpu=80 MemPerUnit=300\n{text}")).shares;
        (shares.nodes.len(), shares.elsewhere.units)
    };
    assert_eq!(only(""), (0, None));
    assert_eq!(only("MemoryGRES=gpumem"), (1, None), "memory becomes units only there");
    let by_type = "Placement=follow\nUnitsPerGpu=a40:48,h100:80\nMemPerUnit=512\n";
    assert_eq!(policy(by_type).shares.elsewhere.types, []);
    assert_eq!(policy(by_type).shares.elsewhere.mem_per_unit, 0);
    let elsewhere = policy(&format!("{by_type}MemoryGRES=gpumem")).shares.elsewhere;
    assert_eq!((elsewhere.types.len(), elsewhere.mem_per_unit, elsewhere.units), (2, 512, Some(80)));
}

#[test]
fn a_setting_that_another_needs_is_named() {
    for (text, expected) in [
        ("Placement=follow", "Placement=follow needs UnitsPerGpu"),
        ("Placement=override", "Placement=override needs UnitsPerGpu"),
        ("NodeName=n Placement=own", "line 1: Placement=own needs UnitsPerGpu"),
        ("MemoryGRES=gpumem", "MemoryGRES needs Placement"),
        ("MemoryGRES=gpumem\nPlacement=own\nUnitsPerGpu=8", "MemoryGRES needs MemPerUnit"),
        ("MemoryGRES=mps", "MemoryGRES needs a name that is not a share's"),
        ("MemoryGRES=own\nShareGRES=own", "MemoryGRES needs a name that is not a share's"),
        (
            "NodeName=n[1-2,x",
            "line 1: NodeName can't be 'n[1-2,x'; allowed is names of nodes separated by commas, such as \
             gpu[01-04],big1",
        ),
    ] {
        assert_eq!(Rules::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    let own = "MemoryGRES=gpumem\nPlacement=own\nUnitsPerGpu=8\nMemPerUnit=512\n";
    let larger = "MemoryGRES needs the largest MemPerUnit and UnitsPerGpu outside of NodeName= lines";
    for (line, is_wrong) in [
        ("MemPerUnit=513", true),
        ("UnitsPerGpu=9", true),
        ("UnitsPerGpu=8 MemPerUnit=512", false),
        ("UnitsPerGpu=7 MemPerUnit=500", false),
        ("Placement=off MemPerUnit=600", false),
    ] {
        let found = Rules::parse(&format!("{own}NodeName=n {line}")).map_err(|error| error.to_string());
        assert_eq!(found.err().as_deref(), is_wrong.then_some(larger), "{line}");
    }
}

#[test]
fn the_file_of_counts_is_a_path_or_none() {
    let counts = |value: &str| Rules::parse(&format!("RefusalCounts={value}")).unwrap().refusal_counts;
    assert_eq!(counts("/run/a_b-c.d+e"), Some("/run/a_b-c.d+e".into()));
    assert_eq!(counts("Off"), None);
    for value in ["counts", "/run/a b", "/run/$x", ""] {
        assert!(refuses(&format!("RefusalCounts={value}")), "{value}");
    }
}
