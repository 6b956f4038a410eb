//! Answers the policy's questions from the accounting data that sacctmgr prints. In slurmctld,
//! `plugins/slurm/src/accounting.rs` answers them from memory.
//!
//! sacctmgr prints default QOSes and limits on single jobs including inherited ones. For accounts this uses the limits
//! on all of their jobs together. It doesn't look up a reservation's partition.

use std::rc::Rc;

use gpushare::submit::policy::{self, Accounting, DefaultMemory, DefaultQos, GresLimit, Owner, TypedLimit};
use gpushare::submit::request::{Names, Partitions, Request, taking_jobs};
use gpushare_slurm_text::limits::{self, ASSOCIATIONS, DEFAULT_ACCOUNTS, QOSES, qoses};
use gpushare_slurm_text::{Association, Associations, Partition, Qos, Question, partition, text, tres};

use gpushare_slurm_run::Snapshot;
use gpushare_slurm_run::run::{ProgramError, ask};

/// The texts that make up the data, as sacctmgr and scontrol print them.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The cluster's TRES.
    pub tres: Vec<u8>,
    /// All QOSes.
    pub qoses: Vec<u8>,
    /// Associations of accounts.
    pub accounts: Vec<u8>,
    /// Associations of users: of one user, or of all.
    pub users: Vec<u8>,
    /// All partitions.
    pub partitions: Vec<u8>,
}

/// What they say.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Such as `gres/gpu:a40`, in Slurm's order.
    tres: Vec<Vec<u8>>,
    /// All QOSes.
    pub qoses: Vec<Qos>,
    /// Those of accounts, and of the users asked for.
    pub associations: Associations,
    /// All partitions.
    pub partitions: Vec<Partition>,
}

/// The data as one user's jobs need it.
#[derive(Debug, Default)]
pub struct Database {
    user: String,
    facts: Rc<Facts>,
    default_account: Vec<u8>,
    /// slurm.conf's default for jobs that request no memory.
    default_memory: DefaultMemory,
}

impl Tables {
    /// Asks this machine's sacctmgr about one user or about all, and scontrol about partitions.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn ask(user: Option<&str>, cluster: &str) -> Result<Tables, ProgramError> {
        let table = |(program, arguments): Question, more: &[&str]| ask(program, &[arguments, more].concat());
        let at = format!("cluster={cluster}");
        let of = user.map(|name| format!("user={name}"));
        let of: Vec<&str> = ["where", &at].into_iter().chain(of.as_deref()).collect();
        Ok(Tables {
            tres: table(tres::ALL, &[])?,
            // One user's are looked up where others also need them.
            qoses: if user.is_none() { table(QOSES, &[])? } else { Vec::new() },
            accounts: table(ASSOCIATIONS, &["where", &at, "user="])?,
            users: table(ASSOCIATIONS, &of)?,
            partitions: Vec::new(),
        })
    }

    /// Reads them.
    pub fn read(&self) -> Facts {
        Facts {
            tres: tres::names(&text(&self.tres)).into_iter().map(String::into_bytes).collect(),
            qoses: qoses(&text(&self.qoses)),
            associations: Associations::read(&text(&[self.accounts.as_slice(), b"\n", &self.users].concat())),
            partitions: partition::read(&text(&self.partitions)),
        }
    }
}

impl Facts {
    /// Drops every GRES that slurmctld doesn't count: it ignores limits on them. The database may have some of other
    /// clusters, or of former times.
    pub fn keep_counted(&mut self, counted: &[&str]) {
        let is_counted = |name: &str| {
            !name.starts_with("gres/") || counted.iter().any(|one| one.eq_ignore_ascii_case(name))
        };
        self.tres.retain(|name| is_counted(&String::from_utf8_lossy(name)));
        let limits = self.qoses.iter_mut().map(|qos| &mut qos.limits);
        let limits = limits.chain(self.associations.all.iter_mut().map(|one| &mut one.limits));
        limits.for_each(|limits| limits.keep(is_counted));
    }

    fn default_partition(&self) -> Option<&[u8]> {
        self.partitions.iter().find(|one| one.is_default).map(|one| one.name.as_bytes())
    }
}

impl Database {
    /// Asks this machine's sacctmgr and scontrol. `counted` are the TRES that slurmctld counts.
    ///
    /// # Errors
    /// slurmdbd or slurmctld doesn't answer.
    pub fn ask(
        user: &str,
        cluster: &str,
        default_memory: DefaultMemory,
        counted: &[&str],
        snapshot: &Snapshot,
    ) -> Result<Database, ProgramError> {
        let (at, of) = (format!("cluster={cluster}"), format!("user={user}"));
        let users = ask(DEFAULT_ACCOUNTS.0, &[DEFAULT_ACCOUNTS.1, &["where", &at, &of]].concat())?;
        let default_account = limits::default_account(&String::from_utf8_lossy(&users), user);
        let partitions = snapshot.partitions()?.to_vec();
        let tables = Tables::ask(Some(user), cluster)?;
        let mut facts = Facts { partitions, qoses: snapshot.qoses()?.to_vec(), ..tables.read() };
        facts.keep_counted(counted);
        Ok(Database {
            default_account: default_account.into_bytes(),
            default_memory,
            ..Database::of(user, Rc::new(facts))
        })
    }

