//! CPUs and memory for each GPU, and partitions that require a GPU.

use super::*;
use crate::config::rules::Rules;
use crate::submit::message;

const CAPS: &str = "MaxCPUsPerGpu=a40:8,h100:16\nMaxMemPerGpu=a40:64G,h100:128G\nPlacement=own\nUnitsPerGpu=80\n\
                    PartitionName=small,tiny MaxCPUsPerGpu=2\nQOS=normal MaxMemPerGpu=32G\n";

fn policy(text: &str) -> Policy {
    Rules::parse(text).unwrap().policy
}

/// Under an ungoverned QOS, unless another is named.
pub(super) fn asked(options: &str) -> Request<'_> {
    let request = super::asked(options);
    Request { qos: request.qos.or(Some(b"listed_by_name")), ..request }
}

const CPUS: Option<Rule> = Some(Rule::TooManyCpus);
const MEMORY: Option<Rule> = Some(Rule::TooMuchMemory);

#[test]
fn the_gpus_allow_so_many_cpus_and_so_much_memory() {
    let policy = policy(CAPS);
    for (options, expected) in [
        // Without a GPU, no cap applies.
        ("c=64 mem=500G", None),
        ("node=gres/gpu:0 c=64", None),
        ("node=gres/gpu:a40:1", None),
        ("node=gres/gpu:a40:1 c=8 mem=64G", None),
        ("node=gres/gpu:a40:1 c=9", CPUS),
        ("node=gres/gpu:A40:1 c=9", CPUS),
        ("node=gres/gpu:h100:1 c=16 mem=128G", None),
        ("node=gres/gpu:h100:1 c=17", CPUS),
        // A GPU without a type may be any.
        ("node=gres/gpu:1 c=8", None),
        ("node=gres/gpu:1 c=9", CPUS),
        ("node=gres/gpu:2 c=16", None),
        ("node=gres/gpu:a40:1,gres/gpu:h100:1 c=24", None),
        ("node=gres/gpu:a40:1,gres/gpu:h100:1 c=25", CPUS),
        // What Slurm counts once counts once here.
        ("node=gres/gpu:a40:1,gres/gpu:a40:1 c=9", CPUS),
        ("node=gres/gpu:a40:1 job=gres/gpu:a40:1 c=9", CPUS),
        ("node=gres/gpu:a40:4,gres/gpu:a40:1 c=9", CPUS),
        ("node=gres/gpu:a40:4,gresgpu:a40:1 c=8", Some(Rule::Unreadable)),
        // Tasks
        ("node=gres/gpu:a40:1 n=8", None),
        ("node=gres/gpu:a40:1 n=9", CPUS),
        ("node=gres/gpu:a40:1 n=3 c=3", CPUS),
        ("node=gres/gpu:a40:1 N=2 n=16", None),
        ("node=gres/gpu:a40:1 N=2 Nmax=4 n=17", CPUS),
        ("node=gres/gpu:a40:1 per-node=9", CPUS),
        // Slurm makes the number of tasks from those on each node, or gives each node CPUs for them.
        ("node=gres/gpu:a40:1 n=8 per-node=9", CPUS),
        ("node=gres/gpu:a40:1 n=1 per-node=64", CPUS),
        ("node=gres/gpu:a40:1 N=2 n=16 per-node=15", CPUS),
        ("node=gres/gpu:a40:1 N=2 n=8 per-node=7 c=2", CPUS),
        ("node=gres/gpu:a40:1 N=2 n=16 per-node=8", None),
        ("node=gres/gpu:a40:1 n=1 per-node=64 mem-per-cpu=2G", CPUS),
        ("node=gres/gpu:a40:1 per-socket=5 sockets=2", CPUS),
        // A number of 0 isn't set.
        ("node=gres/gpu:a40:1 n=0 per-socket=9", CPUS),
        ("task=gres/gpu:a40:1 per-node=0 c=8", None),
        ("node=gres/gpu:a40:1 per-gpu=9", CPUS),
        ("task=gres/gpu:a40:1 n=4 c=8", None),
        ("task=gres/gpu:a40:1 n=4 c=9", CPUS),
        ("task=cpu=9,gres/gpu:a40=1 n=1", CPUS),
        ("task=cpu=x,gres/gpu:a40=1 n=1", CPUS),
        ("task=gres/gpu:a40:1 per-node=2 N=2 c=8", None),
        ("socket=gres/gpu:a40:1 sockets=2 c=16", None),
        ("socket=gres/gpu:a40:1 sockets=2 c=17", CPUS),
        // Separate numbers
        ("node=gres/gpu:a40:1 mincpus=9", CPUS),
        ("node=gres/gpu:a40:1 cpus=9", CPUS),
        ("node=gres/gpu:a40:4 cpus-per-gpu=gres/gpu:8", None),
        ("node=gres/gpu:a40:4 cpus-per-gpu=gres/gpu:9", CPUS),
        ("node=gres/gpu:a40:4 cpus-per-gpu=gres/gpu:a40:9", CPUS),
        ("node=gres/gpu:a40:4 cpus-per-gpu=gpu:9", CPUS),
        ("node=gres/gpu:a40:1,gres/gpu:h100:1 cpus-per-gpu=gres/gpu:h100:24", None),
        // On each node, with GPUs for the whole job: there may be two nodes.
        ("job=gres/gpu:a40:2 mincpus=16", CPUS),
        ("job=gres/gpu:a40:2 mincpus=16 N=1 Nmax=1", None),
        ("job=gres/gpu:a40:2 mem=128G", MEMORY),
        ("job=gres/gpu:a40:2 mem=64G", None),
        ("job=gres/gpu:a40:2 mem=128G N=1 Nmax=1", None),
        // Memory
        ("node=gres/gpu:a40:1 mem=65537", MEMORY),
        ("node=gres/gpu:a40:1 mem=0", MEMORY),
        ("node=gres/gpu:a40:1 exclusive=1 mem=0", MEMORY),
        ("node=gres/gpu:a40:1 N=2 mem=64G", None),
        ("node=gres/gpu:a40:1 c=8 mem-per-cpu=8G", None),
        ("node=gres/gpu:a40:1 c=8 mem-per-cpu=9G", MEMORY),
        ("node=gres/gpu:a40:2 mem-per-gpu=gres/gpu:65536", None),
        ("node=gres/gpu:a40:2 mem-per-gpu=gres/gpu:65537", MEMORY),
        ("node=gres/gpu:a40:2 mem-per-gpu=gres/gpu:0", MEMORY),
        // All CPUs of a node, unless the number for each GPU is set.
        ("node=gres/gpu:a40:1 n=1 c=1 binding=1", CPUS),
        ("node=gres/mps:40 c=1 binding=1", CPUS),
        ("node=gres/gpu:a40:2 cpus-per-gpu=gres/gpu:8 binding=1", None),
        ("node=gres/gpu:a40:2 cpus-per-gpu=gres/gpu:9 binding=1", CPUS),
        ("node=gres/gpu:a40:2 cpus-per-gpu=gres/gpu:0 binding=1", CPUS),
        // Shares: 80 units are a GPU.
        ("node=gres/mps:40 c=4", None),
        ("node=gres/mps:40 c=5", CPUS),
        ("node=gres/mps:40 mem=33G", MEMORY),
        ("node=gres/mps:1 c=1", None),
        // GPUs that no string shows
        ("n=2 per-gpu=1", Some(Rule::NtasksPerGpuAlone)),
        // Partitions and QOSes with their own caps
        ("p=small node=gres/gpu:h100:1 c=3", CPUS),
        ("p=big,tiny node=gres/gpu:h100:1 c=3", CPUS),
        ("p=big node=gres/gpu:h100:1 c=3", None),
        ("p=small node=gres/gpu:h100:1 c=2 mem=128G", None),
        ("reservation=r node=gres/gpu:h100:1 c=3", CPUS),
        ("p=big reservation=r node=gres/gpu:h100:1 c=3", None),
        ("qos=NORMAL node=gres/gpu:h100:1 mem=33G", MEMORY),
        ("qos=listed_by_name,normal node=gres/gpu:h100:1 mem=33G", MEMORY),
    ] {
        assert_eq!(rule(&asked(options), &policy), expected, "{options}");
    }
}

