//! Whether slurmctld has the database's QOSes. slurmdbd tells slurmctld about each change once, and about none while
//! they are disconnected. When 22.05 reconnects, it reads all QOSes; 24.11 and 26.05 don't (seen in the lab). A QOS
//! that was deleted and created again then exists twice, and slurmctld refuses users under the older one.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_slurm_text::{assoc_mgr, own};

use super::lines;

/// The changes that slurmctld has missed, as text; empty if it is right, or keeps no QOSes at all. The texts are the
/// answers to [`own::NUMBERS`] and [`assoc_mgr::QOSES`].
pub fn missed(database: &str, slurmctld: &str) -> Vec<String> {
    let known: BTreeSet<(&str, &str)> =
        assoc_mgr::qoses(slurmctld).map(|qos| (qos.name, qos.number)).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let there: BTreeMap<&str, &str> =
        lines(database).filter_map(own::number).map(|(id, name)| (name, id)).collect();
    let removed = known.iter().filter(|(name, id)| there.get(name) != Some(id)).map(|(name, _)| {
        let older = if there.contains_key(name) { "an older" } else { "the removed" };
        format!("it has {older} '{}'", name.escape_debug())
    });
    let unknown = there.iter().filter(|(name, id)| !known.contains(&(**name, **id)));
    removed.chain(unknown.map(|(name, _)| format!("it has no '{}'", name.escape_debug()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &str = "1|normal\n80|qos_mine\n";

    #[test]
    fn what_slurmctld_did_not_hear_of_is_named() {
        for (slurmctld, expected) in [
            ("QOS=normal(1)\nQOS=qos_mine(80) Priority=0\n", &[][..]),
            ("QOS=normal(1)\n", &["it has no 'qos_mine'"]),
            ("QOS=normal(1)\nQOS=qos_mine(80)\nQOS=gone(3) Priority=0\n", &["it has the removed 'gone'"]),
            ("QOS=normal(1)\nQOS=qos_mine(59)\nQOS=qos_mine(80)\n", &["it has an older 'qos_mine'"]),
            ("QOS=normal(1)\nQOS=qos_mine(59)\n", &["it has an older 'qos_mine'", "it has no 'qos_mine'"]),
        ] {
            let text = format!("Current Association Manager state\n\nQOS Records\n\n{slurmctld}");
            assert_eq!(missed(DATABASE, &text), expected, "{slurmctld}");
        }
    }

    #[test]
    fn one_that_keeps_no_qoses_missed_nothing() {
        assert!(
            missed(DATABASE, "Current Association Manager state\n\nNo QOS currently cached in Slurm.\n")
                .is_empty()
        );
    }
}
