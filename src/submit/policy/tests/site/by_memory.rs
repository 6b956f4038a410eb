//! Shares that are requested by their GPU memory.

use super::*;
use crate::config::rules::Rules;
use crate::submit::message;

const OWN: &str = "MemoryGRES=gpumem\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=80\nMemPerUnit=300\n";

fn policy(more: &str) -> Policy {
    Rules::parse(&format!("{OWN}{more}")).unwrap().policy
}

/// The string that Slurm gets and the share that is recorded for the node; or the text for the user.
fn outcome(request: &Request, policy: &Policy) -> Result<(String, Option<(String, u64)>), String> {
    match judge(request, policy, &TABLE) {
        Err(refusal) => Err(message::refusal(&refusal)),
        Ok(accepted) => {
            let text = accepted.remarks.iter().find_map(|remark| match remark {
                Remark::Changed(Change::Share { text, .. }) => Some(text.escape_ascii().to_string()),
                _ => None,
            });
            let share = accepted.share.map(|(name, units)| (name.to_owned(), units));
            Ok((text.unwrap_or_default(), share))
        }
    }
}

fn share(text: &str, units: u64) -> Result<(String, Option<(String, u64)>), String> {
    Ok((text.to_owned(), Some(("gpushare".to_owned(), units))))
}

#[test]
fn memory_becomes_the_fewest_units_that_have_it() {
    let any = policy("");
    let sizes = policy("ShareSizes=20,40,80\n");
    for (text, of_any, of_sizes) in [
        ("gres/gpumem:20G", 69, 80),
        ("gres/gpumem:20480", 69, 80),
        ("gres/gpumem:20480M", 69, 80),
        ("gres/gpumem=6000", 20, 20),
        ("gres/gpumem:6001", 21, 40),
        ("gres/gpumem:24000", 80, 80),
        // From a mebibyte on, a number is one of bytes.
        ("gres/gpumem:1M", 1, 20),
        ("gres/gpumem", 1, 20),
    ] {
        let request = node("listed_by_name", text);
        assert_eq!(outcome(&request, &any), share(&format!("gres/gpushare:{of_any}"), of_any), "{text}");
        assert_eq!(
            outcome(&request, &sizes),
            share(&format!("gres/gpushare:{of_sizes}"), of_sizes),
            "{text}"
        );
    }
    let beside = node("listed_by_name", "gres/nic:1,gres/gpumem:6000");
    assert_eq!(outcome(&beside, &any), share("gres/nic:1,gres/gpushare:20", 20));
    let beside = node("listed_by_name", "gres/gpumem:6000,gres/mps:0");
    assert_eq!(outcome(&beside, &any), share("gres/gpushare:20,gres/mps:0", 20), "0 requests nothing");
    let nothing = node("listed_by_name", "gres/gpumem:0");
    assert_eq!(outcome(&nothing, &any), Ok((String::new(), None)));
}

#[test]
fn what_is_no_share_is_refused_with_one() {
    let any = policy("");
    let sizes = policy("ShareSizes=20,40\n");
    let audited = policy("Mode=audit\n");
    for (request, policy, number, advice) in [
        (node("listed_by_name", "gres/gpumem:24001"), &any, "GS129", "--gres=gpumem:24000"),
        (node("listed_by_name", "gres/gpumem:24001"), &audited, "GS129", "--gres=gpumem:24000"),
        (node("listed_by_name", "gres/gpumem:1T"), &any, "GS129", "--gres=gpumem:24000"),
        (node("listed_by_name", "gres/gpumem:13000"), &sizes, "GS129", "--gres=gpumem:12000"),
        (node("listed_by_name", "gres/gpumem:3000,gres/gpushare:40"), &any, "GS125", "--gres=gpumem:3000"),
        (node("listed_by_name", "gres/gpumem:3000,gres/gpumem:6000"), &any, "GS125", "--gres=gpumem:3000"),
        (
            Request {
                tres_per_node: None,
                tres_per_job: Some(b"gres/gpumem:3000"),
                ..node("listed_by_name", "")
            },
            &any,
            "GS125",
            "--gres=gpumem:3000",
        ),
    ] {
        let told = outcome(&request, policy).unwrap_err();
        assert!(told.contains(number) && told.contains(&format!("try: {advice}\n")), "{told}");
    }
    let told = outcome(&node("listed_by_name", "gres/gpumem:13000"), &sizes).unwrap_err();
    assert_eq!(
        told,
        "gpushare: no share here has as much GPU memory as 'gpumem:13000M'\n  sizes (units): 6000M (20), 12000M \
         (40)\n  try: --gres=gpumem:12000\n  GS129, see `gpushare explain GS129`"
    );
}

