//! Limits as a daemon shows them: 535 to 555 write `25.0`, and `22G` for 23034M. Another driver may write them
//! differently, so this distinguishes an unknown form from a limit that is certainly different.

/// How a limit that a daemon shows compares with the limit that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readback {
    /// The same limit, apart from rounding.
    Same,
    /// Another limit, no limit, or a refusal.
    Other,
    /// The text has no readable limit.
    Unclear,
}

/// How a complaint begins, in contrast to a limit.
const COMPLAINTS: [&str; 7] =
    ["Cannot", "Unknown", "Invalid", "Insufficient", "Failed", "Error", "Not enough"];

/// How a driver may write that there is no limit.
const NO_LIMIT: [&str; 5] = ["none", "unlimited", "no limit", "not set", "n/a"];

/// The percentage in a line, in thousandths of a percent: the line's only number.
pub fn percentage_in(line: &str) -> Option<u32> {
    let mut numbers = numbers(line);
    let (number, _) = numbers.next()?;
    let Decimal { digits, scale } = Decimal::parse(number)?;
    let thousandths = u32::try_from(digits.checked_mul(1000)? / scale).ok()?;
    let plain = numbers.next().is_none() && !line.contains(char::is_control) && !is_complaint(line);
    (plain && thousandths <= 100_000).then_some(thousandths)
}

/// A number as it was written: `22.5` is 225 and 10. Not a float, because parsing floats takes more code than all the
/// rest.
struct Decimal {
    digits: u64,
    scale: u64,
}

impl Decimal {
    fn parse(text: &str) -> Option<Decimal> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let scale = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
        let of_decimals = if decimals.is_empty() { 0 } else { decimals.parse().ok()? };
        let digits = whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(of_decimals)?;
        Some(Decimal { digits, scale })
    }
}

/// Compares the text with a limit in MiB.
pub fn memory_in(text: &str, memory: Option<u32>) -> Readback {
    if text.is_empty() || NO_LIMIT.contains(&text.to_ascii_lowercase().as_str()) {
        return if memory.is_none() { Readback::Same } else { Readback::Other };
    }
    if is_complaint(text) {
        return Readback::Other;
    }
    let shown: Vec<(&str, u64)> =
        numbers(text).filter_map(|(number, rest)| Some((number, unit(rest)?))).collect();
    match (shown.as_slice(), memory) {
        ([(number, unit)], Some(mib)) => compare(number, *unit, mib),
        // A limit that gpushare didn't set.
        ([(number, _)], None) if number.contains(|c: char| ('1'..='9').contains(&c)) => Readback::Other,
        ([_], None) => Readback::Same,
        ([], Some(mib)) => compare_bare(text, u64::from(mib)),
        _ => Readback::Unclear,
    }
}

/// 23034 MiB may be truncated to 22G, or rounded to 22.5G.
fn compare(number: &str, unit: u64, mib: u32) -> Readback {
    let Some(Decimal { digits, scale }) = Decimal::parse(number) else { return Readback::Unclear };
    // Both are in fractions of a KiB, as precise as the number's decimals.
    let (shown, step) = (u128::from(digits) * u128::from(unit), u128::from(unit));
    let limit = u128::from(mib) * 1024 * u128::from(scale);
    if shown + step > limit && 2 * shown <= 2 * limit + step { Readback::Same } else { Readback::Other }
}

/// Compares a number without a unit, which may be MiB or bytes. 0 means no limit.
fn compare_bare(text: &str, mib: u64) -> Readback {
    match text.parse::<u64>() {
        Ok(0) => Readback::Other,
        Ok(number) if number == mib || number == mib << 20 => Readback::Same,
        _ => Readback::Unclear,
    }
}

fn is_complaint(text: &str) -> bool {
    COMPLAINTS.iter().any(|word| text.starts_with(word))
}

/// Every number, with the text that follows it.
fn numbers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, from) = rest.split_at_checked(rest.find(|c: char| c.is_ascii_digit())?)?;
        let is_end = |c: char| !c.is_ascii_digit() && c != '.';
        let (number, after) = from.split_at_checked(from.find(is_end).unwrap_or(from.len()))?;
        rest = after;
        Some((number, after))
    })
}

/// The unit that a text begins with, in KiB.
fn unit(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next()?;
    match word.to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => Some(1),
        "M" | "MB" | "MIB" => Some(1 << 10),
        "G" | "GB" | "GIB" => Some(1 << 20),
        "T" | "TB" | "TIB" => Some(1 << 30),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_recognised_in_todays_form_and_in_others() {
        for (text, memory, expected) in [
            ("22G", Some(23_034), Readback::Same),
            ("23G", Some(23_034), Readback::Other),
            ("1G", Some(1024), Readback::Same),
            ("1023M", Some(1023), Readback::Same),
            ("1M", Some(1), Readback::Same),
            ("1M", Some(1536), Readback::Other),
            ("", None, Readback::Same),
            ("", Some(1), Readback::Other),
            ("22G", None, Readback::Other),
            ("22.49 GiB", Some(23_034), Readback::Same),
            ("22.5G", Some(23_034), Readback::Same),
            ("23.5G", Some(23_034), Readback::Other),
            ("Device 0: 23034 MiB", Some(23_034), Readback::Same),
            ("0=22G", Some(23_034), Readback::Same),
            ("23034", Some(23_034), Readback::Same),
            ("24152899584", Some(23_034), Readback::Same),
            ("0", Some(23_034), Readback::Other),
            ("0M", None, Readback::Same),
            ("as configured", Some(23_034), Readback::Unclear),
            ("unlimited", None, Readback::Same),
            ("Unlimited", Some(1), Readback::Other),
            ("as configured", None, Readback::Unclear),
            ("22G of 40G", Some(23_034), Readback::Unclear),
            ("1.2.3G", Some(23_034), Readback::Unclear),
            ("Unknown command \"get_default_device_pinned_mem_limit\"", Some(23_034), Readback::Other),
            ("Cannot send command to MPS control daemon process", Some(23_034), Readback::Other),
        ] {
            assert_eq!(memory_in(text, memory), expected, "{text} {memory:?}");
        }
    }

    #[test]
    fn a_percentage_is_the_only_number_of_its_line() {
        for (text, expected) in [
            ("25.0", Some(25_000)),
            ("25.0 %", Some(25_000)),
            ("Active threads: 12.5%", Some(12_500)),
            ("101", None),
            ("1 of 2", None),
            ("", None),
            ("\u{1b}[31mx 1", None),
            ("Cannot find 1 daemon", None),
        ] {
            assert_eq!(percentage_in(text), expected, "{text}");
        }
    }
}
