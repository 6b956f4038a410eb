//! Limits on GPU types, of QOSes and associations as sacctmgr prints them today, and which of them apply to a job.
//!
//! A QOS's limits apply to jobs that name it and to jobs of partitions that have it as their own; an account's limits
//! apply to its users' jobs and those of the accounts below it. Limits on minutes and on one node's GPUs are ignored,
//! because accounting lacks what they count.

use std::collections::HashMap;
use std::rc::Rc;

use gpushare_judge::past::Facts;
use gpushare_slurm_text::{self as slurm_text, Association, Kind};
use serde::Serialize;

/// What limits sum over that are looked at.
const SCOPES: [Kind; 4] = [Kind::Grp, Kind::PerJob, Kind::PerUser, Kind::PerAccount];

/// A limit on a number of GPUs of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// `qos`, `account` or `user`.
    pub owner_kind: &'static str,
    /// Such as `q1`, `lab`, `alice in lab` or `alice in lab, p`.
    pub owner: String,
    /// The same for people.
    #[serde(skip)]
    pub whose: String,
    pub field: &'static str,
    /// What it sums over.
    #[serde(skip)]
    pub scope: Kind,
    /// In lowercase.
    pub gpu_type: String,
    pub limit: u32,
}

impl Limit {
    /// Such as `QOS 'q1', GrpTRES=gres/gpu:a40=4`.
    pub fn name(&self) -> String {
        format!("{}, {}=gres/gpu:{}={}", self.whose, self.field, self.gpu_type, self.limit)
    }
}

/// All limits.
#[derive(Debug, Default)]
pub struct Limits {
    pub all: Vec<Limit>,
    /// The limited types, in lowercase.
    pub gres_types: Vec<String>,
    /// The limits of each QOS, by its name in lowercase.
    of_qos: HashMap<String, Vec<usize>>,
    /// The limits of each association, by its place.
    of_association: HashMap<usize, Vec<usize>>,
    facts: Rc<Facts>,
}

impl Limits {
    /// Those that have numbers.
    pub fn of(facts: &Rc<Facts>) -> Limits {
        let mut limits = Limits { facts: Rc::clone(facts), ..Limits::default() };
        for qos in facts.qoses.iter().filter(|qos| !qos.is_relative) {
            let whose = format!("QOS '{}'", qos.name.escape_debug());
            let added = limits.add(("qos", &qos.name, &whose), &qos.limits);
            limits.of_qos.entry(low(&qos.name)).or_default().extend(added);
        }
        for (at, one) in facts.associations.all.iter().enumerate() {
            let Association { account, user, partition, .. } = one;
            let whose = format!("account '{}'", account.escape_debug());
            let of_user = |name: String| format!("user '{}' in {whose}{name}", user.escape_debug());
            let (kind, name, whose) = match (user.as_str(), partition.as_str()) {
                ("", _) => ("account", account.clone(), whose),
                (_, "") => ("user", format!("{user} in {account}"), of_user(String::new())),
                _ => {
                    let of = format!(", partition '{}'", partition.escape_debug());
                    ("user", format!("{user} in {account}, {partition}"), of_user(of))
                }
            };
            let added = limits.add((kind, &name, &whose), &one.tested());
            limits.of_association.insert(at, added.collect());
        }
        limits
    }

    /// The line about limits that are no numbers.
    pub fn not_judged(&self) -> Option<String> {
        slurm_text::limits::not_judged(&self.facts.qoses)
    }

