//! Answers the policy's questions from the accounting data that sacctmgr prints. In slurmctld,
//! `plugins/slurm/src/accounting.rs` answers them from memory.
//!
//! sacctmgr prints default QOSes and limits on single jobs including inherited ones. For accounts this uses the limits
//! on all of their jobs together. It doesn't look up a reservation's partition.

use gpushare::submit::policy::{self, Accounting, DefaultMemory, DefaultQos, Owner, TypedLimit};
use gpushare::submit::request::{Names, Partitions, Request};

use crate::slurm::run::{ProgramError, ask};
use crate::slurm::{self, Partition};

mod associations;

use associations::{Association, FIELDS, above};

/// Fields of a QOS: its name, limits on numbers, limits on minutes. `MaxTRES` is the limit per job; 22.05 has no other
/// short name for it.
const LIMITS: &str = "name,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA,MaxTRESPerNode,\
                      GrpTRESMins,GrpTRESRunMins,MaxTRESMins,MaxTRESRunMinsPA,MaxTRESRunMinsPU,Flags";
/// How many of the fields limit numbers of a whole job or of several jobs; then follows one for a node.
const COUNTS: usize = 4;

/// The accounting data.
#[derive(Debug, Default)]
pub struct Database {
    user: Vec<u8>,
    /// Such as `gres/gpu:a40`, in Slurm's order.
    tres: Vec<Vec<u8>>,
    qoses: Vec<Qos>,
    /// The user's own associations.
    associations: Vec<Association>,
    accounts: Vec<Association>,
    default_account: Vec<u8>,
    root_default: Vec<u8>,
    default_partition: Vec<u8>,
    /// slurm.conf's default for jobs that request no memory.
    default_memory: DefaultMemory,
    partitions: Vec<Partition>,
}

/// A QOS and its limits.
#[derive(Debug, PartialEq, Eq)]
pub struct Qos {
    name: Vec<u8>,
    counts: Vec<(Vec<u8>, u64)>,
    per_node: Vec<(Vec<u8>, u64)>,
    minutes: Vec<(Vec<u8>, u64)>,
    denies_on_limit: bool,
}

/// The texts that make up the data, as sacctmgr and scontrol print them.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub tres: Vec<u8>,
    pub qoses: Vec<u8>,
    /// Associations of accounts.
    pub accounts: Vec<u8>,
    /// Associations of users: of one user, or of all.
    pub users: Vec<u8>,
    pub partitions: Vec<u8>,
}

impl Tables {
    /// Asks this machine's sacctmgr about one user or about all, and scontrol about partitions.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn ask(user: Option<&str>, cluster: &str) -> Result<Tables, ProgramError> {
        let table = |what: &[&str]| ask("sacctmgr", &[&["-nP", "show"], what].concat());
        let at = format!("cluster={cluster}");
        let of = user.map(|name| format!("user={name}"));
        let users: Vec<&str> =
            ["assoc", "where", &at].into_iter().chain(of.as_deref()).chain([FIELDS]).collect();
        Ok(Tables {
            tres: table(&["tres", "format=type,name,id"])?,
            qoses: table(&["qos", &format!("format={LIMITS}")])?,
            accounts: table(&["assoc", "where", &at, "user=", FIELDS])?,
            users: table(&users)?,
            partitions: Vec::new(),
        })
    }
}

impl Database {
    /// Asks this machine's sacctmgr and scontrol.
    ///
    /// # Errors
    /// slurmdbd or slurmctld doesn't answer.
    pub fn read(user: &str, cluster: &str, default_memory: DefaultMemory) -> Result<Database, ProgramError> {
        let (at, of) = (format!("cluster={cluster}"), format!("user={user}"));
        let users = ["-nP", "show", "user", "where", &at, &of, "format=user,defaultaccount"];
        let default = default_account(&ask("sacctmgr", &users)?, user);
        let partitions = ask("scontrol", &["-a", "-o", "show", "partition"])?;
        let tables = Tables { partitions, ..Tables::ask(Some(user), cluster)? };
        Ok(Database { default_account: default, default_memory, ..Database::of(user, &tables) })
    }