/// Every rule sees the share, and none sees the memory.
#[test]
fn no_rule_is_got_round_by_memory() {
    for (more, expected) in [
        ("ShareReservations=course\n", Some(Rule::ShareReservation)),
        ("GpuPartitions=main\n", None),
        ("MaxCPUsPerGpu=8\n", Some(Rule::TooManyCpus)),
        ("", None),
    ] {
        let request = Request { cpus_per_task: Some(8), ..node("listed_by_name", "gres/gpumem:12000") };
        assert_eq!(rule(&request, &policy(more)), expected, "{more}");
    }
    assert_eq!(rule(&node("qos_lafferty", "gres/gpumem:12000"), &policy("")), Some(Rule::ShareUncounted));
}

#[test]
fn a_type_has_its_own_units() {
    let text = "MemoryGRES=gpumem\nPlacement=own\nUnitsPerGpu=a40:48,h100:80\nMemPerUnit=1024\n";
    let policy = Rules::parse(text).unwrap().policy;
    for (asked, expected) in [
        ("gres/gpumem:a40:48G", None),
        ("gres/gpumem:a40:49G", Some(Rule::ShareMemory)),
        ("gres/gpumem:h100:80G", None),
        ("gres/gpumem:80G", None),
        ("gres/gpumem:81G", Some(Rule::ShareMemory)),
    ] {
        assert_eq!(rule(&node("listed_by_name", asked), &policy), expected, "{asked}");
    }
}

/// Two kinds of nodes in one partition, as a site may divide them: each unit is as much on both, or each GPU has 100.
const ONE_UNIT: &str = "MemoryGRES=gpumem\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=h100:163\nMemPerUnit=500\n\
                        NodeName=a[1-2] UnitsPerGpu=a40:92\n";
const HUNDRED: &str = "MemoryGRES=gpumem\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=h100:100\nMemPerUnit=810\n\
                       NodeName=a[1-2] UnitsPerGpu=a40:100 MemPerUnit=460\n";
const BY_LINES: &str = "MemoryGRES=gpumem\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=100\nMemPerUnit=810\n\
                        NodeName=a[1-2] MemPerUnit=460\nNodeName=cpu[1-9] Placement=off\n";
/// One kind of GPU has fewer units than another needs.
const FEWER: &str = "MemoryGRES=gpumem\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=100\nMemPerUnit=810\n\
                     NodeName=b[1-2] UnitsPerGpu=60 MemPerUnit=800\nNodeName=a[1-2] MemPerUnit=460\n";
const ONLY_LINES: &str = "MemoryGRES=gpumem\nShareGRES=gpushare\n\
                          NodeName=b[1-2] Placement=own UnitsPerGpu=8 MemPerUnit=10000\n\
                          NodeName=a[1-2] Placement=own UnitsPerGpu=16 MemPerUnit=3000\n";
/// Nodes with a second, larger type.
const TWO_TYPES: &str = "MemoryGRES=gpumem\nPlacement=own\nShareGRES=gpushare\nUnitsPerGpu=a100:80\n\
                         MemPerUnit=1024\nNodeName=a[1-2] UnitsPerGpu=a100:40,h100:80\n";

