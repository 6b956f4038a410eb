//! The QOSes and associations that a job counts toward, with their limits and use: slurmctld's own numbers, from
//! `scontrol show assoc_mgr`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gpushare_slurm_text::assoc_mgr::{self, Association, Counts, Qos};
use gpushare_slurm_text::limits::{self, Kind};
use gpushare_slurm_text::queue::Row;
use gpushare_slurm_text::version::Version;
use gpushare_slurm_text::{Node, Tres};

use super::minutes::{Rules, WALL};
use gpushare_slurm_run::{ProgramError, Snapshot};
use serde::Serialize;

/// Who has the limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    Qos(String),
    /// An account, including all below it.
    Account(String),
    /// The user's association with an account, for one partition or for all.
    Own(String, String),
    /// The nodes of a partition that may start jobs.
    Nodes(String, BTreeSet<String>),
}

/// A QOS or an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub holder: Holder,
    /// `GrpTRES`, `MaxTRESPU` and so on. If each user or account has its own count, these are the job's.
    pub fields: BTreeMap<&'static str, Counts>,
    /// It is a QOS whose used minutes don't decay.
    pub keeps_minutes: bool,
}

impl Record {
    /// Adds what the database says. slurmctld shows a QOS's limits on a user or an account only for those who have used
    /// it.
    fn complete(&mut self, qoses: &[limits::Qos]) {
        let Holder::Qos(name) = &self.holder else { return };
        let its = qoses.iter().find(|qos| qos.name.eq_ignore_ascii_case(name));
        self.keeps_minutes = its.is_some_and(|qos| qos.keeps_minutes);
        let Some(its) = its.filter(|qos| !qos.is_relative) else { return };
        for (field, limit) in OF_EACH {
            let limits = match limit {
                Some(kind) => Some(its.limits.of(kind)),
                None => its.limits.minutes.iter().find(|(name, _)| *name == field).map(|(_, limits)| limits),
            };
            let limits = limits.into_iter().flat_map(Tres::iter);
            let unused: Counts = limits.map(|(tres, limit)| (tres.to_owned(), (Some(limit), 0))).collect();
            if !unused.is_empty() {
                self.fields.entry(field).or_insert(unused);
            }
        }
    }

    /// Whether it is a QOS with `DenyOnLimit`.
    pub fn denies(&self, qoses: &[limits::Qos]) -> bool {
        let Holder::Qos(name) = &self.holder else { return false };
        qoses.iter().any(|qos| qos.denies_on_limit && qos.name.eq_ignore_ascii_case(name))
    }
}

/// Everything known about a job's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The QOS whose limits take precedence, then the other: the partition's and the job's.
    pub qoses: Vec<Record>,
    /// The user's association, then the accounts up to root.
    pub associations: Vec<Record>,
    /// The nodes of its partition, for a job that waits.
    pub nodes: Option<Record>,
    /// For each QOS, the partitions that have it as their own.
    pub partitions_of: BTreeMap<String, BTreeSet<String>>,
    /// Each account with the accounts below it, including itself.
    pub below: BTreeMap<String, BTreeSet<String>>,
    /// How Slurm counts minutes.
    pub minutes: Rules,
}

impl Known {
    /// The limit on a job's minutes that counts, and who has it: a QOS's comes before the association's.
    pub fn wall(&self) -> Option<(&Holder, u64)> {
        let own = self.associations.iter().filter(|record| matches!(record.holder, Holder::Own(..)));
        self.qoses
            .iter()
            .chain(own)
            .find_map(|record| Some((&record.holder, record.fields.get(WALL)?.get("minutes")?.0?)))
    }
}

/// Whose jobs a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All jobs of the QOS, the account or the association.
    #[default]
    All,
    /// The jobs of one user.
    User,
    /// The jobs of one account.
    Account,
    /// Each job separately.
    Job,
    /// One job's resources on one node.
    Node,
}

/// The fields that are checked; `MaxJobs` belongs to associations, and nodes are no limit of the database's.
pub const FIELDS: [(&str, Scope); 16] = [
    ("GrpTRES", Scope::All),
    ("GrpTRESMins", Scope::All),
    ("GrpTRESRunMins", Scope::All),
    ("GrpJobs", Scope::All),
    ("MaxTRESPU", Scope::User),
    ("MaxJobsPU", Scope::User),
    ("MaxJobs", Scope::User),
    ("MaxTRESRunMinsPU", Scope::User),
    ("MaxTRESPA", Scope::Account),
    ("MaxJobsPA", Scope::Account),
    ("MaxTRESRunMinsPA", Scope::Account),
    ("MaxTRESPJ", Scope::Job),
    ("MaxTRESMinsPJ", Scope::Job),
    (WALL, Scope::Job),
    ("MaxTRESPN", Scope::Node),
    ("its nodes", Scope::All),
];

