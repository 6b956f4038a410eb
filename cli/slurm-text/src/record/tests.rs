use proptest::prelude::*;

use super::*;
use crate::Which;

/// A record as 24.11 prints it, without lines that nobody reads.
fn text(id: u32, name: &str, devices: &str, more: &str) -> String {
    format!(
        "JobId={id} JobName={name}\n   UserId=alice(2001) GroupId=alice(2001) MCS_label=N/A\n   JobState=RUNNING\n   \
         NumNodes=1 NumCPUs=1 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   ReqTRES=cpu=1,gres/gpu=1\n   \
         AllocTRES=cpu=1,gres/gpu=1,gres/gpu:a40=1\n   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n   \
         JOB_GRES=gpu:a40:1\n{devices}   MinCPUsNode=1\n   OverSubscribe=OK Contiguous=0 Licenses=(null)\n   \
         Command=(null)\n   WorkDir=/home/alice\n{more}   TresPerNode=gres/gpu:1\n\n"
    )
}

fn devices(list: &str) -> String {
    format!("     Nodes=n1 CPU_IDs=0 Mem=0 GRES={list}\n")
}

fn one() -> String {
    devices("gpu:a40:1(IDX:2)")
}

/// The records of jobs 1 and 2. These and 3 run on one node each, and are all there are.
fn joined(text: &str) -> [Record; 2] {
    let mut records = Records::default();
    text.lines().for_each(|line| records.line(line));
    let mut found = records.of(&HashMap::from([(1, 1), (2, 1), (3, 1)]));
    [1, 2].map(|id| found.remove(&id).unwrap_or_default())
}

#[test]
fn a_record_has_the_devices_and_what_its_request_names() {
    let more = "   TresPerJob=gres:gpu:A40:2,gres:gpu:3\n";
    let [first, second] = joined(&(text(1, "a b", &one(), more) + &text(2, "x", "", "")));
    let gres = Gres {
        name: "gpu".to_owned(),
        gres_type: Some("a40".to_owned()),
        count: 1,
        which: Which::Index(vec![2]),
    };
    assert_eq!(first.on, [On { nodes: vec!["n1".to_owned()], gres: vec![gres] }]);
    assert_eq!((first.trust, second.trust), (Trust::Said, Trust::Unsaid));
    assert_eq!(first.types, BTreeSet::from(["A40".to_owned()]));
    assert!(second.types.is_empty() && !first.whole_nodes);
}

#[test]
fn a_request_is_told_by_its_text_or_by_what_slurm_counted() {
    for (line, expected) in [
        ("TresPerNode=gres:gpu:1", true),
        ("TresPerNode=gres:mps:1", false),
        ("NtasksPerTRES=1", true),
        ("CpusPerTres=gres:gpu:1", false),
        ("Power=", false),
    ] {
        let mut record = Record::default();
        rest(&mut record, line);
        assert_eq!(record.is_told, expected, "{line}");
    }
    let mut record = Record::default();
    own(&mut record, "ReqTRES=cpu=1,gres/gpu=1,gres/gpu:a40=1");
    assert!(record.is_told && record.types.contains("a40"));
}

#[test]
fn whole_nodes_are_said_by_each_release_in_its_way() {
    for (line, expected) in [
        ("OverSubscribe=NO Contiguous=0", true),
        ("OverSubscribe=OK Contiguous=0", false),
        ("OverSubscribe=NO Exclusive=NO Contiguous=0", false),
        ("OverSubscribe=NO Exclusive=NODE Contiguous=0", true),
        ("OverSubscribe=NO Exclusive=TOPO Contiguous=0", false),
        ("OverSubscribe=NO Exclusive=USER Contiguous=0", false),
        ("OverSubscribe=NO Exclusive=MCS Contiguous=0", false),
        ("Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=1", true),
        ("Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*", false),
    ] {
        let mut record = Record::default();
        own(&mut record, line);
        assert_eq!(record.whole_nodes, expected, "{line}");
    }
}

#[test]
fn a_type_is_what_stands_behind_gpu_and_is_no_number() {
    for (part, expected) in [
        ("gres/gpu:a40:2", Some("a40")),
        ("gres:gpu:A40", Some("A40")),
        ("gres/gpu:a40=2", Some("a40")),
        ("gpu:a40", Some("a40")),
        ("gres/gpu:4", None),
        ("gres/gpu=4", None),
        ("gres/gpu", None),
        ("gres/gpu::4", None),
        ("gres/mps:40", None),
        ("cpu=2", None),
    ] {
        assert_eq!(type_in(part).as_deref(), expected, "{part}");
    }
}

/// A user can make any text the name of a job, and the comment too.
#[test]
fn a_forged_record_is_told_and_so_is_its_forger() {
    let of_two = text(2, "x", &one(), "");
    let many = devices("gpu:a40:9(IDX:0-8)");
    let own_lines = "evil\n   UserId=alice(2001)\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a40:0(IDX:)";
    let whole = "evil\n   UserId=alice(2001)\n   Command=(null)\nJobId=9 JobName=x";
    let frame = format!("evil\n{}JobId=9 JobName=y", text(2, "x", &many, ""));
    // A record between the forger's and the one that shows the forgery: of no job, or of one that began meanwhile.
    let chain = |between: &str| format!("{own_lines}\n{between}\nJobId=2 JobName=y");
    for (name, comment, expected) in [
        // Line breaks alone change nothing.
        ("evil\n   QOS=x\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a40:9(IDX:0-8)", "", [Trust::Said; 2]),
        // Fewer devices than it has.
        (own_lines, "", [Trust::Unclear, Trust::Said]),
        // Its devices in the record of a job that doesn't exist.
        (whole, "", [Trust::Unclear, Trust::Said]),
        // Another job's record, with more devices than it has.
        (&frame, "", [Trust::Unclear, Trust::Unclear]),
        (&chain("JobId=9 JobName=z\n   UserId=alice(2001)"), "", [Trust::Unclear, Trust::Unclear]),
        (&chain("JobId=0x9"), "", [Trust::Unclear, Trust::Unclear]),
        (&chain("JobId=3 JobName=z"), "", [Trust::Unclear, Trust::Unclear]),
        ("x", &text(2, "x", &many, ""), [Trust::Unclear, Trust::Unclear]),
        ("x", "   UserId=bob(2002)\n", [Trust::Unclear, Trust::Said]),
    ] {
        let found = joined(&(text(1, name, &one(), comment) + &of_two)).map(|record| record.trust);
        assert_eq!(found, expected, "{name} {comment}");
    }
}

#[test]
fn a_job_that_the_two_questions_show_differently_has_nothing_said() {
    let two_nodes = one().replace("n1", "n[1-2]");
    assert_eq!(joined(&text(1, "x", &two_nodes, ""))[0].trust, Trust::Unsaid);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        text in "(JobId=[0-9]{1,3} JobName=x\n|   UserId=a\n|     Nodes=n\\[1-3\\] GRES=gpu:2\\(IDX:0-9\\)\n\
                 |   Command=\n\
                 |\\PC{0,20}\n){0,12}"
    ) {
        let _ = joined(&text);
    }
}
