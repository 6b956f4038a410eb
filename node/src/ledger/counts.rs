//! How many shares and GPUs this node's prologs have given since it booted, in the file `counts`, for `gpushare
//! metrics`. A prolog counts after it has written the entry, under the ledger's lock; if it is killed in between, it
//! isn't counted. Errors while counting never fail a job: the next prolog moves the file to `garbage/` or rewrites it.

use std::io;

use super::{Entry, Holding, Ledger, Locked};
use gpushare::counter_file::{self, CounterFile};

const FILE: &str = "counts";

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

/// The counts since the node booted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// How often the event happened.
    pub fn of(&self, event: Event) -> u64 {
        self.0.get(event as usize).copied().unwrap_or(0)
    }
}

impl Ledger {
    /// Reads the counts; all 0 if no prolog has counted yet.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn counts(&self) -> io::Result<Counts> {
        match counter_file::read(&self.dir.join(FILE), &Event::ALL) {
            Ok(counts) => Ok(Counts(counts)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Counts::default()),
            Err(error) => Err(error),
        }
    }
}

impl Locked<'_> {
    /// Counts a written entry.
    pub fn count_placement(&self, entry: &Entry, overcommitted: bool) {
        match (&entry.holding, overcommitted) {
            (Holding::Share { .. }, false) => self.count(&[Event::Share]),
            (Holding::Share { .. }, true) => self.count(&[Event::Share, Event::Overcommitted]),
            (Holding::Whole, _) => self.count(&[Event::Whole]),
        }
    }

    pub(super) fn count(&self, events: &[Event]) {
        let path = self.ledger.dir.join(FILE);
        let counted = CounterFile::open(&path, &Event::ALL)
            .and_then(|mut file| events.iter().try_for_each(|event| file.add(event.as_ref())));
        match counted {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => self.set_aside(&path),
            Err(_) => self.clear(&path),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{SOON, ledger};
    use crate::job::JobKey;

    #[test]
    fn a_job_that_fails_twice_in_one_start_is_counted_once() {
        let (_dir, ledger) = ledger();
        assert_eq!(ledger.counts().unwrap(), Counts::default());
        let locked = ledger.lock(SOON).unwrap();
        let failed = |id, restart| {
            locked.fail(JobKey { id, restart }, "why").unwrap();
            ledger.counts().unwrap().of(Event::Failed)
        };
        assert_eq!([failed(7, 0), failed(7, 0), failed(7, 1), failed(8, 1)], [1, 1, 2, 3]);
        assert_eq!(ledger.counts().unwrap().of(Event::Share), 0);
    }

    #[test]
    fn every_event_has_a_count_of_its_own() {
        let (_dir, ledger) = ledger();
        let locked = ledger.lock(SOON).unwrap();
        for (index, event) in Event::ALL.iter().enumerate() {
            (0..=index).for_each(|_| locked.count(&[*event]));
        }
        assert_eq!(Event::ALL.map(|event| ledger.counts().unwrap().of(event)), [1, 2, 3, 4]);
    }

    #[test]
    fn what_stands_in_its_place_is_set_aside() {
        let (dir, ledger) = ledger();
        let locked = ledger.lock(SOON).unwrap();
        std::fs::create_dir(dir.path().join("gpushare/counts")).unwrap();
        assert!(ledger.counts().is_err());
        locked.count(&[Event::Share]);
        locked.count(&[Event::Share]);
        assert_eq!(ledger.counts().unwrap().of(Event::Share), 1);
        std::fs::write(dir.path().join("gpushare/counts"), "garbage").unwrap();
        locked.count(&[Event::Share]);
        locked.count(&[Event::Share]);
        assert_eq!(ledger.counts().unwrap().of(Event::Share), 1);
        let aside = std::fs::read_to_string(dir.path().join("gpushare/garbage/counts.1"));
        assert_eq!(aside.unwrap(), "garbage");
    }
}
