//! `--watch`: refreshes every few seconds and redraws in place.
//!
//! Signals, keys and refreshes each have their own thread; this one draws. So the user can leave while a refresh waits
//! for Slurm. On failure, it shows the error above the last good output.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::columns::{self, Line};
use super::{Look, StatusError, local};

mod screen;

use screen::Screen;

/// Longer than any user watches.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

enum Event {
    Signal(i32),
    Key(u8),
    /// A refresh has ended, with its result.
    Seen(Result<Look, StatusError>),
    /// The thread for refreshes has ended.
    Broken,
}

/// What is on the screen.
#[derive(Default)]
struct Shown {
    lines: Vec<Line>,
    complaints: Vec<String>,
    /// Why the last refresh failed.
    trouble: Option<StatusError>,
    /// The time of the last refresh, in seconds since 1970.
    time: u64,
}

/// Refreshes and draws until the user ends it.
///
/// # Errors
/// There is no terminal to draw on, or it has disappeared.
pub fn run<L>(interval: Duration, colour: bool, look: L) -> Result<(), StatusError>
where
    L: FnMut() -> Result<Look, StatusError> + Send + 'static,
{
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return Err(StatusError::NoTerminal);
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(StatusError::DumbTerminal);
    }
    let (sender, events) = mpsc::channel();
    // Before the screen changes: a signal between the two must not leave the terminal changed.
    take_signals(sender.clone())?;
    let mut screen = Screen::enter(&stdout).map_err(StatusError::Terminal)?;
    take_keys(sender.clone());
    let next = take_looks(sender, look);
    let mut shown = Shown::default();
    let mut due = None;
    let _ = next.send(());
    loop {
        let drawn = screen.draw(|rows, columns| rows_of(&shown, interval, rows, columns, colour));
        drawn.map_err(StatusError::Terminal)?;
        let wait = due.map_or(NEVER, |due: Instant| due.saturating_duration_since(Instant::now()));
        match events.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {
                due = None;
                let _ = next.send(());
            }
            Ok(Event::Seen(seen)) => {
                shown.take(seen);
                due = Some(Instant::now() + interval);
            }
            Ok(Event::Key(b'q' | b'Q')) => return Ok(()),
            Ok(Event::Key(_) | Event::Signal(SIGWINCH)) => {}
            Ok(Event::Signal(SIGCONT)) => screen.enter_again().map_err(StatusError::Terminal)?,
            Ok(Event::Signal(signal)) => {
                screen.leave();
                // Ends this program like the signal would, or stops it until SIGCONT.
                let _ = emulate_default_handler(signal);
            }
            Ok(Event::Broken) | Err(RecvTimeoutError::Disconnected) => {
                return Err(StatusError::Broken);
            }
        }
    }
}

fn take_signals(to: Sender<Event>) -> Result<(), StatusError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH])
        .map_err(StatusError::Signals)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if to.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reads keys, if standard input is a terminal.
fn take_keys(to: Sender<Event>) {
    if !std::io::stdin().is_terminal() {
        return;
    }
    thread::spawn(move || {
        for key in std::io::stdin().lock().bytes() {
            if key.map_or(true, |key| to.send(Event::Key(key)).is_err()) {
                return;
            }
        }
    });
}

/// Runs one refresh for each message to the returned sender.
fn take_looks<L>(to: Sender<Event>, mut look: L) -> Sender<()>
where
    L: FnMut() -> Result<Look, StatusError> + Send + 'static,
{
    let (next, words) = mpsc::channel();
    thread::spawn(move || {
        let guard = Guard(to);
        while words.recv().is_ok() && guard.0.send(Event::Seen(look())).is_ok() {}
    });
    next
}

/// Reports when a thread ends, however it ends.
struct Guard(Sender<Event>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Broken);
    }
}

impl Shown {
    fn take(&mut self, seen: Result<Look, StatusError>) {
        match seen {
            Ok(Look { lines, complaints }) => {
                *self = Shown { lines, complaints, trouble: None, time: local::now() };
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }
}

/// The rows of the screen: a header, any error, and as many lines as fit.
fn rows_of(shown: &Shown, interval: Duration, rows: usize, columns: usize, colour: bool) -> Vec<String> {
    let wrong = |text: &str| Line::new(text, columns::Look::Wrong);
    let head = match shown.time {
        0 => "reading …  (q quits)".to_owned(),
        time => {
            let (hour, minute, second) = (time / 3600 % 24, time / 60 % 60, time % 60);
            let every = interval.as_secs();
            format!("{hour:02}:{minute:02}:{second:02} UTC, every {every} s  (q quits)")
        }
    };
    let mut all = vec![Line::new(&format!("gpushare status  {head}"), columns::Look::Bold)];
    all.extend(shown.trouble.iter().map(|trouble| wrong(&format!("the last refresh failed: {trouble}"))));
    all.extend(shown.complaints.iter().map(|complaint| wrong(complaint)));
    all.push(Line::default());
    all.extend(shown.lines.iter().cloned());
    if all.len() > rows {
        let kept = rows.saturating_sub(1);
        let more = Line::new(&format!("… {} more lines", all.len() - kept), columns::Look::Bold);
        all.truncate(kept);
        all.push(more);
        all.truncate(rows);
    }
    all.iter().map(|line| line.render(Some(columns), colour)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(count: usize) -> Shown {
        let mut shown = Shown::default();
        let lines =
            (0..count).map(|number| Line::new(&format!("line {number}"), columns::Look::Plain)).collect();
        shown.take(Ok(Look { lines, complaints: vec!["a complaint\x1b[2J".to_owned()] }));
        shown.time = 3 * 86_400 + 4 * 3600 + 5 * 60 + 6;
        shown
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let rows = |shown: &Shown, rows| rows_of(shown, Duration::from_secs(2), rows, 40, false);
        let all = rows(&shown(3), 6);
        assert_eq!(all[0], "gpushare status  04:05:06 UTC, every 2 s");
        assert_eq!(all[1..], ["a complaint\\u{1b}[2J", "", "line 0", "line 1", "line 2"]);
        assert_eq!(rows(&shown(4), 6)[4..], ["line 1", "… 2 more lines"]);
        assert_eq!(rows(&shown(4), 1), ["… 7 more lines"]);
        assert_eq!(rows(&shown(4), 0), [""; 0]);
    }

    #[test]
    fn lines_are_cut_to_the_width() {
        for columns in [0, 1, 7, 30] {
            for row in rows_of(&shown(5), Duration::from_secs(2), 30, columns, false) {
                assert!(row.chars().count() <= columns, "{row}");
            }
        }
    }

    #[test]
    fn a_look_that_fails_leaves_the_last_one() {
        let mut shown = shown(2);
        shown.take(Err(StatusError::Signals(std::io::Error::other("no answer\x07"))));
        let rows = rows_of(&shown, Duration::from_secs(2), 30, 80, true);
        assert_eq!(rows[1], "\x1b[31mthe last refresh failed: can't handle signals: no answer\\u{7}\x1b[0m");
        assert!(rows.iter().any(|row| row == "line 1") && rows[0].contains("04:05:06"));
        shown.take(Ok(Look { lines: vec![], complaints: vec![] }));
        assert!(!rows_of(&shown, Duration::from_secs(2), 30, 80, true).concat().contains("failed"));
    }
}
