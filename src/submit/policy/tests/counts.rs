//! What Slurm can pick beyond what it counts: tasks that don't fill their nodes, limits on all GPUs, updates by halves.

use super::asked::{judged, submitted};
use super::*;

/// Slurm counts tasks times GPUs, and may pick GPUs for as many tasks as the job allows on each node.
#[test]
fn gpus_per_task_fill_their_nodes() {
    let uneven = Err(Rule::TasksUneven);
    for (options, expected) in [
        ("n=3 per-node=2", uneven),
        ("n=5 per-node=4 N=2 Nmax=2", uneven),
        ("n=1 per-node=4", uneven),
        ("n=4 per-node=2 N=3", uneven),
        ("n=4 per-node=2", Ok(Some(2))),
        ("n=4 per-node=2 N=2 Nmax=2", Ok(None)),
        ("n=4 per-node=2 N=1 Nmax=4", Ok(Some(2))),
        ("n=4 per-node=1", Ok(Some(4))),
        ("per-node=4 N=2 Nmax=8", Ok(Some(2))),
        ("n=0 per-node=4 N=2", Ok(Some(2))),
        ("n=5", Ok(None)),
        ("n=5 per-node=0", Ok(None)),
        ("per-gpu=1 per-node=2", uneven),
    ] {
        for grounds in ["qos=qos_two", "qos=normal account=acct", "qos=qos_sum", "qos=normal account=total"] {
            let options = format!("{grounds} task=gres/gpu:a40:1 {options}");
            assert_eq!(
                submitted(&asked(&options)).map(|accepted| accepted.most_nodes),
                expected,
                "{options}"
            );
        }
        let free = format!("qos=normal task=gres/gpu:a40:1 {options}");
        assert_eq!(submitted(&asked(&free)).map(|accepted| accepted.most_nodes), Ok(None), "{free}");
    }
    for (options, expected) in [
        ("n=6 per-node=4", Some("--qos=qos_two -n6 --ntasks-per-node=3 --gpus-per-task=a40:1")),
        ("n=5 per-node=4 N=2 Nmax=2", None),
        ("n=6 per-node=4 Nmax=1", None),
        ("n=6 per-node=4 Nmax=2", Some("--qos=qos_two -N1-2 -n6 --ntasks-per-node=3 --gpus-per-task=a40:1")),
        (
            "n=6 per-node=4 N=3 Nmax=3",
            Some("--qos=qos_two -N3 -n6 --ntasks-per-node=2 --gpus-per-task=a40:1"),
        ),
    ] {
        let options = format!("qos=qos_two task=gres/gpu:a40:1 {options}");
        let said = asked::tried(&refused(judge(&asked(&options), &Policy::default(), &TABLE)));
        assert_eq!(said.as_deref(), expected, "{options}");
    }
    // What is also requested per node is picked by that, and bounds the nodes.
    let per_node = asked("qos=qos_two node=gres/gpu:a40:2 task=gres/gpu:a40:1 n=3 per-node=2");
    assert_eq!(submitted(&per_node).map(|accepted| accepted.most_nodes), Ok(Some(1)));
    let of_job = asked("qos=qos_two job=gres/gpu:a40:2 task=gres/gpu:a40:1 per-node=3");
    assert_eq!(submitted(&of_job).err(), Some(Rule::TasksUneven));
    // Without a number of tasks on a node, a GRES per node and per task sets it.
    for (options, expected) in [
        ("node=gres/gpu:a40:4 task=gres/gpu:a40:2,gres/gpu:h100:1 n=3", Some(Rule::TasksUneven)),
        ("node=gres/gpu:a40:4 task=gres/gpu:a40:2,gres/gpu:h100:1 n=3 per-node=0", Some(Rule::TasksUneven)),
        ("node=gres/gpu:a40:4 task=gres/gpu:a40:2,gres/gpu:h100:1 n=4", None),
        ("node=gres/gpu:a40:1 task=gres/gpu:a40:2,gres/gpu:h100:1 n=3", None),
        ("job=gres/gpu:a40:4 task=gres/gpu:a40:2 per-node=2", None),
        ("job=gres/gpu:a40:4 task=gres/gpu:a40:2 per-node=4", Some(Rule::TasksUneven)),
    ] {
        let options = format!("qos=qos_two {options}");
        assert_eq!(submitted(&asked(&options)).err(), expected, "{options}");
    }
    let old = Request {
        spelling: Spelling::Colon,
        tres_per_task: Some(b"gres:gpu:a40:1"),
        ..asked("n=3 per-node=2")
    };
    assert_eq!(submitted(&Request { qos: Some(b"qos_two"), ..old }).err(), None, "it counts what it picked");
    let typed = asked("qos=qos_two task=gres/gpu:a40:1 n=4");
    assert_eq!(judged(asked("per-node=3"), &typed, true).err(), Some(Rule::NotAlone));
    let filled = asked("qos=qos_two task=gres/gpu:a40:1 n=4 per-node=2 Nmax=2");
    assert_eq!(judged(asked("N=4"), &filled, true).err(), Some(Rule::TasksUneven));
    assert_eq!(judged(asked("n=3"), &filled, true).err(), Some(Rule::TasksUneven));
}