    /// Drops every GRES that slurmctld doesn't count: it ignores limits on them. The database may have some of other
    /// clusters, or of former times.
    pub fn keep_counted(&mut self, counted: &[&str]) {
        let is_counted = |name: &[u8]| {
            let is_it = |counted: &&str| counted.as_bytes().eq_ignore_ascii_case(name);
            !name.starts_with(b"gres/") || counted.iter().any(is_it)
        };
        self.tres.retain(|name| is_counted(name));
        for qos in &mut self.qoses {
            for limits in [&mut qos.counts, &mut qos.per_node, &mut qos.minutes] {
                limits.retain(|(name, _)| is_counted(name));
            }
        }
        for association in self.associations.iter_mut().chain(&mut self.accounts) {
            association.keep_limits(is_counted);
        }
    }

    /// The data for jobs that name their account.
    pub fn of(user: &str, tables: &Tables) -> Database {
        let accounts = associations::read(&tables.accounts, "");
        Database {
            user: user.as_bytes().to_vec(),
            tres: tres(&tables.tres),
            qoses: qoses(&tables.qoses),
            associations: associations::read(&tables.users, user),
            default_account: Vec::new(),
            root_default: root_default(&accounts),
            accounts,
            default_partition: default_partition(&tables.partitions),
            default_memory: DefaultMemory { of_node: Some(true), of_gpu: None },
            partitions: partitions(&tables.partitions),
        }
    }

    /// The job's user.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The association that Slurm uses: the one for the first partition, otherwise the one for all partitions.
    fn association(&self, request: &Request) -> Option<&Association> {
        let partition = match request.partition.filter(|list| !list.is_empty()) {
            Some(list) => list.split(|byte| *byte == b',').find(|name| !name.is_empty()),
            None if request.partition_is_the_reservations() => None,
            None => self.default_partition(),
        };
        self.association_in(request, partition)
    }

    /// The first of the partitions in which the job may run; empty if unknown.
    pub fn first_partition<'s>(&'s self, request: &Request<'s>) -> &'s [u8] {
        let list = request.partition.filter(|list| !list.is_empty());
        let default = Some(self.default_partition.as_slice());
        let list = list.or(default.filter(|_| !request.partition_is_the_reservations()));
        list.and_then(|list| list.split(|byte| *byte == b',').next()).unwrap_or_default()
    }

    /// The account to charge.
    pub fn account<'s>(&'s self, request: &Request<'s>) -> &'s [u8] {
        request.account.unwrap_or(&self.default_account)
    }

    fn association_in(&self, request: &Request, partition: Option<&[u8]>) -> Option<&Association> {
        let all = self.of_account(request);
        let of =
            |partition: &[u8]| all.iter().copied().find(|one| one.partition.eq_ignore_ascii_case(partition));
        partition.and_then(of).or_else(|| of(b""))
    }

    /// The user's associations for the job's account, for any partition.
    fn of_account(&self, request: &Request) -> Vec<&Association> {
        let account = self.account(request);
        self.associations.iter().filter(|one| one.account.eq_ignore_ascii_case(account)).collect()
    }

    /// Slurm's rule: the association's default if it may be used, else the only allowed QOS, else root's, else
    /// "normal".
    fn default_of(&self, association: &Association) -> Option<&Qos> {
        let may = |name: &[u8]| association.qoses.iter().any(|qos| qos.eq_ignore_ascii_case(name));
        let own = Some(association.default_qos.as_slice()).filter(|name| !name.is_empty() && may(name));
        let only = match association.qoses.as_slice() {
            [only] => Some(only.as_slice()),
            _ => None,
        };
        let root = Some(self.root_default.as_slice()).filter(|name| !name.is_empty());
        self.find(own.or(only).or(root).unwrap_or(b"normal"))
    }

    fn find(&self, name: &[u8]) -> Option<&Qos> {
        self.qoses.iter().find(|qos| qos.name.eq_ignore_ascii_case(name))
    }

