//! Who owns GPUs, according to Slurm's database: a QOS or an account with a limit on them. A QOS that `Burst` made owns
//! none; what its jobs use counts for its group.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_qos::config::value;
use gpushare_qos::config::{Burst, ManagedQos, lending};
use gpushare_qos::state::{self, Qos};
use gpushare_slurm_run::run;
use gpushare_slurm_text::limits::{self, Associations};
use gpushare_slurm_text::{Kind, Tres, partition};
use serde::Serialize;

use super::error::ReportError;

/// All GPUs, whatever their type.
pub const ANY: &str = "any";
const GPU: &str = "gres/gpu";

/// What a group is in Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    Qos,
    Account,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub of: Of,
    pub name: String,
    /// GPUs by type, in lowercase as in the database; of [`ANY`] type if the limit names none.
    pub owned: Vec<(String, u64)>,
    /// The QOS of its jobs on other groups' GPUs.
    pub burst: Option<String>,
    /// Whether others may have its idle GPUs: gpushare made its QOS.
    pub is_ours: bool,
}

/// What the database has.
#[derive(Debug, Default)]
pub struct Database {
    pub qoses: BTreeMap<String, Qos>,
    pub associations: Associations,
    /// With those that were deleted: sreport still counts their jobs for the accounts above.
    pub ever: Associations,
    /// QOSes of partitions. Their limits are no group's, and count jobs of other QOSes.
    pub of_partitions: Vec<String>,
}

impl Database {
    /// Asks slurmdbd.
    ///
    /// # Errors
    /// It doesn't answer, or its answer can't be read.
    pub fn ask(cluster: &str, partitions: &str) -> Result<Database, ReportError> {
        let asked = state::ask_qoses();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let of = format!("cluster={cluster}");
        let [associations, ever] = [&["where", &*of][..], &["where", &*of, "withdeleted"]]
            .map(|which| run::question(limits::ASSOCIATIONS, which).map(|text| Associations::read(&text)));
        Ok(Database {
            qoses: state::qoses(&run::text("sacctmgr", &asked)?)?,
            associations: associations?,
            ever: ever?,
            of_partitions: partition::read(partitions).into_iter().filter_map(|one| one.own).collect(),
        })
    }

    /// All groups.
    pub fn groups(&self) -> Vec<Group> {
        self.all().0
    }

    /// Accounts that own GPUs and that `groups` leaves out, each with the QOSes that are the same group.
    pub fn twice(&self) -> Vec<(String, Vec<String>)> {
        self.all().1
    }

    fn all(&self) -> (Vec<Group>, Vec<(String, Vec<String>)>) {
        let qoses = self.qoses.keys().filter_map(|name| self.qos(name));
        let qoses = qoses
            .filter(|group| !self.is_burst(&group.name))
            .filter(|group| group.is_ours || !self.of_partitions.contains(&group.name));
        let mut groups: Vec<Group> = qoses.filter(|group| !group.owned.is_empty()).collect();
        let (users, mut twice, mut others) = (self.users_of(&groups), Vec::new(), Vec::new());
        let accounts = self.associations.of_user("").filter_map(|(_, one)| self.account(&one.account));
        for account in accounts.filter(|group| !group.owned.is_empty()) {
            let same = self.same(&account, &groups, &users);
            if same.is_empty() { others.push(account) } else { twice.push((account.name, same)) }
        }
        groups.extend(others);
        (groups, twice)
    }

    /// The accounts whose users may have a group's QOS, by QOS.
    fn users_of(&self, qoses: &[Group]) -> BTreeMap<String, BTreeSet<&str>> {
        let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        found.extend(qoses.iter().map(|group| (group.name.to_ascii_lowercase(), BTreeSet::new())));
        for one in self.associations.all.iter().filter(|one| !one.user.is_empty()) {
            for qos in &one.qoses {
                found.entry(qos.to_ascii_lowercase()).and_modify(|all| {
                    all.insert(&one.account);
                });
            }
        }
        found
    }