#[test]
fn a_type_that_is_not_listed_has_no_cap_or_that_of_the_others() {
    let listed = policy("MaxCPUsPerGpu=a40:8");
    let others = policy("MaxCPUsPerGpu=a40:8,2");
    for (options, of_listed, of_others) in [
        ("node=gres/gpu:h100:1 c=64", None, CPUS),
        ("node=gres/gpu:h100:1 binding=1", None, CPUS),
        ("node=gres/gpu:h100:1 c=2", None, None),
        ("node=gres/gpu:1 c=9", CPUS, CPUS),
        ("node=gres/gpu:1 c=3", None, CPUS),
        ("node=gres/gpu:a40:1 c=8", None, None),
    ] {
        assert_eq!(rule(&asked(options), &listed), of_listed, "{options}");
        assert_eq!(rule(&asked(options), &others), of_others, "{options}");
    }
}

#[test]
fn a_share_counts_as_a_gpu_where_nobody_says_how_many_units_are_one() {
    let policy = policy("MaxCPUsPerGpu=8");
    assert_eq!(rule(&asked("node=gres/mps:40 c=8"), &policy), None);
    assert_eq!(rule(&asked("node=gres/mps:40 c=9"), &policy), CPUS);
}

#[test]
fn a_user_is_told_what_fits() {
    let policy = policy(CAPS);
    let text = |options: &str| message::refusal(&refused(judge(&asked(options), &policy, &TABLE)));
    assert_eq!(
        text("node=gres/gpu:a40:1 n=1 c=16 cpus=16"),
        "gpushare: this cluster allows at most 8 CPUs with 'gpu:a40:1'; the job requests 16\n  \
         CPUs per GPU: a40 8, h100 16\n  try: -n1 -c8 --gres=gpu:a40:1\n  GS127, see `gpushare explain GS127`"
    );
    assert_eq!(
        text("node=gres/gpu:a40:2 mem=0"),
        "gpushare: this cluster allows at most 128G of memory with 'gpu:a40:2'; the job would get all memory of its \
         nodes\n  memory per GPU: a40 64G, h100 128G\n  try: --gres=gpu:a40:2 --mem=128G\n  GS128, see \
         `gpushare explain GS128`"
    );
    for (options, expected) in [
        ("node=gres/gpu:a40:1 n=64", "-n8 -c1 --gres=gpu:a40:1"),
        ("task=cpu=16,gres/gpu:a40=1 n=2 c=16", "-n2 -c8 --gpus-per-task=a40:1"),
        ("node=gres/gpu:a40:1 mincpus=9", "--gres=gpu:a40:1 --mincpus=8"),
        ("node=gres/gpu:a40:1 mincpus=9 N=2 Nmax=2", "-N2 --gres=gpu:a40:1 --mincpus=8"),
        ("node=gres/gpu:a40:1 per-node=9 N=2 Nmax=2", "-N2 -c1 --ntasks-per-node=8 --gres=gpu:a40:1"),
        ("node=gres/gpu:a40:1 mem=65G N=2 Nmax=2", "-N2 --gres=gpu:a40:1 --mem=64G"),
        ("node=gres/gpu:a40:1 c=9 mincpus=9", "-c8 --gres=gpu:a40:1"),
        ("node=gres/gpu:a40:1 n=3 c=9 mincpus=9", "-n3 -c2 --gres=gpu:a40:1"),
        ("node=gres/gpu:a40:1 n=10 per-socket=5", "-n8 -c1 --gres=gpu:a40:1"),
        ("job=gres/gpu:a40:2 per-gpu=9 n=18", "-n16 -c1 --gpus=a40:2 --ntasks-per-gpu=8"),
        ("node=gres/gpu:a40:1 per-node=9", "-c1 --ntasks-per-node=8 --gres=gpu:a40:1"),
        (
            "node=gres/gpu:a40:1,gres/gpu:h100:1 cpus-per-gpu=gres/gpu:64",
            "--gres=gpu:a40:1,gpu:h100:1 --cpus-per-gpu=8",
        ),
        ("node=gres/gpu:a40:2 c=2 binding=1", "--gres=gpu:a40:2 --cpus-per-gpu=8"),
        ("node=gres/gpu:a40:2 c=2 task=cpu=2 binding=1", "--gres=gpu:a40:2 --cpus-per-gpu=8"),
        ("node=gres/gpu:a40:1 c=16 mem-per-cpu=8G", "-c8 --gres=gpu:a40:1"),
        ("node=gres/gpu:a40:1 c=8 mem-per-cpu=16G", "-c8 --gres=gpu:a40:1 --mem-per-cpu=8G"),
        ("node=gres/gpu:a40:2 mem-per-gpu=gres/gpu:70000", "--gres=gpu:a40:2 --mem-per-gpu=65536M"),
        ("job=gres/gpu:a40:2 mem=128G", "--gpus=a40:2 --mem=64G"),
        ("node=gres/mps:40 c=8 mem=64G", "-c4 --gres=mps:40 --mem=32G"),
        ("p=small node=gres/gpu:a40:1 c=8", "--partition=small -c2 --gres=gpu:a40:1"),
        ("n=4 per-gpu=2", "-n4 --gpus=2 --ntasks-per-gpu=2"),
        // What fits stays as the user has it.
        (
            "node=gres/gpu:a40:1,gres/gpu:h100:1 cpus-per-gpu=gres/gpu:12 mincpus=25",
            "--gres=gpu:a40:1,gpu:h100:1 --cpus-per-gpu=12 --mincpus=24",
        ),
        ("node=gres/gpu:a40:1 n=8 mincpus=9", "-n8 --gres=gpu:a40:1 --mincpus=8"),
        ("node=gres/gpu:a40:1 n=8 per-gpu=1 c=2", "-n8 -c1 --gres=gpu:a40:1 --ntasks-per-gpu=1"),
        ("node=gres/gpu:a40:1 n=3 c=9 mincpus=8", "-n3 -c2 --gres=gpu:a40:1"),
        ("node=gres/gpu:a40:1 per-socket=4 sockets=2 c=2", "-c1 --sockets-per-node=2 --gres=gpu:a40:1"),
        (
            "node=gres/gpu:a40:1,gres/mps:40 mem-per-gpu=gres/gpu:100000",
            "--gres=gpu:a40:1,mps:40 --mem-per-gpu=65536M",
        ),
    ] {
        let refusal = refused(judge(&asked(options), &policy, &TABLE));
        assert_eq!(tried(&refusal).as_deref(), Some(expected), "{options}");
    }
}