#[test]
fn a_share_has_the_memory_on_every_node_where_it_may_run() {
    for (text, asked, nodes, expected) in [
        (ONE_UNIT, "gpumem:20G", "", Ok((41, None, 20500))),
        (ONE_UNIT, "gpumem:46000", "", Ok((92, None, 46000))),
        (ONE_UNIT, "gpumem:60G", "", Ok((123, Some("a1,a2"), 61500))),
        (ONE_UNIT, "gpumem:90G", "", Err("sizes (units): 81500M (163)\n  try: --gres=gpumem:81500\n")),
        (HUNDRED, "gpumem:20G", "", Ok((45, None, 20700))),
        (HUNDRED, "gpumem:h100:20G", "", Ok((26, Some("a1,a2"), 21060))),
        (HUNDRED, "gpumem:a40:20G", "", Ok((45, None, 20700))),
        (HUNDRED, "gpumem:t4:20G", "", Ok((45, None, 20700))),
        (HUNDRED, "gpumem:a40:60G", "", Err("sizes (units): 46000M (100)\n  try: --gres=gpumem:a40:46000\n")),
        (HUNDRED, "gpumem:60G", "", Ok((76, Some("a1,a2"), 61560))),
        (BY_LINES, "gpumem:20G", "", Ok((45, None, 20700))),
        (BY_LINES, "gpumem:20G", "h1", Ok((26, Some("a1,a2"), 21060))),
        (BY_LINES, "gpumem:20G", "a[1-2]", Ok((45, None, 20700))),
        (BY_LINES, "gpumem:20G", "h1,a1", Ok((45, None, 20700))),
        (BY_LINES, "gpumem:60G", "h1", Ok((76, Some("a1,a2"), 61560))),
        (BY_LINES, "gpumem:60G", "a1", Err("sizes (units): 46000M (100)\n  try: --gres=gpumem:46000\n")),
        (BY_LINES, "gpumem:60G", "h1,a1", Err("sizes (units): 46000M (100)\n  try: --gres=gpumem:46000\n")),
        (BY_LINES, "gpumem:20G", "cpu1", Ok((45, None, 20700))),
        (BY_LINES, "gpumem:60G", "cpu1", Ok((76, Some("a1,a2"), 61560))),
        (FEWER, "gpumem:20G", "", Ok((45, None, 20700))),
        (FEWER, "gpumem:40G", "", Ok((52, Some("a1,a2"), 41600))),
        (FEWER, "gpumem:60G", "", Ok((76, Some("b1,b2,a1,a2"), 61560))),
        (FEWER, "gpumem:40G", "a1", Ok((90, Some("b1,b2"), 41400))),
        (FEWER, "gpumem:40G", "a1,b1", Err("sizes (units): 27600M (60)\n  try: --gres=gpumem:27600\n")),
        (ONLY_LINES, "gpumem:40000", "", Ok((4, Some("a1,a2"), 40000))),
        (TWO_TYPES, "gpumem:a100:60G", "", Ok((60, Some("a1,a2"), 61440))),
        (TWO_TYPES, "gpumem:h100:60G", "", Ok((60, None, 61440))),
        (TWO_TYPES, "gpumem:a100:40G", "", Ok((40, None, 40960))),
        (TWO_TYPES, "gpumem:60G", "", Ok((60, None, 61440))),
        (BY_LINES, "gpumem:3000,gres/gpushare:40", "", Err("\n  try: --gres=gpumem:3000\n")),
    ] {
        let policy = Rules::parse(text).unwrap().policy;
        let tres = format!("gres/{asked}");
        let nodes = Some(nodes.as_bytes()).filter(|nodes| !nodes.is_empty());
        let told = match judge(&Request { nodes, ..node("listed_by_name", &tres) }, &policy, &TABLE) {
            Err(refusal) => Err(message::refusal(&refusal)),
            Ok(accepted) => {
                let Some(Remark::Changed(Change::Share { mebibytes, .. })) = accepted.remarks.first() else {
                    panic!("{asked}: {:?}", accepted.remarks)
                };
                let excluded = accepted.excluded_nodes.map(|nodes| String::from_utf8(nodes).unwrap());
                Ok((accepted.share.unwrap().1, excluded, *mebibytes))
            }
        };
        match (told, expected) {
            (Err(told), Err(part)) => assert!(told.contains(part), "{asked} {nodes:?}: {told}"),
            (told, expected) => {
                let expected = expected.map(|(units, nodes, has)| (units, nodes.map(str::to_owned), has));
                assert_eq!(told, expected.map_err(str::to_owned), "{asked} {nodes:?} of {text}");
            }
        }
    }
}

