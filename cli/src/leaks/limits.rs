//! Limits on GPU types, of QOSes and associations as sacctmgr prints them today, and which of them apply to a job.
//!
//! A QOS's limits apply to jobs that name it and to jobs of partitions that have it as their own; an account's limits
//! apply to its users' jobs and those of the accounts below it. Limits on minutes and on one node's GPUs are ignored,
//! because accounting lacks what they count.

use std::collections::HashMap;

use crate::explain::past::Tables;
use crate::slurm;

/// A limit on a number of GPUs of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub owner: Owner,
    pub scope: Scope,
    /// An index in [`Limits::gres_types`].
    pub gres_type: usize,
    pub count: u32,
}

/// Who has a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    Qos(String),
    Account(String),
    /// A user in an account, perhaps in only one partition.
    User {
        account: String,
        user: String,
        partition: String,
    },
}

/// What a limit sums over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    EachUser,
    EachAccount,
    EachJob,
}

impl Scope {
    /// sacctmgr's name for it.
    pub fn field(self) -> &'static str {
        match self {
            Scope::All => "GrpTRES",
            Scope::EachUser => "MaxTRESPU",
            Scope::EachAccount => "MaxTRESPA",
            Scope::EachJob => "MaxTRES",
        }
    }
}

impl Owner {
    pub fn kind(&self) -> &'static str {
        match self {
            Owner::Qos(_) => "qos",
            Owner::Account(_) => "account",
            Owner::User { .. } => "user",
        }
    }

    /// Such as `q1`, `lab`, `alice in lab` or `alice in lab, p`.
    pub fn name(&self) -> String {
        match self {
            Owner::Qos(name) | Owner::Account(name) => name.clone(),
            Owner::User { account, user, partition } if partition.is_empty() => {
                format!("{user} in {account}")
            }
            Owner::User { account, user, partition } => format!("{user} in {account}, {partition}"),
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Owner::Qos(name) => write!(out, "QOS '{}'", name.escape_debug()),
            Owner::Account(name) => write!(out, "account '{}'", name.escape_debug()),
            Owner::User { account, user, partition } => {
                write!(out, "user '{}' in account '{}'", user.escape_debug(), account.escape_debug())?;
                if partition.is_empty() {
                    Ok(())
                } else {
                    write!(out, ", partition '{}'", partition.escape_debug())
                }
            }
        }
    }
}

/// All limits.
#[derive(Debug, Default)]
pub struct Limits {
    pub all: Vec<Limit>,
    /// The limited types, in lowercase.
    pub gres_types: Vec<String>,
    /// The limits by their owner's key.
    by_owner: HashMap<String, Vec<usize>>,
    /// Each account's parent.
    parents: HashMap<String, String>,
    /// The partitions' own QOSes.
    qos_of: HashMap<String, String>,
}

impl Limits {
    /// Reads them.
    pub fn read(tables: &Tables) -> Limits {
        let mut limits = Limits::default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for row in text(&tables.qoses).lines() {
            let columns: Vec<&str> = row.split('|').collect();
            let [name, group, job, user, account, ..] = columns.as_slice() else { continue };
            let owner = Owner::Qos((*name).to_owned());
            let scopes = [
                (Scope::All, group),
                (Scope::EachJob, job),
                (Scope::EachUser, user),
                (Scope::EachAccount, account),
            ];
            scopes.into_iter().for_each(|(scope, list)| limits.add(&owner, scope, list));
        }
        for row in text(&tables.accounts).lines().chain(text(&tables.users).lines()) {
            let columns: Vec<&str> = row.split('|').collect();
            let [account, user, partition, _, _, parent, group, job, ..] = columns.as_slice() else {
                continue;
            };
            let (account, user, partition) =
                ((*account).to_owned(), (*user).to_owned(), (*partition).to_owned());
            if user.is_empty() {
                if limits.parents.insert(low(&account), low(parent)).is_none() {
                    limits.add(&Owner::Account(account), Scope::All, group);
                }
                continue;
            }
            // sacctmgr prints an account's limits on single jobs as its users' limits.
            let owner = Owner::User { account, user, partition };
            limits.by_owner.entry(key(&owner)).or_default();
            limits.add(&owner, Scope::All, group);
            limits.add(&owner, Scope::EachJob, job);
        }
        let partitions = text(&tables.partitions);
        let own = partitions
            .lines()
            .filter_map(slurm::partition)
            .filter_map(|one| Some((one.name, low(&one.own?))));
        limits.qos_of = own.collect();
        limits
    }

    fn add(&mut self, owner: &Owner, scope: Scope, list: &str) {
        for part in list.split(',') {
            let found = part.strip_prefix("gres/gpu:").and_then(|rest| rest.rsplit_once('='));
            let Some((gres_type, Ok(count))) =
                found.map(|(gres_type, count)| (low(gres_type), count.parse()))
            else {
                continue;
            };
            let place = self.gres_types.iter().position(|known| *known == gres_type).unwrap_or_else(|| {
                self.gres_types.push(gres_type);
                self.gres_types.len() - 1
            });
            self.by_owner.entry(key(owner)).or_default().push(self.all.len());
            self.all.push(Limit { owner: owner.clone(), scope, gres_type: place, count });
        }
    }

    /// The limits that count a job.
    pub fn of(&self, user: &str, account: &str, qos: &str, partition: &str) -> Vec<usize> {
        let mut owners = vec![key(&Owner::Qos(qos.to_owned()))];
        if let Some(own) = self.qos_of.get(partition) {
            owners.push(key(&Owner::Qos(own.clone())));
        }
        let association = |partition: &str| {
            let (account, user, partition) = (account.to_owned(), user.to_owned(), partition.to_owned());
            Some(key(&Owner::User { account, user, partition })).filter(|key| self.by_owner.contains_key(key))
        };
        owners.extend(association(partition).or_else(|| association("")));
        let mut above = Some(low(account));
        for _ in 0..=self.parents.len() {
            let Some(name) = above.filter(|name| !name.is_empty()) else { break };
            above = self.parents.get(&name).cloned();
            owners.push(key(&Owner::Account(name)));
        }
        let mut found: Vec<usize> =
            owners.iter().filter_map(|owner| self.by_owner.get(owner)).flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Slurm ignores case in such names.
fn low(name: &str) -> String {
    name.to_ascii_lowercase()
}

fn key(owner: &Owner) -> String {
    match owner {
        Owner::Qos(name) => low(&format!("qos|{name}")),
        Owner::Account(name) => low(&format!("account|{name}")),
        Owner::User { account, user, partition } => low(&format!("user|{account}|{user}|{partition}")),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

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
                     lab|alice|px|normal|normal||||||||\n"
                .to_vec(),
            partitions: b"PartitionName=p AllowGroups=ALL QoS=N/A\nPartitionName=px AllowGroups=ALL QoS=PQ\n"
                .to_vec(),
        }
    }

    #[test]
    fn a_job_is_under_its_qos_its_partitions_and_every_account_above() {
        let limits = Limits::read(&tables());
        let of = |user: &str, account: &str, qos: &str, partition: &str| {
            let found =
                limits.of(user, account, qos, partition).into_iter().filter_map(|at| limits.all.get(at));
            found
                .map(|one| {
                    format!(
                        "{} {} {}={}",
                        one.owner,
                        one.scope.field(),
                        limits.gres_types[one.gres_type],
                        one.count
                    )
                })
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
}
