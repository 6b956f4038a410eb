//! The file `counts`: how many shares and GPUs this node's prologs have given since it booted. A prolog counts after it
//! has written the entry, under the ledger's lock; if it is killed in between, it isn't counted. Errors while counting
//! never fail a job: the next prolog moves the file to `garbage/` or rewrites it. [`figures`](super::figures) reads it.

use std::io;

use super::{Entry, Holding, Locked};
use gpushare::counter_file::CounterFile;

pub(super) const COUNTS: &str = "counts";

gpushare::names! {
    /// An event that is counted. The order and the names are those in the file.
    pub enum Event: name {
        /// A share was given a GPU.
        Share = "share",
        /// A job was given whole GPUs.
        Whole = "whole",
        /// A share was given a GPU without room for it.
        Overcommitted = "overcommitted",
        /// A job could not run here.
        Failed = "failed",
    }
}

impl AsRef<str> for Event {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

impl Locked<'_> {
    /// Counts a written entry.
    pub fn count_placement(&self, entry: &Entry, overcommitted: bool) {
        match (&entry.holding, overcommitted) {
            (Holding::Share { .. }, false) => self.count(&[Event::Share]),
            (Holding::Share { .. }, true) => self.count(&[Event::Share, Event::Overcommitted]),
            (Holding::Whole, _) => self.count(&[Event::Whole]),
            (Holding::Nothing, _) => {}
        }
    }

    pub(super) fn count(&self, events: &[Event]) {
        let path = self.ledger.dir.join(COUNTS);
        let counted = CounterFile::open(&path, &Event::ALL)
            .and_then(|mut file| events.iter().try_for_each(|event| file.add(event.as_ref())));
        match counted {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => self.set_aside(&path),
            Err(_) => self.clear(&path),
            Ok(()) => {}
        }
    }
}