/// A QOS's limits on each user or account; minutes have no [`Kind`].
const OF_EACH: [(&str, Option<Kind>); 4] = [
    ("MaxTRESPU", Some(Kind::PerUser)),
    ("MaxTRESPA", Some(Kind::PerAccount)),
    ("MaxTRESRunMinsPU", None),
    ("MaxTRESRunMinsPA", None),
];

/// Asks slurmctld. Also returns notes about what is unknown.
///
/// # Errors
/// slurmctld does not answer.
pub fn read(job: &Row, snapshot: &Snapshot) -> Result<(Known, Vec<String>), ProgramError> {
    let partitions = snapshot.partitions()?;
    let first = partitions.iter().find(|partition| partition.name == job.first_partition());
    let of_partition = first.and_then(|partition| partition.own.clone());
    let mut notes = Vec::new();
    let all = snapshot.qoses().unwrap_or_else(|reason| {
        notes.push(format!("can't tell all limits and flags of QOSes: {reason}"));
        &[]
    });
    let mut qoses = vec![job.qos.as_str()];
    let goes_first = |qos: &limits::Qos| qos.over_partition && qos.name.eq_ignore_ascii_case(&job.qos);
    let at = usize::from(all.iter().any(goes_first));
    if let Some(name) = of_partition.as_deref().filter(|name| !name.eq_ignore_ascii_case(&job.qos)) {
        qoses.insert(at, name);
    }
    let of = [format!("users={}", job.user), format!("qos={}", qoses.join(","))];
    let (program, arguments) = assoc_mgr::BOTH;
    let said = snapshot.ask(program, &[arguments, &of.each_ref().map(String::as_str)].concat())?;
    let mut known = known(&said, job, &qoses);
    for record in &mut known.qoses {
        record.complete(all);
    }
    known.minutes = Rules::of(job, first, snapshot);
    let version = Version::parse(snapshot.settings()?.get("SLURM_VERSION"));
    if version.is_some_and(|version| version.is_from_to((0, 0), (24, 4))) {
        // Slurm tests them since 24.05.
        for record in &mut known.qoses {
            record.fields.retain(|field, _| !field.starts_with("MaxTRESRun"));
        }
    }
    for partition in partitions {
        if let Some(own) = &partition.own {
            known.partitions_of.entry(own.clone()).or_default().insert(partition.name.clone());
        }
    }
    if known.qoses.len() < qoses.len() {
        notes.push(format!("slurmctld shows no QOS '{}'", qoses.join("' or '")));
    }
    let is_root = |record: &Record| record.holder == Holder::Account("root".to_owned());
    if !known.associations.iter().any(is_root) {
        notes.push("limits of accounts are not visible to you (PrivateData=usage)".to_owned());
    }
    Ok((known, notes))
}

/// What a job that gets whole nodes is given at least: all GPUs of the nodes with the fewest.
pub fn whole_nodes(job: &mut Row, nodes: &[Node]) {
    let partition = job.first_partition();
    let here = || nodes.iter().filter(|node| node.partitions.iter().any(|name| name == partition));
    let gpus = here().flat_map(|node| &node.gres).filter(|(name, ..)| name == "gpu");
    let types = gpus.filter_map(|(_, kind, _)| Some(format!("gpu:{}", kind.as_ref()?.to_lowercase())));
    let names: BTreeSet<String> = types.chain(["gpu".to_owned()]).collect();
    let given = names.iter().map(|name| {
        let each = here().map(|node| count(node, name)).min().unwrap_or(0);
        (format!("gres/{name}"), each.saturating_mul(job.nodes.max(1)))
    });
    let given: Vec<(String, u64)> = given.filter(|(_, count)| *count > 0).collect();
    for (tres, count) in given {
        let asks = job.tres.entry(tres).or_default();
        *asks = count.max(*asks);
    }
}

/// The GPUs and shares of a job's partition, as if it had a limit on them. What the job could never have isn't there.
pub fn of_nodes(job: &Row, nodes: &[Node]) -> Record {
    let partition = job.first_partition();
    let is_out =
        |node: &Node| ["DOWN", "DRAIN", "FAIL", "FUTURE"].iter().any(|word| node.state.contains(word));
    let here = |node: &&Node| node.partitions.iter().any(|name| name == partition) && !is_out(node);
    let nodes: Vec<&Node> = nodes.iter().filter(here).collect();
    let counts = wanted(job).filter_map(|(tres, asks)| {
        let name = tres.strip_prefix("gres/")?;
        let there = nodes.iter().map(|node| count(node, name)).sum();
        let used = nodes.iter().filter_map(|node| node.allocated.of(tres)).sum();
        (there >= *asks).then(|| (tres.clone(), (Some(there), used)))
    });
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    Record {
        holder: Holder::Nodes(partition.to_owned(), names),
        fields: BTreeMap::from([("its nodes", counts.collect())]),
        keeps_minutes: false,
    }
}

