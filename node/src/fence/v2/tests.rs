//! The fence on cgroup v2 in every kind of step, with a fake kernel that follows the real one's rules: which calls
//! happen in which order, and what happens when each call fails.

use super::fake::Fake;
use super::kernel::Flags;
use super::{V2Error, put_up};
use crate::fence::Fence;
use crate::fence::filter::interpreter::Asked;
use crate::fence::filter::program::ALLOW_ALL;
use crate::fence::filter::slurm::{Line, blinded, character, program};
use crate::gpu::{Device, DeviceNumber};

mod early;
mod told;

const JOB: &str = "scope/job_7";
const STEP: &str = "scope/job_7/step_0";
const EXTERN: &str = "scope/job_7/step_extern";
const USER: &str = "scope/job_7/step_0/user";
const TASKS: [&str; 2] = ["scope/job_7/step_0/user/task_0", "scope/job_7/step_0/user/task_1"];
/// Where a process of the step may be; slurmstepd starts the processes in the first two beside the tasks.
const PLACES: [&str; 5] =
    ["scope/job_7/step_0/slurm", "scope/job_7/step_0/user/task_special", TASKS[0], TASKS[1], STEP];

fn lines(allocated: u32, nic: bool) -> Vec<Line> {
    let gpus = (0..4).map(|minor| character(195, minor, minor == allocated));
    gpus.chain([character(120, 0, nic)]).collect()
}

/// What Slurm has set up when a step starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Batch, extern or interactive: rules only at the job.
    Batch,
    /// The same, for a job that did not ask for the nic.
    BatchWithoutNic,
    /// srun: also rules at the step's user directory and its tasks, where the nic is closed.
    Srun,
    /// `ConstrainDevices=no`, or no GRES with devices.
    Unruled,
}

fn cluster(root: &tempfile::TempDir, kind: Kind) -> Fake {
    for place in PLACES {
        std::fs::create_dir_all(root.path().join(place)).unwrap();
    }
    let kernel = Fake::new(root.path());
    if kind != Kind::Unruled {
        kernel.put(JOB, &program(&lines(0, kind != Kind::BatchWithoutNic)), Flags::Override);
    }
    if kind == Kind::Srun {
        kernel.put(USER, &program(&lines(0, false)), Flags::Override);
        TASKS.iter().for_each(|task| kernel.put(task, &program(&lines(0, false)), Flags::None));
    }
    kernel
}

fn gpu(minor: u32) -> Device {
    let number = DeviceNumber { major: 195, minor };
    Device { path: format!("/dev/nvidia{minor}").into(), number }
}

fn fence(widens: bool, open: &[u32]) -> Fence {
    let closed = (0..4).filter(|minor| !open.contains(minor)).map(gpu).collect();
    Fence { open: open.iter().copied().map(gpu).collect(), closed, widens }
}

fn asked(major: u32, minor: u32) -> Asked {
    Asked { kind: 2, access: 6, major, minor }
}

/// Which GPUs a process there can open, and whether it can open the nic.
fn seen(kernel: &Fake, place: &str) -> (Vec<u32>, bool) {
    let gpus = (0..6).filter(|minor| kernel.allows(place, asked(195, *minor))).collect();
    (gpus, kernel.allows(place, asked(120, 0)))
}

fn raise(kernel: &Fake, fence: &Fence) -> Result<(), V2Error> {
    put_up(kernel, &kernel.root.join(STEP), fence)
}

#[test]
fn a_step_opens_what_its_fence_says_wherever_its_processes_are() {
    // Kind, widens, open; then the GPUs at every place of the step, and the nic beside the tasks and in them.
    type Row = (Kind, bool, &'static [u32], &'static [u32], bool, bool);
    let cases: &[Row] = &[
        (Kind::Batch, true, &[2], &[2], true, true),
        (Kind::Batch, true, &[0], &[0], true, true),
        (Kind::Batch, true, &[1, 3], &[1, 3], true, true),
        (Kind::Batch, false, &[0], &[0], true, true),
        (Kind::Batch, false, &[2], &[], true, true),
        (Kind::Batch, false, &[], &[], true, true),
        (Kind::BatchWithoutNic, true, &[2], &[2], false, false),
        (Kind::BatchWithoutNic, false, &[0], &[0], false, false),
        (Kind::Srun, true, &[2], &[2], true, false),
        (Kind::Srun, false, &[0], &[0], true, false),
        (Kind::Srun, false, &[2], &[], true, false),
        (Kind::Srun, false, &[], &[], true, false),
        (Kind::Unruled, true, &[2], &[2], true, true),
        (Kind::Unruled, false, &[2], &[2], true, true),
        (Kind::Unruled, false, &[1, 2], &[1, 2], true, true),
        (Kind::Unruled, false, &[], &[], true, true),
    ];
    for (kind, widens, open, gpus, nic_beside, nic_in_task) in cases {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, *kind);
        raise(&kernel, &fence(*widens, open)).unwrap();
        for place in PLACES {
            // task_special is also below `user`, whose rules apply to it in an srun step.
            let nic = if place.contains("/user/") { *nic_in_task } else { *nic_beside };
            assert_eq!(seen(&kernel, place), (gpus.to_vec(), nic), "{kind:?} {widens} {open:?} {place}");
        }
    }
}

