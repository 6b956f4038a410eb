//! Which fence is set up, and what the step's processes can then open.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gpushare_node::fence::Fence;
use gpushare_node::fence::bpf::Bpf;
use gpushare_node::fence::filter::program::ALLOW_ALL;
use gpushare_node::fence::v2::early::close;
use gpushare_node::fence::v2::{Flags, Kernel, V2Error, put_up};
use gpushare_node::gpu::{Device, DeviceNumber};

use crate::place::{Place, Setting, attach, remove};
use crate::slurm::{Line, character, program};

type Case = fn(&Place);

pub const ALL: [(&str, Case); 10] = [
    ("every kind of step", every_kind_of_step),
    ("the extern step's program", the_extern_steps_program),
    ("rules written anew", rules_written_anew),
    ("closed from the start", closed_from_the_start),
    ("containers below", containers_below),
    ("programs in the way", programs_in_the_way),
    ("many steps at once", many_steps_at_once),
    ("not root", not_root),
    ("a program that the kernel refuses", a_refused_program),
    ("a long program", a_long_program),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Batch, extern or interactive: rules only at the job.
    Batch,
    /// The same, for a job that did not ask for the other class.
    BatchWithoutNic,
    /// srun: also rules at the step's user directory and its tasks, where the other class is closed.
    Srun,
    /// Slurm has set no rules.
    Unruled,
}

fn rules(allocated: u32, nic: bool) -> Vec<Line> {
    let gpus = (0..4).map(|minor| character(195, minor, minor == allocated));
    gpus.chain([character(120, 0, nic)]).collect()
}

/// A step's directories, and Slurm's programs; Slurm allocated GPU 0.
fn step(job: &Path, name: &str, kind: Kind) -> PathBuf {
    let step = job.join(name);
    for below in ["slurm", "user/task_special", "user/task_0", "user/task_1"] {
        std::fs::create_dir_all(step.join(below)).unwrap();
    }
    if kind != Kind::Unruled {
        attach(job, &program(&rules(0, kind != Kind::BatchWithoutNic)), Flags::Override);
    }
    if kind == Kind::Srun {
        let program = program(&rules(0, false));
        attach(&step.join("user"), &program, Flags::Override);
        attach(&step.join("user/task_0"), &program, Flags::None);
        attach(&step.join("user/task_1"), &program, Flags::None);
    }
    step
}

fn device(major: u32, minor: u32) -> Device {
    let number = DeviceNumber { major, minor };
    Device { path: format!("/dev/{number}").into(), number }
}

/// The job's GPUs are open; the node's others and a DRM node are closed.
fn fence(widens: bool, open: &[u32]) -> Fence {
    let others = (0..4).filter(|minor| !open.contains(minor)).map(|minor| device(195, minor));
    let closed = others.chain([device(226, 128)]).collect();
    Fence { open: open.iter().map(|minor| device(195, *minor)).collect(), closed, widens }
}

fn every_kind_of_step(place: &Place) {
    // GPUs 0 to 3, one that appeared later, nvidiactl, the other class, DRM, a block device: beside the tasks, and in
    // them.
    let cases: &[(Kind, bool, &[u32], &str, &str)] = &[
        (Kind::Batch, true, &[2], "nnynnyyny", "nnynnyyny"),
        (Kind::Batch, true, &[0], "ynnnnyyny", "ynnnnyyny"),
        (Kind::Batch, true, &[1, 3], "nynynyyny", "nynynyyny"),
        (Kind::Batch, false, &[0], "ynnnnyyny", "ynnnnyyny"),
        (Kind::Batch, false, &[], "nnnnnyyny", "nnnnnyyny"),
        (Kind::BatchWithoutNic, true, &[2], "nnynnynny", "nnynnynny"),
        (Kind::BatchWithoutNic, false, &[0], "ynnnnynny", "ynnnnynny"),
        (Kind::Srun, true, &[2], "nnynnyyny", "nnynnynny"),
        (Kind::Srun, false, &[0], "ynnnnyyny", "ynnnnynny"),
        (Kind::Srun, false, &[2], "nnnnnyyny", "nnnnnynny"),
        (Kind::Unruled, true, &[2], "nnynnyyny", "nnynnyyny"),
        (Kind::Unruled, false, &[2], "nnynnyyny", "nnynnyyny"),
        (Kind::Unruled, false, &[1, 2], "nyynnyyny", "nyynnyyny"),
        (Kind::Unruled, false, &[], "nnnnnyyny", "nnnnnyyny"),
    ];
    for (at, (kind, widens, open, beside, in_task)) in cases.iter().enumerate() {
        let job = place.job(&format!("job_{at}"));
        let step = step(&job, "step_0", *kind);
        put_up(&Bpf, &step, &fence(*widens, open)).unwrap();
        let what = format!("{kind:?} {widens} {open:?}");
        assert_eq!(place.ask(&step.join("slurm")), *beside, "{what}, beside");
        for task in ["user/task_0", "user/task_1"] {
            assert_eq!(place.ask(&step.join(task)), *in_task, "{what}, {task}");
        }
        remove(&job);
    }
}

