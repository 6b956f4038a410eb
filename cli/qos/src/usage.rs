//! How much of each QOS is in use, according to slurmctld: `scontrol -o show assoc_mgr flags=qos`.

use std::collections::{BTreeMap, HashMap};

use super::lines;

/// What the running jobs of a QOS have in total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Running jobs.
    pub jobs: u64,
    /// By TRES; memory in MiB.
    pub tres: BTreeMap<String, u64>,
}

/// The usage by name of the QOS. Omits what can't be read, because it is only displayed.
pub fn read(text: &str) -> HashMap<String, Usage> {
    lines(text).filter_map(one).collect()
}

/// `QOS=q(7) … GrpJobs=N(3) … GrpTRES=cpu=32(8),gres/gpu:a40=4(2) …`
fn one(line: &str) -> Option<(String, Usage)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("QOS=")?.rsplit_once('(')?.0.to_owned();
    let mut usage = Usage::default();
    for word in words {
        if let Some(jobs) = word.strip_prefix("GrpJobs=") {
            usage.jobs = in_brackets(jobs).map_or(0, |(_, used)| used);
        }
        if let Some(all) = word.strip_prefix("GrpTRES=") {
            let of = |part: &str| in_brackets(part).map(|(name, used)| (name.to_owned(), used));
            let named = all.split(',').filter_map(of);
            usage.tres =
                named.filter_map(|(name, used)| Some((name.rsplit_once('=')?.0.to_owned(), used))).collect();
        }
    }
    Some((name, usage))
}

/// `cpu=32(8)` → `cpu=32`, 8
fn in_brackets(text: &str) -> Option<(&str, u64)> {
    let (before, used) = text.strip_suffix(')')?.rsplit_once('(')?;
    Some((before, used.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurmctld_counts_is_read() {
        let text = "Current Association Manager state\n\nQOS Records\nQOS=qos_x(27) UsageRaw=0.0 GrpJobs=N(3) \
                    GrpWall=N(0.00) GrpTRES=cpu=32(8),mem=N(2048),gres/gpu:a40=4(2),gres/gpu=N(x) GrpTRESMins=cpu=N(7) \
                    Priority=0\nQOS=bad\n";
        let all = read(text);
        let usage = all.get("qos_x").unwrap();
        assert_eq!((all.len(), usage.jobs), (1, 3));
        let tres: Vec<_> = usage.tres.iter().map(|(name, used)| (name.as_str(), *used)).collect();
        assert_eq!(tres, [("cpu", 8), ("gres/gpu:a40", 2), ("mem", 2048)]);
    }
}