#[test]
fn a_fence_stays_when_slurm_writes_the_jobs_rules_anew_and_when_a_container_attaches_its_own() {
    for widens in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, Kind::Batch);
        raise(&kernel, &fence(widens, &[0])).unwrap();
        kernel.put(JOB, &program(&lines(1, true)), Flags::Override);
        let nested = format!("{}/nested", TASKS[0]);
        kernel.put(&nested, &ALLOW_ALL, Flags::Multi);
        kernel.put(TASKS[1], &ALLOW_ALL, Flags::None);
        for place in [STEP, TASKS[0], TASKS[1], &nested] {
            assert_eq!(seen(&kernel, place), (vec![0], true), "{place}");
        }
    }
}

#[test]
fn slurms_program_is_attached_before_ours_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let kernel = cluster(&root, Kind::Srun);
    raise(&kernel, &fence(false, &[0])).unwrap();
    let attach = format!("attach {STEP} Multi");
    let (step, job) = (format!("attached {STEP}"), format!("attached {JOB}"));
    let expected = [&step, &job, "program", &format!("attached {EXTERN}"), "load", &attach, &attach];
    assert_eq!(*kernel.calls.borrow(), expected);
    assert_eq!(kernel.state(STEP), Some((Flags::Multi, 2)));
    assert_eq!(kernel.state(USER), Some((Flags::Override, 1)));
}

#[test]
fn what_the_extern_step_has_is_loaded_once() {
    let other = lines(0, false);
    for kind in [Kind::Batch, Kind::Srun, Kind::Unruled] {
        for widens in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let kernel = cluster(&root, kind);
            std::fs::create_dir(root.path().join(EXTERN)).unwrap();
            let loads = |step: &str, open: &[u32]| {
                kernel.calls.take();
                put_up(&kernel, &root.path().join(step), &fence(widens, open)).unwrap();
                let calls = kernel.calls.take();
                calls.iter().filter(|call| *call == "load").count()
            };
            assert_eq!(loads(EXTERN, &[2]), 1);
            // An srun step has rules other than the job's.
            let of_its_own = usize::from(widens && kind == Kind::Srun);
            assert_eq!(loads(STEP, &[2]), of_its_own, "{kind:?} {widens}");
            assert!(loads(STEP, &[2]) > 0, "for a second fence, a second program");
            let seen_then = PLACES.map(|place| seen(&kernel, place));
            let root_of_another = tempfile::tempdir().unwrap();
            let alone = cluster(&root_of_another, kind);
            raise(&alone, &fence(widens, &[2])).unwrap();
            assert_eq!(seen_then, PLACES.map(|place| seen(&alone, place)), "{kind:?} {widens}");
            let another = "scope/job_7/step_1";
            std::fs::create_dir(root.path().join(another)).unwrap();
            assert_eq!(loads(another, &[1, 2]), 1, "not for another fence");
            if kind != Kind::Unruled && widens {
                kernel.put(JOB, &program(&other), Flags::Override);
                let another = "scope/job_7/step_2";
                std::fs::create_dir(root.path().join(another)).unwrap();
                assert_eq!(loads(another, &[2]), 1, "nor in front of other rules of Slurm's");
                assert_eq!(seen(&kernel, another), (vec![2], false));
            }
        }
    }
}