/// The kernel shows a program as it was loaded, even one that it blinded.
fn the_extern_steps_program(place: &Place) {
    for widens in [false, true] {
        let job = place.job("job_extern");
        let steps = ["step_extern", "step_batch", "step_0"].map(|name| step(&job, name, Kind::Batch));
        let last = steps.each_ref().map(|step| {
            put_up(&Bpf, step, &fence(widens, &[0])).unwrap();
            assert_eq!(place.ask(&step.join("user/task_0")), "ynnnnyyny");
            Bpf.attached(step).unwrap().programs.pop().unwrap()
        });
        assert!(last.iter().all(|id| *id == last[0]), "one program, loaded once: {last:?}");
        put_up(&Bpf, &steps[1], &fence(widens, &[])).unwrap();
        assert_eq!(place.ask(&steps[1].join("user/task_0")), "nnnnnyyny");
        assert_eq!(
            place.ask(&steps[2].join("user/task_0")),
            "ynnnnyyny",
            "a program of its own for another fence"
        );
        remove(&job);
    }
}

fn rules_written_anew(place: &Place) {
    for widens in [false, true] {
        let job = place.job("job_anew");
        let first = step(&job, "step_0", Kind::Srun);
        put_up(&Bpf, &first, &fence(widens, &[0])).unwrap();
        let second = step(&job, "step_1", Kind::Srun);
        let slurm_only = place.ask(&second.join("user/task_0"));
        assert_eq!(slurm_only, "ynnnyynyy", "Slurm's own rules, before there is a fence");
        put_up(&Bpf, &second, &fence(widens, &[0])).unwrap();
        attach(&job, &program(&rules(1, true)), Flags::Override);
        for step in [first, second] {
            assert_eq!(place.ask(&step.join("user/task_0")), "ynnnnynny");
            assert_eq!(place.ask(&step.join("slurm")), "ynnnnyyny");
        }
        remove(&job);
    }
}

/// The start of a job's second step: an early fence, Slurm's rules, then the step's own fence.
fn closed_from_the_start(place: &Place) {
    for (widens, early, beside, in_task) in
        [(false, "ynnnnyyny", "ynnnnyyny", "ynnnnynny"), (true, "nnnnnyyny", "nnynnyyny", "nnynnynny")]
    {
        let job = place.job("job_early");
        step(&job, "step_batch", Kind::Batch);
        let (first, open) = (job.join("step_0"), [if widens { 2 } else { 0 }]);
        std::fs::create_dir_all(first.join("slurm")).unwrap();
        let before = close(&Bpf, &first, &fence(widens, &open)).unwrap();
        assert_eq!(place.ask(&first.join("slurm")), early);
        step(&job, "step_0", Kind::Srun);
        assert_eq!(place.ask(&first.join("slurm")), early, "Slurm's rules change nothing of it");
        before.replace(&Bpf, &first, &fence(widens, &open)).unwrap();
        assert_eq!(place.ask(&first.join("slurm")), beside);
        assert_eq!(place.ask(&first.join("user/task_0")), in_task);
        let programs = Bpf.attached(&first).unwrap().programs.len();
        assert_eq!(
            programs, 2,
            "of the early one only ours is left, and of Slurm's programs the job's new one"
        );
        remove(&job);
    }
}

fn containers_below(place: &Place) {
    for widens in [false, true] {
        let job = place.job("job_nested");
        let step = step(&job, "step_batch", Kind::Batch);
        put_up(&Bpf, &step, &fence(widens, &[0])).unwrap();
        for (at, flags) in [Flags::None, Flags::Override, Flags::Multi].into_iter().enumerate() {
            let nested = step.join(format!("user/task_0/nested_{at}"));
            std::fs::create_dir(&nested).unwrap();
            attach(&nested, &ALLOW_ALL, flags);
            assert_eq!(place.ask(&nested), "ynnnnyyny", "{flags:?}");
        }
        remove(&job);
    }
}

fn programs_in_the_way(place: &Place) {
    for widens in [false, true] {
        let job = place.job("job_taken");
        let taken = step(&job, "step_0", Kind::Batch);
        attach(&taken, &ALLOW_ALL, Flags::Override);
        let error = put_up(&Bpf, &taken, &fence(widens, &[2])).unwrap_err();
        assert!(matches!(error, V2Error::Taken(_)), "{error}");
        remove(&job);

        let job = place.job("job_exclusive");
        let step_0 = step(&job, "step_0", Kind::Unruled);
        attach(&job, &ALLOW_ALL, Flags::None);
        let error = put_up(&Bpf, &step_0, &fence(widens, &[2])).unwrap_err();
        assert!(matches!(error, V2Error::Exclusive(_)), "{error}");
        remove(&job);

        // Another program at the step, attached so that ours can be too: both must allow.
        let job = place.job("job_beside");
        let step_0 = step(&job, "step_0", Kind::Batch);
        attach(&step_0, &program(&[character(120, 0, false)]), Flags::Multi);
        put_up(&Bpf, &step_0, &fence(widens, &[0])).unwrap();
        put_up(&Bpf, &step_0, &fence(widens, &[0])).expect("a second fence around a step");
        assert_eq!(place.ask(&step_0.join("user/task_0")), "ynnnnynny");
        remove(&job);
    }
}

