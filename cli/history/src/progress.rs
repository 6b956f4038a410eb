//! A progress bar on standard error for long reads, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Often enough to look like movement.
const PAUSE: Duration = Duration::from_millis(200);
const WIDTH: u64 = 30;

/// The state that was last shown.
#[derive(Debug)]
pub struct Progress {
    shown: Option<Instant>,
    begun: Instant,
    is_seen: bool,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn start() -> Progress {
        Progress { shown: None, begun: Instant::now(), is_seen: std::io::stderr().is_terminal() }
    }

    /// Shows that `done` of `all` is done. Short work gets no bar.
    pub fn at(&mut self, done: u64, all: u64, jobs: u64) {
        let since = self.shown.unwrap_or(self.begun);
        if self.is_seen && since.elapsed() >= PAUSE {
            self.shown = Some(Instant::now());
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", bar(done, all, jobs));
        }
    }
}

/// Removes the line when the work is done or has failed.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(done: u64, all: u64, jobs: u64) -> String {
    let part = |of: u64| of * done.min(all) / all.max(1);
    let full: String = (0..WIDTH).map(|at| if at < part(WIDTH) { '#' } else { '.' }).collect();
    format!("reading jobs [{full}] {:3} %, {jobs} read", part(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        assert_eq!(bar(0, 0, 0), format!("reading jobs [{}]   0 %, 0 read", ".".repeat(30)));
        assert_eq!(
            bar(1, 2, 7),
            format!("reading jobs [{}{}]  50 %, 7 read", "#".repeat(15), ".".repeat(15))
        );
        assert_eq!(bar(9, 3, 7), format!("reading jobs [{}] 100 %, 7 read", "#".repeat(30)));
    }
}