    /// The data for jobs that name their account.
    pub fn of(user: &str, facts: Rc<Facts>) -> Database {
        Database {
            user: user.to_owned(),
            facts,
            default_account: Vec::new(),
            default_memory: DefaultMemory { of_node: Some(true), of_gpu: None },
        }
    }

    /// The job's user.
    pub fn user(&self) -> &[u8] {
        self.user.as_bytes()
    }

    /// The account of a job that names none.
    pub fn default_account(&self) -> &[u8] {
        &self.default_account
    }

    /// The user's associations in every account.
    pub fn of_user(&self) -> impl Iterator<Item = &Association> {
        self.facts.associations.of_user(&self.user).map(|(_, one)| one)
    }

    /// The association that Slurm uses: the one for the first partition, otherwise the one for all partitions.
    fn association(&self, request: &Request) -> Option<(usize, &Association)> {
        self.association_in(request, self.first_partition(request))
    }

    /// The first of the partitions in which the job may run; empty if unknown.
    pub fn first_partition<'s>(&'s self, request: &Request<'s>) -> &'s [u8] {
        match request.partitions() {
            Partitions::Named(names) => names.iter().find(|name| !name.is_empty()),
            Partitions::Default => self.facts.default_partition(),
            Partitions::OfReservation => None,
        }
        .unwrap_or_default()
    }

    /// The partitions into which slurmctld puts the job if it names one that takes no jobs.
    pub fn taking_jobs(&self, request: &Request) -> Option<Vec<u8>> {
        let names = match request.partitions() {
            Partitions::Named(names) => names.each(),
            Partitions::Default => self.facts.default_partition().into_iter().collect(),
            Partitions::OfReservation => return None,
        };
        let look = |name: &[u8]| {
            let part = self.facts.partitions.iter().find(|one| one.name.as_bytes() == name)?;
            part.passes_to.clone().map(String::into_bytes)
        };
        names.iter().find_map(|name| look(name))?;
        taking_jobs(&names, look)
    }

    /// The account to charge.
    pub fn account<'s>(&'s self, request: &Request<'s>) -> &'s [u8] {
        request.account.unwrap_or(&self.default_account)
    }

    fn association_in(&self, request: &Request, partition: &[u8]) -> Option<(usize, &Association)> {
        let text = String::from_utf8_lossy;
        let associations = &self.facts.associations;
        associations
            .own(&text(self.account(request)), &self.user, &text(partition))
            .filter(|_| !self.user.is_empty())
    }

    /// The user's associations for the job's account, for any partition.
    fn of_account(&self, request: &Request) -> impl Iterator<Item = (usize, &Association)> {
        let account = String::from_utf8_lossy(self.account(request)).into_owned();
        let own = self.facts.associations.of_user(&self.user).filter(|_| !self.user.is_empty());
        own.filter(move |(_, one)| one.account.eq_ignore_ascii_case(&account))
    }

    /// Slurm's rule: the association's default if it may be used, else the only allowed QOS, else root's, else
    /// "normal".
    fn default_of(&self, association: &Association) -> Option<&Qos> {
        let may = |name: &&str| association.qoses.iter().any(|qos| qos.eq_ignore_ascii_case(name));
        let is_set = |name: &&str| !name.is_empty();
        let own = Some(association.default_qos.as_str()).filter(is_set).filter(may);
        let only = match association.qoses.as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        };
        let root = self.facts.associations.above("root").next().map(|(_, root)| root.default_qos.as_str());
        self.find(own.or(only).or(root.filter(is_set)).unwrap_or("normal"))
    }

    fn find(&self, name: &str) -> Option<&Qos> {
        self.facts.qoses.iter().find(|qos| qos.name.eq_ignore_ascii_case(name))
    }

    fn possible_defaults(&self, request: &Request) -> Vec<&Qos> {
        let all = self.association(request).into_iter().chain(self.of_account(request));
        let mut found: Vec<&Qos> = Vec::new();
        for qos in all.filter_map(|(_, one)| self.default_of(one)) {
            if !found.contains(&qos) {
                found.push(qos);
            }
        }
        found
    }
}

impl<'c> Accounting for &'c Database {
    type Qos = &'c Qos;

