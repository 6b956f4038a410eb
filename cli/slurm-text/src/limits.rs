//! Limits on what jobs have at once: those of QOSes and associations, from sacctmgr.

use std::collections::HashMap;

use crate::{Question, Tres};

/// Asks for all QOSes.
pub const QOSES: Question = (
    "sacctmgr",
    &["-nP", "show", "qos", "format=name,flags,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA,MaxTRESPerNode"],
);

/// Asks for associations; the caller adds `where cluster=NAME`.
pub const ASSOCIATIONS: Question = (
    "sacctmgr",
    &["-nP", "show", "assoc", "format=account,user,partition,parentname,GrpTRES,MaxTRES,MaxTRESPerNode"],
);

/// What a limit counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All jobs.
    Grp,
    /// Each job.
    PerJob,
    /// All jobs of a user.
    PerUser,
    /// All jobs of an account.
    PerAccount,
    /// Each node of a job; Slurm divides the job's number by its nodes and rounds down.
    PerNode,
}

impl Kind {
    /// All, in the order of the columns.
    pub const ALL: [Kind; 5] = [Kind::Grp, Kind::PerJob, Kind::PerUser, Kind::PerAccount, Kind::PerNode];

    /// As sacctmgr names it.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Grp => "GrpTRES",
            Kind::PerJob => "MaxTRESPerJob",
            Kind::PerUser => "MaxTRESPerUser",
            Kind::PerAccount => "MaxTRESPerAccount",
            Kind::PerNode => "MaxTRESPerNode",
        }
    }
}

/// A QOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Whether its limits come before those of a partition's QOS.
    pub over_partition: bool,
    /// Whether its limits are percentages of what there is (`Relative`, since 23.11). Of what, sacctmgr doesn't say.
    pub is_relative: bool,
    limits: [Tres; 5],
}

impl Qos {
    /// Its limits of one kind.
    pub fn limits(&self, kind: Kind) -> &Tres {
        let [grp, job, user, account, node] = &self.limits;
        match kind {
            Kind::Grp => grp,
            Kind::PerJob => job,
            Kind::PerUser => user,
            Kind::PerAccount => account,
            Kind::PerNode => node,
        }
    }

    /// Whether it has any limit.
    pub fn has_limits(&self) -> bool {
        self.limits.iter().any(|limits| !limits.is_empty())
    }
}

/// Reads all QOSes, by name; `None` if a line isn't one, or there is none: every database has `normal`.
pub fn qoses(text: &str) -> Option<HashMap<String, Qos>> {
    let qos = |line: &str| {
        let [name, flags, grp, job, user, account, node] =
            <[&str; 7]>::try_from(line.split('|').collect::<Vec<_>>()).ok()?;
        let has = |name: &str| flags.split(',').any(|flag| flag.eq_ignore_ascii_case(name));
        let limits = [grp, job, user, account, node].map(Tres::read);
        let (over_partition, is_relative) = (has("OverPartQOS"), has("Relative"));
        Some((name.to_owned(), Qos { over_partition, is_relative, limits }))
    };
    let found: Option<HashMap<_, _>> = text.lines().filter(|line| !line.is_empty()).map(qos).collect();
    found.filter(|found| !found.is_empty())
}

/// An association: an account's, a user's in an account, or a user's in an account and a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Association {
    /// The account above an account's.
    pub parent: String,
    /// `GrpTRES`
    pub grp: Tres,
    /// `MaxTRES`
    pub per_job: Tres,
    /// `MaxTRESPerNode`
    pub per_node: Tres,
}

/// All associations of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Associations(HashMap<(String, String, String), Association>);

impl Associations {
    /// Reads them; `None` if a line isn't one, or there is none: every cluster has that of `root`.
    pub fn read(text: &str) -> Option<Associations> {
        let one = |line: &str| {
            let [account, user, partition, parent, grp, per_job, per_node] =
                <[&str; 7]>::try_from(line.split('|').collect::<Vec<_>>()).ok()?;
            let [grp, per_job, per_node] = [grp, per_job, per_node].map(Tres::read);
            let key = (account.to_owned(), user.to_owned(), partition.to_owned());
            Some((key, Association { parent: parent.to_owned(), grp, per_job, per_node }))
        };
        let found: Option<HashMap<_, _>> = text.lines().filter(|line| !line.is_empty()).map(one).collect();
        found.filter(|found| !found.is_empty()).map(Associations)
    }

    /// Those that are charged for a job, with their names: its user's own, then each account's up to root.
    pub fn of(&self, account: &str, user: &str, partition: &str) -> Vec<(String, &Association)> {
        let key = |user: &str, partition: &str| (account.to_owned(), user.to_owned(), partition.to_owned());
        let own = self
            .0
            .get(&key(user, partition))
            .map(|found| (format!("user {user} in account {account} and partition {partition}"), found));
        let own =
            own.or_else(|| Some((format!("user {user} in account {account}"), self.0.get(&key(user, ""))?)));
        let mut found: Vec<(String, &Association)> = own.into_iter().collect();
        let mut name = account.to_owned();
        while let Some(association) = self.0.get(&(name.clone(), String::new(), String::new())) {
            found.push((format!("account {name}"), association));
            // No tree is deeper; the database can't have a circle.
            if association.parent.is_empty() || found.len() > 64 {
                break;
            }
            name.clone_from(&association.parent);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qos_has_a_limit_of_each_kind() {
        let text = "normal||||||\na|DenyOnLimit,OverPartQOS|gres/gpu:A40=4|gres/gpu:a40=1|gres/gpu=2|gres/mps=3|cpu=5\n";
        let found = qoses(text).unwrap();
        let numbers =
            Kind::ALL.map(|kind| found["a"].limits(kind).iter().map(|(_, count)| count).sum::<u64>());
        assert_eq!((numbers, found["a"].over_partition), ([4, 1, 2, 3, 5], true));
        assert_eq!(found["a"].limits(Kind::Grp).of("gres/gpu:a40"), Some(4));
        assert!(!found["normal"].over_partition && qoses("sacctmgr: error: x\n").is_none());
        assert!(found["a"].has_limits() && !found["normal"].has_limits() && !found["a"].is_relative);
        assert!(qoses("r|DenyOnLimit,Relative|gres/gpu=50||||\n").unwrap()["r"].is_relative);
    }

    #[test]
    fn no_answer_is_not_a_cluster_without_limits() {
        for text in ["", "\n"] {
            assert!(qoses(text).is_none() && Associations::read(text).is_none());
        }
    }

    #[test]
    fn a_job_is_charged_to_its_user_and_every_account_above() {
        let text = "root||||||\ngroup|||root|gres/gpu:a40=3||\nsub|||group|||\nsub|bob|||||\nsub|bob|p|||gres/gpu:a40=1|\n";
        let all = Associations::read(text).unwrap();
        let names = |user: &str, partition: &str| {
            all.of("sub", user, partition).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            names("bob", "q"),
            ["user bob in account sub", "account sub", "account group", "account root"]
        );
        assert_eq!(names("bob", "p")[0], "user bob in account sub and partition p");
        assert_eq!(names("eve", "p"), ["account sub", "account group", "account root"]);
        assert!(all.of("none", "bob", "p").is_empty() && Associations::read("odd\n").is_none());
    }
}