/// A limit on all GPUs needs no types, but Slurm counts too few GPUs in the same cases.
#[test]
fn a_limit_on_all_gpus_is_no_way_to_more_of_them() {
    for (options, expected) in [
        ("node=gres/gpu:2", Ok(None)),
        ("node=gres/gpu:h100:2", Ok(None)),
        ("job=gres/gpu:1 n=70", Ok(Some(1))),
        ("job=gres/gpu:a40:1 n=70", Ok(Some(1))),
        ("job=gres/gpu:2 node=gres/gpu:a40:1", Err(Rule::CountedTwoWays)),
        ("n=8 per-gpu=2", Err(Rule::NtasksPerGpuAlone)),
        ("job=gresgpu", Err(Rule::Unreadable)),
        ("cpus-per-gpu=gres/gpu:a40:1 node=gres/gpu:2", Ok(None)),
        ("", Ok(None)),
    ] {
        let shares = format!("qos=normal account=shares {options}");
        assert_eq!(submitted(&asked(&shares)).map(|accepted| accepted.most_nodes), Ok(None), "{shares}");
        for grounds in ["qos=qos_sum", "qos=normal account=total", "qos=normal,qos_sum"] {
            let options = format!("{grounds} {options}");
            assert_eq!(
                submitted(&asked(&options)).map(|accepted| accepted.most_nodes),
                expected,
                "{options}"
            );
        }
    }
    let said = asked::tried(&refused(judge(&asked("qos=qos_sum n=8 per-gpu=2"), &Policy::default(), &TABLE)));
    assert_eq!(said.as_deref(), Some("--qos=qos_sum -n8 --gpus=4 --ntasks-per-gpu=2"));
    let old =
        Request { spelling: Spelling::Colon, tres_per_job: Some(b"gres:gpu:1"), ..asked("qos=qos_sum n=70") };
    assert_eq!(submitted(&old).map(|accepted| accepted.most_nodes), Ok(None), "it counts what it picked");
    let moves = ["qos=qos_sum", "account=total"];
    for (existing, expected) in [("node=gres/gpu:2", None), ("n=4", None)] {
        for change in moves {
            let existing = format!("qos=normal {existing}");
            assert_eq!(
                judged(asked(change), &asked(&existing), true).err(),
                expected,
                "{change} of {existing}"
            );
        }
    }
}

