//! Slurm's own output, and what is read of it.

use super::super::limits::tests::job;
use super::*;

/// The output of 24.11, with fewer TRES.
pub const TEXT: &str = "\
Current Association Manager state
Association Records
ClusterName=lab Account=root UserName= Partition= ID=1 ParentAccount= GrpJobs=N(3) GrpTRES=cpu=N(3),gres/gpu:a40=N(5) MaxJobs= MaxTRESPJ= MaxTRESPN= Comment=(null)
ClusterName=lab Account=limits UserName= Partition= ID=2 ParentAccount=root(1) GrpJobs=9(3) GrpTRES=cpu=N(3),gres/gpu:a40=6(5) MaxJobs=1(3) MaxTRESPJ=cpu=1 MaxTRESPN= Comment=(null)
ClusterName=lab Account=acct UserName= Partition= ID=3 ParentAccount=limits(2) GrpJobs=N(3) GrpTRES=cpu=N(3),gres/gpu:a40=N(5) MaxJobs= MaxTRESPJ= MaxTRESPN= Comment=(null)
ClusterName=lab Account=acct UserName=alice(2001) Partition= ID=4 ParentAccount= GrpJobs=N(2) GrpTRES=cpu=N(2),gres/gpu:a40=N(3) MaxJobs=8(2) MaxTRESPJ=gres/gpu:a40=4 MaxTRESPN= Comment=(null)
ClusterName=lab Account=acct UserName=alice(2001) Partition=big ID=5 ParentAccount= GrpJobs=N(0) GrpTRES=cpu=N(0),gres/gpu:a40=N(0) MaxJobs= MaxTRESPJ=gres/gpu:a40=8 MaxTRESPN= Comment=(null)
QOS Records
QOS=q(2) UsageRaw=0.0 GrpJobs=N(2) GrpTRES=cpu=N(2),gres/gpu:a40=4(3) GrpTRESMins=cpu=N(0) MaxTRESPJ= MaxTRESPN=gres/gpu:a40=2 PreemptMode=OFF Priority=0 Account Limits= acct={MaxJobsPA=N(2) MaxTRESPA=gres/gpu:a40=N(3) MaxTRESRunMinsPA=cpu=N(0)} User Limits= bob(2002)={MaxJobsPU=N(1) MaxTRESPU=gres/gpu:a40=3(1)} alice(2001)={MaxJobsPU=N(1) MaxTRESPU=gres/gpu:a40=3(2) MaxTRESRunMinsPU=cpu=N(0)}
QOS=part(3) UsageRaw=0.0 GrpJobs=N(0) GrpTRES=cpu=2(0),gres/gpu:a40=N(0) MaxTRESPJ= MaxTRESPN= Account Limits=No Accounts User Limits=No Users
";

#[test]
fn the_records_of_a_job_are_found_up_to_root() {
    let job = job(7, "alice", "PENDING", "gres/gpu:a40=2");
    let known = known(TEXT, &job, &["part", "q"]);
    let holders: Vec<_> = known.associations.iter().map(|record| record.holder.clone()).collect();
    let account = |name: &str| Holder::Account(name.to_owned());
    assert_eq!(
        holders,
        [Holder::Own("acct".into(), String::new()), account("acct"), account("limits"), account("root")]
    );
    let of = |at: usize, field: &str, tres: &str| {
        known.qoses[at].fields.get(field).and_then(|all| all.get(tres)).copied()
    };
    assert_eq!(of(0, "GrpTRES", "cpu"), Some((Some(2), 0)));
    assert_eq!(of(1, "GrpTRES", "gres/gpu:a40"), Some((Some(4), 3)));
    assert_eq!(of(1, "MaxTRESPU", "gres/gpu:a40"), Some((Some(3), 2)), "alice's, not bob's");
    assert_eq!(of(1, "MaxTRESPN", "gres/gpu:a40"), Some((Some(2), 0)));
    assert_eq!(known.associations[0].fields["MaxJobs"]["jobs"], (Some(8), 2));
    assert!(!known.associations[2].fields.contains_key("MaxTRESPJ"), "tested for its users");
    assert_eq!(known.below["limits"].iter().collect::<Vec<_>>(), ["acct", "limits"]);
    let mut elsewhere = job;
    elsewhere.partition = "big,p".to_owned();
    let known = super::known(TEXT, &elsewhere, &["q"]);
    assert_eq!(known.associations[0].holder, Holder::Own("acct".into(), "big".into()));
}