/// 76 units alone would be 35 GB on an a40.
#[test]
fn a_correction_of_something_else_keeps_the_memory() {
    let capped = Rules::parse(&format!("{HUNDRED}MaxCPUsPerGpu=8\n")).unwrap().policy;
    let warned = Rules::parse(&format!("{HUNDRED}MaxCPUsPerGpu=8\nMode=warn\n")).unwrap().policy;
    let request = Request { cpus_per_task: Some(8), ..node("listed_by_name", "gres/nic:1,gres/gpumem:60G") };
    let told = outcome(&request, &capped).unwrap_err();
    assert!(told.contains("GS127") && told.contains("try: -c7 --gres=nic:1,gpumem:60G\n"), "{told}");
    // gpumem:90G is too large, and with less memory the job still has too many CPUs.
    let request = Request { cpus_per_task: Some(9), ..node("listed_by_name", "gres/gpumem:90G") };
    for policy in [&capped, &warned] {
        let told = outcome(&request, policy).unwrap_err();
        assert!(told.contains("GS129") && !told.contains("try:"), "{told}");
    }
    // Sizes too are of the GPUs that have the memory.
    let sized = Rules::parse(&format!("{HUNDRED}ShareSizes=25,50\n")).unwrap().policy;
    assert_eq!(outcome(&node("listed_by_name", "gres/gpumem:20G"), &sized), share("gres/gpushare:50", 50));
    let told = outcome(&node("listed_by_name", "gres/gpumem:60G"), &sized).unwrap_err();
    assert!(told.contains("sizes (units): 20250M (25), 40500M (50)\n  try: --gres=gpumem:40500\n"), "{told}");
    let told = outcome(&node("listed_by_name", "gres/gpumem:60G,gres/nic:1"), &sized).unwrap_err();
    assert!(told.contains("try: --gres=gpumem:40500,nic:1\n"), "{told}");
}

#[test]
fn a_correction_that_changes_other_parts_keeps_the_memory_or_is_none() {
    let hundred = Rules::parse(HUNDRED).unwrap().policy;
    let refusal = refused(judge(&node("qos_both", "gres/gpu:1,gres/gpumem:60G"), &hundred, &TABLE));
    assert_eq!(tried(&refusal).as_deref(), Some("--qos=qos_both --gres=gpu:a40:1,gpumem:60G"));
    // With a type, the units would have to be others.
    let mps = Rules::parse(&HUNDRED.replace("gpushare", "mps")).unwrap().policy;
    let refusal = refused(judge(&node("qos_counted_twice", "gres/gpumem:60G"), &mps, &TABLE));
    assert_eq!((refusal.rule, tried(&refusal)), (Rule::TypeMissing, None));
}

#[test]
fn what_is_let_pass_is_advised_with_the_memory() {
    for mode in ["warn", "audit"] {
        let text = format!("{HUNDRED}ShareReservations=course\nMode={mode}\n");
        let policy = Rules::parse(&text).unwrap().policy;
        let accepted = accepted(judge(&node("listed_by_name", "gres/gpumem:60G"), &policy, &TABLE));
        let [Remark::Changed(Change::Share { .. }), Remark::Passed(fault, _)] = &accepted.remarks[..] else {
            panic!("{:?}", accepted.remarks)
        };
        assert_eq!(tried(fault).as_deref(), Some("--reservation=NAME --gres=gpumem:60G"), "{mode}");
    }
}

#[test]
fn an_update_that_clears_the_list_of_nodes_names_none() {
    let policy = Rules::parse(&BY_LINES.replace("gpushare", "mps")).unwrap().policy;
    let existing = Request { nodes: Some(b"a1"), ..node("listed_by_name", "gres/mps:10") };
    let said = Request { qos: None, nodes: Some(b""), ..node("", "gres/gpumem:60G") };
    let update =
        Update { job: b"7", array: false, request: said.into(), anew: true, others: &["ReqNodeList"] };
    let accepted = accepted(judge_update(&update, &existing, &policy, &TABLE));
    assert_eq!(accepted.excluded_nodes.as_deref(), Some(&b"a1,a2"[..]));
}

