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

const OF_QOS: [&str; 8] =
    ["GrpJobs", "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESPJ", "MaxTRESPN", "MaxTRESMinsPJ", WALL];
const OF_ACCOUNT_IN_QOS: [&str; 3] = ["MaxJobsPA", "MaxTRESPA", "MaxTRESRunMinsPA"];
const OF_USER_IN_QOS: [&str; 3] = ["MaxJobsPU", "MaxTRESPU", "MaxTRESRunMinsPU"];
const OF_OWN: [&str; 9] = [
    "GrpJobs",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "MaxJobs",
    "MaxTRESPJ",
    "MaxTRESPN",
    "MaxTRESMinsPJ",
    WALL,
];
// An account's other limits are inherited by its users.
const OF_ACCOUNT: [&str; 4] = ["GrpJobs", "GrpTRES", "GrpTRESMins", "GrpTRESRunMins"];
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
    let flags = assoc_mgr::question(&job.user, &qoses);
    let mut known = known(&snapshot.ask("scontrol", &flags.each_ref().map(String::as_str))?, job, &qoses);
    for record in &mut known.qoses {
        record.complete(all);
    }
    known.minutes = Rules::of(job, first, snapshot);
    let version = Version::parse(snapshot.settings()?.get("SLURM_VERSION"));
    if version.is_some_and(|version| version.is_from_to((0, 0), (24, 4))) {
        // Slurm tests them since 24.05.
        known
            .qoses
            .iter_mut()
            .for_each(|record| record.fields.retain(|field, _| !field.starts_with("MaxTRESRun")));
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
    let names = here().flat_map(|node| &node.gres).filter(|(name, ..)| name == "gpu");
    let names: BTreeSet<Option<String>> =
        names.map(|(_, kind, _)| kind.as_ref().map(|kind| kind.to_lowercase())).chain([None]).collect();
    let given = names.iter().map(|kind| {
        let of = |node: &Node| {
            let is_it = |known: &Option<String>| match (kind, known) {
                (Some(kind), Some(known)) => kind.eq_ignore_ascii_case(known),
                (kind, _) => kind.is_none(),
            };
            let its = node.gres.iter().filter(|(name, known, _)| name == "gpu" && is_it(known));
            its.map(|(.., count)| count).sum::<u64>()
        };
        let tres = kind.as_ref().map_or("gres/gpu".to_owned(), |kind| format!("gres/gpu:{kind}"));
        (tres, here().map(of).min().unwrap_or(0).saturating_mul(job.nodes.max(1)))
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
    let of = |tres: &str| {
        let (name, wanted) = tres.split_once(':').map_or((tres, None), |(name, kind)| (name, Some(kind)));
        let is_it = |kind: &str| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind));
        let all = nodes.iter().flat_map(|node| &node.gres).filter(|(known, ..)| known == name);
        all.filter(|(_, kind, _)| is_it(kind.as_deref().unwrap_or_default()))
            .map(|(.., count)| count)
            .sum::<u64>()
    };
    let counts = wanted(job).filter_map(|(tres, asks)| {
        let there = of(tres.strip_prefix("gres/")?);
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
        let (holder, names) = match line.user {
            "" => (Holder::Account(line.account.to_owned()), OF_ACCOUNT.as_slice()),
            _ => (Holder::Own(line.account.to_owned(), line.partition.to_owned()), OF_OWN.as_slice()),
        };
        Record { holder, fields: fields(names, |field| line.counts(field)), keeps_minutes: false }
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
    let mut all = fields(&OF_QOS, |field| found.counts(field));
    all.extend(fields(&OF_ACCOUNT_IN_QOS, |field| found.of_account(&job.account, field)));
    all.extend(fields(&OF_USER_IN_QOS, |field| found.of_user(job.user_id, field)));
    Record { holder: Holder::Qos(found.name.to_owned()), fields: all, keeps_minutes: false }
}

fn fields(names: &[&'static str], counts: impl Fn(&str) -> Option<Counts>) -> BTreeMap<&'static str, Counts> {
    names.iter().filter_map(|name| Some((*name, counts(name)?))).collect()
}

#[cfg(test)]
pub mod tests {
    use super::super::limits::tests::job;
    use super::*;

    /// The output of 24.11, with fewer TRES.
    pub const TEXT: &str = "\
Current Association Manager state
Association Records
ClusterName=lab Account=root UserName= Partition= ID=1 ParentAccount= GrpJobs=N(3) GrpTRES=cpu=N(3),gres/gpu:a40=N(5) MaxJobs= MaxTRESPJ= MaxTRESPN= Comment=(null)
ClusterName=lab Account=limits UserName= Partition= ID=2 ParentAccount=root(1) GrpJobs=9(3) GrpTRES=cpu=N(3),gres/gpu:a40=6(5) MaxJobs=1(3) MaxTRESPJ=cpu=1 MaxTRESPN= Comment=(null)
ClusterName=lab Account=acct UserName= Partition= ID=3 ParentAccount=limits(2) GrpJobs=N(3) GrpTRES=cpu=N(3),gres/gpu:a40=N(5) MaxJobs= MaxTRESPJ= MaxTRESPN= Comment=(null)
ClusterName=lab Account=acct UserName=alice(2001) Partition= ID=4 ParentAccount= GrpJobs=N(2) GrpTRES=cpu=N(2),gres/gpu:a40=N(3) MaxJobs=8(2) MaxTRESPJ=gres/gpu:a40=4 MaxTRESPN= Comment=(null)
ClusterName=lab Account=acct UserName=alice(2001) Partition=big ID=5 ParentAccount= GrpJobs=N(0) GrpTRES=cpu=N(0),gres/gpu:a40=N(0) MaxJobs= MaxTRESPJ=gres/gpu:a40=8 MaxTRESPN= Comment=(null)
QOS Records
QOS=q(2) UsageRaw=0.0 GrpJobs=N(2) GrpTRES=cpu=N(2),gres/gpu:a40=4(3) GrpTRESMins=cpu=N(0) MaxTRESPJ= MaxTRESPN=gres/gpu:a40=2 PreemptMode=OFF Priority=0 Account Limits= acct={MaxJobsPA=N(2) MaxTRESPA=gres/gpu:a40=N(3) MaxTRESRunMinsPA=cpu=N(0)} User Limits= bob(2002)={MaxJobsPU=N(1) MaxTRESPU=gres/gpu:a40=3(1)} alice(2001)={MaxJobsPU=N(1) MaxTRESPU=gres/gpu:a40=3(2) MaxTRESRunMinsPU=cpu=N(0)}
QOS=part(3) UsageRaw=0.0 GrpJobs=N(0) GrpTRES=cpu=2(0),gres/gpu:a40=N(0) MaxTRESPJ= MaxTRESPN= Account Limits=No Accounts User Limits=No Users
";

    #[test]
    fn the_records_of_a_job_are_found_up_to_root() {
        let job = job(7, "alice", "PENDING", "gres/gpu:a40=2");
        let known = known(TEXT, &job, &["part", "q"]);
        let holders: Vec<_> = known.associations.iter().map(|record| record.holder.clone()).collect();
        let account = |name: &str| Holder::Account(name.to_owned());
        assert_eq!(
            holders,
            [Holder::Own("acct".into(), String::new()), account("acct"), account("limits"), account("root")]
        );
        let of = |at: usize, field: &str, tres: &str| {
            known.qoses[at].fields.get(field).and_then(|all| all.get(tres)).copied()
        };
        assert_eq!(of(0, "GrpTRES", "cpu"), Some((Some(2), 0)));
        assert_eq!(of(1, "GrpTRES", "gres/gpu:a40"), Some((Some(4), 3)));
        assert_eq!(of(1, "MaxTRESPU", "gres/gpu:a40"), Some((Some(3), 2)), "alice's, not bob's");
        assert_eq!(of(1, "MaxTRESPN", "gres/gpu:a40"), Some((Some(2), 0)));
        assert_eq!(known.associations[0].fields["MaxJobs"]["jobs"], (Some(8), 2));
        assert!(!known.associations[2].fields.contains_key("MaxTRESPJ"), "tested for its users");
        assert_eq!(known.below["limits"].iter().collect::<Vec<_>>(), ["acct", "limits"]);
        let mut elsewhere = job;
        elsewhere.partition = "big,p".to_owned();
        let known = super::known(TEXT, &elsewhere, &["q"]);
        assert_eq!(known.associations[0].holder, Holder::Own("acct".into(), "big".into()));
    }

    #[test]
    fn limits_of_users_who_have_used_nothing_are_the_qoses_own() {
        let qos = limits::Qos::read("part|||gpu=9,gres/gpu:a40=3|gres/gpu=5|||||||||");
        let mut known = known(TEXT, &job(7, "alice", "PENDING", "gres/gpu:a40=2"), &["part", "q"]);
        for record in &mut known.qoses {
            record.complete(&[qos.clone(), limits::Qos::read("q|||gres/gpu:a40=9||||||||||")]);
        }
        assert_eq!(known.qoses[0].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 0));
        assert_eq!(known.qoses[0].fields["MaxTRESPA"]["gres/gpu"], (Some(5), 0));
        assert_eq!(known.qoses[1].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 2), "slurmctld's own");
    }

    #[test]
    fn a_users_own_count_is_found_by_number_too() {
        let old = TEXT.replace("bob(2002)={", "2002={").replace("alice(2001)={", "2001={");
        let known = known(&old, &job(7, "alice", "PENDING", "gres/gpu:a40=2"), &["q"]);
        assert_eq!(known.qoses[0].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 2), "as 22.05 prints it");
    }

    #[test]
    fn whole_nodes_have_at_least_what_the_smallest_has() {
        let node = |gres: &str| Node::read(&format!("NodeName=n Gres={gres} Partitions=p")).unwrap();
        let given = |nodes: &[Node]| {
            let mut asked = Row { nodes: 2, ..job(7, "alice", "PENDING", "gres/gpu:a40=1") };
            whole_nodes(&mut asked, nodes);
            asked.tres.iter().map(|(tres, count)| format!("{tres}={count}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(given(&[node("gpu:A40:4"), node("gpu:A40:2")]), "gres/gpu=4 gres/gpu:a40=4");
        assert_eq!(given(&[node("gpu:a40:4"), node("gpu:h100:8")]), "gres/gpu=8 gres/gpu:a40=1");
        assert_eq!(given(&[node("gpu:a40:4"), node("(null)")]), "gres/gpu:a40=1");
    }

    #[test]
    fn the_nodes_of_a_partition_are_like_a_limit() {
        let node = |name: &str, state: &str, partitions: &str| {
            let text = format!(
                "NodeName={name} Gres=gpu:A40:4,mps:a40:400 State={state} Partitions={partitions} \
                 AllocTRES=cpu=1,gres/gpu=1,gres/gpu:a40=1"
            );
            Node::read(&text).unwrap()
        };
        let nodes = [
            node("n1", "MIXED", "p"),
            node("n2", "IDLE+DRAIN", "p"),
            node("n3", "IDLE", "q"),
            node("n4", "ALLOCATED", "q,p"),
        ];
        let of = |tres: &str| of_nodes(&job(7, "alice", "PENDING", tres), &nodes);
        let found = of("cpu=1,gres/gpu=5,gres/gpu:a40=5,gres/mps=50");
        assert_eq!(found.holder, Holder::Nodes("p".into(), ["n1".to_owned(), "n4".to_owned()].into()));
        let counts = &found.fields["its nodes"];
        assert_eq!(counts.len(), 2, "the type alone, and no CPUs: {counts:?}");
        assert_eq!((counts["gres/gpu:a40"], counts["gres/mps"]), ((Some(8), 2), (Some(800), 0)));
        let has_all = |tres: &str| has_all(&of(tres), &job(7, "alice", "PENDING", tres));
        assert!(has_all("cpu=99,gres/gpu=5,gres/gpu:a40=5,gres/mps=50") && has_all("gres/gpu=8"));
        assert!(!has_all("gres/gpu:a40=9") && !has_all("gres/gpu=9") && !has_all("gres/gpu:h100=1"));
        assert!(
            of("gres/gpu:a40=9").fields["its nodes"].is_empty(),
            "Slurm has a reason of its own for that"
        );
    }
}
