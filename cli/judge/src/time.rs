//! Parses the time limits that sbatch(1) describes.

/// slurm.h's INFINITE, which sbatch sends for no limit.
const NO_LIMIT: u32 = u32::MAX;

/// The time in minutes, with seconds rounded up; `None` if sbatch refuses the text.
pub fn minutes(text: &[u8]) -> Option<u32> {
    if [b"-1".as_slice(), b"infinite", b"unlimited"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(NO_LIMIT);
    }
    // slurm.h's NO_VAL and INFINITE are the two highest numbers.
    let minutes = gpushare::text::time::minutes(std::str::from_utf8(text).ok()?)
        .filter(|minutes| *minutes < NO_LIMIT - 1)?;
    Some(if minutes == 0 { NO_LIMIT } else { minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_has_words_and_numbers_of_its_own() {
        for (text, expected) in [
            ("2:00:01", Some(121)),
            ("0", Some(u32::MAX)),
            ("-1", Some(u32::MAX)),
            ("infinite", Some(u32::MAX)),
            ("UNLIMITED", Some(u32::MAX)),
            ("4294967294", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(minutes(text.as_bytes()), expected, "{text}");
        }
    }
}
