//! Output of Slurm's programs from real clusters of three releases, and the result.
//!
//! Each node has, in this order: a job that is over, shares of 40 units of alice's and bob's, an array of alice's with
//! one, under `follow` a whole GPU of bob's, a pending job, and a job without a share. The node is drained.

use super::super::View;
use super::*;
use gpushare_node::config::{NodeConfig, Placement, UnitsPerGpu};

const RELEASES: [&str; 3] = ["22.05", "24.11", "26.05"];

fn rules(placement: &str) -> NodeConfig {
    let (placement, share, per_gpu) = match placement {
        "follow-mps" => (Placement::Follow, "mps", 100),
        "own" => (Placement::Own, "gpushare", 80),
        _ => (Placement::Override, "mps", 80),
    };
    let units_per_gpu = Some(UnitsPerGpu::Each(per_gpu));
    NodeConfig { placement, share_gres: share.to_owned(), units_per_gpu, ..NodeConfig::default() }
}

/// The three answers.
fn said(release: &str, placement: &str) -> [String; 3] {
    let path = format!("{}/../tests/data/status/{release}-{placement}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let parts: Vec<&str> = text.split("$ s").skip(1).map(|part| part.split_once('\n').unwrap().1).collect();
    [parts[0].to_owned(), parts[1].to_owned(), parts[2].to_owned()]
}

/// A line of the third.
fn owner(line: &str) -> Option<(u32, Row)> {
    let mut fields = line.split('|');
    let (id, user) = (fields.next()?.parse().ok()?, fields.next()?.to_owned());
    let partition = fields.next().unwrap_or_default().to_owned();
    let user_id = fields.next().and_then(|number| number.parse().ok()).unwrap_or_default();
    Some((id, Row { id, user, user_id, partition, ..Row::default() }))
}

fn made(texts: &[String; 3], rules: &NodeConfig) -> Vec<Node> {
    let [nodes, jobs, users] = texts;
    assemble::nodes(
        node::read(nodes),
        placed::jobs(jobs),
        &users.lines().filter_map(owner).collect(),
        &|_| rules,
    )
}

fn node(release: &str, placement: &str) -> Node {
    let mut nodes = made(&said(release, placement), &rules(placement));
    assert_eq!(nodes.len(), 1);
    nodes.remove(0)
}

fn gpu(index: u32, units: u64, whole: bool) -> Gpu {
    Gpu { index, units, free: 0, capacity: 100, whole, fault: None }
}

/// A job without a name and a partition.
fn job(job: u32, user: &str, units: Option<u64>, gpus: &[u32]) -> Job {
    let (user, gpus) = (Some(user.to_owned()), gpus.to_vec());
    Job { job, name: None, user, user_id: None, partition: None, units, gpus }
}

fn without_names(node: &Node) -> Vec<Job> {
    node.jobs.iter().map(|job| Job { name: None, user_id: None, partition: None, ..job.clone() }).collect()
}

#[test]
fn every_release_says_which_gpu_where_slurm_picks_it() {
    for release in RELEASES {
        let node = node(release, "follow-mps");
        assert_eq!((node.node.as_str(), node.state.as_str(), node.usable), ("n1", "mixed+drain", false));
        assert_eq!(node.reason.as_deref(), Some("GPU 2 [hot] is = \x1b[31mred"), "{release}");
        let jobs = [
            job(2, "alice", Some(40), &[0]),
            job(3, "bob", Some(40), &[0]),
            job(4, "alice", Some(40), &[1]),
            job(5, "bob", None, &[2]),
        ];
        assert_eq!(without_names(&node), jobs, "{release}");
        let gpus = [gpu(0, 80, false), gpu(1, 40, false), gpu(2, 0, true), gpu(3, 0, false)];
        assert_eq!(node.gpus, gpus, "{release}");
        let sums = (node.gpu_count, node.whole, node.units, node.capacity, node.free);
        assert_eq!(sums, (Some(4), 1, 120, 400, 0), "{release}");
    }
}

/// Up to 25.11 Slurm prints `(null)` in the place of a type.
#[test]
fn gpus_without_a_type_are_read() {
    for release in ["22.05", "24.11"] {
        let typed = said(release, "follow-mps");
        let untyped = |text: &String| {
            let line = |line: &str| {
                let type_is = if line.trim_start().starts_with("GresUsed=") { ":(null):" } else { ":" };
                line.replace(":a40:", type_is) + "\n"
            };
            text.lines().map(line).collect::<String>()
        };
        let nodes = |said| made(said, &rules("follow-mps"));
        assert_eq!(nodes(&typed.each_ref().map(untyped)), nodes(&typed), "{release}");
    }
}

#[test]
fn every_release_counts_the_node_where_slurm_does_not_pick() {
    for release in RELEASES {
        for placement in ["own", "override"] {
            let node = node(release, placement);
            let sums = (node.gpu_count, node.whole, node.units, node.capacity, node.free);
            assert_eq!(sums, (Some(4), 0, 120, 320, 0), "{release} {placement}");
            assert_eq!(node.gpus, []);
            let share = |id, user| job(id, user, Some(40), &[]);
            assert_eq!(
                without_names(&node),
                [share(2, "alice"), share(3, "bob"), share(4, "alice")],
                "{release} {placement}"
            );
        }
    }
}

#[test]
fn other_users_jobs_may_be_hidden() {
    for release in RELEASES {
        for placement in ["follow-mps", "own", "override"] {
            let [nodes, ..] = said(release, placement);
            let nodes = made(&[nodes, String::new(), String::new()], &rules(placement));
            assert_eq!(nodes[0].jobs, []);
            assert_eq!(nodes[0].units, 120, "{release} {placement}");
            // On 22.05 only the node's units are known, from AllocTRES.
            let of_gpus: u64 = nodes[0].gpus.iter().map(|gpu| gpu.units).sum();
            let expected = if placement == "follow-mps" && release != "22.05" { 120 } else { 0 };
            assert_eq!(of_gpus, expected, "{release} {placement}");
            assert_eq!(nodes[0].whole, u64::from(placement == "follow-mps"), "{release} {placement}");
        }
    }
}

/// 22.05 counts GPUs for mps, which must not be taken for units.
#[test]
fn what_nobody_says_is_not_made_up() {
    let [nodes, ..] = said("22.05", "override");
    assert!(nodes.contains("mps:titanrtx:1(IDX:0)"));
    let texts = [nodes.replace(",gres/mps=120", ""), String::new(), String::new()];
    assert_eq!(made(&texts, &rules("override"))[0].units, 0);
}

#[test]
fn a_node_can_take_jobs_or_not() {
    let [text, jobs, users] = said("24.11", "follow-mps");
    for (state, usable, free) in [
        ("IDLE", true, 180),
        ("MIXED+PLANNED", true, 180),
        ("IDLE~", true, 180),
        ("MIXED+CLOUD+POWERED_DOWN", true, 180),
        ("DOWN", false, 0),
        ("DOWN*", false, 0),
        ("IDLE*", false, 0),
        ("IDLE+DRAIN+MAINTENANCE", false, 0),
        ("MIXED+NOT_RESPONDING", false, 0),
        ("IDLE+INVALID_REG", false, 0),
    ] {
        let text = text.replace("State=MIXED+DRAIN", &format!("State={state}"));
        let nodes = made(&[text, jobs.clone(), users.clone()], &rules("follow-mps"));
        assert_eq!((nodes[0].usable, nodes[0].free), (usable, free), "{state}");
        let gpus: Vec<u64> = nodes[0].gpus.iter().map(|gpu| gpu.free).collect();
        assert_eq!(gpus, if usable { [20, 60, 0, 100] } else { [0; 4] }, "{state}");
    }
}

#[test]
fn nodes_without_shares_are_none() {
    let text = "NodeName=a\n   Gres=(null)\n   State=IDLE\n\nNodeName=b\n   Gres=gpu:a40:4\n   State=IDLE\n\n\
                NodeName=c\n   Gres=shard:8\n   GresUsed=shard:3\n   State=IDLE\n";
    let texts = [text.to_owned(), String::new(), String::new()];
    let nodes = made(&texts, &NodeConfig::default());
    assert_eq!(nodes.len(), 1);
    let sums = (nodes[0].node.as_str(), nodes[0].units, nodes[0].free, nodes[0].capacity, nodes[0].gpu_count);
    assert_eq!(sums, ("c", 3, 5, 8, None));
}

/// Slurm doesn't count a whole GPU as shares of a site's own GRES, and under `override` it doesn't know where they are.
#[test]
fn a_whole_gpu_has_no_room_where_slurm_does_not_pick() {
    let nodes = "NodeName=a\n   Gres=gpu:a40:4,mps:a40:400\n   \
                 GresUsed=gpu:a40:2(IDX:0-1),mps:a40:40(0/100,0/100,40/100,0/100)\n   State=MIXED\n";
    let jobs = "JobId=7 JobName=x\n     Nodes=a CPU_IDs=0-1 Mem=0 GRES=gpu:a40:2(IDX:0-1)\n";
    let texts = [nodes.to_owned(), jobs.to_owned(), "7|bob\n".to_owned()];
    let node = &made(&texts, &rules("override"))[0];
    assert_eq!((node.whole, node.units, node.free, node.capacity), (2, 40, 120, 320));
}

/// `-/100` is a GPU that a job has whole (`_xstrfmtcat_shared_gres_used` in src/interfaces/gres.c). Types follow one
/// another.
#[test]
fn gpus_of_several_types_are_counted_on() {
    let text = "NodeName=a\n   Gres=gpu:a40:2,gpu:h100:2,mps:a40:200,mps:h100:400\n   \
                GresUsed=gpu:a40:1(IDX:1),gpu:h100:0(IDX:N/A),mps:a40:30(30/100,-/100),mps:h100:5(0/200,5/200)\n   \
                State=MIXED\n";
    let nodes = made(&[text.to_owned(), String::new(), String::new()], &rules("follow-mps"));
    let gpus: Vec<_> =
        nodes[0].gpus.iter().map(|gpu| (gpu.units, gpu.free, gpu.capacity, gpu.whole)).collect();
    assert_eq!(gpus, [(30, 70, 100, false), (0, 0, 100, true), (0, 200, 200, false), (5, 195, 200, false)]);
}

#[test]
fn a_name_gives_nobody_a_job() {
    let text = "JobId=7 JobName=x\n   JobState=RUNNING\n\nJobId=9 JobName=y UserId=root(0) Nodes=n1 GRES=mps:99\n   \
                UserId=alice(2001)\n   JobState=RUNNING Reason=None\n     Nodes=n[1-2] CPU_IDs=0 Mem=0 \
                GRES=mps:40(IDX:1)\n   Comment=Nodes=n1 GRES=mps:7\n";
    let jobs = placed::jobs(text);
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].id, jobs[0].on.len(), jobs[0].on[0].0.as_str()), (9, 1, "n[1-2]"));
    let [nodes, ..] = said("22.05", "follow-mps");
    let nodes = made(&[nodes, text.to_owned(), "7|alice\n".to_owned()], &rules("follow-mps"));
    assert_eq!(nodes[0].jobs[0].user, None);
    // Nor can a name imitate another job's number, which then occurs twice.
    let [nodes, jobs, users] = said("22.05", "follow-mps");
    let text = text.replace("JobId=9", "JobId=3") + &jobs;
    let nodes = made(&[nodes, text, users], &rules("follow-mps"));
    let by = |user: Option<&str>| nodes[0].jobs.iter().filter(|job| job.user.as_deref() == user).count();
    assert_eq!((by(None), by(Some("alice")), by(Some("bob"))), (2, 2, 1));
    assert!(nodes[0].jobs.iter().all(|job| (job.job == 0) == job.user.is_none()));
}

