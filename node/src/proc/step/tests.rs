//! Where processes are, in a fake /proc, and which job they belong to.

use std::fs;

use super::*;
use crate::fake::gpu;
use crate::foreign::{Foreign, Jobs, Whose, usage};
use crate::ledger::Entry;
use crate::nvml::answer::GpuState;

const STEP: &str = "0::/system.slice/n1_slurmstepd.scope";

fn entry(id: u32, minor: u32) -> Entry {
    crate::fake::entry(id, vec![gpu(minor)])
}

/// A process: parent, session, user, name and cgroup. Its start time equals its number.
struct Process<'a>(u32, u32, u32, u32, &'a str, &'a str);

fn make(proc: &Path, Process(pid, parent, session, user, name, cgroup): &Process) {
    let folder = proc.join(pid.to_string());
    fs::create_dir_all(&folder).unwrap();
    let rest = "0 ".repeat(15);
    let stat = format!("{pid} ({name}) S {parent} {pid} {session} {rest}{pid} 0\n");
    fs::write(folder.join("stat"), stat).unwrap();
    fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
    fs::write(
        folder.join("status"),
        format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\nGid:\t0\t0\t0\t0\n"),
    )
    .unwrap();
    fs::write(folder.join("cgroup"), format!("{cgroup}\n")).unwrap();
}

fn node(processes: &[Process]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &Process(1, 0, 1, 0, "init", "0::/"));
    processes.iter().for_each(|process| make(dir.path(), process));
    dir
}

/// Which job a process of GPU 0 belongs to, as gpushare-nvml reports it.
fn whose(jobs: Jobs, proc: &Path, pid: u32) -> Whose {
    jobs.whose(&gpu(0), &Finder::new(proc).process(pid, 1000))
}

fn foreign(pid: u32, user_id: u32, job: Option<u32>) -> Whose {
    Whose::Foreign(Foreign { pid, start: pid.into(), user_id, job })
}

#[test]
fn a_daemons_name_hides_no_process_of_a_users_session() {
    let session = "0::/user.slice/user-2002.slice/session-3.scope";
    let dir = node(&[
        Process(10, 1, 10, 2002, "nvidia-cuda-mps", "0::/system.slice/site-mps.service"),
        Process(11, 1, 11, 2002, "nvidia-cuda-mps", session),
        Process(12, 1, 12, 2002, "nvidia-cuda-mps", "0::/user.slice/user-0.slice/session-4.scope"),
        Process(13, 1, 13, 2002, "nvidia-cuda-mps", "0::/user.slice/user-0.slice-2002.slice/session-5.scope"),
    ]);
    let jobs = Jobs { entries: &[], mps: None };
    assert_eq!(whose(jobs, dir.path(), 10), Whose::Untold);
    assert_eq!(whose(jobs, dir.path(), 11), foreign(11, 2002, None));
    assert_eq!(whose(jobs, dir.path(), 12), Whose::Untold, "root started it from a shell");
    assert_eq!(whose(jobs, dir.path(), 13), foreign(13, 2002, None));
}

