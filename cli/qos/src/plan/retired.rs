//! QOSes for borrowed GPUs whose owner's record no longer has `Burst`.
//!
//! Like any other QOS that is no longer in the file, such a QOS stays until `--prune`. But its jobs must still give
//! way, and nobody may submit more: owners preempt it as long as it exists, and the plan revokes it from everybody.

use super::InUse;
use crate::Cluster;
use crate::config::lending::{owns, preempt};
use crate::config::{ManagedQos, Members};
use crate::state::{Actual, Qos};

/// Records of them, which nobody may use.
pub(super) fn bursts(qoses: &[ManagedQos], actual: &Actual, cluster: &Cluster) -> Vec<ManagedQos> {
    let of_file = |name: &str| qoses.iter().any(|managed| managed.name == name);
    let is_one = |name: &str, qos: &Qos| qos.is_burst() && qos.is_of(&cluster.name) && !of_file(name);
    let found = actual.qoses.iter().filter(|(name, qos)| is_one(name, qos));
    let members = Members::Accounts(Vec::new());
    let nobodys = ManagedQos { members, ..ManagedQos::default() };
    found.map(|(name, _)| ManagedQos { name: name.clone(), ..nobodys.clone() }).collect()
}

/// The file's records, with owners that preempt those that stay; `None` if there are none.
pub(super) fn preempted_still(
    qoses: &[ManagedQos],
    retired: &[ManagedQos],
    actual: &Actual,
    prune: Option<&InUse>,
) -> Option<Vec<ManagedQos>> {
    let stays = |name: &str| {
        prune.is_none_or(|used| used.contains_key(name)) || actual.tree.defaults_to(name).next().is_some()
    };
    let names: Vec<&String> = retired.iter().map(|qos| &qos.name).filter(|name| stays(name)).collect();
    let preempting = |managed: &ManagedQos| {
        let mut managed = managed.clone();
        if owns(&managed) {
            preempt(&mut managed.settings, names.iter().copied().cloned());
        }
        managed
    };
    (!names.is_empty()).then(|| qoses.iter().map(preempting).collect())
}
