//! Times as sbatch(1) writes a limit: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes
//! and days-hours:minutes:seconds.

/// Parses a time into minutes, with seconds rounded up; `None` if sbatch refuses the text.
pub fn minutes(text: &str) -> Option<u32> {
    u32::try_from(seconds(text)?.div_ceil(60)).ok()
}

/// Parses a time into seconds; `None` if sbatch refuses the text.
pub fn seconds(text: &str) -> Option<u64> {
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
    Some(days.unwrap_or(0) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// The time as Slurm prints it: `1-02:03:04`, without days if it has none.
pub fn text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

/// Parses a number that is small enough that sums can't overflow.
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

    #[test]
    fn seconds_come_back_as_they_were_printed() {
        for (text, expected) in
            [("00:00:00", 0), ("00:01:30", 90), ("01:00:00", 3600), ("1-01:01:01", 90_061)]
        {
            assert_eq!(seconds(text), Some(expected), "{text}");
            assert_eq!(super::text(expected), text);
        }
    }
}
