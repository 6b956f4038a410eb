use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::fake::{self, SOON, ledger};
use crate::gpu::Gpu;

fn gpu(index: u32) -> Gpu {
    Gpu { uuid: Some("GPU-1".to_owned()), ..fake::gpu(index) }
}

fn entry(id: u32, restart: u32) -> Entry {
    Entry {
        holding: Holding::Share { units: 40, capacity: 80, allocated_gpu: Some(0), memory: None },
        gpus: vec![gpu(2)],
        since: 1_700_000_000,
        ..Entry::without_gpus(JobKey { id, restart }, 2001)
    }
}

fn failure(ledger: &Ledger, id: u32) -> Option<String> {
    ledger.find(id).unwrap().and_then(|entry| entry.failure)
}

#[test]
fn what_is_recorded_is_found_until_it_is_removed() {
    let (dir, ledger) = ledger();
    assert!(ledger.list().unwrap().entries.is_empty(), "no folder is an empty ledger");
    assert_eq!(ledger.find(7).unwrap(), None);
    let locked = ledger.lock(SOON).unwrap();
    locked.record(&entry(7, 0)).unwrap();
    locked.record(&entry(7, 1)).unwrap();
    assert!(ledger.knows(7) && !ledger.knows(71));
    locked.record(&entry(70, 0)).unwrap();
    assert_eq!(ledger.find(7).unwrap(), Some(entry(7, 1)), "the latest start counts");
    assert_eq!(locked.list().unwrap().entries, [entry(7, 1), entry(70, 0)]);
    assert_eq!(locked.forget(7, Some(0)).unwrap(), None, "it is of a later start");
    let socket = dir.path().join("gpushare/mender-7");
    std::fs::write(&socket, "").unwrap();
    assert_eq!(locked.forget(7, Some(1)).unwrap(), Some(JobKey { id: 7, restart: 1 }));
    assert!(!socket.exists());
    assert_eq!(locked.forget(7, Some(1)).unwrap(), None, "removing twice is no error");
    assert_eq!(ledger.find(7).unwrap(), None);
}