    fn possible_defaults(&self, request: &Request) -> Vec<&Qos> {
        let all = self.of_account(request);
        let mut found: Vec<&Qos> = Vec::new();
        for qos in self.association(request).into_iter().chain(all).filter_map(|one| self.default_of(one)) {
            if !found.contains(&qos) {
                found.push(qos);
            }
        }
        found
    }
}

impl Qos {
    /// The name as in the database.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The lowest limits on a TRES: the lowest of all, and the lowest of those that are not per node. `None` if nothing
    /// is limited.
    fn limit(&self, tres: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
        let of = |limits: &[(Vec<u8>, u64)]| {
            limits.iter().filter(|(name, _)| name == tres).map(|(_, count)| *count).min()
        };
        let (of_job, of_node) = (of(&self.counts), of(&self.per_node));
        let lowest = of_job.into_iter().chain(of_node).min();
        (lowest.is_some() || of(&self.minutes).is_some()).then_some((lowest, of_job))
    }
}

impl<'c> Accounting for &'c Database {
    type Qos = &'c Qos;

    fn qos_named(&self, name: &[u8]) -> Option<&'c Qos> {
        self.find(name)
    }

    fn default_qos(&self, request: &Request) -> DefaultQos<&'c Qos> {
        if !request.partition_is_the_reservations() {
            let qos = self.association(request).and_then(|one| self.default_of(one));
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
        &qos.name
    }

    fn typed_limits<'s>(&'s self, qos: &'c Qos, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        self.tres.iter().filter_map(move |name| {
            let gres_type = type_of(name, gres)?;
            qos.limit(name).map(|(count, of_job)| TypedLimit { gres_type, count, of_job })
        })
    }

    fn limit_on_all(&self, qos: &'c Qos, gres: &[u8]) -> Option<Option<u64>> {
        qos.limit(&[b"gres/", gres].concat()).map(|(count, _)| count)
    }

    fn denies_on_limit(&self, qos: &'c Qos) -> bool {
        qos.denies_on_limit
    }

    fn limits_billing(&self, qos: &'c Qos) -> bool {
        qos.limit(b"billing").is_some_and(|(count, _)| count.is_some())
    }

    fn billing_weights(&self, request: &Request, mut look: impl FnMut(&[u8])) {
        let names = match request.partitions() {
            Partitions::Named(names) => Some(names),
            Partitions::Default => Some(Names::of(&self.default_partition)),
            Partitions::OfReservation => None,
        };
        let may = |name: &str| names.is_none_or(|names| names.iter().any(|one| one == name.as_bytes()));
        let there = self.partitions.iter().filter(|one| may(&one.name));
        there.for_each(|one| look(one.billing.join(",").as_bytes()));
    }

    fn types<'s>(&'s self, gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        self.tres.iter().filter_map(move |name| type_of(name, gres))
    }

    fn counts(&self, gres: &[u8]) -> bool {
        let wanted = [b"gres/", gres].concat();
        self.tres.contains(&wanted)
    }

    fn owner(&self, request: &Request) -> Option<Owner<'_>> {
        let account = &self.association(request)?.account;
        Some(Owner { user: &self.user, account })
    }

    fn associations<'s>(&'s self, request: &Request, mut look: impl FnMut(policy::Association<'s>)) {
        let of = |id: usize, one: &'s Association| policy::Association {
            id: u32::try_from(id).unwrap_or(u32::MAX),
            account: &one.account,
            own: !one.user.is_empty(),
            limits: one.limits(&self.tres),
            billing: one.limits_billing(),
        };
        let named = request.partition.unwrap_or_default().split(|byte| *byte == b',').skip(1);
        let named = named.filter(|name| !name.is_empty());
        let mut own: Vec<&Association> = self.association(request).into_iter().collect();
        own.extend(named.filter_map(|partition| self.association_in(request, Some(partition))));
        if request.partition_is_the_reservations() && !own.is_empty() {
            own.extend(self.of_account(request));
        }
        for one in own {
            let place = self.associations.iter().position(|known| known == one).unwrap_or_default();
            look(of(self.accounts.len() + place, one));
            above(&self.accounts, &one.account).for_each(|(place, one)| look(of(place, one)));
        }
    }

    fn default_memory(&self, partition: &[u8]) -> DefaultMemory {
        let own = self.partitions.iter().find(|one| one.name.as_bytes() == partition);
        own.map_or(self.default_memory, |own| own.memory.over(self.default_memory))
    }

    fn default_partition(&self) -> Option<&[u8]> {
        Some(self.default_partition.as_slice()).filter(|name| !name.is_empty())
    }
}

