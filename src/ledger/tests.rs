use super::*;
use crate::device::{DeviceNumber, Gpu};

const SOON: Duration = Duration::from_millis(20);

fn gpu(index: u32) -> Gpu {
    let number = DeviceNumber { major: 195, minor: index };
    Gpu { index, path: format!("/dev/nvidia{index}").into(), number, uuid: Some("GPU-1".to_owned()) }
}

fn entry(id: u32, restart: u32) -> Entry {
    Entry {
        key: JobKey { id, restart },
        user_id: 2001,
        holding: Holding::Share { units: 40, capacity: 80, charged: Some(0) },
        gpus: vec![gpu(2)],
        since: 1_700_000_000,
    }
}

fn ledger() -> (tempfile::TempDir, Ledger) {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(dir.path().join("gpushare"));
    (dir, ledger)
}

#[test]
fn what_is_recorded_is_found_until_it_is_removed() {
    let (_dir, ledger) = ledger();
    assert!(ledger.list().unwrap().entries.is_empty(), "no folder is an empty ledger");
    assert_eq!(ledger.find(7).unwrap(), None);
    let locked = ledger.lock(SOON).unwrap();
    locked.record(&entry(7, 0)).unwrap();
    locked.record(&entry(7, 1)).unwrap();
    locked.record(&entry(70, 0)).unwrap();
    assert_eq!(ledger.find(7).unwrap(), Some(entry(7, 1)), "the latest start counts");
    assert_eq!(locked.list().unwrap().entries, [entry(7, 0), entry(7, 1), entry(70, 0)]);
    let mut keys = ledger.keys(7).unwrap();
    keys.sort();
    assert_eq!(keys, [JobKey { id: 7, restart: 0 }, JobKey { id: 7, restart: 1 }]);
    assert!(locked.remove(JobKey { id: 7, restart: 1 }).unwrap());
    assert!(!locked.remove(JobKey { id: 7, restart: 1 }).unwrap(), "removing twice is no error");
    assert_eq!(ledger.find(7).unwrap(), Some(entry(7, 0)));
}

#[test]
fn garbage_is_set_aside_and_the_rest_is_kept() {
    let (dir, ledger) = ledger();
    ledger.lock(SOON).unwrap().record(&entry(1, 0)).unwrap();
    let jobs = dir.path().join("gpushare/jobs");
    let good = entry(9, 0).to_string();
    for (name, text) in [
        ("2.0", String::new()),
        ("3.0", "\u{0}\u{1}".to_owned()),
        ("4.0", good[..good.len() - 5].to_owned()),
        ("5.0", good.replace("gpushare-ledger 2", "gpushare-ledger 3")),
        ("6.0", good.clone()),
        ("7.0", good.replace("units=40", "units=-40").replace("job=9", "job=7")),
        ("8.0", good.replace("job=9", "job=8") + "more\nend\n"),
        ("x", good.clone()),
        ("09.0", good.clone()),
    ] {
        std::fs::write(jobs.join(name), text).unwrap();
    }
    std::fs::create_dir(jobs.join("10.0")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", jobs.join("11.0")).unwrap();
    std::fs::write(jobs.join("12.0"), vec![b'x'; 1 << 20]).unwrap();
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
    assert!(matches!(ledger.lock(SOON), Err(LedgerError::Unsafe(_))));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(matches!(Ledger::at(link).lock(SOON), Err(LedgerError::Unsafe(_))));
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

proptest::proptest! {
    #[test]
    fn any_text_is_an_entry_or_damage(text in "\\PC{0,300}") {
        let _ = text.parse::<Entry>();
    }

    #[test]
    fn an_entry_is_read_as_it_was_written(id in 0_u32.., units in 1_u32.., index in 0_u32..256, uuid in "(GPU-[a-f0-9]{4})?") {
        let mut written = entry(id, 3);
        written.holding = Holding::Share { units, capacity: 80, charged: Some(index).filter(|_| units % 2 == 0) };
        written.gpus[0].index = index;
        written.gpus[0].uuid = Some(uuid).filter(|uuid| !uuid.is_empty());
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written.clone()));
        written.holding = Holding::Whole;
        written.gpus.push(gpu(index / 2));
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written));
    }
}
