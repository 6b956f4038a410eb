//! A disk without room for an entry.

use std::process::{Command, Stdio};

use super::*;

/// The ledger of a process that can't write a byte into a file.
const FULL: &str = "GPUSHARE_TEST_FULL_LEDGER";

#[test]
fn what_finds_no_room_leaves_an_empty_file_if_its_steps_must_not_run() {
    let failed = Entry { failure: Some("why".to_owned()), ..Entry::without_gpus(entry(2, 0).key, 2001) };
    let whole = Entry { holding: Holding::Whole, ..entry(3, 0) };
    if let Some(dir) = std::env::var_os(FULL) {
        let ledger = Ledger::at(dir);
        let locked = ledger.lock(SOON).unwrap();
        for entry in [entry(1, 0), failed, whole] {
            assert!(matches!(locked.record(&entry), Err(LedgerError::Write(..))), "{entry}");
        }
        locked.fail(entry(4, 0).key, 2001, "why").unwrap_err();
        return;
    }
    let (_dir, ledger) = ledger();
    ledger.lock(SOON).unwrap().record(&entry(4, 0)).unwrap();
    let name = "ledger::tests::full::what_finds_no_room_leaves_an_empty_file_if_its_steps_must_not_run";
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" --exact \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name);
    assert!(command.env(FULL, &ledger.dir).stdout(Stdio::null()).status().unwrap().success());
    let listing = ledger.list().unwrap();
    let failed: Vec<u32> = listing.failures.iter().map(|(id, _)| *id).collect();
    assert_eq!(failed, [1, 2], "whole GPUs are Slurm's, and the job has them without an entry");
    assert_eq!((listing.entries, ledger.knows(3)), (vec![entry(4, 0)], false), "it keeps its GPU");
}
