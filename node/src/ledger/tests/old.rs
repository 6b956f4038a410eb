//! What an older gpushare left under running jobs.

use super::*;

const FORMAT_4: &str = "gpushare-ledger 4
job=7
restart=1
user=2001
holding=share
units=40
capacity=80
allocated_gpu=0
memory=
since=1700000000
gpu=2 195:2 GPU-1 /dev/nvidia2
end
";

/// A ledger of format 4: job 7 runs, and job 8 failed.
fn old() -> (tempfile::TempDir, Ledger) {
    let (dir, ledger) = ledger();
    drop(ledger.lock(SOON).unwrap());
    let top = dir.path().join("gpushare");
    for folder in ["failed", "witness", "env"] {
        fs::create_dir(top.join(folder)).unwrap();
    }
    for (name, text) in [
        ("jobs/7", FORMAT_4),
        ("witness/7", "1 300 9\n"),
        ("env/7", "export GPUSHARE_GPU='2'\n"),
        ("failed/8", "2 no room\n"),
        ("balance", "GSHARE-2"),
    ] {
        fs::write(top.join(name), text).unwrap();
    }
    (dir, ledger)
}

fn witnessed() -> Entry {
    Entry { witness: Some(Witness { pid: 300, start: 9 }), ..entry(7, 1) }
}

fn left(dir: &tempfile::TempDir) -> Vec<String> {
    let found = |name: &str| fs::read_dir(dir.path().join("gpushare").join(name)).into_iter().flatten();
    let names = ["failed", "witness", "env"].into_iter().flat_map(found).flatten();
    names.map(|file| file.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_job_of_format_4_is_read_with_its_marks() {
    let (dir, ledger) = old();
    assert_eq!(ledger.find(7).unwrap(), Some(witnessed()));
    assert!(ledger.knows(8) && !ledger.knows(9));
    let listing = ledger.lock(SOON).unwrap().list().unwrap();
    assert_eq!((listing.entries, listing.garbage), (vec![witnessed()], Vec::new()));
    assert_eq!(listing.failures, [(8, "no room".to_owned())]);
    let mark = dir.path().join("gpushare/failed/7");
    for (text, expected) in
        [("1 why\n", "why"), ("why\n", "this start"), ("1 why", "this start"), ("", "this start")]
    {
        fs::write(&mark, text).unwrap();
        assert!(failure(&ledger, 7).unwrap().starts_with(expected), "{text}");
    }
    fs::remove_file(&mark).unwrap();
    fs::write(dir.path().join("gpushare/witness/7"), "0 300 9\n").unwrap();
    assert_eq!(ledger.find(7).unwrap().unwrap().witness, None, "it is of an earlier start");
}

/// Whatever writes about a job writes one entry in today's format, and again if it was killed in between.
#[test]
fn a_change_makes_it_one_entry_of_today() {
    let (dir, ledger) = old();
    let locked = ledger.lock(SOON).unwrap();
    locked.fail(JobKey { id: 7, restart: 1 }, 2001, "why").unwrap();
    let failed = Entry { failure: Some("why".to_owned()), ..witnessed() };
    assert_eq!(fs::read_to_string(dir.path().join("gpushare/jobs/7")).unwrap(), failed.to_string());
    assert_eq!(left(&dir), ["8"]);
    // As after a kill between the two.
    fs::write(dir.path().join("gpushare/failed/7"), "1 other\n").unwrap();
    assert_eq!(ledger.find(7).unwrap(), Some(failed));
    locked.forget(7, None).unwrap();
    locked.forget(8, None).unwrap();
    assert!(left(&dir).is_empty() && !ledger.knows(7) && !ledger.knows(8));
}

#[test]
fn a_job_that_is_over_leaves_nothing_and_the_last_one_no_folder() {
    let (dir, ledger) = old();
    let locked = ledger.lock(SOON).unwrap();
    let proc = dir.path().join("proc");
    fs::create_dir_all(proc.join("1")).unwrap();
    fs::write(proc.join("1/stat"), "1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1 1000 20\n")
        .unwrap();
    fs::write(proc.join("1/cmdline"), "init").unwrap();
    let dropped = locked.reconcile(&proc, 1_700_000_100, Duration::ZERO).unwrap();
    assert_eq!(dropped, [JobKey { id: 7, restart: 1 }], "its witness is gone");
    assert_eq!(left(&dir), ["8"]);
    locked.forget(8, Some(2)).unwrap();
    locked.reconcile(&proc, 1_700_000_200, Duration::ZERO).unwrap();
    let mut names = ledger.names(&dir.path().join("gpushare")).unwrap();
    names.sort();
    assert_eq!(names, ["jobs", "lock", "reconciled"]);
}

#[test]
fn a_file_in_place_of_a_folder_of_marks_is_no_mark() {
    let (dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    for name in ["failed", "witness", "env"] {
        fs::write(dir.path().join("gpushare").join(name), "x").unwrap();
    }
    fs::write(dir.path().join("gpushare/jobs/7"), FORMAT_4).unwrap();
    assert_eq!(ledger.find(7).unwrap(), Some(entry(7, 1)));
    locked.record(&entry(7, 2)).unwrap();
    assert_eq!(ledger.list().unwrap().failures, []);
    assert!(locked.forget(7, None).unwrap().is_some());
}
