//! Months, and periods of full hours: slurmdbd sums usage by the hour.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::Period;
use crate::span::{PeriodError, Span, moment, seconds};

gpushare::errors! {
    /// Why a text isn't a month or a period of full hours.
    #[derive(Debug, PartialEq, Eq)]
    pub enum HoursError {
        NoMonth(text: String) => "'{}' is not a month; write 2026-10", text.escape_debug();
        NotYet(text: String) => "no hour of '{}' has ended", text.escape_debug();
        NoHour(text: String) =>
            "'{}' is not a full hour, and Slurm sums usage by the hour; write 2026-10-31T12:00", text.escape_debug();
    } from {
        Period(PeriodError)
    }
}

/// Parses a month, or a period of full hours. By default it is the month of the last full hour, and a period starts
/// with the month of its end. It ends with the last full hour.
///
/// # Errors
/// One of them is no month or no full hour, or the start is not before the end.
pub fn parse(month: Option<&str>, span: &Span, now: u32) -> Result<Period, HoursError> {
    parsed(month, span.start.as_deref(), span.end.as_deref(), now, &TimeZone::system())
}

fn parsed(
    month: Option<&str>,
    start: Option<&str>,
    end: Option<&str>,
    now: u32,
    zone: &TimeZone,
) -> Result<Period, HoursError> {
    let last = now - past_hour(now, zone);
    let full = |text: &str| {
        let at = moment(text, now, zone)?;
        match past_hour(at, zone) {
            0 => Ok(at),
            past if text.starts_with("now") => Ok(at - past),
            _ => Err(HoursError::NoHour(text.to_owned())),
        }
    };
    let (start, end) = match month {
        Some(text) => {
            let bad = || HoursError::NoMonth(text.to_owned());
            let of_month = |text: &str| DateTime::strptime("%Y-%m-%d", format!("{text}-01")).ok();
            let first = of_month(text).ok_or_else(bad)?;
            let next = first.checked_add(1.month()).map_err(|_| bad())?;
            (seconds(first, zone).ok_or_else(bad)?, seconds(next, zone).ok_or_else(bad)?)
        }
        None => {
            let end = end.map_or(Ok(last), full)?;
            let before = || {
                let civil = zoned(end.saturating_sub(1), zone).datetime();
                let first = civil.first_of_month().date().to_datetime(Time::midnight());
                seconds(first, zone).unwrap_or(0)
            };
            (start.map_or_else(|| Ok(before()), full)?, end)
        }
    };
    let period = Period { start, end: end.min(last) };
    if let Some(text) = month.filter(|_| period.start >= last) {
        return Err(HoursError::NotYet(text.to_owned()));
    }
    if period.start >= period.end {
        return Err(PeriodError::Empty(period).into());
    }
    Ok(period)
}

fn zoned(time: u32, zone: &TimeZone) -> jiff::Zoned {
    Timestamp::from_second(time.into()).unwrap_or_default().to_zoned(zone.clone())
}

/// How many seconds of its hour are over.
fn past_hour(time: u32, zone: &TimeZone) -> u32 {
    let at = zoned(time, zone);
    u32::from(at.minute().unsigned_abs()) * 60 + u32::from(at.second().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday, 25 October 2026, 12:00 UTC: the clocks went back that night.
    const NOON: u32 = 1_792_929_600;

    #[test]
    fn a_month_is_one_of_the_cluster_and_ends_with_the_last_full_hour() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let (now, first, last) = (NOON + 100, 1_790_805_600, NOON);
        let september = first - 30 * 86_400;
        for (month, start, end, expected) in [
            (None, None, None, Some((first, last))),
            (Some("2026-10"), None, None, Some((first, last))),
            (Some("2026-09"), None, None, Some((september, first))),
            (None, None, Some("2026-10-01"), Some((september, first))),
            (None, Some("now-1days"), None, Some((NOON - 25 * 3600, last))),
            (None, Some("2026-10-25T12:00"), None, Some((NOON - 3600, last))),
            (None, Some("2026-10-25T12:30"), None, None),
            (Some("2026-11"), None, None, None),
            (Some("2026-13"), None, None, None),
            (Some("2026-10-01"), None, None, None),
            (Some("October"), None, None, None),
        ] {
            let found = parsed(month, start, end, now, &berlin);
            let found = found.map(|period| (period.start, period.end)).ok();
            assert_eq!(found, expected, "{month:?} {start:?} {end:?}");
        }
        let said = parsed(Some("2026-11"), None, None, now, &berlin).unwrap_err().to_string();
        assert_eq!(said, "no hour of '2026-11' has ended");
        let first_hour = parsed(None, None, None, first + 1800, &berlin).unwrap();
        assert_eq!((first_hour.start, first_hour.end), (september, first), "no hour of this month has ended");
        let said = parsed(None, Some("2026-10-25T12:30"), None, now, &berlin).unwrap_err().to_string();
        assert!(said.starts_with("'2026-10-25T12:30' is not a full hour"), "{said}");
    }
}
