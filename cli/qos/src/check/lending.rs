//! What would keep a group from getting its GPUs back from borrowers: an error if it would always, otherwise a warning.

use std::collections::BTreeSet;

use gpushare_slurm_text::Partition;

use super::Cluster;
use crate::TYPE;
use crate::config::lending::{is_on, name, owns};
use crate::config::value::{Settings, Value, limits, names};
use crate::config::{ManagedQos, Members};
use crate::state::{Actual, Qos};

const SUDDEN: &str = "with BurstGraceTime=0, borrowers have only slurm.conf's KillWait to end";
const SHARES: &str = "before Slurm 25.05, on nodes with whole GPUs and shares, an owner's job may preempt jobs that hold \
                      no GPU it needs, one after another; keep shares on nodes of their own";
const ABOVE: &str =
    "borrowers' jobs above min_exempt_priority (PreemptParameters in slurm.conf) keep GPUs until they end";
const RANKED: &str = "PreemptMode in slurm.conf has PRIORITY: owners get GPUs back only from jobs of lower priority, so \
                      PriorityWeightQOS must outweigh all else; or remove it";

/// The records of a file, and the database.
pub(super) struct Lenders<'q> {
    qoses: &'q [ManagedQos],
    actual: &'q Actual,
    /// Whether the groups lend.
    pub(super) lend: bool,
}

