//! Lists of TRES with their numbers: what a job has, what a limit allows; and which there are.

use crate::{Question, columns};

/// `cpu=8,mem=16G,gres/gpu=2,gres/gpu:a40=2`, memory in MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tres(Vec<(String, u64)>);

impl Tres {
    /// Reads a list. A part that isn't `NAME=NUMBER` is left out, such as `(null)`.
    pub fn read(text: &str) -> Tres {
        Tres(text.trim().split(',').filter_map(part).collect())
    }

    /// How many of one TRES.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
    }

    /// All of them, in Slurm's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the others.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| is_kept(name));
    }

    /// Adds to one TRES.
    pub fn add(&mut self, name: &str, count: u64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.0.push((name.to_owned(), count)),
        }
    }
}

/// Asks for the cluster's TRES.
pub const ALL: Question = ("sacctmgr", &["-nP", "show", "tres", "format=type,name,id"]);

/// The TRES, spelled as in limits and sorted by their numbers, as in slurmctld.
pub fn names(text: &str) -> Vec<String> {
    let named = text.lines().filter_map(|line| {
        let [kind, name, id] = <[_; 3]>::try_from(columns(line).collect::<Vec<_>>()).ok()?;
        let id: u32 = id.parse().ok()?;
        Some((id, if name.is_empty() { kind.to_owned() } else { [kind, name].join("/") }))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named.into_iter().map(|(_, name)| name).collect()
}

fn part(text: &str) -> Option<(String, u64)> {
    let (name, number) = text.rsplit_once('=')?;
    let with_unit = || Some(bytes(number).filter(|_| name == "mem")? >> 20);
    let count = number.parse().ok().or_else(with_unit)?;
    // Slurm's database has every type in lowercase; slurmctld of some releases prints what a node spells.
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), count))
}

/// Reads `38027657216`, `36266M` or `35.42G` as bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.as_bytes().get(digits.len()..)? {
        [] => 0,
        [unit] => 10 * (1 + b"KMGTP".iter().position(|known| known.eq_ignore_ascii_case(unit))?),
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // Two decimals, as Slurm rounds.
    let hundredths: u64 = format!("{fraction:0<2}").get(..2)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1 << shift)?.checked_add((hundredths << shift) / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_slurm_prints_them() {
        let all = |text: &str| {
            Tres::read(text).iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("", vec![]),
            ("(null)", vec![]),
            ("N/A", vec![]),
            ("cpu=2,gres/gpu=2,gres/gpu:A40=2", vec!["cpu 2", "gres/gpu 2", "gres/gpu:a40 2"]),
            ("mem=2000M", vec!["mem 2000"]),
            ("mem=1.50G", vec!["mem 1536"]),
            ("mem=0.5T,node=x", vec!["mem 524288"]),
            ("gres/gpu:a=b=3", vec!["gres/gpu:a=b 3"]),
            ("=3,gres/gpu=", vec![]),
        ] {
            assert_eq!(all(text), expected, "{text}");
        }
    }

    #[test]
    fn amounts_may_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("38027657216", Some(38_027_657_216)),
            ("36266M", Some(36_266 << 20)),
            ("1.5G", Some(3 << 29)),
            ("2.25k", Some(2304)),
            ("18446744073709551615P", None),
            ("NONE", None),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_add_up() {
        let mut sum = Tres::default();
        sum.add("gres/gpu", u64::MAX);
        sum.add("gres/gpu", 2);
        assert_eq!((sum.of("gres/gpu"), sum.of("cpu")), (Some(u64::MAX), None));
    }
}
