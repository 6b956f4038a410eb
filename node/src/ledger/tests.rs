use super::*;
use crate::fake::{self, SOON, ledger};
use crate::gpu::Gpu;

fn gpu(index: u32) -> Gpu {
    Gpu { uuid: Some("GPU-1".to_owned()), ..fake::gpu(index) }
}

fn entry(id: u32, restart: u32) -> Entry {
    Entry {
        key: JobKey { id, restart },
        user_id: 2001,
        holding: Holding::Share { units: 40, capacity: 80, allocated_gpu: Some(0), memory: None },
        gpus: vec![gpu(2)],
        since: 1_700_000_000,
    }
}

#[test]
fn what_is_recorded_is_found_until_it_is_removed() {
    let (_dir, ledger) = ledger();
    assert!(ledger.list().unwrap().entries.is_empty(), "no folder is an empty ledger");
    assert_eq!(ledger.find(7).unwrap(), None);
    let locked = ledger.lock(SOON).unwrap();
    locked.record(&entry(7, 0)).unwrap();
    locked.record(&entry(7, 1)).unwrap();
    assert!(ledger.knows(7) && !ledger.knows(71));
    locked.record(&entry(70, 0)).unwrap();
    assert_eq!(ledger.find(7).unwrap(), Some(entry(7, 1)), "the latest start counts");
    assert_eq!(locked.list().unwrap().entries, [entry(7, 1), entry(70, 0)]);
    assert_eq!(locked.remove(7, Some(0)).unwrap(), None, "it is of a later start");
    assert_eq!(locked.remove(7, Some(1)).unwrap(), Some(JobKey { id: 7, restart: 1 }));
    assert_eq!(locked.remove(7, Some(1)).unwrap(), None, "removing twice is no error");
    assert_eq!(ledger.find(7).unwrap(), None);
}

#[test]
fn garbage_is_set_aside_and_the_rest_is_kept() {
    let (dir, ledger) = ledger();
    ledger.lock(SOON).unwrap().record(&entry(1, 0)).unwrap();
    let jobs = dir.path().join("gpushare/jobs");
    let good = entry(9, 0).to_string();
    for (name, text) in [
        ("2", String::new()),
        ("3", "\u{0}\u{1}".to_owned()),
        ("4", good[..good.len() - 5].to_owned()),
        ("5", good.replace("gpushare-ledger 4", "gpushare-ledger two")),
        ("6", good.clone()),
        ("7", good.replace("units=40", "units=-40").replace("job=9", "job=7")),
        ("8", good.replace("job=9", "job=8") + "more\nend\n"),
        ("x", good.replace("gpushare-ledger 4", "gpushare-ledger 5")),
        ("09", good.clone()),
    ] {
        std::fs::write(jobs.join(name), text).unwrap();
    }
    std::fs::create_dir(jobs.join("10")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", jobs.join("11")).unwrap();
    std::fs::write(jobs.join("12"), vec![b'x'; 1 << 20]).unwrap();
    assert!(ledger.find(4).is_err(), "a damaged entry is not \"no entry\"");
    let listing = ledger.lock(SOON).unwrap().list().unwrap();
    assert_eq!(listing.entries, [entry(1, 0)]);
    assert_eq!(listing.garbage.len(), 12, "{:?}", listing.garbage);
    let again = ledger.lock(SOON).unwrap().list().unwrap();
    assert!(again.garbage.is_empty(), "{:?}", again.garbage);
    assert_eq!(again.entries, [entry(1, 0)]);
}

#[test]
fn a_file_where_a_folder_should_be_is_set_aside() {
    let (dir, ledger) = ledger();
    drop(ledger.lock(SOON).unwrap());
    let jobs = dir.path().join("gpushare/jobs");
    std::fs::remove_dir(&jobs).unwrap();
    std::fs::write(&jobs, "garbage").unwrap();
    ledger.lock(SOON).unwrap().record(&entry(1, 0)).unwrap();
    assert_eq!(ledger.find(1).unwrap(), Some(entry(1, 0)));
}

#[test]
fn a_lock_that_others_hold_is_given_up() {
    let (_dir, ledger) = ledger();
    let held = ledger.lock(SOON).unwrap();
    assert!(matches!(ledger.lock(SOON), Err(LedgerError::Busy(..))));
    drop(held);
    assert!(ledger.lock(SOON).is_ok());
}

#[test]
fn a_folder_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, ledger) = ledger();
    drop(ledger.lock(SOON).unwrap());
    let path = dir.path().join("gpushare");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(ledger.lock(SOON), Err(LedgerError::Folder(FolderError::Unsafe(_)))));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(matches!(Ledger::at(link).lock(SOON), Err(LedgerError::Folder(FolderError::Unsafe(_)))));
}