impl<'q> Lenders<'q> {
    pub(super) fn of(qoses: &'q [ManagedQos], actual: &'q Actual) -> Lenders<'q> {
        Lenders { qoses, actual, lend: is_on(qoses) }
    }

    /// What is wrong with a record: whether it is an error, and the text.
    pub(super) fn findings(&self, managed: &ManagedQos, cluster: &Cluster) -> Vec<(bool, String)> {
        let mut found = self.of_second(managed);
        let preempts_any = !names(&managed.settings, "Preempt").is_empty();
        found.extend((cluster.overlooks_shares && preempts_any).then(|| (false, SHARES.to_owned())));
        found.extend(self.ended(managed, cluster).map(|text| (false, text)));
        if managed.burst.is_some() && !cluster.preempts {
            let text = "Burst needs PreemptType=preempt/qos in slurm.conf and a PreemptMode other than OFF; 'gpushare \
                        conf slurm' prints the lines";
            found.push((true, text.to_owned()));
        }
        if !self.lend {
            return found;
        }
        let partitions = managed.burst.iter().flat_map(|_| &cluster.partitions);
        found.extend(partitions.flat_map(|one| self.of_partition(managed, one)).map(|text| (false, text)));
        let odd = [
            (managed.burst.is_some_and(|burst| burst.grace == 0), SUDDEN),
            (managed.burst.is_some() && cluster.exempts_above, ABOVE),
            // From 25.05 on.
            (managed.burst.is_some() && cluster.modes.contains("priority"), RANKED),
        ];
        found.extend(odd.into_iter().filter(|(is, _)| *is).map(|(_, text)| (false, text.to_owned())));
        if !owns(managed) {
            let (name, of) = (&managed.name, &managed.settings);
            let text = || self.locked_out(&format!("QOS '{name}'"), self.is_quota_of_shares(name, of));
            found.extend(self.is_locked_out(name, of).then(|| (true, text())));
            return found;
        }
        if managed.is_last {
            found.push((true, "with Burst, Priority can't be 0, which borrowers have".to_owned()));
        }
        let gives_way = |name: &str| preempts(&managed.settings, name);
        // Its jobs would end, although they are within their quota.
        if let Some(other) = self.qoses.iter().find(|other| owns(other) && gives_way(&other.name)) {
            let text = format!("with Burst, Preempt can't name '{}', which has GPUs of its own", other.name);
            found.push((true, text));
        }
        found.extend(self.within(cluster).map(|text| (false, text)));
        found.extend(self.late(managed, cluster).map(|text| (false, text)));
        let found_there = self.of_database(cluster).filter(|(name, of)| self.is_locked_out(name, of));
        let there = several(found_there.map(|(name, _)| name));
        found.extend(there.map(|them| (false, self.locked_out(&them, false))));
        let keep = several(self.others(managed, cluster).filter(|name| !gives_way(name)));
        let text = |them| {
            format!("jobs of {them} may keep its GPUs until they end; name in Preempt what must give way")
        };
        found.extend(keep.map(|them| (false, text(them))));
        found
    }

    /// Whether the QOS for what a group borrows has the rules of the group's own.
    fn of_second(&self, managed: &ManagedQos) -> Vec<(bool, String)> {
        let is_its = |other: &&ManagedQos| other.burst_of.as_ref() == Some(&managed.name);
        let Some(second) = self.qoses.iter().find(is_its) else { return Vec::new() };
        let (own, other) = (&managed.name, &second.name);
        // Without limits of 0 on other types, it could have those beyond what the group may borrow.
        let text =
            format!("QOS '{own}' is governed and '{other}' isn't: GovernedQOS and Mode must be for both");
        let types = (managed.keeps_to_its_types && !second.keeps_to_its_types).then_some((true, text));
        let rules = (!managed.unruled.is_empty()).then(|| {
            let keys: String = managed.unruled.iter().map(|key| format!(" {key}=…")).collect();
            (false, format!("rules for QOS '{own}' are not for '{other}'; add a line QOS={other}{keys}"))
        });
        types.into_iter().chain(rules).collect()
    }

    /// What keeps a group from borrowing in a partition, or owners from getting their GPUs back there.
    fn of_partition(&self, owner: &ManagedQos, partition: &Partition) -> Vec<String> {
        let (place, second) = (&partition.name, name(&owner.name));
        if !partition.admits(&second) {
            let lacks = !partition.allowed.is_empty() && partition.admits(&owner.name);
            let text = || {
                format!("partition '{place}' doesn't allow QOS '{second}'; slurm.conf: add it to AllowQos")
            };
            return lacks.then(text).into_iter().collect();
        }
        let is_over = names(&owner.settings, "Flags").contains("OverPartQOS");
        let Some(own) = partition.own.as_ref().filter(|_| !is_over) else { return Vec::new() };
        let ways = [
            (self.limits_gpus(own), "limits GPUs: if borrowers have them all, owners wait"),
            // It counts before that of the job's QOS, which is 0.
            (self.is_exempt(own, 0), "has PreemptExemptTime: borrowers there keep GPUs for that time"),
        ];
        let text = |why| {
            format!("QOS '{own}' of partition '{place}' {why}; remove that, or give owners Flags=OverPartQOS")
        };
        ways.into_iter().filter(|(is, _)| *is).map(|(_, why)| text(why)).collect()
    }

    /// Which QOSes that give way to an owner keep its GPUs nevertheless, or for a time.
    fn late(&self, owner: &ManagedQos, cluster: &Cluster) -> impl Iterator<Item = String> {
        names(&owner.settings, "Preempt").iter().filter_map(|name| {
            let modes = names(self.settings(name)?, "PreemptMode");
            let is_clusters = modes.is_empty() || modes.contains("cluster");
            let is = |only: &str| modes.iter().all(|mode| mode == only);
            let until = "until they end";
            let (until, why) = match is_clusters {
                true if cluster.modes.contains("suspend") => {
                    ("for a time", "PreemptMode=SUSPEND in slurm.conf")
                }
                false if modes.contains("suspend") => ("for a time", "PreemptMode=suspend"),
                // Without another word, Slurm does nothing to the job. `priority` is of 25.05.
                false if is("within") => (until, "PreemptMode=within alone"),
                false if is("gang") => (until, "PreemptMode=gang alone"),
                false if is("priority") => (until, "PreemptMode=priority alone"),
                _ if self.is_exempt(name, cluster.exempt) => ("for a time", "PreemptExemptTime"),
                _ => return None,
            };
            Some(format!("jobs of QOS '{name}' keep its GPUs {until}, because of {why}"))
        })
    }

    /// Which owners' jobs lose their work to jobs of their own QOS.
    fn within(&self, cluster: &Cluster) -> Option<String> {
        let preempt_each_other = |owner: &&ManagedQos| {
            let is_within = |modes: &BTreeSet<String>| modes.contains("within");
            let is_sudden = !matches!(owner.settings.get("GraceTime"), Some(Value::Time(1..)));
            let of_qos = names(&owner.settings, "PreemptMode");
            owns(owner) && is_sudden && (is_within(&cluster.modes) || is_within(of_qos))
        };
        let them = several(self.qoses.iter().filter(preempt_each_other).map(|owner| owner.name.as_str()))?;
        let what = format!("jobs of {them} end each other without notice");
        Some(format!("PreemptMode has WITHIN: {what}; remove it, or set GraceTime"))
    }

    /// Whose jobs end when they are preempted, although their QOS says that they are requeued.
    fn ended(&self, managed: &ManagedQos, cluster: &Cluster) -> Option<String> {
        let is_ended = |one: &ManagedQos| {
            cluster.ends_preempted && !one.requeues && names(&one.settings, "PreemptMode").contains("requeue")
        };
        let them = || several(self.qoses.iter().filter(|one| is_ended(one)).map(|one| one.name.as_str()));
        let text = |them| {
            format!(
                "slurm.conf has JobRequeue=0, so preempted batch jobs of {them} end unless they ask for --requeue; set \
                 JobRequeue=1, or Requeue=yes for these QOSes"
            )
        };
        is_ended(managed).then(them).flatten().map(text)
    }

    /// Whether jobs of a QOS are exempt from preemption for a time.
    fn is_exempt(&self, name: &str, otherwise: u64) -> bool {
        match self.settings(name).and_then(|of| of.get("PreemptExemptTime")) {
            Some(Value::Time(seconds)) => *seconds > 0,
            _ => otherwise > 0,
        }
    }

    /// The settings of a QOS, which its record has all of.
    fn settings(&self, name: &str) -> Option<&'q Settings> {
        let of_file = self.qoses.iter().find(|other| other.name == name).map(|other| &other.settings);
        of_file.or_else(|| self.actual.qoses.get(name).map(|qos| &qos.settings))
    }

    fn limits_gpus(&self, name: &str) -> bool {
        let is_gpu = |(tres, number): (&String, &u64)| *number > 0 && tres.starts_with("gres/gpu");
        self.settings(name).is_some_and(|of| limits(of, "GrpTRES").iter().any(is_gpu))
    }

    /// Whether a QOS has a quota of a type that groups lend, but can't get its GPUs back.
    fn is_locked_out(&self, name: &str, settings: &Settings) -> bool {
        self.is_quota(name, settings) && !self.seconds().all(|second| preempts(settings, &second.name))
    }

    /// Whether the limits of a QOS are a quota of such a type, or of shares of GPUs, although the QOS has no `GPUs`.
    fn is_quota(&self, name: &str, settings: &Settings) -> bool {
        let is_lent = |tres: &str| {
            let is_type = |(of, _): &(String, u64)| tres.eq_ignore_ascii_case(&format!("{TYPE}{of}"));
            self.seconds().any(|second| second.gpus.iter().any(is_type))
        };
        let mut quota = limits(settings, "GrpTRES").iter();
        let has_quota = quota.any(|(tres, number)| *number > 0 && is_lent(tres));
        let gives_way = || self.qoses.iter().any(|other| owns(other) && preempts(&other.settings, name));
        let is_second = self.seconds().any(|second| second.name == name);
        let is_any = has_quota || self.is_quota_of_shares(name, settings);
        is_any && !is_second && self.is_used(name) && !gives_way()
    }

    /// Whether a record gives accounts a number of shares. For everybody it is a limit, no group's quota.
    fn is_quota_of_shares(&self, name: &str, settings: &Settings) -> bool {
        let is_borrowed = |tres: &str| {
            tres.split(':').next().is_some_and(|name| ["gres/mps", "gres/shard"].contains(&name))
                || self.seconds().any(|second| limits(&second.settings, "GrpTRES").contains_key(tres))
        };
        let is_share =
            |tres: &str| tres.starts_with("gres/") && tres != "gres/gpu" && !tres.starts_with(TYPE);
        let mut quota = limits(settings, "GrpTRES").iter();
        let is_groups = |one: &ManagedQos| one.name == name && one.members.accounts().next().is_some();
        self.qoses.iter().any(is_groups)
            && quota.any(|(tres, number)| *number > 0 && is_share(tres) && is_borrowed(tres))
    }

    fn seconds(&self) -> impl Iterator<Item = &'q ManagedQos> {
        self.qoses.iter().filter(|other| other.burst_of.is_some())
    }

    /// What is said of QOSes that can't get GPUs back. A quota of shares has no other way to say so than Slurm's.
    fn locked_out(&self, them: &str, of_shares: bool) -> String {
        let seconds = several(self.seconds().map(|second| second.name.as_str())).unwrap_or_default();
        let way = match of_shares {
            true => format!("name {seconds} in Preempt, with a Priority"),
            false => "write the quota as GPUs".to_owned(),
        };
        format!("with Burst, {them} can't get GPUs back from borrowers; {way}, or let owners preempt it")
    }

    /// Whether jobs may have the QOS. Partitions may name others.
    fn is_used(&self, name: &str) -> bool {
        let has_members = |other: &ManagedQos| other.name == name && other.members != Members::Unsaid;
        self.qoses.iter().any(has_members)
            || self.actual.tree.naming(name).any(|row| row.own.says(name) == Some(true))
    }

    /// The QOSes that the file doesn't name. What was lent before is preempted still.
    fn of_database(&self, cluster: &Cluster) -> impl Iterator<Item = (&'q str, &'q Settings)> {
        let of_file = |name: &str| self.qoses.iter().any(|other| other.name == name);
        let is_retired = |qos: &Qos| qos.is_burst() && qos.is_of(&cluster.name);
        let others = self.actual.qoses.iter().filter(move |(name, qos)| !of_file(name) && !is_retired(qos));
        others.map(|(name, qos)| (name.as_str(), &qos.settings))
    }

    /// The QOSes without GPUs of their own that may have some of an owner's types.
    fn others(&self, owner: &ManagedQos, cluster: &Cluster) -> impl Iterator<Item = &'q str> {
        let of_file = self.qoses.iter().filter(|other| !owns(other));
        let of_file = of_file.map(|other| (other.name.as_str(), &other.settings));
        let all = of_file.chain(self.of_database(cluster)).filter(|(name, settings)| {
            self.is_used(name) && !has_none(settings, owner) && !self.is_quota(name, settings)
        });
        all.map(|(name, _)| name)
    }
}

fn preempts(settings: &Settings, name: &str) -> bool {
    names(settings, "Preempt").contains(name)
}

/// `QOS 'a' and 2 more`
fn several<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<String> {
    let first = names.next()?;
    let more = names.count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("QOS '{first}'{more}"))
}

/// Whether a QOS's limits allow none of an owner's types.
fn has_none(settings: &Settings, owner: &ManagedQos) -> bool {
    let limits = limits(settings, "GrpTRES");
    let zero =
        |name: &str| limits.iter().any(|(tres, number)| *number == 0 && tres.eq_ignore_ascii_case(name));
    zero("gres/gpu") || owner.gpus.iter().all(|(gres_type, _)| zero(&format!("{TYPE}{gres_type}")))
}