#[test]
fn a_name_takes_no_units_no_memory_and_no_time() {
    let [nodes, jobs, users] = said("24.11", "own");
    let lines: String = [("n1", u64::MAX), ("n1", 321), ("n[0-999999999][", 1), ("m[0-999999999],n1", 1)]
        .iter()
        .map(|(list, units)| format!("\n     Nodes={list} CPU_IDs=0 Mem=0 GRES=gpushare:{units}"))
        .collect();
    let more = format!("JobId=99 JobName=x{lines}\n   UserId=eve(9)\n\n{jobs}");
    let without = made(&[nodes.clone(), jobs, users.clone()], &rules("own"));
    assert_eq!(made(&[nodes, more, users], &rules("own")), without);
}

#[test]
fn what_a_node_has_said_is_shown_where_slurm_does_not_know() {
    let said = || {
        let text = r#"{"node": "n1", "time": 970, "gpus": [
            {"index": 0, "capacity": 80, "units": 70, "whole": false, "fault": null, "more": 1},
            {"index": 2, "capacity": 80, "units": 0, "whole": false, "fault": "on fire"}],
            "jobs": [{"job": 7, "user_id": 2001, "user": null, "units": 70, "gpus": [{"index": 0}]}]}"#;
        serde_json::from_str(text).unwrap()
    };
    let mut of_own = node("22.05", "own");
    of_own.usable = true;
    assemble::overlay(&mut of_own, said(), 1000, &rules("own"));
    assert_eq!((of_own.age, of_own.units, of_own.free, of_own.capacity), (Some(30), 70, 10, 160));
    assert_eq!((of_own.gpus[1].fault.as_deref(), of_own.gpus[1].free), (Some("on fire"), 0));
    assert_eq!(without_names(&of_own), [job(7, "2001", Some(70), &[0])]);
    let mut of_slurm = node("22.05", "follow-mps");
    assemble::overlay(&mut of_slurm, said(), 1000, &rules("follow-mps"));
    assert_eq!((of_slurm.age, of_slurm.units, of_slurm.jobs.len()), (None, 120, 4));
    assert_eq!(of_slurm.gpus[2].fault.as_deref(), Some("on fire"));
}

