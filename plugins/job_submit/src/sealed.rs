//! Lines of the log that `gpushare audit` counts, each with a seal: see `gpushare::submit::seal`. The key is in
//! `StateSaveLocation`. Where it can't be had, that is one error in the log, and the lines have no seal.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use gpushare::submit::log_line::LogLine;
use gpushare::submit::seal::{self, Key};
use parking_lot::RwLock;

/// The key, once the plugin is loaded.
pub struct Sealed {
    key: RwLock<Option<Key>>,
    /// The next line's number.
    next: AtomicU64,
}

impl Sealed {
    pub const fn new() -> Sealed {
        Sealed { key: RwLock::new(None), next: AtomicU64::new(0) }
    }

    /// Reads or makes the key of a `StateSaveLocation`. The numbers begin at the time in microseconds: no slurmctld
    /// writes that many lines, so those of the next one are higher.
    pub fn start(&self, folder: Option<&Path>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.next.store(u64::try_from(now.as_micros()).unwrap_or(0), Ordering::Relaxed);
        let key = folder.map(|folder| {
            let key = random().and_then(|random| seal::read_or_make(folder, random));
            key.map_err(|error| {
                log::error!(
                    "job_submit/gpushare: {}: {error}; gpushare audit can't tell gpushare's lines from forged ones",
                    seal::path(folder).display()
                );
            })
        });
        *self.key.write() = key.and_then(Result::ok);
    }

    /// The text of a line.
    pub fn line(&self, line: &LogLine) -> String {
        let line = line.to_string();
        let number = || self.next.fetch_add(1, Ordering::Relaxed);
        let key = *self.key.read();
        key.map_or_else(|| line.clone(), |key| key.sealed(&line, number()))
    }
}

fn random() -> io::Result<[u64; 2]> {
    let mut file = File::open("/dev/urandom")?;
    let mut word = || -> io::Result<u64> {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    };
    Ok([word()?, word()?])
}