    fn qos_named(&self, name: &[u8]) -> Option<&'c Qos> {
        self.find(std::str::from_utf8(name).ok()?)
    }

    fn default_qos(&self, request: &Request) -> DefaultQos<&'c Qos> {
        if !request.partition_is_the_reservations() {
            let qos = self.association(request).and_then(|(_, one)| self.default_of(one));
            return qos.map_or(DefaultQos::None, DefaultQos::One);
        }
        let found = self.possible_defaults(request);
        match found.as_slice() {
            [] => DefaultQos::None,
            [only] => DefaultQos::One(only),
            _ => DefaultQos::OneOf(found),
        }
    }

    fn name(&self, qos: &'c Qos) -> &[u8] {
        qos.name.as_bytes()
    }

    fn typed_limits<'s>(&'s self, qos: &'c Qos, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        self.facts.tres.iter().filter_map(move |name| {
            let gres_type = type_of(name, gres)?;
            let (count, of_job) = qos.lowest(str::from_utf8(name).ok()?)?;
            Some(TypedLimit { gres_type, count, of_job })
        })
    }

    fn limit_on_all(&self, qos: &'c Qos, gres: &[u8]) -> Option<Option<u64>> {
        qos.lowest(&format!("gres/{}", String::from_utf8_lossy(gres))).map(|(count, _)| count)
    }

    fn denies_on_limit(&self, qos: &'c Qos) -> bool {
        qos.denies_on_limit
    }

    fn limits_billing(&self, qos: &'c Qos) -> bool {
        qos.limits.lowest("billing").is_some_and(|(count, _)| count.is_some())
    }

    fn billing_weights(&self, request: &Request, mut look: impl FnMut(&[u8])) {
        let names = match request.partitions() {
            Partitions::Named(names) => Some(names),
            Partitions::Default => Some(Names::of(self.facts.default_partition().unwrap_or_default())),
            Partitions::OfReservation => None,
        };
        let may = |name: &str| names.is_none_or(|names| names.iter().any(|one| one == name.as_bytes()));
        let there = self.facts.partitions.iter().filter(|one| may(&one.name));
        there.for_each(|one| look(one.billing.join(",").as_bytes()));
    }

    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        self.facts.tres.iter().filter_map(move |name| type_of(name, gres))
    }

    fn counts(&self, gres: &[u8]) -> bool {
        let wanted = [b"gres/", gres].concat();
        self.facts.tres.contains(&wanted)
    }

    fn owner(&self, request: &Request) -> Option<Owner<'_>> {
        let account = self.association(request)?.1.account.as_bytes();
        Some(Owner { user: self.user(), account })
    }

    fn associations<'s>(&'s self, request: &Request, mut look: impl FnMut(policy::Association<'s>)) {
        let of = |(id, one): (usize, &'s Association)| policy::Association {
            id: u32::try_from(id).unwrap_or(u32::MAX),
            account: one.account.as_bytes(),
            own: !one.user.is_empty(),
            limits: limits_of(one, &self.facts.tres),
            billing: one.tested().lowest("billing").is_some_and(|(count, _)| count.is_some()),
        };
        let named = request.partition.unwrap_or_default().split(|byte| *byte == b',').skip(1);
        let named = named.filter(|name| !name.is_empty());
        let mut own: Vec<(usize, &Association)> = self.association(request).into_iter().collect();
        own.extend(named.filter_map(|partition| self.association_in(request, partition)));
        if request.partition_is_the_reservations() && !own.is_empty() {
            own.extend(self.of_account(request));
        }
        for one in own {
            look(of(one));
            self.facts.associations.above(&one.1.account).for_each(|one| look(of(one)));
        }
    }

    fn default_memory(&self, partition: &[u8]) -> DefaultMemory {
        let own = self.facts.partitions.iter().find(|one| one.name.as_bytes() == partition);
        own.map_or(self.default_memory, |own| own.memory.over(self.default_memory))
    }

    fn default_partition(&self) -> Option<&[u8]> {
        self.facts.default_partition()
    }
}

/// `gres/gpu:a40` → `a40`, for the given GRES.
fn type_of<'a>(tres: &'a [u8], gres: &[u8]) -> Option<&'a [u8]> {
    tres.strip_prefix(b"gres/")?.strip_prefix(gres)?.strip_prefix(b":")
}

/// An association's limits on GRES that are TRES of the cluster.
fn limits_of<'s>(one: &Association, tres: &'s [Vec<u8>]) -> Vec<GresLimit<'s>> {
    let limits = one.tested();
    let limit = |tres: &'s Vec<u8>| {
        let mut parts = tres.strip_prefix(b"gres/")?.splitn(2, |byte| *byte == b':');
        let (gres, gres_type) = (parts.next()?, parts.next());
        let (count, of_job) = limits.lowest(str::from_utf8(tres).ok()?)?;
        Some(GresLimit { gres, gres_type, count, of_job })
    };
    tres.iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests;
