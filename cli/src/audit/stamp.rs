//! The prefix of a message in slurmctld's log, and its time.
//!
//! Slurm writes `[TIME] ` into its file, with TIME by LogTimeFormat (src/common/log.c: `%M` in `vxstrfmt`,
//! `_set_idbuf`), and `slurmctld: ` or `[TIME] ` to standard error, to which syslog and the journal add a time, a host
//! and a name.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

/// How to read times that lack the zone or the year.
pub struct Clock {
    /// The zone of times that name none.
    pub zone: TimeZone,
    /// No line is later than this; determines a missing year.
    pub latest: u32,
}

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The time and the message of a line; `None` if the line isn't slurmctld's.
///
/// Only the start of a line counts: the rest may contain text from a user.
pub fn split<'l>(line: &'l [u8], clock: &Clock) -> Option<(Option<u32>, &'l [u8])> {
    if let Some(found) = bracketed(line, clock) {
        return Some(found);
    }
    if let Some(rest) = line.strip_prefix(b"slurmctld: ") {
        return Some((None, rest));
    }
    // `Oct 31 12:00:07 head slurmctld[812]: `, also with a time in ISO 8601.
    let length =
        if short(line, clock).is_some() { 15 } else { line.iter().position(|byte| *byte == b' ')? };
    let (stamp, rest) = line.split_at_checked(length)?;
    let time = time(stamp, clock)?;
    let (_host, rest) = word(rest.strip_prefix(b" ")?)?;
    let (name, message) = word(rest)?;
    let number = name.strip_prefix(b"slurmctld")?.strip_suffix(b":")?;
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    let is_number = number.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).is_some_and(digits);
    if !(number.is_empty() || is_number) {
        return None;
    }
    // Slurm's own time takes precedence.
    match bracketed(message, clock) {
        Some((own, message)) => Some((own.or(Some(time)), message)),
        None => Some((Some(time), message)),
    }
}

/// `[TIME] message`; with LogTimeFormat=thread_id it also has a thread's name, such as `worker[56]`.
fn bracketed<'l>(line: &'l [u8], clock: &Clock) -> Option<(Option<u32>, &'l [u8])> {
    let mut depth = 0_usize;
    let end = line.iter().take(120).position(|byte| {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })?;
    let stamp = line.get(..end)?.strip_prefix(b"[")?;
    Some((time(stamp, clock), line.get(end + 1..)?.strip_prefix(b" ")?))
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ').filter(|end| *end > 0)?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// Seconds since 1970; `None` if the text has no date, as with LogTimeFormat=clock.
fn time(stamp: &[u8], clock: &Clock) -> Option<u32> {
    let text = std::str::from_utf8(stamp).ok()?;
    if !text.starts_with(|first: char| first.is_ascii_digit()) || !text.contains('T') {
        return short(stamp, clock);
    }
    let found = text.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        civil.to_zoned(clock.zone.clone()).ok().map(|zoned| zoned.timestamp())
    });
    u32::try_from(found?.as_second()).ok()
}

