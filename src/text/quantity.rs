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
