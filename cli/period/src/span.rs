//! The start and the end of a period, as options of a command.

use clap::Args;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::{Period, text};

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

/// The options of a period.
#[derive(Args, Debug, Default)]
pub struct Span {
    /// From when
    #[arg(long, short = 'S', value_name = "TIME")]
    pub start: Option<String>,
    /// Until when [default: now]
    #[arg(long, short = 'E', value_name = "TIME")]
    pub end: Option<String>,
}

impl Span {
    /// The period. By default it ends now, and starts `days` days before the end.
    ///
    /// # Errors
    /// One of the two isn't a time, or the start is not before the end.
    pub fn period(&self, now: u32, days: u32) -> Result<Period, PeriodError> {
        let zone = TimeZone::system();
        let end = self.end.as_deref().map_or(Ok(now), |text| moment(text, now, &zone))?;
        let before = || moment(&format!("now-{days}days"), end, &zone);
        let start = self.start.as_deref().map_or_else(before, |text| moment(text, now, &zone))?;
        let period = Period { start, end: end.min(now) };
        if period.start >= period.end {
            return Err(PeriodError::Empty(period));
        }
        Ok(period)
    }
}

/// Parses `2026-10-31`, `2026-10-31T12:00`, `now`, `now-30days`.
///
/// # Errors
/// It is another text.
pub(crate) fn moment(text: &str, now: u32, zone: &TimeZone) -> Result<u32, PeriodError> {
    let bad = || PeriodError::NoTime(text.to_owned());
    let now = Timestamp::from_second(now.into()).map_err(|_| bad())?;
    let found = if text == "now" {
        now
    } else if let Some(back) = text.strip_prefix("now-") {
        let at = back.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = back.split_at(at);
        let number: i64 = number.parse().ok().filter(|number| *number < 100_000).ok_or_else(bad)?;
        let span = match unit {
            "hours" | "hour" => number.hours(),
            "days" | "day" => number.days(),
            "weeks" | "week" => number.weeks(),
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
        let of = |start: &str, end: &str| {
            Span { start: Some(start.to_owned()), end: Some(end.to_owned()) }.period(NOON, 30)
        };
        let whole = of("now-3days", "2099-01-01").unwrap();
        assert_eq!(whole.end, NOON);
        let days: Vec<Period> = whole.days().collect();
        assert!(
            days.len() >= 3 && days.first().unwrap().start == whole.start && days.last().unwrap().end == NOON
        );
        assert!(days.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(of("now", "now").unwrap_err().to_string().contains("is not before"));
    }
}