#[test]
fn an_update_keeps_the_tasks_of_each_node_that_fit() {
    let existing = asked("node=gres/gpu:a40:1 per-node=8 N=1");
    let change = Request { qos: None, ..asked("n=9") };
    let policy = policy(CAPS);
    let found = tried(&refused(changed(change, &existing, &policy)));
    assert_eq!(found.as_deref(), Some("scontrol update job=12_3 NumTasks=8 CPUsPerTask=1"));
}

#[test]
fn nothing_is_suggested_that_does_not_fit() {
    let policy = policy("MaxCPUsPerGpu=8\nMaxMemPerGpu=64G\nPlacement=own\nUnitsPerGpu=80");
    for options in [
        // Ten nodes have ten CPUs, and the share allows one.
        "node=gres/mps:1 N=10 Nmax=10 mincpus=2",
        "node=gres/mps:1 N=10 Nmax=10 per-node=2",
        // No option says how many tasks a socket has.
        "node=gres/gpu:a40:1 per-socket=9",
        "node=gres/mps:1 N=1000 Nmax=1000 mem=1G",
    ] {
        let refusal = refused(judge(&asked(options), &policy, &TABLE));
        assert_eq!(tried(&refusal), None, "{options}");
    }
    // --mem-per-cpu=0 would be all memory.
    let policy = self::policy("MaxMemPerGpu=64G\nPlacement=own\nUnitsPerGpu=80");
    let refusal = refused(judge(&asked("node=gres/mps:1 c=1000 mem-per-cpu=1G"), &policy, &TABLE));
    assert_eq!((refusal.rule, tried(&refusal)), (Rule::TooMuchMemory, None));
}