/// The extern step may end at any moment.
#[test]
fn an_extern_step_that_can_not_be_asked_changes_nothing() {
    for widens in [false, true] {
        for errno in [libc::ENOENT, libc::EPERM] {
            // The calls: its programs, the last program, and that one's instructions.
            for at in 0..3 {
                let root = tempfile::tempdir().unwrap();
                let kernel = cluster(&root, Kind::Batch);
                std::fs::create_dir(root.path().join(EXTERN)).unwrap();
                put_up(&kernel, &root.path().join(EXTERN), &fence(widens, &[0])).unwrap();
                kernel.calls.take();
                put_up(&kernel, &root.path().join(STEP), &fence(widens, &[0])).unwrap();
                let first = kernel.calls.take();
                let first = first.iter().position(|call| *call == format!("attached {EXTERN}")).unwrap();
                std::fs::create_dir(root.path().join("scope/job_7/step_1")).unwrap();
                kernel.failing.set(Some((first + at, errno)));
                put_up(&kernel, &root.path().join("scope/job_7/step_1"), &fence(widens, &[0])).unwrap();
                let calls = kernel.calls.take();
                assert!(calls.contains(&"load".to_owned()), "{at}: {calls:?}");
                assert_eq!(seen(&kernel, "scope/job_7/step_1"), (vec![0], true), "{widens} {at}");
            }
        }
    }
}

#[test]
fn what_the_extern_step_does_not_show_is_loaded() {
    type Shown = fn(&[super::Instruction]) -> Option<Vec<super::Instruction>>;
    let strange: Shown =
        |program| Some(program.iter().map(|one| super::Instruction { source: 11, ..*one }).collect());
    for (shown, loads) in [(strange, 1), (|_| None, 1), (|program| Some(blinded(program, |_| 7)), 0)] {
        let root = tempfile::tempdir().unwrap();
        let mut kernel = cluster(&root, Kind::Batch);
        std::fs::create_dir(root.path().join(EXTERN)).unwrap();
        put_up(&kernel, &root.path().join(EXTERN), &fence(false, &[0])).unwrap();
        kernel.shown = shown;
        kernel.calls.take();
        raise(&kernel, &fence(false, &[0])).unwrap();
        assert_eq!(kernel.calls.take().iter().filter(|call| *call == "load").count(), loads);
        assert_eq!(seen(&kernel, TASKS[0]), (vec![0], true));
    }
}

#[test]
fn a_widening_fence_replaces_each_program_with_the_flags_that_it_has() {
    let root = tempfile::tempdir().unwrap();
    let kernel = cluster(&root, Kind::Srun);
    raise(&kernel, &fence(true, &[2])).unwrap();
    assert_eq!(kernel.state(JOB), Some((Flags::Override, 1)));
    assert_eq!(kernel.state(STEP), Some((Flags::Multi, 1)));
    assert_eq!(kernel.state(USER), Some((Flags::Override, 1)));
    TASKS.iter().for_each(|task| assert_eq!(kernel.state(task), Some((Flags::None, 1))));
    assert_eq!(kernel.state(PLACES[1]), None, "task_special has no program of its own");
}

#[test]
fn a_program_above_that_stays_in_force_by_itself_is_not_carried() {
    for widens in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, Kind::Unruled);
        kernel.put("scope", &program(&[character(120, 0, false)]), Flags::Multi);
        raise(&kernel, &fence(widens, &[2])).unwrap();
        assert_eq!(kernel.state(STEP), Some((Flags::Multi, 1)));
        assert_eq!(seen(&kernel, TASKS[0]), (vec![2], false));
    }
}

#[test]
fn a_second_fence_around_a_step_only_narrows() {
    for (kind, gpus) in [(Kind::Unruled, vec![2]), (Kind::Batch, vec![])] {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, kind);
        raise(&kernel, &fence(false, &[1, 2])).unwrap();
        raise(&kernel, &fence(false, &[2, 3])).unwrap();
        assert_eq!(seen(&kernel, TASKS[0]), (gpus, true));
    }
}

