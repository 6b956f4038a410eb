//! What would keep a group from getting its GPUs back from borrowers: an error if it would always, otherwise a warning.

use super::Cluster;
use crate::TYPE;
use crate::config::ManagedQos;
use crate::config::lending::{is_on, owns};
use crate::config::value::{Settings, Value};
use crate::state::Actual;

/// The records of a file, and the database.
pub(super) struct Lenders<'q> {
    qoses: &'q [ManagedQos],
    actual: &'q Actual,
    lend: bool,
    /// The warning about QOSes that don't give way is the same for most owners.
    is_warned: bool,
}

impl<'q> Lenders<'q> {
    pub(super) fn of(qoses: &'q [ManagedQos], actual: &'q Actual) -> Lenders<'q> {
        Lenders { qoses, actual, lend: is_on(qoses), is_warned: false }
    }

    /// Whether the groups lend.
    pub(super) fn lend(&self) -> bool {
        self.lend
    }

    /// What is wrong with a record: whether it is an error, and the text.
    pub(super) fn findings(&mut self, managed: &ManagedQos, cluster: &Cluster) -> Vec<(bool, String)> {
        let mut found = Vec::new();
        if managed.burst.is_some() && !cluster.preempts {
            let text = "Burst needs PreemptType=preempt/qos in slurm.conf and a PreemptMode other than OFF; 'gpushare \
                        conf slurm' prints the lines";
            found.push((true, text.to_owned()));
        }
        if !self.lend || !owns(managed) {
            return found;
        }
        let gives_way = |name: &str| match managed.settings.get("Preempt") {
            Some(Value::Words(names)) => names.contains(name),
            _ => false,
        };
        // Its jobs would end, although they are within their quota.
        if let Some(other) = self.qoses.iter().find(|other| owns(other) && gives_way(&other.name)) {
            let text = format!("with Burst, Preempt can't name '{}', which has GPUs of its own", other.name);
            found.push((true, text));
        }
        let mut keep = self.others(managed).filter(|name| !gives_way(name));
        if let (Some(first), false) = (keep.next(), self.is_warned) {
            let more = keep.count();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let text = format!(
                "jobs of QOS '{first}'{more} may keep its GPUs until they end; name in Preempt what must give way"
            );
            found.push((false, text));
            self.is_warned = true;
        }
        found
    }

    /// The QOSes without GPUs of their own that may have some of an owner's types.
    fn others(&self, owner: &ManagedQos) -> impl Iterator<Item = &'q str> {
        let record = |name: &str| self.qoses.iter().find(|other| other.name == name);
        let of_file = self.qoses.iter().map(|other| (other.name.as_str(), &other.settings));
        let of_database = self.actual.qoses.iter().map(|(name, qos)| (name.as_str(), &qos.settings));
        let all = of_file.chain(of_database.filter(|(name, _)| record(name).is_none()));
        let others =
            all.filter(|(name, settings)| !record(name).is_some_and(owns) && !has_none(settings, owner));
        others.map(|(name, _)| name).collect::<Vec<_>>().into_iter()
    }
}

/// Whether a QOS's limits allow none of an owner's types.
fn has_none(settings: &Settings, owner: &ManagedQos) -> bool {
    let Some(Value::Tres(limits)) = settings.get("GrpTRES") else { return false };
    let zero =
        |name: &str| limits.iter().any(|(tres, number)| *number == 0 && tres.eq_ignore_ascii_case(name));
    zero("gres/gpu") || owner.gpus.iter().all(|(gres_type, _)| zero(&format!("{TYPE}{gres_type}")))
}
