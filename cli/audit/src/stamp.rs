//! Whether a line is slurmctld's; if so, its time and its message.
//!
//! slurmctld writes `[TIME] ` into its file, with TIME by LogTimeFormat. To standard error it writes `slurmctld: `,
//! `TIME THREAD: ` or `[TIME] `, by release and LogTimeFormat. To syslog it sends the bare message (src/common/log.c:
//! `_log_msg`, `%M` in `vxstrfmt`, `_set_idbuf`). Before either of the latter two, the journal and syslog's daemons
//! write a time, a host and a name. tests/data/audit/forms.tsv has every form, and tests/live/test_audit.py produces
//! each with the real programs.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::moment::{Clock, word};

/// One line of slurmctld's.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'l> {
    /// Seconds since 1970, if the line has a date.
    pub time: Option<u32>,
    /// `None` if `journalctl -o json` left it out, as it does with messages of more than 4096 bytes.
    pub message: Option<Cow<'l, [u8]>>,
    pub way: Way,
}

/// How a line came into the log. With SlurmctldSyslogDebug, slurmctld's unit writes each message into the journal
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// slurmctld wrote the whole line.
    Own,
    /// The journal or syslog has put its head before what slurmctld wrote to standard error.
    Stderr,
    /// The journal or syslog has put its head before what slurmctld sent to syslog.
    Syslog,
}

/// Takes a line apart; `None` if it isn't slurmctld's, or in no form that this reads.
///
/// Only the start of a line counts: the rest may contain text from a user. Not more than one of slurmctld's own
/// prefixes is taken off, because it never writes two.
pub fn split<'l>(line: &'l [u8], clock: &Clock) -> Option<Line<'l>> {
    if line.starts_with(b"{") {
        return entry(line, clock);
    }
    if let Some((time, message)) = own(line, clock) {
        return Some(Line { time, message: Some(Cow::Borrowed(message)), way: Way::Own });
    }
    let (time, text) = head(line, clock)?;
    let (own, message, way) = told(text, clock);
    // slurmctld's own time takes precedence.
    Some(Line { time: own.or(Some(time)), message: Some(Cow::Borrowed(message)), way })
}

/// What slurmctld wrote or sent, without the prefix that it has on standard error.
fn told<'l>(text: &'l [u8], clock: &Clock) -> (Option<u32>, &'l [u8], Way) {
    own(text, clock).map_or((None, text, Way::Syslog), |(time, message)| (time, message, Way::Stderr))
}

/// One of slurmctld's own prefixes.
fn own<'l>(text: &'l [u8], clock: &Clock) -> Option<(Option<u32>, &'l [u8])> {
    let plain = || text.strip_prefix(b"slurmctld: ").map(|message| (None, message));
    bracketed(text, clock).or_else(plain).or_else(|| of_thread(text, clock))
}

/// `[TIME] message`; with LogTimeFormat=thread_id it also has a thread's name, such as `worker[56]`. With `clock` there
/// is no date, only microseconds.
fn bracketed<'l>(text: &'l [u8], clock: &Clock) -> Option<(Option<u32>, &'l [u8])> {
    let mut depth = 0_usize;
    let end = text.iter().take(120).position(|byte| {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })?;
    let stamp = text.get(..end)?.strip_prefix(b"[")?;
    let message = text.get(end + 1..)?.strip_prefix(b" ")?;
    let time = clock.own(stamp);
    let is_clock = !stamp.is_empty() && stamp.iter().all(u8::is_ascii_digit);
    (time.is_some() || is_clock).then_some((time, message))
}

/// `Oct 31 12:00:07.123456   812 worker[56]   0x7f68a55096c0: message`: LogTimeFormat=thread_id on standard error,
/// before 25.05.
fn of_thread<'l>(text: &'l [u8], clock: &Clock) -> Option<(Option<u32>, &'l [u8])> {
    let end = text.iter().take(80).zip(text.iter().skip(1)).position(|pair| pair == (&b':', &b' '))?;
    let (stamp, message) = (text.get(..end)?, text.get(end + 2..)?);
    let thread = stamp.rsplit(|byte| *byte == b' ').next()?.strip_prefix(b"0x")?;
    let is_stamp = stamp.get(15) == Some(&b'.') && thread.iter().all(u8::is_ascii_hexdigit);
    Some((Some(clock.own(stamp).filter(|_| is_stamp)?), message))
}

