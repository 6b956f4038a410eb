//! How much of each QOS is in use, according to slurmctld: `scontrol -o show assoc_mgr flags=qos`.

use std::collections::{BTreeMap, HashMap};

use gpushare_slurm_text::assoc_mgr::{self, Qos};

/// What the running jobs of a QOS have in total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Running jobs.
    pub jobs: u64,
    /// By TRES; memory in MiB.
    pub tres: BTreeMap<String, u64>,
    /// The minutes that count as used, by TRES.
    pub minutes: BTreeMap<String, u64>,
}

/// The usage by name of the QOS. Omits what can't be read, because it is only displayed.
pub fn read(text: &str) -> HashMap<String, Usage> {
    assoc_mgr::qoses(text).map(|qos| (qos.name.to_owned(), one(&qos))).collect()
}

fn one(qos: &Qos) -> Usage {
    let used =
        |field| qos.counts(field).unwrap_or_default().into_iter().map(|(name, (_, used))| (name, used));
    Usage {
        jobs: used("GrpJobs").map(|(_, used)| used).sum(),
        tres: used("GrpTRES").collect(),
        minutes: used("GrpTRESMins").collect(),
    }
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
        assert_eq!(usage.minutes["cpu"], 7);
    }
}
