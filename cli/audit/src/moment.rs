//! The times at the start of a log's lines: those of slurmctld's own log, of syslog's daemons, and of journalctl.

use gpushare_period::span::seconds;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// How to read times that lack the zone or the year.
pub struct Clock {
    /// The zone of times that name none.
    pub zone: TimeZone,
    /// No line is later than this; determines a missing year.
    pub latest: u32,
}

impl Clock {
    /// The time with which a line begins, in seconds since 1970, and what follows the blank after it.
    pub fn begin<'l>(&self, line: &'l [u8]) -> Option<(u32, &'l [u8])> {
        // `Oct 31 12:00:07`, perhaps with a fraction.
        if let Some(time) = self.short(line) {
            let (fraction, rest) = word(line.get(15..)?)?;
            return is_fraction(fraction).then_some((time, rest));
        }
        // `Sat 2026-10-31 12:00:07.123456 UTC`, with any zone: journalctl -o short-full, with-unit.
        let (first, rest) = word(line)?;
        if first.len() == 3 {
            let (date, rest) = word(rest)?;
            let (time, rest) = word(rest)?;
            let (zone, rest) = word(rest)?;
            let zone = if zone == b"UTC" { TimeZone::UTC } else { self.zone.clone() };
            return Some((civil(&[date, b"T", time].concat(), &zone)?, rest));
        }
        Some((self.iso(first).or_else(|| unix(first))?, rest))
    }

    /// A time with a date, as slurmctld writes it: `2026-10-31T12:00:07.123+01:00`, `Oct 31 12:00:07`; `thread_id` has
    /// more behind it.
    pub fn own(&self, stamp: &[u8]) -> Option<u32> {
        self.iso(stamp).or_else(|| self.short(stamp))
    }

    fn iso(&self, stamp: &[u8]) -> Option<u32> {
        let text = std::str::from_utf8(stamp).ok()?;
        if !text.starts_with(|first: char| first.is_ascii_digit()) || !text.contains('T') {
            return None;
        }
        match text.parse::<Timestamp>() {
            Ok(found) => u32::try_from(found.as_second()).ok(),
            Err(_) => civil(stamp, &self.zone),
        }
    }

    /// `Oct 31 12:00:07`, perhaps followed by more: the last such time that is not too late.
    fn short(&self, stamp: &[u8]) -> Option<u32> {
        let text = std::str::from_utf8(stamp.get(..15)?).ok()?;
        let latest = Timestamp::from_second(self.latest.into()).ok()?.to_zoned(self.zone.clone());
        // 29 February is at most eight years ago.
        (0..=8).find_map(|back| {
            let with_year = format!("{} {text}", latest.year() - back);
            let civil = DateTime::strptime("%Y %b %e %H:%M:%S", with_year).ok()?;
            seconds(civil, &self.zone).filter(|found| *found <= self.latest)
        })
    }
}

/// A date and a time of day without a zone.
fn civil(text: &[u8], zone: &TimeZone) -> Option<u32> {
    seconds(std::str::from_utf8(text).ok()?.parse().ok()?, zone)
}

/// `1793448007.123456`: journalctl -o short-unix.
fn unix(text: &[u8]) -> Option<u32> {
    let (seconds, fraction) = text.split_at_checked(10)?;
    let seconds =
        std::str::from_utf8(seconds).ok().filter(|_| fraction.len() > 1 && is_fraction(fraction))?;
    seconds.parse().ok()
}

/// Whether a text is empty, or a point and digits.
fn is_fraction(text: &[u8]) -> bool {
    text.is_empty() || text.strip_prefix(b".").is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

/// The text up to a blank, which may be empty, and what follows the blank.
pub fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saturday, 31 October 2026, 12:00:07 UTC.
    const THEN: u32 = 1_793_448_007;

    #[test]
    fn a_year_that_is_missing_is_the_last_that_fits() {
        let read = |text: &str, latest: u32| {
            let clock = Clock { zone: TimeZone::UTC, latest };
            clock.own(text.as_bytes()).map(gpushare_period::exact)
        };
        let year = |text: &str, latest: u32| read(text, latest).map(|text| text[..4].to_owned());
        assert_eq!(year("Oct 31 12:00:07", THEN), Some("2026".to_owned()));
        assert_eq!(year("Oct 31 12:00:08", THEN), Some("2025".to_owned()));
        assert_eq!(year("Dec  1 00:00:00", THEN), Some("2025".to_owned()));
        assert_eq!(year("Feb 29 00:00:00", THEN), Some("2024".to_owned()));
        for bad in [
            "Oct 32 12:00:00",
            "Okt 31 12:00:00",
            "Oct 31 25:00:00",
            "Oct 31",
            "",
            "2026-13-01T00:00:00",
            "T",
        ] {
            assert_eq!(read(bad, THEN), None, "{bad}");
        }
    }

    #[test]
    fn a_line_begins_with_a_whole_time() {
        let clock = Clock { zone: TimeZone::UTC, latest: THEN };
        let begin = |line: &'static str| clock.begin(line.as_bytes());
        assert_eq!(begin("Sat 2026-10-31 12:00:07 UTC head x"), Some((THEN, &b"head x"[..])));
        for bad in [
            "Oct 31 12:00:07x head",
            "Oct 31 12:00:07",
            "Sat 2026-10-31 12:00:07",
            "Sat 2026-10-32 12:00:07 UTC head",
            "1793448007 head",
            "1793448007. head",
            "1793448007.1x head",
            "179344800.12345 head",
            "[ 1234.567890] head",
        ] {
            assert_eq!(begin(bad), None, "{bad}");
        }
    }
}