/// slurm.conf without a default for a job that requests no memory.
const NO_DEFAULT: Table = Table { memory: DefaultMemory { of_node: None, of_gpu: None }, ..TABLE };

#[test]
fn who_names_no_memory_would_get_all_without_a_default() {
    let policy = policy("MaxMemPerGpu=64G\nPlacement=own\nUnitsPerGpu=80");
    for (options, expected) in [
        ("node=gres/gpu:a40:1", "--gres=gpu:a40:1 --mem-per-gpu=65536M"),
        ("node=gres/mps:40", "--gres=mps:40 --mem=32G"),
        ("node=gres/mps:40 N=2 Nmax=2", "-N2 --gres=mps:40 --mem=32G"),
    ] {
        assert_eq!(rule(&asked(options), &policy), None, "{options} with a default");
        let found = message::refusal(&refused(judge(&asked(options), &policy, &NO_DEFAULT)));
        assert!(
            found.contains("GS128") && found.contains(&format!("try: {expected}\n")),
            "{options}: {found}"
        );
    }
    accepted(judge(&asked("node=gres/gpu:a40:1 mem=10G"), &policy, &NO_DEFAULT));
}

#[test]
fn a_default_is_that_of_the_partition_or_else_of_slurm_conf() {
    let policy = policy("MaxMemPerGpu=64G\nPlacement=own\nUnitsPerGpu=80");
    let for_gpus = Table { memory: DefaultMemory { of_gpu: Some(true), ..NO_DEFAULT.memory }, ..TABLE };
    for (options, without, with) in [
        ("node=gres/mps:40 p=given", None, None),
        ("node=gres/gpu:a40:1 p=for_gpus", None, None),
        ("node=gres/mps:40 p=for_gpus", MEMORY, MEMORY),
        ("node=gres/gpu:a40:1 p=for_none", MEMORY, MEMORY),
        ("node=gres/gpu:a40:1 p=other", MEMORY, None),
        ("node=gres/gpu:a40:1", MEMORY, None),
        ("node=gres/mps:40", MEMORY, MEMORY),
        ("node=gres/gpu:a40:1 p=unlimited", MEMORY, None),
        ("node=gres/mps:40 p=unlimited", MEMORY, MEMORY),
        // The job may get either of them.
        ("node=gres/gpu:a40:1 p=given,for_gpus", None, None),
        ("node=gres/gpu:a40:1 p=given,other", MEMORY, None),
        ("node=gres/gpu:a40:1 reservation=r", MEMORY, None),
    ] {
        for (cluster, expected) in [(&NO_DEFAULT, without), (&for_gpus, with)] {
            let found = broken(judge(&asked(options), &policy, cluster));
            assert_eq!(found, expected, "{options} {:?}", cluster.memory);
        }
    }
    assert_eq!(rule(&asked("node=gres/mps:40"), &policy), None);
    assert_eq!(rule(&asked("node=gres/mps:40 p=unlimited"), &policy), MEMORY, "for all its slurm.conf has");
}