    /// The QOSes that only this account and those below it may use, if they have all types that it owns.
    fn same(
        &self,
        account: &Group,
        qoses: &[Group],
        users: &BTreeMap<String, BTreeSet<&str>>,
    ) -> Vec<String> {
        let is_its = |qos: &&Group| {
            let users = users.get(&qos.name.to_ascii_lowercase()).filter(|all| !all.is_empty());
            users.is_some_and(|all| all.iter().all(|one| self.is_within(one, &account.name)))
        };
        let its: Vec<&Group> = qoses.iter().filter(is_its).collect();
        let is_it = |of: &str, gres_type: &str| of == gres_type || of == ANY || gres_type == ANY;
        let has =
            |gres_type: &String| its.iter().any(|qos| qos.owned.iter().any(|(of, _)| is_it(of, gres_type)));
        match account.owned.iter().all(|(gres_type, _)| has(gres_type)) {
            true => its.into_iter().map(|qos| qos.name.clone()).collect(),
            false => Vec::new(),
        }
    }

    /// The named groups, also if they own nothing.
    ///
    /// # Errors
    /// The database doesn't have one of them.
    pub fn named(
        &self,
        qoses: &[String],
        accounts: &[String],
        cluster: &str,
    ) -> Result<Vec<Group>, ReportError> {
        let qos = |name: &String| self.qos(name).ok_or_else(|| ReportError::NoQos(name.clone()));
        let account = |name: &String| {
            self.account(name).ok_or_else(|| ReportError::NoAccount(name.clone(), cluster.to_owned()))
        };
        let mut found: Vec<Group> = Vec::new();
        for group in qoses.iter().map(qos).chain(accounts.iter().map(account)) {
            let group = group?;
            if !found.contains(&group) {
                found.push(group);
            }
        }
        Ok(found)
    }

    /// The records of the groups that lend, for `gpushare_qos::lending`.
    pub fn lenders(&self) -> Vec<ManagedQos> {
        let ours = self.groups().into_iter().filter(|group| group.is_ours);
        ours.flat_map(|group| {
            let burst = group.burst.as_ref().map(|_| Burst { times: 1, time: None, grace: 0 });
            let second = group.burst.clone().map(|name| record(name, &group, None, Some(group.name.clone())));
            std::iter::once(record(group.name.clone(), &group, burst, None)).chain(second)
        })
        .collect()
    }

    /// Whether the account is this one or below it.
    pub fn is_within(&self, account: &str, above: &str) -> bool {
        account.eq_ignore_ascii_case(above)
            || self.ever.above(account).any(|(_, one)| one.account.eq_ignore_ascii_case(above))
    }

    fn is_burst(&self, name: &str) -> bool {
        let owner = name.strip_suffix(lending::SUFFIX);
        owner.is_some_and(|owner| self.qoses.contains_key(owner))
            && self.qoses.get(name).is_some_and(Qos::is_burst)
    }

    fn qos(&self, name: &str) -> Option<Group> {
        let (name, qos) = self.qoses.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        // Percentages are no numbers.
        let is_relative = value::names(&qos.settings, "Flags").contains("Relative");
        let limits = value::limits(&qos.settings, "GrpTRES").iter().filter(|_| !is_relative);
        let owned = owned(limits.map(|(tres, count)| (tres.as_str(), *count)));
        let burst = Some(lending::name(name)).filter(|burst| self.is_burst(burst));
        let is_ours = qos.owner().is_some();
        Some(Group { of: Of::Qos, name: name.clone(), owned, burst, is_ours })
    }

    fn account(&self, name: &str) -> Option<Group> {
        let (_, one) = self.associations.own(name, "", "").filter(|_| !name.is_empty())?;
        let limits: &Tres = one.limits.of(Kind::Grp);
        let (name, owned) = (one.account.clone(), owned(limits.iter()));
        Some(Group { of: Of::Account, name, owned, burst: None, is_ours: false })
    }
}

/// The GPUs of a limit, without types of which it allows none.
pub fn owned<'t>(limits: impl Iterator<Item = (&'t str, u64)>) -> Vec<(String, u64)> {
    let (mut typed, mut any) = (Vec::new(), None);
    for (tres, count) in limits {
        // A number that means no limit must not overflow a sum.
        let count = count.min(u32::MAX.into());
        match tres.strip_prefix(GPU) {
            Some("") => any = Some((ANY.to_owned(), count)),
            Some(rest) => typed.extend(rest.strip_prefix(':').map(|name| (name.to_owned(), count))),
            None => {}
        }
    }
    typed.retain(|(_, count)| *count > 0);
    if typed.is_empty() {
        typed.extend(any.filter(|(_, count)| *count > 0));
    }
    typed
}

fn record(name: String, group: &Group, burst: Option<Burst>, burst_of: Option<String>) -> ManagedQos {
    ManagedQos { name, gpus: group.owned.clone(), burst, burst_of, ..ManagedQos::default() }
}