/// Slurm changes the tasks, then the rest, and counts the tasks' GPUs last.
#[test]
fn the_tasks_of_gpus_change_by_a_command_of_its_own() {
    let update = |change, existing, others: &'static str| {
        let others: Vec<_> = others.split(", ").filter(|name| !name.is_empty()).collect();
        let others = &others;
        let update = Update { job: b"7", array: false, request: asked(change).into(), anew: true, others };
        broken(judge_update(&update, &asked(existing), &Policy::default(), &TABLE))
    };
    let of_task = "qos=qos_two task=gres/gpu:a40:1 n=1";
    for (change, existing, others, expected) in [
        ("n=3", of_task, "NumTasks", None),
        ("n=3", of_task, "NumNodes, NumTasks", None),
        ("n=3", of_task, "Dependency, NumTasks", Some(Rule::NotAlone)),
        ("N=2 Nmax=2", of_task, "Features, NumNodes", Some(Rule::NotAlone)),
        ("node=gres/gpu:a40:1", of_task, "Nice", Some(Rule::NotAlone)),
        ("N=4 Nmax=4", of_task, "NumNodes", Some(Rule::TooManyNodes)),
        ("N=4 Nmax=4 n=4", of_task, "NumNodes, NumTasks", None),
        ("n=1", "qos=qos_two task=gres/gpu:a40:1 n=4 N=4", "NumTasks", Some(Rule::TooManyNodes)),
        ("N=1 Nmax=4", of_task, "NumNodes", None),
        ("N=4 Nmax=4", "qos=normal task=gres/gpu:a40:1 n=1", "NumNodes", None),
        ("N=4 Nmax=4", "qos=qos_two task=gres/gpu:a40:1", "NumNodes", None),
        ("N=4 Nmax=4", "qos=qos_two task=gres/gpu:a40:1 n=0", "NumNodes", None),
        (
            "N=4 Nmax=4",
            "qos=qos_two task=gres/gpu:a40:1 n=1 per-node=0",
            "NumNodes",
            Some(Rule::TooManyNodes),
        ),
        ("N=4 Nmax=4", "qos=qos_two node=gres/gpu:a40:1 n=1", "NumNodes", None),
        // As many nodes as the GPUs of its tasks need.
        (
            "N=2 Nmax=2",
            "qos=qos_two node=gres/gpu:a40:1 task=gres/gpu:a40:2 n=1 per-node=1",
            "NumNodes",
            None,
        ),
        // What changes neither tasks nor GPUs.
        ("p=main", of_task, "Nice", None),
        ("p=main", "qos=qos_two task=gres/gpu:a40:1 n=2 N=4", "Nice", None),
        ("job=gres/gpu:a40:4 N=4", "qos=qos_two job=gres/gpu:a40:1", "", None),
        ("job=gres/gpu:a40:4 N=4", "qos=qos_two job=gres/gpu:a40:1", "NumNodes", Some(Rule::TooManyNodes)),
        ("n=3", of_task, "something else", Some(Rule::NotAlone)),
        ("n=3", of_task, "NumTasks, something else", Some(Rule::NotAlone)),
        ("per-node=1", of_task, "TasksPerNode", Some(Rule::NotAlone)),
        (
            "per-node=1",
            "qos=qos_two task=gres/gpu:a40:1 n=4 N=2 per-node=2",
            "TasksPerNode",
            Some(Rule::NotAlone),
        ),
        ("per-node=1 task=gres/gpu:a40:1", "qos=qos_two n=1", "TasksPerNode", Some(Rule::NotAlone)),
        ("per-node=1", "qos=qos_two node=gres/gpu:a40:1 n=1", "TasksPerNode", None),
        ("n=3", "qos=qos_two node=gres/gpu:a40:1 n=1", "Dependency, NumTasks", None),
        ("n=3", "qos=normal task=gres/gpu:a40:1 n=1", "Dependency, NumTasks", None),
        ("n=3", "qos=qos_sum task=gres/gpu:1 n=1", "Dependency, NumTasks", Some(Rule::NotAlone)),
        (
            "n=3",
            "qos=normal account=acct task=gres/gpu:a40:1 n=1",
            "Dependency, NumTasks",
            Some(Rule::NotAlone),
        ),
    ] {
        assert_eq!(update(change, existing, others), expected, "{change} of {existing}, {others}");
    }
    // GS118 suggests no TasksPerNode, which would be refused.
    let change =
        Update { job: b"7", array: false, request: asked("n=9").into(), anew: true, others: &["NumTasks"] };
    let filled = asked("qos=qos_two task=gres/gpu:a40:1 n=6 per-node=6");
    let uneven = refused(judge_update(&change, &filled, &Policy::default(), &TABLE));
    assert_eq!((uneven.rule, asked::tried(&uneven)), (Rule::TasksUneven, None));
    // What Slurm makes of the GPUs, it changes before them.
    let four = "qos=qos_two job=gres/gpu:a40:4";
    for (change, existing, expected) in [
        (
            "job=gres/gpu:a40:4 node=gres/gpu:a40:1",
            "qos=qos_two job=gres/gpu:a40:1",
            Some(Rule::TooManyNodes),
        ),
        ("job=gres/gpu:a40:4 node=gres/gpu:a40:2", four, None),
        ("job=gres/gpu:a40:4", "qos=qos_two job=gres/gpu:a40:1", None),
    ] {
        assert_eq!(update(change, existing, ""), expected, "{change} of {existing}");
    }
}