#[test]
fn nodes_whose_shares_do_not_differ_are_never_excluded() {
    let alike = policy("NodeName=n1 Packing=pack\nNodeName=n2 Placement=off\nMode=warn\n");
    let accepted = accepted(judge(&node("listed_by_name", "gres/gpushare:90"), &alike, &TABLE));
    assert_eq!((accepted.remarks.len(), accepted.excluded_nodes), (1, None));
    // Nodes with a line alone have shares.
    let lines = "MemoryGRES=gpumem\nShareGRES=gpushare\nUnitsPerGpu=80\nMemPerUnit=300\n\
                 NodeName=n1 Placement=own\nNodeName=n2 Placement=own Packing=pack\n";
    let lines = Rules::parse(lines).unwrap().policy;
    assert_eq!(outcome(&node("listed_by_name", "gres/gpumem:6000"), &lines), share("gres/gpushare:20", 20));
}

#[test]
fn nodes_without_a_line_have_the_largest_gpus() {
    let parse = |text: &str| Rules::parse(&format!("MemoryGRES=gpumem\nUnitsPerGpu=100\n{text}"));
    for (text, wrong) in [
        ("Placement=own\nMemPerUnit=810\nNodeName=a1 MemPerUnit=460", None),
        ("NodeName=h1 Placement=own MemPerUnit=810\nNodeName=a1 Placement=own MemPerUnit=460", None),
        (
            "Placement=own\nMemPerUnit=460\nNodeName=h1 MemPerUnit=810",
            Some("the largest MemPerUnit and UnitsPerGpu outside"),
        ),
        (
            "Placement=own\nMemPerUnit=500\nNodeName=b UnitsPerGpu=200",
            Some("UnitsPerGpu outside of NodeName="),
        ),
        ("Placement=own\nMemPerUnit=500\nNodeName=a40-[1-8] UnitsPerGpu=92", None),
        ("NodeName=h1 Placement=own MemPerUnit=810\nNodeName=a1 Placement=own", Some("needs MemPerUnit")),
    ] {
        let told = parse(text).err().map(|error| error.to_string());
        assert_eq!(told.is_some(), wrong.is_some(), "{text}: {told:?}");
        assert!(told.unwrap_or_default().contains(wrong.unwrap_or_default()), "{text}");
    }
}

#[test]
fn an_update_may_name_memory_where_it_may_name_a_share() {
    let existing = node("listed_by_name", "gres/mps:10");
    let said = Request { qos: None, ..node("", "gres/gpumem:6000") };
    let update = Update { job: b"7", array: false, request: said.into(), anew: true, others: &["TimeLimit"] };
    let mps = Rules::parse(&OWN.replace("gpushare", "mps")).unwrap().policy;
    let accepted = accepted(judge_update(&update, &existing, &mps, &TABLE));
    let Some(Remark::Changed(Change::Share { text, given, mebibytes, .. })) = accepted.remarks.first() else {
        panic!("{:?}", accepted.remarks)
    };
    assert_eq!((text.as_slice(), given.as_slice(), *mebibytes), (&b"gres/mps:20"[..], &b"mps:20"[..], 6000));
    // If only the note tells the node, the share stays.
    let existing = node("listed_by_name", "gres/gpushare:10");
    assert_eq!(broken(judge_update(&update, &existing, &policy(""), &TABLE)), Some(Rule::ShareFixed));
}

#[test]
fn a_file_that_says_too_little_is_a_mistake() {
    for (text, problem) in [
        ("MemoryGRES=gpumem", "MemoryGRES needs Placement"),
        ("MemoryGRES=gpumem\nPlacement=own\nUnitsPerGpu=80", "MemoryGRES needs MemPerUnit"),
        ("MemoryGRES=mps\nPlacement=own\nUnitsPerGpu=80\nMemPerUnit=300", "a name that is not a share's"),
        (
            "MemoryGRES=gpumem\nPlacement=own\nUnitsPerGpu=80\nMemPerUnit=300\nNodeName=n2 MemPerUnit=400",
            "MemoryGRES needs the largest MemPerUnit and UnitsPerGpu outside of NodeName= lines",
        ),
    ] {
        let error = Rules::parse(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
