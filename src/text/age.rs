//! How long ago something was, in whole minutes, hours or days.

use super::counted;

/// `12 days`; hours from two hours on, and days from two days on.
pub fn age(seconds: u64) -> String {
    match seconds / 60 {
        minutes @ 0..120 => counted(minutes, "minute"),
        minutes @ 120..2880 => counted(minutes / 60, "hour"),
        minutes => counted(minutes / 1440, "day"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_less_exact_than_by_half() {
        for (seconds, expected) in [
            (0, "0 minutes"),
            (60, "1 minute"),
            (7199, "119 minutes"),
            (7200, "2 hours"),
            (172_799, "47 hours"),
            (172_800, "2 days"),
            (12 * 86_400 + 5, "12 days"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }
}