/// Sets up fences while Slurm starts other steps of the job and so replaces its program again and again.
fn many_steps_at_once(place: &Place) {
    let job = place.job("job_many");
    let steps: Vec<PathBuf> = (0..60).map(|at| step(&job, &format!("step_{at}"), Kind::Srun)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                attach(&job, &program(&rules(0, true)), Flags::Override);
            }
        });
        let put_up = |step: &PathBuf, at: usize| put_up(&Bpf, step, &fence(at.is_multiple_of(2), &[0]));
        let failed: Vec<V2Error> =
            steps.iter().enumerate().filter_map(|(at, step)| put_up(step, at).err()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(failed.is_empty(), "{}", failed[0]);
    });
    for step in steps.iter().step_by(7) {
        assert_eq!(place.ask(&step.join("user/task_0")), "ynnnnynny");
    }
    remove(&job);
}

fn not_root(place: &Place) {
    let job = place.job("job_nobody");
    let step = step(&job, "step_0", Kind::Batch);
    match place.ask_nobody(&step) {
        Some(said) => assert!(said.contains("may not use bpf(2)"), "{said}"),
        None => println!("cgroup2: not root: nobody can't run this program where it is"),
    }
    remove(&job);
}

fn a_refused_program(_: &Place) {
    let unset = Bpf.load(&ALLOW_ALL[1..]).unwrap_err();
    assert_eq!(unset.error.raw_os_error(), Some(libc::EACCES));
    assert_eq!(unset.verifier, "R0 !read_ok");
}

/// A program as long as for a node with a hundred devices.
fn a_long_program(_: &Place) {
    for length in [ALLOW_ALL.len(), 511, 512, 513, 1500] {
        let [before @ .., end] = ALLOW_ALL.as_slice() else { unreachable!() };
        let loaded: Vec<_> = before.iter().cycle().take(length - 1).chain([end]).copied().collect();
        assert_eq!(Bpf.instructions(&Bpf.load(&loaded).unwrap()).unwrap().unwrap(), loaded, "{length}");
    }
}

/// Under net.core.bpf_jit_harden=2 the kernel shows programs blinded, and with kernel.kptr_restrict=2 it doesn't show
/// them.
pub fn blinded_programs(place: &Place) {
    let job = place.job("job_blinded");
    let _harden = Setting::raise("/proc/sys/net/core/bpf_jit_harden", "2");
    let first = step(&job, "step_0", Kind::Srun);
    let shown = Bpf.program(Bpf.attached(&job).unwrap().programs[0]);
    let shown = Bpf.instructions(&shown.unwrap()).unwrap().unwrap();
    assert!(shown.iter().any(|instruction| instruction.source == 11), "the kernel blinds nothing");
    put_up(&Bpf, &first, &fence(true, &[2])).unwrap();
    assert_eq!(place.ask(&first.join("user/task_0")), "nnynnynny");

    let second = step(&job, "step_1", Kind::Srun);
    let restrict = Setting::raise("/proc/sys/kernel/kptr_restrict", "2");
    let error = put_up(&Bpf, &second, &fence(true, &[2])).unwrap_err();
    assert!(matches!(error, V2Error::Unreadable(_)), "{error}");
    put_up(&Bpf, &second, &fence(false, &[0])).unwrap();
    drop(restrict);
    assert_eq!(place.ask(&second.join("user/task_0")), "ynnnnynny");
    remove(&job);
    the_extern_steps_program(place);
}

/// The median of a hundred fences each, for jobs without and with a program at the extern step.
pub fn time(place: &Place) {
    for kind in [Kind::Batch, Kind::Srun] {
        for widens in [false, true] {
            for has_extern in [false, true] {
                let job = place.job("job_time");
                if has_extern {
                    put_up(&Bpf, &step(&job, "step_extern", Kind::Batch), &fence(widens, &[2])).unwrap();
                }
                let mut times: Vec<u128> = (0..100)
                    .map(|at| {
                        let step = step(&job, &format!("step_{at}"), kind);
                        let start = Instant::now();
                        put_up(&Bpf, &step, &fence(widens, &[2])).unwrap();
                        start.elapsed().as_nanos()
                    })
                    .collect();
                times.sort_unstable();
                let (half, worst) = (times[50], times[99]);
                println!(
                    "cgroup2: {kind:?}, widens {widens}, extern {has_extern}: {half} ns, at worst {worst} ns"
                );
                remove(&job);
            }
        }
    }
}