#[test]
fn people_get_a_line_a_node_or_a_gpu() {
    let mut cluster =
        Cluster { time: 1000, nodes: vec![], without_shares: 2, filtered: false, complaints: vec![] };
    let text =
        |cluster: &Cluster, view| gpushare_terminal::columns::text(&write::lines(cluster, view), false);
    assert_eq!(text(&cluster, None), "none of 2 nodes has shares\n");
    cluster.nodes =
        vec![node("24.11", "follow-mps"), Node { age: Some(7), node: "n2".into(), ..node("24.11", "own") }];
    cluster.nodes[1].reason = None;
    cluster.nodes[1].usable = true;
    cluster.nodes[1].free = 200;
    cluster.nodes[0].gpus[3].fault = Some("on\nfire\u{9b}".to_owned());
    let expected = "NODE  STATE        GPUS  WHOLE  UNITS  FREE   OF  JOBS  AGE  USERS      REASON
n1    mixed+drain     4      1    120     -  400     4    -  alice,bob  GPU 2 [hot] is = \\u{1b}[31mred
n2    mixed+drain     4      0    120   200  320     3   7s  alice,bob\n
2 nodes (1 out of service): 8 GPUs, 1 whole; 240 of 720 units in use, 200 free, 100 in whole GPUs, 180 out of service; 4 jobs of 2 users
n1 GPU 3 takes no shares, NVML says: on\\nfire\\u{9b}
2 nodes without shares left out
";
    let lines = text(&cluster, None);
    let trimmed: Vec<&str> = lines.lines().map(str::trim_end).collect();
    assert_eq!(trimmed.join("\n") + "\n", expected);
    let expected = "\
NODE  STATE        GPU  UNITS  FREE   OF  AGE  USERS      JOBS
n1    mixed+drain    0     80     -  100    -  alice,bob  2,3
n1    mixed+drain    1     40     -  100    -  alice      4
n1    mixed+drain    2  whole     -  100    -  bob        5
n1    mixed+drain    3      0     -  100    -
n2    mixed+drain    ?    120   200  320   7s  alice,bob  2,3,4
";
    let lines = text(&cluster, Some(View::Gpus));
    let trimmed: Vec<&str> = lines.lines().map(str::trim_end).collect();
    assert!((trimmed.join("\n") + "\n").starts_with(expected), "{lines}");
    assert!(!gpushare_terminal::json::text(&cluster).contains(|c: char| c.is_control() && c != '\n'));
    cluster.nodes = vec![Node { gpu_count: Some(1), gpus: vec![], jobs: vec![], ..node("24.11", "own") }];
    let lines = text(&cluster, None);
    assert!(lines.contains("\n1 node (1 out of service): 1 GPU, "), "{lines}");
}

#[test]
fn a_job_has_its_name_and_its_partition() {
    for release in RELEASES {
        let mut cluster = Cluster {
            time: 1000,
            nodes: vec![node(release, "follow-mps")],
            without_shares: 0,
            filtered: true,
            complaints: vec![],
        };
        assert_eq!(cluster.nodes[0].jobs[0].name.as_deref(), Some("wrap"), "{release}");
        assert!(!cluster.nodes[0].partitions.is_empty(), "{release}");
        let [nodes, jobs, _] = said(release, "follow-mps");
        let jobs = jobs.replace("JobId=2 JobName=wrap", "JobId=2 JobName=my JobName=x|\x1b");
        cluster.nodes = made(&[nodes, jobs, "2|alice|p\n3|bob|q\n".to_owned()], &rules("follow-mps"));
        let shown = |cluster: &Cluster| {
            gpushare_terminal::columns::text(&write::lines(cluster, Some(View::Jobs)), false)
        };
        let jobs = |cluster: &Cluster| {
            let job = |line: &str| line.split_whitespace().next().map(str::to_owned);
            shown(cluster).lines().skip(1).map_while(job).collect::<Vec<_>>()
        };
        let text = shown(&cluster);
        assert!(
            text.contains("\n  2  my JobName=x|\\u{1b}  alice  p          n1    0        40\n"),
            "{text}"
        );
        let places = Places { partitions: vec!["p".to_owned()], ..Places::default() };
        cluster.keep_jobs(&Wanted::default(), &places);
        // Jobs with an unknown partition stay.
        assert_eq!(jobs(&cluster), ["2", "4", "5"]);
        cluster.keep_jobs(&Wanted { users: vec!["alice".to_owned()], jobs: vec![] }, &places);
        assert_eq!(jobs(&cluster), ["2"]);
        cluster.keep_jobs(&Wanted { users: vec![], jobs: vec![3] }, &places);
        assert!(cluster.nodes.is_empty());
    }
}

#[test]
fn the_nodes_are_those_that_are_asked_for() {
    let text: String = [("n1", "p"), ("n2", "p,q"), ("m1", "q")]
        .map(|(name, partitions)| format!("NodeName={name}\n   State=IDLE\n   Partitions={partitions} \n\n"))
        .concat();
    let of = |hosts: &[&str], partitions: &[&str]| {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let places = Places { hosts: owned(hosts), partitions: owned(partitions) };
        let names =
            |nodes: Vec<NodeText>| nodes.into_iter().map(|node| node.name).collect::<Vec<_>>().join(" ");
        places.of(node::read(&text)).map(names).map_err(|error| error.to_string())
    };
    let ok = |names: &str| Ok(names.to_owned());
    assert_eq!(of(&[], &[]), ok("n1 n2 m1"));
    assert_eq!(of(&["m1", "n[1-2]"], &[]), ok("n1 n2 m1"));
    assert_eq!(of(&["n2,m1"], &[]), ok("n2 m1"));
    assert_eq!(of(&[], &["q"]), ok("n2 m1"));
    assert_eq!(of(&["n[1-2]"], &["q"]), ok("n2"));
    let no = |text: &str| Err(text.to_owned());
    assert_eq!(of(&["n[1-3]"], &[]), no("the cluster has no node n3; see sinfo -N"));
    assert_eq!(of(&["n[1-4]", "x"], &[]), no("the cluster has no nodes n3, n4, x; see sinfo -N"));
    assert_eq!(
        of(&["n[1-40]"], &[]),
        no("the cluster has no nodes n10, n11, n12, n13, n14, n15, n16, n17 and 30 more; see sinfo -N")
    );
    assert_eq!(of(&["n[x"], &[]), no("'n[x' names no node"));
    assert_eq!(of(&[], &["q", "r"]), no("no node is in a partition 'r'; partitions with nodes: p, q"));
}
