//! Jobs that are over and left their entry, in a fake /proc.

use super::*;
use crate::proc::start_time;
use std::time::SystemTime;

const NOW: u64 = 1_700_000_100;
const GRACE: Duration = Duration::from_secs(60);

struct Machine {
    dir: tempfile::TempDir,
    ledger: Ledger,
}

impl Machine {
    fn new() -> Self {
        let (dir, ledger) = ledger();
        let machine = Machine { dir, ledger };
        machine.process(1, "init", 0, b"/sbin/init\0");
        machine
    }

    fn proc(&self) -> PathBuf {
        self.dir.path().join("proc")
    }

    fn process(&self, pid: u32, name: &str, start: u64, title: &[u8]) {
        self.child(1, pid, name, start, title);
    }

    fn child(&self, parent: u32, pid: u32, name: &str, start: u64, title: &[u8]) {
        let dir = self.proc().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat =
            format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1000 20\n");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("cmdline"), title).unwrap();
        let user = if title.ends_with(b" of a user\0") { 2001 } else { 0 };
        fs::write(dir.join("status"), format!("Uid:\t{user}\t0\t0\t0\nGid:\t0\t0\t0\t0\n")).unwrap();
    }

    /// Adds a job with an entry and a witness.
    fn job(&self, id: u32, pid: u32, start: u64) {
        self.ledger.lock(SOON).unwrap().record(&entry(id, 0)).unwrap();
        self.witness(id, 0, pid, start);
    }

    fn witness(&self, id: u32, restart: u32, pid: u32, start: u64) {
        let locked = self.ledger.lock(SOON).unwrap();
        extern_step::note(&locked, JobKey { id, restart }, Witness { pid, start }).unwrap();
    }

    fn reconcile(&self) -> Vec<u32> {
        let dropped = self.ledger.lock(SOON).unwrap().reconcile(&self.proc(), NOW, GRACE).unwrap();
        dropped.into_iter().map(|key| key.id).collect()
    }
}

#[test]
fn the_start_time_is_found_whatever_the_program_is_called() {
    let machine = Machine::new();
    for name in ["slurmstepd", "a b", "x) S 1 (2", ")", "((", ""] {
        machine.process(50, name, 4711, b"");
        assert_eq!(start_time(&machine.proc(), 50).unwrap(), Some(4711), "{name}");
    }
    assert_eq!(start_time(&machine.proc(), 51).unwrap(), None);
    fs::write(machine.proc().join("50/stat"), "50 (x").unwrap();
    assert!(start_time(&machine.proc(), 50).is_err());
    assert!(!is_gone(&machine.proc(), &Witness { pid: 50, start: 1 }), "it can't be told");
    let own = start_time(Path::new("/proc"), std::process::id()).unwrap().unwrap();
    assert!(!is_gone(Path::new("/proc"), &Witness { pid: std::process::id(), start: own }));
    assert!(is_gone(Path::new("/proc"), &Witness { pid: std::process::id(), start: own + 1 }));
}

#[test]
fn only_jobs_that_are_over_by_every_sign_are_dropped() {
    let machine = Machine::new();
    machine.process(100, "slurmstepd", 7, b"slurmstepd: [1.extern]\0\0");
    machine.process(200, "cat", 9, b"cat\0slurmstepd: [5.extern]\0");
    machine.process(201, "slurmstepd", 9, b"slurmstepd: [5.extern] of a user\0");
    machine.job(1, 100, 7); // alive
    machine.job(2, 100, 6); // the number is another process's now
    machine.job(3, 300, 7); // gone
    machine.job(4, 400, 7); // gone, but another step lives
    machine.process(401, "slurmstepd", 9, b"slurmstepd: [4.batch]\0");
    machine.job(5, 500, 7); // gone; another process only mentions it
    let locked = machine.ledger.lock(SOON).unwrap();
    locked.record(&entry(6, 0)).unwrap(); // no witness
    locked.record(&Entry { since: NOW - 59, ..entry(7, 0) }).unwrap(); // young
    locked.record(&entry(8, 1)).unwrap(); // the witness belongs to the start before
    drop(locked);
    machine.witness(7, 0, 700, 7);
    machine.witness(8, 0, 800, 7);
    machine.job(41, 100, 7); // `[4` is not `[41`
    let mut dropped = machine.reconcile();
    dropped.sort_unstable();
    assert_eq!(dropped, [2, 3, 5]);
    let left: Vec<u32> = machine.ledger.list().unwrap().entries.iter().map(|entry| entry.key.id).collect();
    assert_eq!(left, [1, 4, 6, 7, 8, 41]);
    assert!(!machine.ledger.knows(3), "its witness has gone too");
    assert!(machine.reconcile().is_empty());
}

