//! How corrections are written: as options, and as one `scontrol update`.

use super::*;

#[test]
fn an_update_of_several_tasks_names_each() {
    let existing = asked("qos=qos_lafferty node=gres/gpu:a40:1");
    let told = |job: &str, array| {
        let request = asked("node=gres/gpu:2").into();
        let update = Update { job: job.as_bytes(), array, request, anew: true, others: &[] };
        let refusal = refused(judge_update(&update, &existing, &Policy::default(), &TABLE));
        let text = message::refusal(&refusal);
        (tried(&refusal), text.contains("; Slurm applies a QOS and GPUs only to the first of several tasks"))
    };
    let typed = |job: &str| Some(format!("scontrol update job={job} TresPerNode=gres/gpu:a40:2"));
    for (job, array, expected, several) in [
        ("12", false, typed("12"), false),
        ("12_3", false, typed("12_3"), false),
        ("12_3-5", false, typed("12_3,12_4,12_5"), true),
        ("12_3,5", false, typed("12_3,12_5"), true),
        ("12_[1,7-8]", false, typed("12_1,12_7,12_8"), true),
        ("12,13", false, typed("12,13"), true),
        ("12", true, typed("$(squeue -hrt PD -o %A -j 12 | sort -nru | paste -sd,)"), true),
        ("12_3-x", false, None, false),
        // 75 of these fit into the longest command, 120 into none.
        (
            "12_100-110",
            false,
            typed(&(100..=110).map(|task| format!("12_{task}")).collect::<Vec<_>>().join(",")),
            true,
        ),
        ("12_100-219", false, None, false),
        ("12_0-4294967295", false, None, false),
    ] {
        assert_eq!(told(job, array), (expected, several), "{job}");
    }
}

#[test]
fn numbers_that_sbatch_computes_are_left_to_it() {
    for (options, expected) in [
        // Nodes: the GPUs of the job divided by those of each node.
        ("job=gres/gpu:4 node=gres/gpu:2 N=2 Nmax=2", "--gres=gpu:a40:2 --gpus=a40:4"),
        ("job=gres/gpu:4 node=gres/gpu:2 N=1 Nmax=2", "-N1-2 --gres=gpu:a40:2 --gpus=a40:4"),
        ("job=gres/gpu:4 node=gres/gpu:2 N=1 Nmax=1", "-N1 --gres=gpu:a40:2 --gpus=a40:4"),
        ("job=gres/gpu:4 node=gres/gpu:1 N=4 Nmax=4", "--gres=gpu:a40:1 --gpus=a40:4"),
        ("node=gres/gpu:1 N=2", "--gres=gpu:a40:1"),
        ("node=gres/gpu:1 Nmax=2", "-N1-2 --gres=gpu:a40:1"),
        ("node=gres/gpu:1 N=1 Nmax=0", "--gres=gpu:a40:1"),
        // Numbers of 0 aren't set.
        ("node=gres/gpu:1 n=0", "--gres=gpu:a40:1"),
        ("node=gres/gpu:1 per-node=0 sockets=0 per-gpu=0", "--gres=gpu:a40:1"),
        ("node=gres/gpu:1 n=2 N=3 Nmax=3", "-N3 -n2 --gres=gpu:a40:1"),
        // Tasks: the GPUs of the job divided by those of each task. A user doesn't request fewer of them than nodes.
        ("job=gres/gpu:4 task=gres/gpu:2 n=2 N=3 Nmax=3", "-N3 --gpus=a40:4 --gpus-per-task=a40:2"),
        ("job=gres/gpu:4 task=gres/gpu:2 n=2 N=2 Nmax=2", "-N2 -n2 --gpus=a40:4 --gpus-per-task=a40:2"),
        // Slurm takes only one of both.
        ("node=gres/gpu:1 c=4 cpus-per-gpu=gres/gpu:4", "--gres=gpu:a40:1 --cpus-per-gpu=4"),
        ("node=gres/gpu:1 c=0", "--gres=gpu:a40:1"),
        ("task=cpu=2,gres/gpu:1 n=1 c=4", "-n1 -c2 --gpus-per-task=a40:1"),
        ("task=cpu=2 node=gres/gpu:1 n=1", "-n1 -c2 --gres=gpu:a40:1"),
        ("task=cpu=2,cpu=3,gres/gpu:1 n=1", "-n1 --tres-per-task=cpu=2,cpu=3,gres/gpu:a40:1"),
    ] {
        let request = Request { qos: text("qos_lafferty"), ..asked(options) };
        let found = advice(&request, &Policy::default());
        assert_eq!(found, Some(format!("--qos=qos_lafferty {expected}")), "{options}");
    }
}

#[test]
fn an_update_says_its_numbers_as_scontrol_names_them() {
    for (change, expected) in [
        ("node=gres/gpu:2 N=1", "NumNodes=1 TresPerNode=gres/gpu:a40:2"),
        ("node=gres/gpu:2 N=1 Nmax=1", "NumNodes=1 TresPerNode=gres/gpu:a40:2"),
        ("node=gres/gpu:2 per-node=2 c=3", "TasksPerNode=2 CPUsPerTask=3 TresPerNode=gres/gpu:a40:2"),
        ("node=gres/gpu:2 sockets=2 cpus=8", "ReqSockets=2 NumCPUs=8 TresPerNode=gres/gpu:a40:2"),
        ("node=gres/gpu:2 mincpus=4", "MinCPUsNode=4 TresPerNode=gres/gpu:a40:2"),
    ] {
        let found = updated(asked(change), &asked("qos=qos_lafferty"), &Policy::default());
        assert_eq!(found, Some(format!("scontrol update job=12_3 {expected}")), "{change}");
    }
}

