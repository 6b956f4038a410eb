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
    open: Mutex<Option<CounterFile>>,
}

impl Counted {
    pub const fn new() -> Counted {
        Counted { open: Mutex::new(None) }
    }

    /// Counts in this file from now on, or not at all. Continues from the counts of whoever wrote it last. Called again
    /// when this slurmctld takes control: as a standby it has missed what the other one counted.
    pub fn start(&self, path: Option<&Path>) {
        // Nobody counts in the old file after the new one has been read.
        let mut open = self.open.lock();
        let opened = path.map(|path| {
            CounterFile::open(path, &counters::names()).map_err(|error| {
                log::error!(
                    "job_submit/gpushare: messages are not counted: RefusalCounts={}: {error}; SlurmUser must be \
                     able to write it",
                    path.display()
                );
            })
        });
        *open = opened.and_then(Result::ok);
    }

    /// Adds 1. A count that can't be written is written together with the next one.
    pub fn add(&self, number: &str, verdict: Outcome) {
        if let Some(counter_file) = self.open.lock().as_mut() {
            let _ = counter_file.add(&counters::name(number, verdict));
        }
    }
}