/// `Oct 31 12:00:07`, perhaps followed by more: the last such time that is not too late.
fn short(stamp: &[u8], clock: &Clock) -> Option<u32> {
    let number = |from: usize, to: usize| -> Option<i8> {
        std::str::from_utf8(stamp.get(from..to)?).ok()?.trim_start().parse().ok()
    };
    let month = MONTHS.iter().position(|month| stamp.starts_with(month))?;
    let month = i8::try_from(month + 1).ok()?;
    let at = |place: usize, byte: u8| stamp.get(place) == Some(&byte);
    if !(at(3, b' ') && at(6, b' ') && at(9, b':') && at(12, b':')) {
        return None;
    }
    let (day, time) = (number(4, 6)?, Time::new(number(7, 9)?, number(10, 12)?, number(13, 15)?, 0).ok()?);
    let latest = Timestamp::from_second(clock.latest.into()).ok()?.to_zoned(clock.zone.clone());
    // 29 February is at most eight years ago.
    (0..=8).find_map(|back| {
        let date = Date::new(latest.year() - back, month, day).ok()?;
        let zoned = date.to_datetime(time).to_zoned(clock.zone.clone()).ok()?;
        u32::try_from(zoned.timestamp().as_second()).ok().filter(|found| *found <= clock.latest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saturday, 31 October 2026, 12:00:07 UTC.
    const THEN: u32 = 1_793_448_007;

    fn clock() -> Clock {
        Clock { zone: TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), latest: THEN + 86_400 }
    }

    /// Each prefix as slurmctld wrote it.
    #[test]
    fn every_form_of_slurms_is_read() {
        for (head, time) in [
            // LogTimeFormat=iso8601_ms, iso8601, rfc5424_ms, rfc5424, rfc3339, short, thread_id, clock.
            ("[2026-10-31T13:00:07.123] ", Some(THEN)),
            ("[2026-10-31T13:00:07] ", Some(THEN)),
            ("[2026-10-31T13:00:07.123+01:00] ", Some(THEN)),
            ("[2026-10-31T13:00:07+01:00] ", Some(THEN)),
            ("[2026-10-31T12:00:07Z] ", Some(THEN)),
            ("[Oct 31 13:00:07] ", Some(THEN)),
            ("[Oct 31 13:00:07.123456   812 rpc-1        0x7f3a5c1fe6c0] ", Some(THEN)),
            ("[Oct 31 13:00:07.140690  4739 worker[56]   0x7f68a55096c0] ", Some(THEN)),
            ("[123456] ", None),
            // Standard error, syslog, and journalctl with -o short, short-iso, short-iso-precise.
            ("slurmctld: ", None),
            ("Oct 31 13:00:07 head slurmctld[812]: ", Some(THEN)),
            ("Oct 31 13:00:07 head slurmctld: ", Some(THEN)),
            ("2026-10-31T13:00:07+0100 head slurmctld[812]: ", Some(THEN)),
            ("2026-10-31T13:00:07.123456+01:00 head slurmctld[812]: ", Some(THEN)),
            ("Oct 31 13:00:09 head slurmctld[812]: [2026-10-31T13:00:07.123] ", Some(THEN)),
            ("Oct 31 13:00:07 head slurmctld[812]: [123456] ", Some(THEN)),
        ] {
            let line = format!("{head}job_submit/gpushare: [x] y");
            let found = split(line.as_bytes(), &clock());
            assert_eq!(found, Some((time, &b"job_submit/gpushare: [x] y"[..])), "{head}");
        }
    }

    #[test]
    fn a_year_that_is_missing_is_the_last_that_fits() {
        let read = |text: &str, latest: u32| {
            let clock = Clock { zone: TimeZone::UTC, latest };
            time(text.as_bytes(), &clock).map(crate::period::exact)
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
    fn lines_of_others_have_no_message() {
        for line in [
            "job_submit/gpushare: refused",
            "x [2026-10-31T13:00:07.123] job_submit/gpushare: refused",
            "Oct 31 13:00:07 head slurmd[812]: job_submit/gpushare: refused",
            "Oct 31 13:00:07 head alice: slurmctld[812]: job_submit/gpushare: refused",
            "Oct 31 13:00:07 head slurmctld[x]: job_submit/gpushare: refused",
            "Oct 31 13:00:07 slurmctld[812]: job_submit/gpushare: refused",
            "[2026-10-31T13:00:07.123]job_submit/gpushare: refused",
            "",
        ] {
            assert_eq!(split(line.as_bytes(), &clock()), None, "{line}");
        }
        let other = split(b"[2026-10-31T13:00:07.123] error: x [y] job_submit/gpushare: z", &clock());
        assert!(other.unwrap().1.starts_with(b"error: "));
    }
}