    /// Adds an owner's, of this kind, name and name for people; their places.
    fn add(
        &mut self,
        (owner_kind, owner, whose): (&'static str, &str, &str),
        limits: &slurm_text::Limits,
    ) -> std::ops::Range<usize> {
        let before = self.all.len();
        for scope in SCOPES {
            for (tres, count) in limits.of(scope).iter() {
                let Some(gpu_type) = tres.strip_prefix("gres/gpu:").map(str::to_owned) else { continue };
                let Ok(limit) = count.try_into() else { continue };
                if !self.gres_types.contains(&gpu_type) {
                    self.gres_types.push(gpu_type.clone());
                }
                let (owner, whose, field) = (owner.to_owned(), whose.to_owned(), scope.column());
                self.all.push(Limit { owner_kind, owner, whose, field, scope, gpu_type, limit });
            }
        }
        before..self.all.len()
    }

    /// The limits that count a job.
    pub fn counting(&self, user: &str, account: &str, qos: &str, partition: &str) -> Vec<usize> {
        let Facts { associations, partitions, .. } = &*self.facts;
        let own = partitions.iter().find(|one| one.name == partition).and_then(|one| one.own.as_deref());
        let of_qoses = [Some(qos), own].into_iter().flatten().filter_map(|name| self.of_qos.get(&low(name)));
        let charged =
            associations.own(account, user, partition).into_iter().chain(associations.above(account));
        let of_associations = charged.filter_map(|(at, _)| self.of_association.get(&at));
        let mut found: Vec<usize> = of_qoses.chain(of_associations).flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Slurm ignores case in such names.
fn low(name: &str) -> String {
    name.to_ascii_lowercase()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use gpushare_judge::past::Tables;

    pub fn tables() -> Tables {
        Tables {
            tres: b"cpu||1\ngres|gpu|1001\ngres|gpu:a40|1002\ngres|gpu:h100|1003\n".to_vec(),
            qoses: b"normal||||||||||\nQ1|cpu=4,gres/gpu:a40=4|gres/gpu:a40=2|gres/gpu:h100=1|||||||\n\
                     pq|gres/gpu:a40=8||||||||||\n"
                .to_vec(),
            accounts: b"root|||normal||||||||\ndept|||normal||root|gres/gpu:a40=6|||||\n\
                        lab|||normal||dept||||||\n"
                .to_vec(),
            users: b"lab|alice||normal,q1|normal||gres/gpu:a40=3|gres/gpu:h100=2||||\n\
                     lab|alice|px|normal|normal|||||||\n"
                .to_vec(),
            partitions: b"PartitionName=p AllowGroups=ALL QoS=N/A\nPartitionName=px AllowGroups=ALL QoS=PQ\n"
                .to_vec(),
        }
    }

    #[test]
    fn a_job_is_under_its_qos_its_partitions_and_every_account_above() {
        let limits = Limits::of(&Rc::new(tables().read()));
        let of = |user: &str, account: &str, qos: &str, partition: &str| {
            let found = limits
                .counting(user, account, qos, partition)
                .into_iter()
                .filter_map(|at| limits.all.get(at));
            found
                .map(|one| format!("{} {} {}={}", one.whose, one.field, one.gpu_type, one.limit))
                .collect::<Vec<_>>()
        };
        let mine = ["QOS 'Q1' GrpTRES a40=4", "QOS 'Q1' MaxTRES a40=2", "QOS 'Q1' MaxTRESPU h100=1"];
        let dept = "account 'dept' GrpTRES a40=6";
        assert_eq!(of("bob", "LAB", "q1", "p"), [&mine[..], &[dept]].concat());
        let own =
            ["user 'alice' in account 'lab' GrpTRES a40=3", "user 'alice' in account 'lab' MaxTRES h100=2"];
        assert_eq!(of("alice", "lab", "normal", "p"), [&[dept], &own[..]].concat());
        // That partition has its own association and its own QOS.
        assert_eq!(of("alice", "lab", "normal", "px"), ["QOS 'pq' GrpTRES a40=8", dept]);
        assert_eq!(of("bob", "none", "gone", "p"), [""; 0]);
    }

    #[test]
    fn percentages_are_no_numbers_of_gpus() {
        let qoses = b"half|gres/gpu:a40=50||||||||||Relative||\nq|gres/gpu:a40=4||||||||||||\n".to_vec();
        let limits = Limits::of(&Rc::new(Tables { qoses, ..Tables::default() }.read()));
        assert_eq!(limits.all.iter().map(|one| one.owner.as_str()).collect::<Vec<_>>(), ["q"]);
        assert!(limits.not_judged().unwrap().ends_with("aren't checked: half"));
    }
}
