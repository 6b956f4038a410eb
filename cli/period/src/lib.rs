//! The start and end of a period: parses what the administrator writes, and prints times, in this machine's time zone
//! or that of TZ.
#![forbid(unsafe_code)]

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

pub mod hours;

/// Seconds since 1970; the end is excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Its first second.
    pub start: u32,
    /// The second after its last.
    pub end: u32,
}

gpushare::errors! {
    /// Why a text isn't a time or a period.
    #[derive(Debug, PartialEq, Eq)]
    pub enum PeriodError {
        NoTime(text: String) =>
            "'{}' is not a time; write 2026-10-31, 2026-10-31T12:00, now or now-30days", text.escape_debug();
        Empty(period: Period) =>
            "--start, {}, is not before --end, {}", text(period.start), text(period.end);
    }
}

impl Period {
    /// Parses a period. By default it ends now, and starts `days` days before the end.
    ///
    /// # Errors
    /// One of the two isn't a time, or the start is not before the end.
    pub fn parse(start: Option<&str>, end: Option<&str>, now: u32, days: u32) -> Result<Period, PeriodError> {
        let zone = TimeZone::system();
        let end = end.map_or(Ok(now), |text| moment(text, now, &zone))?;
        let before = || moment(&format!("now-{days}days"), end, &zone);
        let start = start.map_or_else(before, |text| moment(text, now, &zone))?;
        let period = Period { start, end: end.min(now) };
        if period.start >= period.end {
            return Err(PeriodError::Empty(period));
        }
        Ok(period)
    }

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

/// Parses `2026-10-31`, `2026-10-31T12:00`, `now`, `now-30days`.
fn moment(text: &str, now: u32, zone: &TimeZone) -> Result<u32, PeriodError> {
    let bad = || PeriodError::NoTime(text.to_owned());
    let now = Timestamp::from_second(now.into()).map_err(|_| bad())?;
    let found = if text == "now" {
        now
    } else if let Some(back) = text.strip_prefix("now-") {
        let at = back.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = back.split_at(at);
        let number: i64 = number.parse().ok().filter(|number| *number < 100_000).ok_or_else(bad)?;
        let span = match unit {
            "hours" | "hour" => Span::new().hours(number),
            "days" | "day" => Span::new().days(number),
            "weeks" | "week" => Span::new().weeks(number),
            _ => return Err(bad()),
        };
        now.to_zoned(zone.clone()).checked_sub(span).map_err(|_| bad())?.timestamp()
    } else {
        return text.parse().ok().and_then(|civil| seconds(civil, zone)).ok_or_else(bad);
    };
    u32::try_from(found.as_second()).map_err(|_| bad())
}

/// A date and a time of day in a zone, in seconds since 1970.
pub fn seconds(civil: DateTime, zone: &TimeZone) -> Option<u32> {
    u32::try_from(civil.to_zoned(zone.clone()).ok()?.timestamp().as_second()).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday, 25 October 2026, 12:00 UTC: the clocks went back that night.
    const NOON: u32 = 1_792_929_600;

    #[test]
    fn moments_are_read_in_the_zone_of_the_cluster() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (text, expected) in [
            ("now", Some(NOON)),
            ("2026-10-25T13:00", Some(NOON)),
            ("2026-10-25", Some(NOON - 14 * 3600)),
            ("2026-10-26", Some(NOON + 11 * 3600)),
            ("now-1days", Some(NOON - 25 * 3600)),
            ("now-24hours", Some(NOON - 24 * 3600)),
            ("now-2weeks", Some(NOON - 14 * 86_400 - 3600)),
            ("now-", None),
            ("now-5", None),
            ("now-5years", None),
            ("yesterday", None),
            ("10/25/26", None),
            ("1960-01-01", None),
            ("", None),
        ] {
            assert_eq!(moment(text, NOON, &berlin).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_period_ends_before_the_future_and_has_days() {
        let whole = Period::parse(Some("now-3days"), Some("2099-01-01"), NOON, 30).unwrap();
        assert_eq!(whole.end, NOON);
        let days: Vec<Period> = whole.days().collect();
        assert!(
            days.len() >= 3 && days.first().unwrap().start == whole.start && days.last().unwrap().end == NOON
        );
        assert!(days.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(
            Period::parse(Some("now"), Some("now"), NOON, 30)
                .unwrap_err()
                .to_string()
                .contains("is not before")
        );
    }
}