#[test]
fn a_partition_is_asked_once_however_often_it_and_qoses_are_named() {
    let policy = policy("MaxMemPerGpu=64G\nQOS=lean MaxMemPerGpu=32G");
    let names = ["given", "other"].repeat(80).join(",");
    let request = format!("node=gres/gpu:a40:1 p={names} qos={names}");
    ASKED.set(0);
    assert_eq!(rule(&asked(&request), &policy), None);
    assert_eq!(ASKED.get(), 2);
}

/// The verdict on an update of a job.
fn updated(existing: &str, change: &str, policy: &Policy) -> Option<Rule> {
    let existing = Request { min_nodes: Some(1), ..asked(existing) };
    let request = Request { qos: None, ..asked(change) };
    let update =
        Update { job: b"7", array: false, request: request.into(), anew: true, others: &["TimeLimit"] };
    broken(judge_update(&update, &existing, policy, &TABLE))
}

#[test]
fn a_job_is_right_after_each_step_of_an_update() {
    let policy = policy(CAPS);
    for (existing, change, expected) in [
        ("node=gres/gpu:a40:1 c=8 cpus=8", "c=8", None),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "c=9", CPUS),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "n=2", CPUS),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "cpus=9", CPUS),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "mem=65G", MEMORY),
        ("node=gres/gpu:a40:2 c=16 cpus=16", "node=gres/gpu:a40:1", CPUS),
        // The GPUs are applied last, and may be refused.
        ("node=gres/gpu:a40:1 c=8 cpus=8", "node=gres/gpu:a40:2", None),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "node=gres/gpu:a40:2 c=16", CPUS),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "n=2 node=gres/gpu:a40:2", CPUS),
        ("node=gres/gpu:a40:2 c=8 cpus=8", "node=gres/gpu:a40:2 c=16", None),
        // The partition is applied first.
        ("node=gres/gpu:a40:1 c=8 cpus=8 p=big", "p=small", CPUS),
        ("node=gres/gpu:a40:1 c=8 cpus=8 p=big", "p=small c=2 cpus=2", CPUS),
        ("node=gres/gpu:a40:1 c=2 cpus=2 p=big", "p=small", None),
        // A job that is older than the rule can be fixed.
        ("node=gres/gpu:a40:1 c=9 cpus=9", "c=8 cpus=8", None),
        ("node=gres/gpu:a40:1 c=9 cpus=9", "c=8", CPUS),
        ("node=gres/gpu:a40:1 c=1 cpus=8 per-gpu=8", "c=2 cpus=8 per-gpu=1", CPUS),
        ("node=gres/gpu:a40:1 c=1 cpus=8 per-gpu=8", "c=1 cpus=8 per-gpu=1", None),
        // The nodes are applied before them.
        ("job=gres/gpu:a40:2 mincpus=16 N=1 Nmax=1", "Nmax=2 job=gres/gpu:a40:4", CPUS),
        // GPUs that no string shows any more
        ("node=gres/gpu:a40:1 c=8 cpus=8", "node=", Some(Rule::OldRequestStays)),
        ("node=gres/gpu:a40:1 c=8 cpus=8", "node=gres/gpu:0", Some(Rule::OldRequestStays)),
        ("c=64 cpus=64", "c=65", None),
        ("c=64 cpus=64", "node=gres/gpu:a40:1", CPUS),
    ] {
        assert_eq!(updated(existing, change, &policy), expected, "{existing}, then {change}");
    }
}

