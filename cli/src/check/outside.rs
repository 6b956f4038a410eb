//! What gets round the rule of types without a plugin being asked, and is closed by Slurm's own settings: whole-node jobs
//! under `ForeignTypes=deny`, and jobs that wait for an exempt reservation after its end. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpushare::config::Config;
use gpushare::pattern::Case;

use super::cluster::listed;
use super::finding::Finding;
use crate::slurm::Slurm;

/// Nothing where there is nothing to get round.
pub fn findings(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let mut findings = whole_nodes(config, slurm);
    findings.extend(reservations(config, slurm));
    findings
}

/// A job that takes whole nodes gets all of their GPUs, and anybody can say `--exclusive`. What keeps a type from it is a
/// limit of its QOS on that type (`gpushare::shares::foreign`).
fn whole_nodes(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let about = "ForeignTypes";
    let governed =
        slurm.qoses.typed.iter().filter(|(qos, _)| config.policy.keeps_to_its_types(qos.as_bytes()));
    let in_file = |qos: &str| config.shares.iter().any(|share| share.qos.eq_ignore_ascii_case(qos));
    let mut open: BTreeMap<(bool, Vec<String>), Vec<String>> = BTreeMap::new();
    let mut closed = false;
    for (qos, limited) in governed {
        let others: BTreeSet<String> = within_reach(slurm, qos);
        let missing: Vec<String> = others.difference(limited).cloned().collect();
        if missing.is_empty() {
            closed |= others.len() > 1;
        } else {
            open.entry((in_file(qos), missing)).or_default().push(qos.clone());
        }
    }
    if open.is_empty() && closed {
        return vec![Finding::ok(about, "deny: whole-node jobs get no GPUs of types that their QOS lacks")];
    }
    let finding = |((in_file, kinds), names): ((bool, Vec<String>), Vec<String>)| {
        let said = format!(
            "QOS {}: without a limit on {} a job that takes whole nodes (--exclusive) gets these GPUs too",
            listed(&names),
            kinds.iter().map(|kind| format!("gres/gpu:{kind}")).collect::<Vec<_>>().join(", ")
        );
        let zeros: Vec<String> = kinds.iter().map(|kind| format!("gres/gpu:{kind}=0")).collect();
        let by_hand =
            format!("sacctmgr modify qos where name={} set GrpTRES={}", names.join(","), zeros.join(","));
        Finding::wrong(about, said, if in_file { "gpushare qos apply".to_owned() } else { by_hand })
    };
    open.into_iter().map(finding).collect()
}

/// The types of GPU that a QOS's jobs can land on and that Slurm counts, as its database has them. Of others
/// `AccountingStorageTRES` is said to be wrong.
fn within_reach(slurm: &Slurm, qos: &str) -> BTreeSet<String> {
    let tracked = slurm.settings.list("AccountingStorageTRES");
    let admits = |name: &String| {
        slurm.partitions.iter().any(|partition| partition.name == *name && partition.admits(qos))
    };
    let nodes = slurm.nodes.iter().filter(|node| node.partitions.iter().any(admits));
    let gpus = nodes.flat_map(|node| &node.gres).filter(|(name, ..)| name == "gpu");
    let kinds = gpus.filter_map(|(_, kind, _)| kind.as_ref().map(|kind| kind.to_ascii_lowercase()));
    let is_tracked =
        |kind: &String| tracked.iter().any(|name| name.eq_ignore_ascii_case(&format!("gres/gpu:{kind}")));
    kinds.filter(is_tracked).collect()
}

/// With that flag jobs that still wait at the reservation's end start without it, and no plugin is asked.
fn reservations(config: &Config, slurm: &Slurm) -> Option<Finding> {
    let exempt = &config.policy.exempt.reservations;
    let lets_go = |flag: &String| flag.to_ascii_uppercase().starts_with("NO_HOLD_JOBS_AFTER");
    let wrong = slurm.reservations.iter().filter(|reservation| {
        exempt.match_name(reservation.name.as_bytes(), Case::Counts) && reservation.flags.iter().any(lets_go)
    });
    let names: Vec<String> = wrong.map(|reservation| reservation.name.clone()).collect();
    (!names.is_empty()).then(|| {
        let said = format!(
            "{} has NO_HOLD_JOBS_AFTER_END: jobs that wait in it start after its end, exempt from the rules",
            listed(&names)
        );
        let fix = "hold the jobs that wait in it, delete it and make it again without that flag, which no update takes away";
        Finding::wrong("ExemptReservations", said, fix)
    })
}

#[cfg(test)]
mod tests;
