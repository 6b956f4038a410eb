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
        Verdict::Refuse(refusal) => Err(message::refusal(&refusal)),
        Verdict::Accept(accepted) => {
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
    let nothing = node("listed_by_name", "gres/gpumem:0");
    assert_eq!(outcome(&nothing, &any), Ok((String::new(), None)));
}

#[test]
fn what_is_no_share_is_refused_with_one() {
    let any = policy("");
    let sizes = policy("ShareSizes=20,40\n");
    let audited = policy("Mode=audit\n");
    for (request, policy, number, advice) in [
        (node("listed_by_name", "gres/gpumem:24001"), &any, "GS129", "--gres=gpushare:80"),
        (node("listed_by_name", "gres/gpumem:24001"), &audited, "GS129", "--gres=gpushare:80"),
        (node("listed_by_name", "gres/gpumem:1T"), &any, "GS129", "--gres=gpushare:80"),
        (node("listed_by_name", "gres/gpumem:13000"), &sizes, "GS129", "--gres=gpushare:40"),
        (node("listed_by_name", "gres/gpumem:3000,gres/gpushare:40"), &any, "GS125", "--gres=gpushare:10"),
        (node("listed_by_name", "gres/gpumem:3000,gres/gpumem:6000"), &any, "GS125", "--gres=gpushare:10"),
        (
            Request {
                tres_per_node: None,
                tres_per_job: Some(b"gres/gpumem:3000"),
                ..node("listed_by_name", "")
            },
            &any,
            "GS125",
            "--gres=gpushare:10",
        ),
    ] {
        let told = outcome(&request, policy).unwrap_err();
        assert!(told.contains(number) && told.contains(&format!("try: {advice}\n")), "{told}");
    }
    let told = outcome(&node("listed_by_name", "gres/gpumem:13000"), &sizes).unwrap_err();
    assert_eq!(
        told,
        "gpushare: no share here has as much GPU memory as 'gpumem:13000M'\n  sizes (units): 6000M (20), 12000M \
         (40)\n  try: --gres=gpushare:40\n  GS129, see `gpushare explain GS129`"
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
            "the same MemPerUnit on all nodes",
        ),
    ] {
        let error = Rules::parse(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