#[test]
fn a_partition_for_gpus_wants_one_named() {
    let policy = policy("GpuPartitions=gpu,a100*\nShareGRES=gpushare\nMode=enforce");
    let missing = Some(Rule::GpuMissing);
    for (options, expected) in [
        ("p=gpu", missing),
        ("p=a100_long", missing),
        ("p=main,gpu", missing),
        ("p=main", None),
        ("", None),
        ("p=gpu node=gres/gpu:1", None),
        ("p=gpu job=gres/gpu:a40:1", None),
        ("p=gpu task=gres/gpu:1 n=1", None),
        ("p=gpu node=gres/mps:1", None),
        ("p=gpu node=gres/gpushare:1", None),
        ("p=gpu node=gres/gpu:0", missing),
        ("p=gpu node=gres/nic:1", missing),
        ("p=gpu node=gresgpu:1", missing),
        ("p=gpu exclusive=1", missing),
        ("p=gpu n=2 per-gpu=1", missing),
        ("p=gpu cpus-per-gpu=gres/gpu:4", missing),
        ("reservation=r", missing),
        ("reservation=r p=main", None),
    ] {
        assert_eq!(rule(&asked(options), &policy), expected, "{options}");
    }
    assert_eq!(updated("p=main", "p=gpu", &policy), missing);
    assert_eq!(updated("p=gpu node=gres/gpu:1", "node=", &policy), missing);
    // Slurm could take the partition and refuse the GPU.
    let stays = Some(Rule::OldRequestStays);
    assert_eq!(updated("p=main", "p=gpu node=gres/gpu:1", &policy), stays);
    assert_eq!(updated("p=main node=gres/gpu:1", "p=gpu node=gres/gpu:2", &policy), None);
    assert_eq!(updated("p=main reservation=r", "c=1", &policy), None);
    for (options, expected) in [
        ("p=gpu c=4", "--partition=gpu -c4 --gres=gpu:1"),
        ("p=gpu node=gres/nic:1", "--partition=gpu --gres=gpu:1,nic:1"),
        ("p=gpu n=4 per-gpu=2", "--partition=gpu -n4 --gpus=2 --ntasks-per-gpu=2"),
        ("p=gpu qos=qos_lafferty", "--partition=gpu --gres=gpu:a40:1"),
        ("reservation=r", "--partition=NAME"),
    ] {
        let refusal = refused(judge(&asked(options), &policy, &TABLE));
        assert_eq!(tried(&refusal).as_deref(), Some(expected), "{options}");
    }
}