/// `gres/gpu:a40` → `a40`, for the given GRES.
fn type_of<'a>(tres: &'a [u8], gres: &[u8]) -> Option<&'a [u8]> {
    tres.strip_prefix(b"gres/")?.strip_prefix(gres)?.strip_prefix(b":")
}

/// Parses the lines of `scontrol -o show partition`.
fn partitions(text: &[u8]) -> Vec<Partition> {
    String::from_utf8_lossy(text).lines().filter_map(slurm::partition).collect()
}

/// The columns of each line of `sacctmgr -nP`.
fn rows(text: &[u8]) -> impl Iterator<Item = Vec<Vec<u8>>> + '_ {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| line.split(|byte| *byte == b'|').map(<[u8]>::to_vec).collect())
}

/// The TRES from `format=type,name,id`, spelled as in limits and sorted by their numbers, as in slurmctld.
fn tres(text: &[u8]) -> Vec<Vec<u8>> {
    let named = rows(text).filter_map(|row| {
        let [kind, name, id] = <[_; 3]>::try_from(row).ok()?;
        let id: u32 = std::str::from_utf8(&id).ok()?.parse().ok()?;
        Some((id, if name.is_empty() { kind } else { [kind, name].join(&b'/') }))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named.into_iter().map(|(_, name)| name).collect()
}

fn qoses(text: &[u8]) -> Vec<Qos> {
    let qos = |row: Vec<Vec<u8>>| {
        let mut columns = row.into_iter();
        let name = columns.next()?;
        let flags = columns.as_slice().last().map(Vec::as_slice).unwrap_or_default();
        let denies_on_limit = flags.split(|byte| *byte == b',').any(|flag| flag == b"DenyOnLimit");
        let mut limits: Vec<_> = columns.map(|column| limits(&column)).collect();
        let mut rest = limits.split_off(COUNTS.min(limits.len())).into_iter();
        let per_node = rest.next().unwrap_or_default();
        let minutes = rest.collect::<Vec<_>>().concat();
        Some(Qos { name, counts: limits.concat(), per_node, minutes, denies_on_limit })
    };
    rows(text).filter_map(qos).collect()
}

/// Parses `cpu=4,gres/gpu:a40=8,mem=10G`. Keeps GRES and `billing`, whose numbers sacctmgr prints without units.
fn limits(text: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let limit = |part: &[u8]| {
        let at = part.iter().rposition(|byte| *byte == b'=')?;
        let (name, count) = (part.get(..at)?, part.get(at + 1..)?);
        let count = std::str::from_utf8(count).ok()?.parse().ok()?;
        (name.starts_with(b"gres/") || name == b"billing").then(|| (name.to_vec(), count))
    };
    text.split(|byte| *byte == b',').filter_map(limit).collect()
}

fn default_account(text: &[u8], user: &str) -> Vec<u8> {
    let account = |row: Vec<Vec<u8>>| {
        let [name, account] = <[_; 2]>::try_from(row).ok()?;
        name.eq_ignore_ascii_case(user.as_bytes()).then_some(account)
    };
    rows(text).find_map(account).unwrap_or_default()
}

/// The default QOS of the account root itself.
fn root_default(accounts: &[Association]) -> Vec<u8> {
    let root = accounts.iter().find(|one| one.account == b"root");
    root.map(|one| one.default_qos.clone()).unwrap_or_default()
}

fn default_partition(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b' '));
    let mut default = lines.filter(|words| words.clone().any(|word| word == b"Default=YES"));
    let name =
        default.next().and_then(|mut words| words.find_map(|word| word.strip_prefix(b"PartitionName=")));
    name.unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests;
