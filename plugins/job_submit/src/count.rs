//! How often each message was given, in the file of `RefusalCounts` on the controller, for `gpushare metrics`.
//!
//! This is never called for an accepted, unchanged request. Any other request writes 42 bytes in place; simultaneous
//! requests wait for that, as they do for the log. If the file is unusable, the log gets one error, and nothing else
//! happens.

use std::path::Path;

use gpushare::counter_file::CounterFile;
use gpushare::submit::counters::{self, Outcome};
use parking_lot::Mutex;

/// The counts, after the plugin is loaded.
pub struct Counted {
    open: Mutex<Open>,
}

struct Open {
    file: Option<CounterFile>,
    /// Why it isn't open, as the log has it.
    complaint: String,
}

impl Counted {
    pub const fn new() -> Counted {
        Counted { open: Mutex::new(Open { file: None, complaint: String::new() }) }
    }

    /// Counts in this file from now on, or not at all. Continues from the counts of whoever wrote it last. Called again
    /// when this slurmctld takes control: as a standby it has missed what the other one counted.
    pub fn start(&self, path: Option<&Path>) {
        // Nobody counts in the old file after the new one has been read.
        let mut open = self.open.lock();
        open.file = path.and_then(|path| match CounterFile::open(path, &counters::names()) {
            Ok(file) => Some(file),
            Err(error) => {
                let complaint = format!("RefusalCounts={}: {error}", path.display());
                if open.complaint != complaint {
                    log::error!(
                        "job_submit/gpushare: messages are not counted: {complaint}; SlurmUser must be able to write it"
                    );
                    open.complaint = complaint;
                }
                None
            }
        });
    }

    /// Adds 1. A count that can't be written is written together with the next one.
    pub fn add(&self, number: &str, verdict: Outcome) {
        if let Some(counter_file) = self.open.lock().file.as_mut() {
            let _ = counter_file.add(&counters::name(number, verdict));
        }
    }
}