#[test]
fn a_crash_between_write_and_rename_leaves_the_old_entry() {
    let (dir, ledger) = ledger();
    ledger.lock(SOON).unwrap().record(&entry(1, 0)).unwrap();
    std::fs::write(dir.path().join("gpushare/new"), "gpushare-ledger 1\njob=2\n").unwrap();
    assert_eq!(ledger.list().unwrap().entries, [entry(1, 0)]);
    ledger.lock(SOON).unwrap().record(&entry(2, 0)).unwrap();
    assert_eq!(ledger.list().unwrap().entries, [entry(1, 0), entry(2, 0)]);
}

#[test]
fn an_entry_of_another_version_is_neither_read_nor_lost() {
    let (dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    locked.record(&entry(1, 0)).unwrap();
    let path = dir.path().join("gpushare/jobs/9");
    std::fs::write(&path, "gpushare-ledger 5\nwhatever\n").unwrap();
    for _ in 0..2 {
        let (balance, unread) = locked.balance().unwrap();
        assert_eq!(balance, Balance::of(&[entry(1, 0)]));
        assert_eq!(unread.others, [Garbage { name: "9".to_owned(), damage: Damage::OtherVersion(5) }]);
        assert!(path.exists() && unread.garbage.is_empty());
    }
    assert!(ledger.find(9).is_err());
    assert_eq!(locked.forget(9, None).unwrap(), Some(JobKey { id: 9, restart: 0 }));
    assert!(locked.balance().unwrap().1.others.is_empty());
}

#[test]
fn the_balance_is_what_the_entries_sum_up_to() {
    let (dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    let check = |what: &str| {
        // Rows are in order of first use.
        let sorted = |balance: Balance| {
            let mut rows = balance.rows().to_vec();
            rows.sort_by_key(|row| (row.gpu.minor, row.user_id, row.allocated_gpu));
            rows
        };
        let expected = sorted(Balance::of(&ledger.list().unwrap().entries));
        let found = sorted(locked.balance().unwrap().0);
        assert_eq!(found, expected, "{what}");
    };
    check("empty");
    let mut whole = Entry { holding: Holding::Whole, gpus: vec![gpu(0), gpu(1)], ..entry(3, 0) };
    for new in [entry(1, 0), entry(2, 0), whole.clone(), Entry { user_id: 7, ..entry(4, 0) }, entry(2, 1)] {
        locked.record(&new).unwrap();
        check("recorded");
    }
    let written = std::fs::metadata(dir.path().join("gpushare/balance")).unwrap().len();
    assert_eq!(written, 40 + 4 * 36, "two shares of one user on one GPU are one row");
    whole.gpus.pop();
    locked.record(&whole).unwrap();
    check("fewer GPUs");
    for id in 1..=4 {
        locked.remove(id, None).unwrap();
        check("removed");
    }
    assert_eq!(locked.balance().unwrap().0, Balance::default());
}

#[test]
fn a_balance_that_cannot_be_right_counts_for_nothing() {
    let (dir, ledger) = ledger();
    let root = dir.path().join("gpushare");
    let mut locked = ledger.lock(SOON).unwrap();
    locked.record(&entry(1, 0)).unwrap();
    let expected = Balance::of(&[entry(1, 0)]);
    assert_eq!(locked.balance().unwrap().0, expected);
    let written = std::fs::read(root.join("balance")).unwrap();
    let with = |at: usize, byte: u8| {
        let mut other = written.clone();
        other[at] = byte;
        // Units that no job has: they show up if the file is believed.
        other[40 + 24] = 80;
        other
    };
    let cut = |length: usize| written[..length].to_vec();
    let longer = [written.clone(), vec![0; 32]].concat();
    for bytes in [
        cut(0),
        cut(8),
        cut(40),
        cut(71),
        longer,
        with(0, 0),
        with(9, 0xff),
        with(16, 0xff),
        with(32, 2),
        vec![1; 2 << 20],
    ] {
        std::fs::write(root.join("balance"), &bytes).unwrap();
        assert_eq!(locked.balance().unwrap().0, expected, "{:.80?}", bytes);
        std::fs::write(root.join("balance"), &bytes).unwrap();
        drop(locked);
        locked = ledger.lock(SOON).unwrap();
        locked.record(&entry(2, 0)).unwrap();
        locked.remove(2, None).unwrap();
        assert_eq!(locked.balance().unwrap().0, expected, "{:.80?}", bytes);
    }
    std::fs::remove_file(root.join("balance")).unwrap();
    std::fs::create_dir(root.join("balance")).unwrap();
    drop(locked);
    let locked = ledger.lock(SOON).unwrap();
    locked.record(&entry(2, 0)).unwrap();
    assert_eq!(locked.balance().unwrap().0, Balance::of(&[entry(1, 0), entry(2, 0)]));
    std::fs::remove_file(root.join("jobs/2")).unwrap();
    assert_eq!(locked.balance().unwrap().0, expected, "an administrator's hand is seen");
}

#[test]
fn a_job_whose_prolog_was_not_done_fails_if_that_start_of_it_is_recorded() {
    let (_dir, ledger) = ledger();
    let fail = |restart| ledger.fail_recorded(JobKey { id: 7, restart }, "stopped", SOON);
    assert!(!fail(1).unwrap() && !ledger.is_there(), "a node without shares");
    ledger.lock(SOON).unwrap().record(&entry(7, 1)).unwrap();
    assert!(!fail(2).unwrap());
    assert_eq!(ledger.failure(7).unwrap(), None);
    let held = ledger.lock(SOON).unwrap();
    assert!(matches!(fail(1), Err(LedgerError::Busy(..))));
    drop(held);
    assert!(fail(1).unwrap());
    assert_eq!(ledger.failure(7).unwrap().as_deref(), Some("stopped"));
}

#[test]
fn a_failure_is_one_printable_line_until_the_job_leaves_or_gets_its_gpu() {
    let (dir, ledger) = ledger();
    let key = JobKey { id: 7, restart: 1 };
    let mark = dir.path().join("gpushare/failed/7");
    let locked = ledger.lock(SOON).unwrap();
    assert_eq!(ledger.failure(7).unwrap(), None);
    locked.fail(key, "no room\n\u{1b}[2J\u{202e}x ").unwrap();
    assert_eq!(ledger.failure(7).unwrap().as_deref(), Some("no room  [2J x"));
    assert_eq!(ledger.failure(70).unwrap(), None);
    locked.fail(key, &"é".repeat(5000)).unwrap();
    assert_eq!(ledger.failure(7).unwrap().unwrap().chars().count(), 300);
    assert_eq!(ledger.failures().unwrap().len(), 1);
    assert_eq!(locked.forget(7, Some(0)).unwrap(), None);
    assert!(mark.exists(), "a late epilog leaves what is of the next start");
    locked.forget(7, Some(1)).unwrap();
    assert!(!mark.exists());
    locked.fail(JobKey { id: 7, restart: 0 }, "why").unwrap();
    locked.record(&entry(7, 1)).unwrap();
    assert_eq!(ledger.failure(7).unwrap(), None);
    for garbage in ["", "\n", "why\n", "x why\n", "0 why", "0 \n", "\u{1}\u{2}"] {
        std::fs::write(&mark, garbage).unwrap();
        assert!(ledger.failure(7).unwrap().unwrap().starts_with("this start of the job failed"), "{garbage}");
    }
    std::fs::write(&mark, b"0 \xff\xfe\n").unwrap();
    assert!(ledger.failure(7).unwrap().is_some());
    std::fs::remove_file(&mark).unwrap();
    std::fs::create_dir(&mark).unwrap();
    assert!(ledger.failure(7).unwrap().is_some());
    locked.fail(key, "why").unwrap();
    assert_eq!(ledger.failure(7).unwrap().as_deref(), Some("why"));
    std::fs::remove_file(&mark).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &mark).unwrap();
    assert!(!ledger.failure(7).unwrap().unwrap().contains("root"));
    locked.forget(7, None).unwrap();
    assert!(mark.symlink_metadata().is_err());
}

mod alive;

proptest::proptest! {
    #[test]
    fn any_text_is_an_entry_or_damage(text in "\\PC{0,300}") {
        let _ = text.parse::<Entry>();
    }

    #[test]
    fn an_entry_is_read_as_it_was_written(
        id in 0_u32.., units in 1_u32.., index in 0_u32..256, uuid in "(GPU-[a-f0-9]{4})?",
    ) {
        let mut written = entry(id, 3);
        let allocated_gpu = Some(index).filter(|_| units % 2 == 0);
        written.holding = Holding::Share { units, capacity: 80, allocated_gpu, memory: None };
        written.gpus[0].index = index;
        written.gpus[0].uuid = Some(uuid).filter(|uuid| !uuid.is_empty());
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written.clone()));
        written.holding = Holding::Whole;
        written.gpus.push(gpu(index / 2));
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written));
    }
}

#[test]
fn a_file_in_place_of_the_marks_folders_keeps_no_entry_out() {
    let (dir, ledger) = ledger();
    let locked = ledger.lock(Duration::from_secs(5)).unwrap();
    for name in ["failed", "witness"] {
        std::fs::write(dir.path().join("gpushare").join(name), "x").unwrap();
    }
    locked.record(&entry(1, 0)).unwrap();
    assert!(ledger.find(1).unwrap().is_some());
}