#[test]
fn limits_of_users_who_have_used_nothing_are_the_qoses_own() {
    let qos = limits::Qos::read("part|||gpu=9,gres/gpu:a40=3|gres/gpu=5|||||||||");
    let mut known = known(TEXT, &job(7, "alice", "PENDING", "gres/gpu:a40=2"), &["part", "q"]);
    for record in &mut known.qoses {
        record.complete(&[qos.clone(), limits::Qos::read("q|||gres/gpu:a40=9||||||||||")]);
    }
    assert_eq!(known.qoses[0].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 0));
    assert_eq!(known.qoses[0].fields["MaxTRESPA"]["gres/gpu"], (Some(5), 0));
    assert_eq!(known.qoses[1].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 2), "slurmctld's own");
}

#[test]
fn a_users_own_count_is_found_by_number_too() {
    let old = TEXT.replace("bob(2002)={", "2002={").replace("alice(2001)={", "2001={");
    let known = known(&old, &job(7, "alice", "PENDING", "gres/gpu:a40=2"), &["q"]);
    assert_eq!(known.qoses[0].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 2), "as 22.05 prints it");
}

#[test]
fn whole_nodes_have_at_least_what_the_smallest_has() {
    let node = |gres: &str| Node::read(&format!("NodeName=n Gres={gres} Partitions=p")).unwrap();
    let given = |nodes: &[Node]| {
        let mut asked = Row { nodes: 2, ..job(7, "alice", "PENDING", "gres/gpu:a40=1") };
        whole_nodes(&mut asked, nodes);
        asked.tres.iter().map(|(tres, count)| format!("{tres}={count}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(given(&[node("gpu:A40:4"), node("gpu:A40:2")]), "gres/gpu=4 gres/gpu:a40=4");
    assert_eq!(given(&[node("gpu:a40:4"), node("gpu:h100:8")]), "gres/gpu=8 gres/gpu:a40=1");
    assert_eq!(given(&[node("gpu:a40:4"), node("(null)")]), "gres/gpu:a40=1");
}

#[test]
fn the_nodes_of_a_partition_are_like_a_limit() {
    let node = |name: &str, state: &str, partitions: &str| {
        let text = format!(
            "NodeName={name} Gres=gpu:A40:4,mps:a40:400 State={state} Partitions={partitions} \
             AllocTRES=cpu=1,gres/gpu=1,gres/gpu:a40=1"
        );
        Node::read(&text).unwrap()
    };
    let nodes = [
        node("n1", "MIXED", "p"),
        node("n2", "IDLE+DRAIN", "p"),
        node("n3", "IDLE", "q"),
        node("n4", "ALLOCATED", "q,p"),
    ];
    let of = |tres: &str| of_nodes(&job(7, "alice", "PENDING", tres), &nodes);
    let found = of("cpu=1,gres/gpu=5,gres/gpu:a40=5,gres/mps=50");
    assert_eq!(found.holder, Holder::Nodes("p".into(), ["n1".to_owned(), "n4".to_owned()].into()));
    let counts = &found.fields["its nodes"];
    assert_eq!(counts.len(), 2, "the type alone, and no CPUs: {counts:?}");
    assert_eq!((counts["gres/gpu:a40"], counts["gres/mps"]), ((Some(8), 2), (Some(800), 0)));
    let has_all = |tres: &str| has_all(&of(tres), &job(7, "alice", "PENDING", tres));
    assert!(has_all("cpu=99,gres/gpu=5,gres/gpu:a40=5,gres/mps=50") && has_all("gres/gpu=8"));
    assert!(!has_all("gres/gpu:a40=9") && !has_all("gres/gpu=9") && !has_all("gres/gpu:h100=1"));
    assert!(of("gres/gpu:a40=9").fields["its nodes"].is_empty(), "Slurm has a reason of its own for that");
}