#[test]
fn a_process_is_of_a_job_with_the_gpu_or_foreign_or_not_told() {
    let of_job = |job: u32| format!("{STEP}/job_{job}/step_0/user/task_0");
    let (own, other, without) = (of_job(7), of_job(8), of_job(9));
    let v1 = "6:freezer:/slurm/uid_2001/job_7/step_extern\n5:devices:/\n0::/system.slice/ssh.service";
    let ssh = "0::/system.slice/ssh.service";
    let made_up = "0::/user.slice/user-2002.slice/user@2002.service/job_7/step_0";
    let dir = node(&[
        Process(10, 1, 10, 2001, "python", &own),
        Process(11, 1, 11, 0, "python", &own),
        Process(12, 1, 12, 2001, "python", v1),
        Process(13, 1, 13, 2001, "python", &other),
        Process(14, 1, 14, 2001, "python", &without),
        Process(15, 1, 15, 2002, "python", ssh),
        Process(16, 1, 16, 2002, "python", made_up),
        Process(17, 1, 17, 0, "python", ssh),
        Process(18, 1, 18, 120, "nvidia-persiste", ssh),
        Process(19, 1, 500, 2001, "nvidia-cuda-mps", ssh),
        Process(20, 1, 20, 2002, "nvidia-cuda-mps", ssh),
        Process(21, 1, 21, 0, "slurmstepd", ssh),
        Process(22, 21, 21, 2001, "python", ssh),
        Process(23, 1, 23, 2002, "slurmstepd", ssh),
        Process(24, 23, 23, 2002, "python", ssh),
    ]);
    let entries = [entry(7, 0), entry(8, 1)];
    let jobs = Jobs { entries: &entries, mps: Some(&[500]) };
    for (pid, expected) in [
        (10, Whose::Job(7)),
        (11, Whose::Job(7)),
        (12, Whose::Job(7)),
        (13, foreign(13, 2001, Some(8))),
        (14, Whose::Untold),
        (15, foreign(15, 2002, None)),
        (16, foreign(16, 2002, None)),
        (17, Whose::Untold),
        (18, Whose::Untold),
        (19, Whose::Untold),
        (20, foreign(20, 2002, None)),
        (22, Whose::Untold),
        (24, foreign(24, 2002, None)),
        (99, Whose::Untold),
    ] {
        assert_eq!(whose(jobs, dir.path(), pid), expected, "{pid}");
        let young = Finder::new(dir.path()).process(pid, pid.into());
        assert_eq!(young, Running { pid, ..Running::default() }, "{pid}, younger than the question");
    }
    let by_name = Jobs { entries: &entries, mps: None };
    assert_eq!(whose(by_name, dir.path(), 20), Whose::Untold);
}

#[test]
fn where_folders_have_no_job_numbers_its_slurmstepd_has() {
    let (own, other) = (format!("{STEP}/sA1/step_0"), format!("{STEP}/sB2/step_0"));
    let task = |step: &str| format!("{step}/user/task_0");
    let dir = node(&[
        Process(10, 1, 10, 2001, "python", &task(&own)),
        Process(11, 1, 11, 2001, "python", &task(&other)),
        Process(20, 1, 20, 0, "slurmstepd", &format!("{own}/slurm")),
        Process(21, 1, 21, 2001, "slurmstepd", &task(&other)),
    ]);
    for (pid, title) in [(20, "slurmstepd: [7.0]"), (21, "slurmstepd: [7.0]")] {
        fs::write(dir.path().join(format!("{pid}/cmdline")), title).unwrap();
    }
    let entries = [entry(7, 0)];
    let jobs = Jobs { entries: &entries, mps: None };
    assert_eq!(whose(jobs, dir.path(), 10), Whose::Job(7));
    assert_eq!(whose(jobs, dir.path(), 11), Whose::Untold, "a user's program that calls itself so");
}