#[test]
fn programs_of_others_in_the_way_are_told() {
    let any = ALLOW_ALL;
    for widens in [false, true] {
        let root = tempfile::tempdir().unwrap();
        for flags in [Flags::None, Flags::Override] {
            let kernel = cluster(&root, Kind::Batch);
            kernel.put(STEP, &any, flags);
            assert!(matches!(raise(&kernel, &fence(widens, &[2])), Err(V2Error::Taken(_))));
            let kernel = cluster(&root, Kind::Unruled);
            kernel.put("scope", &any, Flags::None);
            assert!(matches!(raise(&kernel, &fence(widens, &[2])), Err(V2Error::Exclusive(_))));
        }
    }
    for (count, several) in [(1, false), (2, true)] {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, Kind::Batch);
        (0..count).for_each(|_| kernel.put(USER, &any, Flags::Multi));
        let error = raise(&kernel, &fence(true, &[2])).unwrap_err();
        assert_eq!(matches!(error, V2Error::Several(_, 2)), several, "{error}");
        assert_eq!(matches!(error, V2Error::Shared(_)), !several, "{error}");
        assert_eq!(seen(&kernel, TASKS[0]).0, [2], "at the step it is up");
    }
}

#[test]
fn a_blinded_program_is_copied_and_one_that_is_not_shown_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let mut kernel = cluster(&root, Kind::Srun);
    kernel.shown =
        |program| Some(blinded(program, |at| 0x9e37_79b9_u32.wrapping_mul(u32::try_from(at).unwrap())));
    raise(&kernel, &fence(true, &[2])).unwrap();
    assert_eq!(seen(&kernel, TASKS[1]), (vec![2], false));

    let mut kernel = cluster(&root, Kind::Srun);
    kernel.shown =
        |program| Some(program.iter().map(|one| super::Instruction { source: 11, ..*one }).collect());
    assert!(matches!(raise(&kernel, &fence(true, &[2])), Err(V2Error::Strange(..))));

    let mut kernel = cluster(&root, Kind::Srun);
    kernel.shown = |_| None;
    let error = raise(&kernel, &fence(true, &[2])).unwrap_err();
    assert!(error.to_string().contains("kernel.kptr_restrict"), "{error}");
    raise(&kernel, &fence(false, &[0])).expect("a fence that only narrows reads nothing");
}

#[test]
fn a_program_that_slurm_replaces_meanwhile_is_looked_up_anew_but_not_for_ever() {
    for widens in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, Kind::Batch);
        kernel.replaced.set(3);
        raise(&kernel, &fence(widens, &[0])).unwrap();
        assert_eq!(seen(&kernel, TASKS[0]), (vec![0], true));
        kernel.replaced.set(u32::MAX);
        kernel.calls.take();
        assert!(matches!(raise(&kernel, &fence(widens, &[0])), Err(V2Error::Open(..))));
        assert_eq!(kernel.calls.take().iter().filter(|call| *call == "program").count(), 100);
    }
}

/// In each run, one call of an otherwise successful fence fails. The failure is reported, and nothing is open that
/// neither Slurm nor the fence opens.
#[test]
fn whatever_call_fails_is_told_and_opens_nothing() {
    for (kind, widens) in [
        (Kind::Batch, false),
        (Kind::BatchWithoutNic, false),
        (Kind::Srun, false),
        (Kind::Unruled, false),
        (Kind::Batch, true),
        (Kind::BatchWithoutNic, true),
        (Kind::Srun, true),
        (Kind::Unruled, true),
    ] {
        let root = tempfile::tempdir().unwrap();
        let kernel = cluster(&root, kind);
        raise(&kernel, &fence(widens, &[2])).unwrap();
        let calls = kernel.calls.take();
        // If the extern step gives no answer, a new program is loaded; another test covers that.
        let elsewhere = |call: &String| call.ends_with("/step_extern");
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| !elsewhere(call)) {
            let before = cluster(&root, kind);
            let kernel = cluster(&root, kind);
            kernel.failing.set(Some((at, libc::EPERM)));
            let error = raise(&kernel, &fence(widens, &[2])).expect_err(call);
            let as_said = match call.split(' ').next().unwrap() {
                "attached" => matches!(error, V2Error::Query(..)),
                "program" => matches!(error, V2Error::Open(..)),
                "instructions" => matches!(error, V2Error::Read(..)),
                "load" => matches!(error, V2Error::Load(..)),
                _ => matches!(error, V2Error::Attach(..)),
            };
            assert!(as_said, "{call}: {error}");
            for place in PLACES {
                let (gpus, nic) = seen(&kernel, place);
                let (gpus_before, nic_before) = seen(&before, place);
                assert!(gpus.iter().all(|gpu| *gpu == 2 || gpus_before.contains(gpu)), "{call} {place}");
                assert!(!nic || nic_before, "{call} {place}");
            }
        }
    }
}
