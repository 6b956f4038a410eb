//! Any text as a job's file in the ledger: no panic, and an entry that is written reads the same.
#![no_main]

use gpushare_node::ledger::{Entry, Holding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // gpushare writes none of these, and the end of a line takes one along.
    if text.contains('\r') {
        return;
    }
    match text.parse::<Entry>() {
        Ok(entry) => {
            assert_eq!(entry.to_string().parse::<Entry>().as_ref(), Ok(&entry), "{entry}");
            let is_share = matches!(entry.holding, Holding::Share { .. });
            assert_eq!((entry.share_gpu().is_some(), entry.has_gpus()), (is_share, !entry.gpus.is_empty()));
        }
        Err(damage) => {
            let why = damage.to_string();
            assert!(!why.is_empty() && !why.contains(char::is_control), "{why:?}");
        }
    }
});