#[test]
fn what_uses_a_gpu_makes_its_job_busy_or_all() {
    let step = |job: u32| format!("{STEP}/job_{job}/step_0");
    let (first, second) = (step(7), step(8));
    let dir = node(&[
        Process(10, 1, 10, 2001, "python", &first),
        Process(11, 1, 11, 2002, "python", &second),
        Process(12, 1, 12, 2003, "python", "0::/system.slice/ssh.service"),
        Process(13, 1, 500, 2001, "nvidia-cuda-mps", "0::/"),
    ]);
    let entries = [entry(7, 0), entry(8, 0), entry(9, 1)];
    let jobs = Jobs { entries: &entries, mps: Some(&[500]) };
    let busy = |running: &[(u32, u32)], utilization| {
        let finder = Finder::new(dir.path());
        let process = |(pid, busy): &(u32, u32)| Running { busy: *busy, ..finder.process(*pid, 1000) };
        let running = running.iter().map(process).collect();
        usage::busy(&jobs, &gpu(0), &GpuState { utilization, running, ..GpuState::default() })
    };
    let (nobody, all) = (Some(Vec::new()), Some(vec![7, 8]));
    assert_eq!(busy(&[(10, 30), (11, 0)], Some(30)), Some(vec![7]));
    assert_eq!(busy(&[(10, 30), (11, 1)], None), Some(vec![7, 8]));
    assert_eq!(busy(&[(10, 0), (11, 0)], Some(0)), nobody);
    assert_eq!(busy(&[(10, 0), (11, 0)], Some(5)), all, "the driver lays it to nobody");
    assert_eq!(busy(&[(10, 0), (12, 90)], Some(90)), all, "a foreign one, which may be the job's user's");
    assert_eq!(busy(&[(10, 30), (12, 1)], Some(31)), all, "the same beside a job's own");
    assert_eq!(busy(&[(13, 90)], Some(90)), all, "an MPS server, which works for any of them");
    assert_eq!(busy(&[(99, 90)], Some(0)), all, "one that is gone");
    assert_eq!(busy(&[(10, 0)], None), None);
}

#[test]
fn what_processes_use_is_summed_by_job() {
    let step = |job: u32| format!("{STEP}/job_{job}/step_0");
    let dir = node(&[
        Process(10, 1, 10, 2001, "python", &step(7)),
        Process(11, 1, 11, 2001, "python", &step(7)),
        Process(12, 1, 12, 2002, "python", &step(8)),
        Process(13, 1, 500, 2001, "nvidia-cuda-mps", "0::/"),
    ]);
    let entries = [entry(7, 0), entry(8, 0), entry(9, 1)];
    let jobs = Jobs { entries: &entries, mps: Some(&[500]) };
    let used = |running: &[(u32, Option<u32>, u32)], utilization| {
        let finder = Finder::new(dir.path());
        let process = |(pid, memory, busy): &(u32, Option<u32>, u32)| Running {
            busy: *busy,
            memory: *memory,
            ..finder.process(*pid, 1000)
        };
        let running = running.iter().map(process).collect();
        let found = usage::of_jobs(&jobs, &gpu(0), &GpuState { utilization, running, ..GpuState::default() });
        found.into_iter().map(|(job, usage)| (job, usage.memory, usage.busy)).collect::<Vec<_>>()
    };
    let (ten, eleven, twelve) = ((10, Some(100), 70), (11, Some(20), 60), (12, Some(5), 0));
    assert_eq!(used(&[ten, eleven, twelve], Some(99)), [(7, Some(120), Some(100)), (8, Some(5), Some(0))]);
    assert_eq!(used(&[ten, (11, None, 5)], Some(75)), [(7, None, Some(75))], "one whose memory isn't known");
    assert_eq!(used(&[(12, Some(5), 0)], Some(30)), [(8, Some(5), None)], "no samples");
    assert_eq!(used(&[(12, Some(5), 0)], Some(0)), [(8, Some(5), Some(0))], "an idle GPU");
    assert_eq!(used(&[ten, (13, Some(9), 1)], Some(9)), [(7, Some(100), None)], "an MPS server's work");
    assert_eq!(used(&[], Some(0)), []);
}

#[test]
fn a_slurmstepd_is_not_looked_for_for_ever() {
    let chain = |length: u32| {
        let mut processes = vec![Process(100, 1, 100, 0, "slurmstepd", "0::/")];
        processes.extend((101..=100 + length).map(|pid| Process(pid, pid - 1, pid, 2001, "sh", "0::/")));
        let dir = node(&processes);
        let last = stat(dir.path(), 100 + length).unwrap().unwrap();
        Finder::new(dir.path()).is_below_stepd(&last)
    };
    let most = u32::try_from(MOST_ANCESTORS).unwrap();
    assert!(chain(1) && chain(most));
    assert!(!chain(most + 1));
}
