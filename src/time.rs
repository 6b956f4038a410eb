//! Times as sbatch(1) writes a limit: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
//! days-hours:minutes:seconds.

/// In minutes, seconds rounded up; `None` where sbatch takes no such text.
#[must_use]
pub fn minutes(text: &str) -> Option<u32> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = match rest {
        "" if days.is_some() => Vec::new(),
        rest => rest.split(':').map(number).collect::<Option<_>>()?,
    };
    let part = |at: usize| parts.get(at).copied().unwrap_or(0);
    let (hours, minutes, seconds) = match (days, parts.len()) {
        (Some(_), 0..=3) | (None, 3) => (part(0), part(1), part(2)),
        (None, 1 | 2) => (0, part(0), part(1)),
        _ => return None,
    };
    let seconds = days.unwrap_or(0) * 86_400 + hours * 3600 + minutes * 60 + seconds;
    u32::try_from(seconds.div_ceil(60)).ok()
}

/// Small enough that no sum of them overflows.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>().ok().filter(|_| digits).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_sbatch_reads_them() {
        for (text, expected) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("120:30", Some(121)),
            ("2:00:00", Some(120)),
            ("1-", Some(1440)),
            ("1-12", Some(2160)),
            ("1-12:30", Some(2190)),
            ("1-00:00:01", Some(1441)),
            ("", None),
            ("-5", None),
            ("+5", None),
            ("1:2:3:4", None),
            ("2:", None),
            ("4000000000-0", None),
        ] {
            assert_eq!(minutes(text), expected, "{text}");
        }
    }
}