#[test]
fn garbage_is_set_aside_and_the_rest_is_kept() {
    let (dir, ledger) = ledger();
    ledger.lock(SOON).unwrap().record(&entry(1, 0)).unwrap();
    let jobs = dir.path().join("gpushare/jobs");
    let good = entry(9, 0).to_string();
    for (name, text) in [
        ("2", "\n".to_owned()),
        ("3", "\u{0}\u{1}".to_owned()),
        ("4", good[..good.len() - 5].to_owned()),
        ("5", good.replace("gpushare-ledger 5", "gpushare-ledger two")),
        ("6", good.clone()),
        ("7", good.replace("units=40", "units=-40").replace("job=9", "job=7")),
        ("8", good.replace("job=9", "job=8") + "more\nend\n"),
        ("x", good.replace("gpushare-ledger 5", "gpushare-ledger 6")),
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
fn a_placement_is_counted_by_what_the_job_got() {
    let (_dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    let whole = Entry { holding: Holding::Whole, ..entry(8, 0) };
    let nothing = Entry::without_gpus(JobKey { id: 9, restart: 0 }, 2001);
    for (entry, overcommitted) in
        [(entry(6, 0), false), (entry(7, 0), true), (whole, false), (nothing, false)]
    {
        locked.count_placement(&entry, overcommitted);
    }
    let counts = figures::counts(&ledger).unwrap();
    let of = |name: &str| {
        Event::ALL.into_iter().find(|event| event.as_ref() == name).map(|event| counts.of(event))
    };
    assert_eq!(["share", "whole", "overcommitted", "failed"].map(of), [2, 1, 1, 0].map(Some));
}

#[test]
fn counts_that_cannot_be_opened_stay_and_what_is_no_file_of_counts_goes() {
    let (dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    locked.count_placement(&entry(6, 0), false);
    let counts = dir.path().join("gpushare/counts");
    std::fs::set_permissions(&counts, Permissions::from_mode(0o0)).unwrap();
    locked.count_placement(&entry(7, 0), false);
    assert!(counts.exists(), "the next prolog may open it");
    std::fs::set_permissions(&counts, Permissions::from_mode(0o644)).unwrap();
    std::fs::write(&counts, "garbage").unwrap();
    locked.count_placement(&entry(8, 0), false);
    assert!(!counts.exists());
}

#[test]
fn an_entry_says_what_it_holds() {
    let share = entry(7, 0);
    let whole = Entry { holding: Holding::Whole, ..entry(7, 0) };
    assert_eq!((share.share_gpu(), whole.share_gpu()), (Some(&gpu(2)), None));
    assert_eq!([80, 160, 79].map(|now| share.units_of(now)), [40, 80, 40]);
    let unknown = Holding::Share { units: 40, capacity: 0, allocated_gpu: None, memory: None };
    assert_eq!(Entry { holding: unknown, ..entry(7, 0) }.units_of(80), 40);
    let nothing = Entry::without_gpus(JobKey { id: 7, restart: 0 }, 2001);
    assert_eq!(nothing.to_string().parse::<Entry>(), Ok(nothing), "it asked for no GPU");
}

#[test]
fn a_value_that_no_entry_has_is_damage() {
    let good = entry(7, 0).to_string();
    for (old, new, line) in [
        ("state=placed", "state=lost", "state"),
        ("holding=share", "holding=all", "holding"),
        ("GPU-1 /", "GPU-1 ", "gpu"),
    ] {
        assert!(good.contains(old), "{good}");
        assert_eq!(good.replace(old, new).parse::<Entry>(), Err(Damage::Line(line)), "{new}");
    }
}

#[test]
fn what_finds_no_place_in_garbage_is_removed() {
    let (dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    let (jobs, garbage) = (dir.path().join("gpushare/jobs"), dir.path().join("gpushare/garbage"));
    for number in 0..=MOST_ASIDE {
        std::fs::write(jobs.join("x"), number.to_string()).unwrap();
        assert_eq!(locked.list().unwrap().garbage.len(), 1);
        assert!(!jobs.join("x").exists(), "{number}");
    }
    assert_eq!(garbage.read_dir().unwrap().count(), usize::try_from(MOST_ASIDE).unwrap());
}

#[test]
fn a_ledger_that_cannot_be_read_is_not_an_empty_one() {
    let (dir, ledger) = ledger();
    drop(ledger.lock(SOON).unwrap());
    let jobs = dir.path().join("gpushare/jobs");
    std::fs::remove_dir(&jobs).unwrap();
    std::fs::write(&jobs, "garbage").unwrap();
    assert!(matches!(ledger.list(), Err(LedgerError::Read(..))));
    assert!(matches!(ledger.find(7), Err(LedgerError::Entry(..))));
    assert!(ledger.knows(7));
}

#[test]
fn a_lock_that_is_released_in_time_is_taken() {
    let (_dir, ledger) = ledger();
    let held = ledger.lock(SOON).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ledger.lock(Duration::from_secs(60)).is_ok());
        // Most likely it waits by then; if not, it finds the lock free.
        std::thread::sleep(Duration::from_millis(20));
        drop(held);
        assert!(waiting.join().unwrap());
    });
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
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let jobs = path.join("jobs");
    std::fs::set_permissions(&jobs, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(ledger.lock(SOON), Err(LedgerError::Folder(FolderError::Unsafe(_)))));
    assert!(jobs.exists(), "it stays for the administrator");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(matches!(Ledger::at(link).lock(SOON), Err(LedgerError::Folder(FolderError::Unsafe(_)))));
}

#[test]
fn an_empty_file_is_a_job_that_had_no_room() {
    let (dir, ledger) = ledger();
    ledger.lock(SOON).unwrap().record(&entry(1, 0)).unwrap();
    std::fs::write(dir.path().join("gpushare/jobs/2"), "").unwrap();
    let locked = ledger.lock(SOON).unwrap();
    let why = "no room for its record in /run/gpushare on this node";
    for _ in 0..2 {
        let listing = locked.list().unwrap();
        assert_eq!(listing.failures, [(2, why.to_owned())], "it stays until the job has ended");
        assert_eq!((listing.entries, listing.garbage), (vec![entry(1, 0)], vec![]), "and has no GPU");
    }
    assert_eq!(failure(&ledger, 2).as_deref(), Some(why));
    locked.record(&entry(2, 0)).unwrap();
    assert_eq!(failure(&ledger, 2), None, "another try had room");
    std::fs::write(dir.path().join("gpushare/jobs/2"), "").unwrap();
    assert_eq!(locked.forget(2, Some(3)).unwrap(), None);
    assert!(!ledger.knows(2), "an epilog removes it");
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
    std::fs::write(&path, "gpushare-ledger 6\nwhatever\n").unwrap();
    for _ in 0..2 {
        let listing = locked.list().unwrap();
        assert_eq!(listing.entries, [entry(1, 0)]);
        assert_eq!(listing.garbage, [Garbage { name: "9".to_owned(), damage: Damage::OtherVersion(6) }]);
        assert!(path.exists() && listing.garbage[0].is_entry());
        assert!(locked.fail(JobKey { id: 9, restart: 0 }, 2001, "why").is_err(), "its job may have a GPU");
    }
    assert!(ledger.find(9).is_err());
    assert_eq!(locked.forget(9, None).unwrap(), Some(JobKey { id: 9, restart: 0 }));
    assert!(locked.list().unwrap().garbage.is_empty());
}

#[test]
fn a_node_that_had_gpus_to_give_has_lost_its_file() {
    let (dir, ledger) = ledger();
    let rules = || ledger.rules(&dir.path().join("gpushare.conf"), None);
    assert_eq!(rules().unwrap(), NodeConfig::default());
    drop(ledger.lock(SOON).unwrap());
    assert!(rules().unwrap_err().to_string().ends_with("gpushare.conf: there is no such file"));
    fs::write(dir.path().join("gpushare.conf"), "Placement=off").unwrap();
    assert_eq!(rules().unwrap(), NodeConfig::default());
}

#[test]
fn a_job_whose_prolog_was_not_done_fails_if_that_start_of_it_is_recorded() {
    let (_dir, ledger) = ledger();
    let fail = |restart| ledger.fail_recorded(JobKey { id: 7, restart }, "stopped", SOON);
    assert!(!fail(1).unwrap() && !ledger.is_there(), "a node without shares");
    ledger.lock(SOON).unwrap().record(&entry(7, 1)).unwrap();
    assert!(!fail(0).unwrap());
    assert_eq!(ledger.find(7).unwrap(), Some(entry(7, 1)), "it is of a later start");
    assert!(!fail(2).unwrap());
    assert_eq!(ledger.find(7).unwrap(), None, "the steps would have the earlier start's GPU");
    ledger.lock(SOON).unwrap().record(&entry(7, 1)).unwrap();
    let held = ledger.lock(SOON).unwrap();
    assert!(matches!(fail(1), Err(LedgerError::Busy(..))));
    drop(held);
    assert!(fail(1).unwrap());
    assert_eq!(failure(&ledger, 7).as_deref(), Some("stopped"));
    assert!(ledger.find(7).unwrap().unwrap().has_gpus(), "it keeps its GPU until its epilog");
    assert!(ledger.is_there());
    ledger.lock(SOON).unwrap().forget(7, None).unwrap();
    ledger.lock(SOON).unwrap().fail(JobKey { id: 7, restart: 1 }, 2001, "no room").unwrap();
    assert!(!fail(1).unwrap(), "its steps fail already");
    assert_eq!(failure(&ledger, 7).as_deref(), Some("no room"));
}

#[test]
fn a_failure_is_one_printable_line_until_the_job_leaves_or_gets_its_gpu() {
    let (dir, ledger) = ledger();
    let key = JobKey { id: 7, restart: 1 };
    let path = dir.path().join("gpushare/jobs/7");
    let locked = ledger.lock(SOON).unwrap();
    let fail = |key, reason: &str| locked.fail(key, 2001, reason).unwrap();
    assert_eq!(failure(&ledger, 7), None);
    fail(key, "no room\n\u{1b}[2J\u{202e}x ");
    assert_eq!(failure(&ledger, 7).as_deref(), Some("no room  [2J x"));
    assert_eq!(failure(&ledger, 70), None);
    fail(key, &"é".repeat(5000));
    assert_eq!(failure(&ledger, 7).unwrap().chars().count(), 300);
    fail(key, &format!("{}\0\0{}", "x".repeat(298), "y".repeat(9)));
    assert_eq!(failure(&ledger, 7), Some("x".repeat(298)), "what is written is what was said");
    let listing = ledger.list().unwrap();
    assert_eq!((listing.failures.len(), listing.entries.len()), (1, 0), "it has no GPU");
    assert_eq!(locked.forget(7, Some(0)).unwrap(), None);
    assert!(path.exists(), "a late epilog leaves what is of the next start");
    assert_eq!(locked.forget(7, Some(1)).unwrap(), None, "it had no GPU");
    assert!(!path.exists());
    fail(JobKey { id: 7, restart: 0 }, "why");
    locked.record(&entry(7, 1)).unwrap();
    assert_eq!(failure(&ledger, 7), None);
    fail(key, "why");
    assert_eq!(ledger.list().unwrap().entries.len(), 1, "it keeps its GPU");
    std::fs::write(&path, "garbage").unwrap();
    fail(key, "why");
    assert_eq!(failure(&ledger, 7).as_deref(), Some("why"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(ledger.find(7).is_err());
    fail(key, "why");
    assert_eq!(failure(&ledger, 7).as_deref(), Some("why"));
    locked.forget(7, None).unwrap();
    assert!(path.symlink_metadata().is_err());
}

#[test]
fn an_extern_step_marks_its_own_start_whichever_that_is() {
    let (_dir, ledger) = ledger();
    let locked = ledger.lock(SOON).unwrap();
    let [own, others] = [7, 8].map(|pid| Some(Witness { pid, start: 1 }));
    for (before, kept) in [
        (Some(entry(7, 1)), true),
        (Some(Entry { witness: own, ..entry(7, 1) }), true),
        (Some(Entry { witness: others, ..entry(7, 1) }), false),
        (Some(Entry { user_id: 2002, ..entry(7, 1) }), false),
        (None, false),
    ] {
        locked.forget(7, None).unwrap();
        before.iter().for_each(|entry| locked.record(entry).unwrap());
        extern_step::fail(&locked, own, (7, 2001), "no fence").unwrap();
        let found = ledger.find(7).unwrap().unwrap();
        assert_eq!((found.failure.as_deref(), found.witness), (Some("no fence"), own));
        assert_eq!((found.has_gpus(), found.user_id), (kept, 2001), "{before:?}");
    }
}

mod alive;
mod full;

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
        written.gpus[0].uuid = Some(uuid.clone()).filter(|uuid| !uuid.is_empty());
        written.given.pci = Some("0000:c1:00.0".to_owned()).filter(|_| units % 3 == 0);
        written.given.daemon = Some(PathBuf::from("/run/gpushare/mps/2.2001")).filter(|_| units % 5 == 0);
        written.given.driver_limits = units % 7 == 0;
        written.node = Some("n1".to_owned()).filter(|_| units % 4 == 0);
        written.given.variables = vec![("A".to_owned(), String::new()), ("B".to_owned(), format!("{uuid}=x y"))];
        written.witness = Some(Witness { pid: index, start: 1 << 40 }).filter(|_| units % 2 == 0);
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written.clone()));
        written.failure = Some("no room: x=y".to_owned());
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written.clone()));
        written.holding = Holding::Whole;
        written.gpus.push(gpu(index / 2));
        proptest::prop_assert_eq!(written.to_string().parse::<Entry>(), Ok(written));
    }
}