/// As after each epilog that Slurm 24.11 to 25.11 doesn't run as root: they must not pile up until the next boot.
#[test]
fn what_says_that_a_job_has_no_gpu_goes_after_an_hour_without_a_step() {
    let machine = Machine::new();
    machine.process(100, "slurmstepd", 7, b"slurmstepd: [1.batch]\0");
    let written = |id: u32, at: u64| {
        let path = machine.dir.path().join(format!("gpushare/jobs/{id}"));
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    };
    let key = |id| JobKey { id, restart: 0 };
    let locked = machine.ledger.lock(SOON).unwrap();
    for (id, at) in [(1, 0), (2, NOW - 3599), (3, NOW - 3600), (4, NOW + 3600)] {
        locked.record(&Entry::without_gpus(key(id), 2001)).unwrap();
        written(id, at);
    }
    for (id, at) in [(5, NOW - 3599), (6, NOW - 3600), (7, NOW - 3600), (8, NOW + 1)] {
        locked.fail(key(id), 2001, "its steps say why").unwrap();
        // As on a full disk.
        let _ = (id == 7).then(|| fs::write(machine.dir.path().join("gpushare/jobs/7"), "").unwrap());
        written(id, at);
    }
    drop(locked);
    assert!(machine.reconcile().is_empty(), "no share is taken back");
    let left: Vec<u32> = (1..=8).filter(|id| machine.ledger.knows(*id)).collect();
    assert_eq!(left, [1, 2, 5, 8]);
}

/// A clock that was wrong at boot must not keep GPUs until it is as late again.
#[test]
fn an_entry_from_before_the_clock_was_set_back_is_dropped() {
    let machine = Machine::new();
    let locked = machine.ledger.lock(SOON).unwrap();
    for (id, since) in [(3, NOW + 59), (4, NOW + 60), (5, NOW + 3600)] {
        locked.record(&Entry { since, ..entry(id, 0) }).unwrap();
    }
    drop(locked);
    for id in [3, 4, 5] {
        machine.witness(id, 0, 300, 7);
    }
    let mut dropped = machine.reconcile();
    dropped.sort_unstable();
    assert_eq!(dropped, [4, 5]);
}

#[test]
fn who_has_no_entry_gets_no_witness() {
    let machine = Machine::new();
    machine.witness(3, 0, 300, 7);
    assert!(!machine.ledger.knows(3));
    let text = entry(4, 0).to_string();
    for line in ["", "300", "300 7 8", "x 7", "-3 7"] {
        let path = machine.dir.path().join("gpushare/jobs/4");
        fs::write(path, text.replace("end\n", &format!("witness={line}\nend\n"))).unwrap();
        assert!(machine.ledger.find(4).is_err() && machine.reconcile().is_empty(), "{line}");
    }
}

#[test]
fn a_prolog_inside_the_job_notes_the_slurmstepd_that_runs_it() {
    let machine = Machine::new();
    machine.process(20, "slurmd", 2, b"slurmd\0");
    machine.child(20, 30, "slurmstepd", 3, b"slurmstepd: [7.extern]\0\0");
    machine.child(30, 31, "slurmstepd", 4, b"/usr/sbin/slurmstepd\0spank\0prolog\0");
    machine.child(30, 32, "run-parts) S 1 (", 5, b"run-parts\0/etc/slurm/prolog.d\0");
    machine.child(32, 33, "gpushare-prolog", 6, b"gpushare-prolog\0");
    machine.child(20, 40, "gpushare-prolog", 8, b"gpushare-prolog\0");
    // slurmd itself may be in a job of another, outer cluster.
    machine.process(50, "slurmstepd", 1, b"slurmstepd: [7.batch]\0");
    machine.child(50, 51, "slurmd", 9, b"slurmd\0");
    machine.child(51, 52, "gpushare-prolog", 10, b"gpushare-prolog\0");
    // It manages the job's steps.
    machine.child(20, 70, "slurmstepd", 11, b"slurmstepd: [7.extern stepmgr]\0");
    machine.child(70, 71, "gpushare-prolog", 12, b"gpushare-prolog\0");
    machine.child(60, 60, "its own parent", 10, b"slurmstepd: [7.extern]\0");
    for (pid, job, expected) in [
        (31, 7, Some(Witness { pid: 30, start: 3 })),
        (33, 7, Some(Witness { pid: 30, start: 3 })),
        (71, 7, Some(Witness { pid: 70, start: 11 })),
        (71, 77, None),
        (33, 77, None),
        (33, 1, None),
        (40, 7, None),
        (52, 7, None),
        (60, 7, None),
        (99, 7, None),
    ] {
        assert_eq!(extern_step_above(&machine.proc(), pid, job), expected, "process {pid}, job {job}");
    }
}

#[test]
fn a_proc_that_is_none_drops_nothing() {
    let machine = Machine::new();
    machine.job(3, 300, 7);
    let locked = machine.ledger.lock(SOON).unwrap();
    for proc in ["empty", "missing"] {
        let proc = machine.dir.path().join(proc);
        let _ = proc.ends_with("empty").then(|| fs::create_dir(&proc));
        assert!(locked.reconcile(&proc, NOW, GRACE).is_err());
    }
    assert!(machine.ledger.knows(3));
}

#[test]
fn a_new_start_has_no_witness_of_an_old_one() {
    let machine = Machine::new();
    machine.job(3, 300, 7);
    machine.ledger.lock(SOON).unwrap().record(&entry(3, 0)).unwrap();
    assert!(machine.reconcile().is_empty());
}

#[test]
fn the_ledger_is_looked_through_once_a_minute() {
    let machine = Machine::new();
    let due = |now| machine.ledger.lock(SOON).unwrap().is_reconcile_due(now);
    assert!(due(NOW));
    machine.reconcile();
    for (now, expected) in
        [(NOW, false), (NOW + 59, false), (NOW + 60, true), (NOW - 59, false), (NOW - 60, true)]
    {
        assert_eq!(due(now), expected, "{now}");
    }
}