#[test]
fn a_type_with_a_limit_of_0_is_no_offer() {
    let refusal = refused(judge(&node("qos_of_nothing", "gres/gpu:1"), &Policy::default(), &TABLE));
    assert_eq!((&refusal.beyond, tried(&refusal)), (&None, None));
}

#[test]
fn the_only_type_left_is_named() {
    let policy = Policy { foreign_types: ForeignTypes::Allow, ..Policy::default() };
    let found = advice(&node("qos_of_nothing", "gres/gpu:1"), &policy);
    assert_eq!(found.as_deref(), Some("--qos=qos_of_nothing --gres=gpu:a40:1"));
}

#[test]
fn shares_get_a_type_where_there_are_no_gpus() {
    for gres in ["gres/shard:2", "gres/shard:2,gres/gpu:0"] {
        let found = advice(&node("qos_shards_instead", gres), &Policy::default());
        assert_eq!(found.as_deref(), Some("--qos=qos_shards_instead --gres=shard:a40:2"), "{gres}");
    }
}

#[test]
fn gpus_for_tasks_are_added_beside_another_gres_with_a_type() {
    let request = Request { qos: text("qos_lafferty"), ..asked("n=4 per-gpu=2 node=gres/nic:mlx:1") };
    let found = advice(&request, &Policy::default());
    let expected = "--qos=qos_lafferty -n4 --gres=nic:mlx:1 --gpus=a40:2 --ntasks-per-gpu=2";
    assert_eq!(found.as_deref(), Some(expected));
}

/// The refusal lists the types of GPUs, of which the job has few enough.
#[test]
fn too_many_shares_beside_a_gpu_are_said_to_be_shares() {
    let refusal = refused(judge(&node("qos_shards", "gres/gpu:1,gres/shard:9"), &Policy::default(), &TABLE));
    let said = message::refusal(&refusal);
    assert!(said.contains("\n  this QOS has: a40 (4); the job requests 9 of shard in total\n"), "{said}");
    assert_eq!(tried(&refusal).as_deref(), Some("--qos=qos_shards --gres=gpu:a40:1,shard:a40:8"));
    let both = refused(judge(&node("qos_shards", "gres/gpu:7,gres/shard:9"), &Policy::default(), &TABLE));
    let said = message::refusal(&both);
    assert!(said.contains("\n  this QOS has: a40 (4); the job requests 7 in total\n"), "{said}");
}

#[test]
fn what_is_not_at_fault_is_not_repeated() {
    for (options, expected) in [
        ("account=a p=p reservation=r node=gres/gpu:1", "--gres=gpu:a40:1"),
        ("node=gres/gpu:1 mincpus=4 mem=4G", "--gres=gpu:a40:1"),
    ] {
        let request = Request { qos: text("qos_lafferty"), ..asked(options) };
        let found = advice(&request, &Policy::default());
        assert_eq!(found, Some(format!("--qos=qos_lafferty {expected}")), "{options}");
    }
}

/// Slurm changes the tasks first, and counts the GPUs of the old ones if it refuses the rest.
#[test]
fn gpus_per_task_are_changed_by_a_command_without_anything_else() {
    let existing = asked("qos=qos_lafferty task=gres/gpu:a40:1 n=2");
    let change = asked("task=gres/gpu:1");
    let typed = Some("scontrol update job=7 TresPerTask=gres/gpu:a40:1");
    for (change, others, expected) in [
        (Request { nodes: text("n1"), ..change }, &["ReqNodeList"], typed),
        (Request { excluded_nodes: text("n1"), ..change }, &["ExcNodeList"], typed),
        // Without the number of tasks it wouldn't be what the user wants.
        (Request { num_tasks: Some(4), ..change }, &["NumTasks"], None),
    ] {
        let update = Update { job: b"7", array: false, request: change.into(), anew: true, others };
        let refusal = refused(judge_update(&update, &existing, &Policy::default(), &TABLE));
        assert_eq!(tried(&refusal).as_deref(), expected, "{others:?}");
    }
}

#[test]
fn what_a_task_gets_is_written_as_the_release_reads_it() {
    let per_task = |tres, spelling| Request {
        qos: text("qos_two"),
        tres_per_task: text(tres),
        num_tasks: Some(1),
        ..Request::new(spelling)
    };
    for (tres, spelling, expected) in [
        (
            "gres/gpu:h100:2,gres/gpu:1",
            Spelling::Slash,
            Some("-n1 --tres-per-task=gres/gpu:h100:2,gres/gpu:a40:1"),
        ),
        ("gres:gpu:h100:2,gres:gpu:1", Spelling::Colon, Some("-n1 --gpus-per-task=h100:2,a40:1")),
        ("gres:gpu:1,gres:nic:1", Spelling::Colon, None),
    ] {
        let expected = expected.map(|expected| format!("--qos=qos_two {expected}"));
        assert_eq!(advice(&per_task(tres, spelling), &Policy::default()), expected, "{tres}");
    }
}

#[test]
fn no_command_has_more_nodes_at_least_than_at_most() {
    let request = Request { qos: text("qos_lafferty"), ..asked("node=gres/gpu:1 N=3 Nmax=2") };
    assert_eq!(advice(&request, &Policy::default()), None);
}
