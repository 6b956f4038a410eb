//! Tests of lines against clusters.

use gpushare_slurm_text::{Settings, node};

use super::*;
use crate::config::Database;
use crate::state;
use crate::tree::Tree;

mod lending;

const CONFIG: &str = "Configuration data as of x\nAccountingStorageTRES   = \
                      cpu,mem,energy,node,billing,gres/gpu,gres/gpu:a40,gres/gpu:H100\nClusterName             = lab\nPreemptType \
                      = preempt/qos\nPreemptMode = REQUEUE\n";
const NODES: &str = "NodeName=n1 Arch=x Gres=gpu:a40:4(S:0-1),mps:400 State=IDLE\nNodeName=n2 \
                     Gres=gpu:a40:2,gpu:H100:2(S:0,1)\nNodeName=n3 Gres=(null) State=DOWN\nNodeName=n4 Gres=gpu:3\n";

fn cluster() -> Cluster {
    Cluster::of(&Settings::parse(CONFIG), &node::read(NODES)).unwrap()
}

fn actual() -> Actual {
    let tree =
        Tree::read("root|||normal,theirs,typed,h,old_burst|\na||||\na|old|||\n", "root|\na|root\n").unwrap();
    let bare = format!("normal|{}0||cluster||00:00:00||1.000000|||x\n", "|".repeat(23));
    let theirs = bare.replace("normal", "theirs").replace("|x", "|gpushare@north Prof. N.");
    // Nobody has it: only a partition may name it.
    let part = bare.replace("normal", "part_p");
    let retired = bare.replace("normal", "old_burst").replace("|x", "|gpushare@lab burst");
    Actual { qoses: state::qoses(&(bare + &theirs + &part + &retired)).unwrap(), tree }
}

fn said(text: &str) -> Vec<String> {
    said_of(text, &actual())
}

fn said_of(text: &str, actual: &Actual) -> Vec<String> {
    let qoses = Database::parse(text).unwrap().qoses;
    let strangers = ["eve", "old"].map(str::to_owned).into();
    marked(&check(&qoses, actual, &cluster(), &strangers))
}

fn marked(findings: &[Finding]) -> Vec<String> {
    let mark = |finding: &Finding| if finding.is_error { "error" } else { "warning" };
    findings.iter().map(|finding| format!("{} {}: {}", finding.line, mark(finding), finding.text)).collect()
}

#[test]
fn nodes_are_counted_whatever_their_state() {
    let cluster = cluster();
    assert_eq!(cluster.name, "lab");
    assert_eq!(
        cluster.gpus.iter().map(|(gres_type, count)| (gres_type.as_str(), *count)).collect::<Vec<_>>(),
        [("H100", 2), ("a40", 6)]
    );
    assert_eq!(
        Cluster::of(&Settings::parse(""), &node::read("")).unwrap_err().to_string(),
        "'scontrol show config' has no AccountingStorageTRES"
    );
}

#[test]
fn lines_that_can_be_had_are_silent() {
    assert_eq!(
        said(
            "QOS=q Account=a Users=tom GPUs=a40:6,H100:2 CPUs=4 Mem=9999G Preempt=normal,q2 Priority=3\nQOS=q2 \
             Account=*"
        ),
        Vec::<String>::new()
    );
}

#[test]
fn lines_that_cannot_be_had_say_why() {
    let counts = "that this cluster counts; add it to AccountingStorageTRES in slurm.conf and restart slurmctld \
         (from Slurm 23.11 on 'scontrol reconfigure' is enough)";
    for (text, expected) in [
        ("\nQOS=q GPUs=H100:3", "2 error: H100:3 is more than the cluster's 2".to_owned()),
        ("QOS=q GPUs=h100:1", "1 error: no node has a GPU of type 'h100'; there are H100, a40".to_owned()),
        (
            "QOS=q Preempt=q",
            "1 error: QOS 'q' would preempt itself, directly or through others (Preempt)".to_owned(),
        ),
        (
            "QOS=q Preempts=normale",
            "1 error: Preempt names QOS 'normale', which is neither in this file nor in Slurm's database"
                .to_owned(),
        ),
        ("QOS=q Account=a Users=eve", "1 error: this system has no user 'eve'".to_owned()),
        ("QOS=q Account=a Users=old", "1 warning: this system has no user 'old'".to_owned()),
        (
            "QOS=theirs",
            "1 error: QOS 'theirs' is also in the gpushare.conf of cluster 'north', and all clusters of a database \
             share its QOSes"
                .to_owned(),
        ),
        ("QOS=q Account=root", "1 error: every user is below the account root; write Account=*".to_owned()),
        ("QOS=q MaxTRESPerUser=gres/mps=3,cpu=2", format!("1 error: gres/mps is not a TRES {counts}")),
        (
            "QOS=q GPUs=a40:4\nQOS=r GPUs=a40:3\nQOS=s GPUs=a40:1",
            "2 warning: with a40:3 the QOSes add up to 7 a40, but the cluster has 6".to_owned(),
        ),
    ] {
        assert_eq!(said(text), [expected], "{text}");
    }
    let itself = |line, name| {
        format!("{line} error: QOS '{name}' would preempt itself, directly or through others (Preempt)")
    };
    assert_eq!(said("QOS=q Preempt=r\nQOS=r Preempt=q\nQOS=s Preempt=q"), [itself(1, "q"), itself(2, "r")]);
    assert_eq!(
        said("QOS=q GPUs=v100:1,p100:1 GrpTRES=gres/mps=1,gres/shard=1"),
        [
            "1 error: no node has a GPU of type 'v100'; there are H100, a40",
            "1 error: no node has a GPU of type 'p100'; there are H100, a40",
            "1 error: gres/mps,gres/shard are no TRES that this cluster counts; add them to AccountingStorageTRES in \
             slurm.conf and restart slurmctld (from Slurm 23.11 on 'scontrol reconfigure' is enough)",
        ]
    );
}
