//! A step is closed from its start, and its own fence takes over without a gap.

use super::super::early::close;
use super::*;

/// Slurm's programs as they are when a later step of the job starts, then the early fence, then what Slurm writes for
/// this step.
#[test]
fn a_step_is_closed_from_its_start_and_then_has_its_own_fence() {
    for kind in [Kind::Batch, Kind::Srun, Kind::Unruled] {
        for (widens, early_gpus, gpus) in [
            (false, vec![0], vec![0]),
            (true, vec![2], vec![2]),
            (false, vec![], vec![]),
            (false, vec![], vec![0]),
            (true, vec![], vec![2]),
        ] {
            let root = tempfile::tempdir().unwrap();
            let kernel = cluster(&root, if kind == Kind::Unruled { kind } else { Kind::Batch });
            let step = root.path().join(STEP);
            let early = close(&kernel, &step, &fence(widens, &early_gpus)).unwrap();
            let first = seen(&kernel, PLACES[0]);
            // Slurm closes all GPUs but 0.
            let expected: Vec<u32> =
                early_gpus.iter().copied().filter(|gpu| kind == Kind::Unruled || *gpu == 0).collect();
            assert_eq!(first, (expected, true), "{kind:?}");
            if kind != Kind::Unruled {
                kernel.put(JOB, &program(&lines(0, true)), Flags::Override);
            }
            if kind == Kind::Srun {
                kernel.put(USER, &program(&lines(0, false)), Flags::Override);
                TASKS.iter().for_each(|task| kernel.put(task, &program(&lines(0, false)), Flags::None));
            }
            early.replace(&kernel, &step, &fence(widens, &gpus)).unwrap();
            let nic = kind != Kind::Srun;
            assert_eq!(seen(&kernel, TASKS[1]), (gpus.clone(), nic), "{kind:?} {widens}");
            assert_eq!(seen(&kernel, PLACES[0]), (gpus.clone(), true), "{kind:?} {widens}");
            // Our early program stays beside a widening one, unless it closes what that one opens.
            let both = if widens { early_gpus == gpus } else { kind != Kind::Unruled };
            let programs = if both { 2 } else { 1 };
            assert_eq!(kernel.state(STEP), Some((Flags::Multi, programs)), "{kind:?} {widens}");
        }
    }
}

#[test]
fn an_early_fence_that_can_not_be_replaced_stays() {
    for widens in [false, true] {
        let begun = |failing: Option<usize>| {
            let root = tempfile::tempdir().unwrap();
            let kernel = cluster(&root, Kind::Batch);
            let step = root.path().join(STEP);
            let early = close(&kernel, &step, &fence(widens, &[2])).unwrap();
            kernel.put(JOB, &program(&lines(0, true)), Flags::Override);
            kernel.calls.take();
            kernel.failing.set(failing.map(|at| (at, libc::EPERM)));
            let result = early.replace(&kernel, &step, &fence(widens, &[2]));
            (kernel.calls.take(), result, seen(&kernel, PLACES[0]).0, root)
        };
        let (calls, result, ..) = begun(None);
        result.unwrap();
        let elsewhere = |call: &String| call.ends_with("/step_extern");
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| !elsewhere(call)) {
            let (_, result, gpus, _root) = begun(Some(at));
            assert!(result.is_err(), "{call}");
            assert!(gpus.is_empty() || (widens && gpus == [2]), "{call}: {gpus:?}");
        }
    }
}