/// What the journal and syslog's daemons put before a text of slurmctld's: `Oct 31 12:00:07 head slurmctld[812]: `,
/// with any time. The host can be missing. busybox puts `daemon.info` before the name.
fn head<'l>(line: &'l [u8], clock: &Clock) -> Option<(u32, &'l [u8])> {
    if line.starts_with(b"<") {
        return rfc5424(line, clock);
    }
    let (time, rest) = clock.begin(line)?;
    let (first, after_first) = word(rest)?;
    if is_slurmctld(first) {
        return Some((time, after_first));
    }
    let (second, after_second) = word(after_first).filter(|_| !first.is_empty())?;
    if is_slurmctld(second) {
        return Some((time, after_second));
    }
    let (third, after_third) = word(after_second)?;
    (is_priority(second) && is_slurmctld(third)).then_some((time, after_third))
}

/// `<30>1 2026-10-31T12:00:07.123456+00:00 head slurmctld 812 - - message`: rsyslog's RSYSLOG_SyslogProtocol23Format
/// and syslog-ng's syslog-protocol.
fn rfc5424<'l>(line: &'l [u8], clock: &Clock) -> Option<(u32, &'l [u8])> {
    let (start, rest) = word(line)?;
    let priority = start.strip_prefix(b"<")?.strip_suffix(b">1")?;
    let (time, rest) = clock.begin(rest).filter(|_| priority.iter().all(u8::is_ascii_digit))?;
    let (_host, rest) = word(rest)?;
    let (name, rest) = word(rest)?;
    let (_process, rest) = word(rest)?;
    let (_kind, rest) = word(rest).filter(|_| name == b"slurmctld")?;
    let data_end = match rest.first()? {
        b'-' => 1,
        b'[' => rest.iter().position(|byte| *byte == b']')? + 1,
        _ => return None,
    };
    let text = rest.get(data_end..)?.strip_prefix(b" ")?;
    // rsyslog keeps the blank that followed the name's colon.
    Some((time, text.strip_prefix(b" ").unwrap_or(text)))
}

/// `slurmctld[812]:`; with `journalctl -o with-unit` it is the unit's name.
fn is_slurmctld(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"slurmctld").and_then(|rest| rest.strip_suffix(b":"));
    let number = number.map(|rest| rest.strip_prefix(b".service").unwrap_or(rest));
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    number.is_some_and(|number| {
        let inside = number.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
        number.is_empty() || inside.is_some_and(digits)
    })
}

/// `daemon.info`.
fn is_priority(word: &[u8]) -> bool {
    let is_name = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_alphanumeric);
    word.contains(&b'.') && word.splitn(2, |byte| *byte == b'.').all(is_name)
}

/// An entry of `journalctl -o json`, also after a collector has taken it.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "MESSAGE")]
    message: Value,
    #[serde(rename = "SYSLOG_IDENTIFIER")]
    name: Value,
    /// The journal itself sets this one: no user can.
    #[serde(rename = "_SYSTEMD_UNIT")]
    unit: Value,
    /// Microseconds since 1970.
    #[serde(rename = "__REALTIME_TIMESTAMP", default)]
    time: Value,
}

fn entry<'l>(line: &'l [u8], clock: &Clock) -> Option<Line<'l>> {
    let entry: Entry = serde_json::from_slice(line).ok()?;
    if entry.name != "slurmctld" || entry.unit != "slurmctld.service" {
        return None;
    }
    let micros: Option<u64> = entry.time.as_str().and_then(|text| text.parse().ok());
    let outer = micros.and_then(|micros| u32::try_from(micros / 1_000_000).ok());
    let text = match entry.message {
        Value::String(text) => text.into_bytes(),
        Value::Null => return Some(Line { time: outer, message: None, way: Way::Syslog }),
        // Bytes that aren't text: no line of gpushare's.
        _ => Vec::new(),
    };
    let (own, message, way) = told(&text, clock);
    Some(Line { time: own.or(outer), message: Some(Cow::Owned(message.to_vec())), way })
}

#[cfg(test)]
mod tests;
