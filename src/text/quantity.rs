//! Numbers of a TRES as sacctmgr and Slurm's limits write them: whole numbers, and memory in MiB or with a unit.

/// TRES minutes may be high numbers.
const MOST: u64 = 1 << 60;

/// Parses `32` or `975G`; for memory, a number alone means MiB.
pub fn quantity(name: &str, text: &str) -> Option<u64> {
    if !is_size(name) {
        return count(text).filter(|number| *number <= MOST);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text.get(digits.len()..)? {
        "" | "m" | "M" => 1,
        "g" | "G" => 1 << 10,
        "t" | "T" => 1 << 20,
        "p" | "P" => 1 << 30,
        _ => return None,
    };
    count(digits)?.checked_mul(factor).filter(|number| *number <= MOST)
}

/// MiB in sbatch's form: `64G`, `1500M`.
pub fn size(mebibytes: u64) -> String {
    match mebibytes % 1024 {
        0 => format!("{}G", mebibytes / 1024),
        _ => format!("{mebibytes}M"),
    }
}

/// Whether a TRES is counted in MiB.
pub fn is_size(name: &str) -> bool {
    name.eq_ignore_ascii_case("mem") || name.to_ascii_lowercase().starts_with("bb/")
}

/// Parses digits alone.
pub fn count(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_units_and_other_tres_are_whole_numbers() {
        for (name, text, expected) in [
            ("cpu", "32", Some(32)),
            ("gres/gpu", "1K", None),
            ("cpu", "1152921504606846976", Some(1 << 60)),
            ("cpu", "1152921504606846977", None),
            ("mem", "500", Some(500)),
            ("MEM", "500m", Some(500)),
            ("mem", "975G", Some(975 << 10)),
            ("mem", "2t", Some(2 << 20)),
            ("bb/cray", "3P", Some(3 << 30)),
            ("mem", "1073741824P", Some(1 << 60)),
            ("mem", "1073741825P", None),
            ("mem", "1K", None),
            ("mem", "1GB", None),
            ("mem", "G", None),
            ("mem", "-1", None),
            ("mem", "", None),
        ] {
            assert_eq!(quantity(name, text), expected, "{name}={text}");
        }
        assert_eq!([0, 64 << 10, 1500, 1 << 10].map(size), ["0G", "64G", "1500M", "1G"]);
        assert_eq!((count("007"), count("+1"), count("18446744073709551616")), (Some(7), None, None));
    }
}
