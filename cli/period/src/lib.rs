//! The start and end of a period: parses what the administrator writes, and prints times, in this machine's time zone
//! or that of TZ.
#![forbid(unsafe_code)]

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub mod hours;
pub mod span;

/// Seconds since 1970; the end is excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Its first second.
    pub start: u32,
    /// The second after its last.
    pub end: u32,
}

impl Period {
    /// How long it is.
    pub fn seconds(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Splits the period into days, so that neither slurmdbd nor sacct needs memory for a month.
    pub fn days(self) -> impl Iterator<Item = Period> {
        let starts = (self.start..self.end).step_by(86_400);
        starts.map(move |start| Period { start, end: start.saturating_add(86_400).min(self.end) })
    }
}

/// `2026-10-01 00:00 to 2026-10-31 12:00 (CET)`, for people.
impl std::fmt::Display for Period {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(out, "{} to {} ({})", text(self.start), text(self.end), zone(self.end))
    }
}

/// The current time.
pub fn now() -> u32 {
    u32::try_from(Timestamp::now().as_second()).unwrap_or(u32::MAX)
}

/// `2026-10-31 12:00`, for people.
pub fn text(time: u32) -> String {
    written(time, "%Y-%m-%d %H:%M")
}

/// `2026-10-31 12:00:07`, for people who need the seconds.
pub fn second(time: u32) -> String {
    written(time, "%Y-%m-%d %H:%M:%S")
}

/// `2026-10-31T12:00:00+01:00`, for programs.
pub fn exact(time: u32) -> String {
    written(time, "%Y-%m-%dT%H:%M:%S%:z")
}

/// `10-31 12:00`, for an axis.
pub fn day(time: u32) -> String {
    written(time, "%m-%d %H:%M")
}

/// The name of the time zone at that time.
pub fn zone(time: u32) -> String {
    written(time, "%Z")
}

fn written(time: u32, format: &str) -> String {
    let time = Timestamp::from_second(time.into()).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime(format).to_string()
}