/// How many a node has of `gpu`, or of `gpu:a40`.
fn count(node: &Node, name: &str) -> u64 {
    let (name, wanted) = name.split_once(':').map_or((name, None), |(name, kind)| (name, Some(kind)));
    let is_it = |kind: &str| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind));
    let its = node.gres.iter().filter(|(known, ..)| known == name);
    its.filter(|(_, kind, _)| is_it(kind.as_deref().unwrap_or_default())).map(|(.., count)| count).sum()
}

/// Whether the nodes of [`of_nodes`] could give a job all the GPUs and shares that it asks for.
pub fn has_all(nodes: &Record, job: &Row) -> bool {
    wanted(job).all(|(tres, _)| nodes.fields.values().any(|counts| counts.contains_key(tres)))
}

/// The GRES that a job asks for: of GPUs with a type, the type alone.
fn wanted(job: &Row) -> impl Iterator<Item = (&String, &u64)> {
    let typed = job.tres.keys().any(|tres| tres.starts_with("gres/gpu:"));
    job.tres.iter().filter(move |(tres, _)| tres.starts_with("gres/") && !(typed && *tres == "gres/gpu"))
}

/// Reads a job's QOSes, in the given order, and its associations from `scontrol -o show assoc_mgr`.
pub fn known(text: &str, job: &Row, qoses: &[&str]) -> Known {
    let qos = |name: &&str| {
        assoc_mgr::qoses(text).find(|qos| qos.name.eq_ignore_ascii_case(name)).map(|found| qos(&found, job))
    };
    let lines: Vec<Association> = assoc_mgr::associations(text).collect();
    let own = |partition: &str| {
        lines.iter().find(|line| {
            line.user == job.user
                && line.account.eq_ignore_ascii_case(&job.account)
                && line.partition.eq_ignore_ascii_case(partition)
        })
    };
    let own = own(job.first_partition()).or_else(|| own(""));
    let mut accounts: HashMap<String, &Association> = HashMap::new();
    for line in lines.iter().filter(|line| line.user.is_empty() && !line.account.is_empty()) {
        accounts.entry(line.account.to_ascii_lowercase()).or_insert(line);
    }
    let account = |name: &str| accounts.get(&name.to_ascii_lowercase()).copied();
    let above = std::iter::successors(account(&job.account), |line| account(line.parent)).take(lines.len());
    let record = |line: &Association| {
        let holder = match line.user {
            "" => Holder::Account(line.account.to_owned()),
            _ => Holder::Own(line.account.to_owned(), line.partition.to_owned()),
        };
        // An account's other limits are inherited by its users.
        let is_its = |scope| scope == Scope::All || !line.user.is_empty();
        Record { holder, fields: fields(is_its, |field| line.counts(field)), keeps_minutes: false }
    };
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.user.is_empty()) {
        let up = std::iter::successors(Some(line), |line| account(line.parent)).take(lines.len());
        for over in up {
            below.entry(over.account.to_owned()).or_default().insert(line.account.to_owned());
        }
    }
    Known {
        qoses: qoses.iter().filter_map(qos).collect(),
        associations: own.into_iter().chain(above).map(record).collect(),
        nodes: None,
        partitions_of: BTreeMap::new(),
        below,
        minutes: Rules::default(),
    }
}

fn qos(found: &Qos, job: &Row) -> Record {
    let mut all =
        fields(|scope| ![Scope::Account, Scope::User].contains(&scope), |field| found.counts(field));
    all.extend(fields(|scope| scope == Scope::Account, |field| found.of_account(&job.account, field)));
    all.extend(fields(|scope| scope == Scope::User, |field| found.of_user(job.user_id, field)));
    Record { holder: Holder::Qos(found.name.to_owned()), fields: all, keeps_minutes: false }
}

fn fields(
    is_its: impl Fn(Scope) -> bool,
    counts: impl Fn(&str) -> Option<Counts>,
) -> BTreeMap<&'static str, Counts> {
    let its = FIELDS.iter().filter(|(_, scope)| is_its(*scope));
    its.filter_map(|(name, _)| Some((*name, counts(name)?))).collect()
}

#[cfg(test)]
pub mod tests;
