//! The QOSes and associations that a job counts toward, with their limits and use: slurmctld's own numbers, from
//! `scontrol show assoc_mgr`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ask;
use super::queue::Row;
use crate::slurm::{ProgramError, Snapshot};

/// By TRES: the limit, if any, and how much is in use.
pub type Counts = BTreeMap<String, (Option<u64>, u64)>;

/// Who has the limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    Qos(String),
    /// An account, including all below it.
    Account(String),
    /// The user's association with an account, for one partition or for all.
    Own(String, String),
}

/// A QOS or an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub holder: Holder,
    /// `GrpTRES`, `MaxTRESPU` and so on. If each user or account has its own count, these are the job's.
    pub fields: BTreeMap<&'static str, Counts>,
}

/// Everything known about a job's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The QOS whose limits take precedence, then the other: the partition's and the job's.
    pub qoses: Vec<Record>,
    /// The user's association, then the accounts up to root.
    pub associations: Vec<Record>,
    /// For each QOS, the partitions that have it as their own.
    pub partitions_of: BTreeMap<String, BTreeSet<String>>,
    /// Each account with the accounts below it, including itself.
    pub below: BTreeMap<String, BTreeSet<String>>,
}

const OF_QOS: [&str; 4] = ["GrpJobs", "GrpTRES", "MaxTRESPJ", "MaxTRESPN"];
const OF_ACCOUNT_IN_QOS: [&str; 2] = ["MaxJobsPA", "MaxTRESPA"];
const OF_USER_IN_QOS: [&str; 2] = ["MaxJobsPU", "MaxTRESPU"];
const OF_OWN: [&str; 5] = ["GrpJobs", "GrpTRES", "MaxJobs", "MaxTRESPJ", "MaxTRESPN"];
// An account's other limits are inherited by its users.
const OF_ACCOUNT: [&str; 2] = ["GrpJobs", "GrpTRES"];

/// Asks slurmctld. Also returns notes about what is unknown.
///
/// # Errors
/// slurmctld does not answer.
pub fn read(job: &Row, snapshot: &Snapshot) -> Result<(Known, Vec<String>), ProgramError> {
    let partitions = snapshot.partitions()?;
    let first = partitions.iter().find(|partition| partition.name == job.first_partition());
    let of_partition = first.and_then(|partition| partition.own.clone());
    let mut notes = Vec::new();
    let goes_first = match &of_partition {
        None => false,
        Some(_) => match snapshot.qoses() {
            Ok(all) => all.iter().any(|qos| qos.over_partition && qos.name.eq_ignore_ascii_case(&job.qos)),
            Err(reason) => {
                notes.push(format!("can't tell whether the job's QOS overrides its partition's: {reason}"));
                false
            }
        },
    };
    let mut qoses = vec![job.qos.as_str()];
    let at = usize::from(goes_first);
    if let Some(name) = of_partition.as_deref().filter(|name| !name.eq_ignore_ascii_case(&job.qos)) {
        qoses.insert(at, name);
    }
    let mut flags: Vec<String> =
        vec!["-o".into(), "show".into(), "assoc_mgr".into(), "flags=qos,assoc".into()];
    flags.push(format!("users={}", job.user));
    flags.push(format!("qos={}", qoses.join(",")));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut known = known(&ask("scontrol", &flags)?, job, &qoses);
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

/// Reads a job's QOSes, in the given order, and its associations from `scontrol -o show assoc_mgr`.
pub fn known(text: &str, job: &Row, qoses: &[&str]) -> Known {
    let qos = |name: &&str| text.lines().find_map(|line| qos(line, name, job));
    let lines: Vec<Line> = text.lines().filter_map(association).collect();
    let own = |partition: &str| {
        lines.iter().find(|line| {
            line.user == job.user
                && line.account.eq_ignore_ascii_case(&job.account)
                && line.partition.eq_ignore_ascii_case(partition)
        })
    };
    let own = own(job.first_partition()).or_else(|| own(""));
    let mut accounts: HashMap<String, &Line> = HashMap::new();
    for line in lines.iter().filter(|line| line.user.is_empty() && !line.account.is_empty()) {
        accounts.entry(line.account.to_ascii_lowercase()).or_insert(line);
    }
    let account = |name: &str| accounts.get(&name.to_ascii_lowercase()).copied();
    let above = std::iter::successors(account(&job.account), |line| account(line.parent)).take(lines.len());
    let record = |line: &Line| match line.user {
        "" => Record {
            holder: Holder::Account(line.account.to_owned()),
            fields: fields(line.text, &OF_ACCOUNT),
        },
        _ => Record {
            holder: Holder::Own(line.account.to_owned(), line.partition.to_owned()),
            fields: fields(line.text, &OF_OWN),
        },
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
        partitions_of: BTreeMap::new(),
        below,
    }
}

/// Parses `QOS=q(2) GrpJobs=N(2) … Account Limits= acct={…} User Limits= alice(2001)={…}`.
fn qos(line: &str, name: &str, job: &Row) -> Option<Record> {
    let (first, rest) = line.strip_prefix("QOS=")?.split_once(' ')?;
    let found = first.rsplit_once('(')?.0;
    if !found.eq_ignore_ascii_case(name) {
        return None;
    }
    let (own, rest) = rest.split_once(" Account Limits=").unwrap_or((rest, ""));
    let (of_accounts, of_users) = rest.split_once(" User Limits=").unwrap_or((rest, ""));
    let mut all = fields(own, &OF_QOS);
    let of_account = in_braces(of_accounts, |who| who.eq_ignore_ascii_case(&job.account));
    // Up to 22.05 there is only the number.
    let number = job.user_id.to_string();
    let of_user = in_braces(of_users, |who| {
        who.rsplit_once('(').map_or(who, |(_, number)| number.trim_end_matches(')')) == number
    });
    all.extend(fields(of_account, &OF_ACCOUNT_IN_QOS));
    all.extend(fields(of_user, &OF_USER_IN_QOS));
    Some(Record { holder: Holder::Qos(found.to_owned()), fields: all })
}

/// In ` alice(2001)={A=1 B=2} bob(2002)={…}`: the text in the braces of the name that fits.
fn in_braces(text: &str, fits: impl Fn(&str) -> bool) -> &str {
    let mut parts = text.split('}').filter_map(|part| part.split_once("={"));
    parts.find(|(who, _)| fits(who.trim())).map_or("", |(_, inside)| inside)
}

/// An association as a line shows it.
struct Line<'t> {
    account: &'t str,
    /// Empty for an account's own.
    user: &'t str,
    partition: &'t str,
    parent: &'t str,
    text: &'t str,
}

/// Parses `ClusterName=c Account=below UserName=alice(2001) Partition=q … ParentAccount=limits(16) …`.
fn association(text: &str) -> Option<Line<'_>> {
    text.strip_prefix("ClusterName=")?;
    let word = |key: &str| text.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default();
    Some(Line {
        account: word("Account="),
        user: without_number(word("UserName=")),
        partition: word("Partition="),
        parent: without_number(word("ParentAccount=")),
        text,
    })
}

/// `alice` of `alice(2001)`.
fn without_number(text: &str) -> &str {
    text.rsplit_once('(').map_or(text, |(name, _)| name)
}

fn fields(text: &str, names: &[&'static str]) -> BTreeMap<&'static str, Counts> {
    let field = |name: &&'static str| {
        let value = text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        Some((*name, counts(value)))
    };
    names.iter().filter_map(field).collect()
}

/// Parses `cpu=N(2),gres/gpu:a40=4(4)`, or `4(2)` for jobs.
fn counts(value: &str) -> Counts {
    let one = |part: &str| {
        let (name, count) = part.rsplit_once('=').unwrap_or(("jobs", part));
        let (limit, used) = count.split_once('(').unwrap_or((count, "0"));
        let used = used.trim_end_matches(')').parse().unwrap_or(0);
        (!count.is_empty()).then(|| (name.to_owned(), (limit.parse().ok(), used)))
    };
    value.split(',').filter_map(one).collect()
}

#[cfg(test)]
pub mod tests {
    use super::super::queue::tests::job;
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
    fn a_users_own_count_is_found_by_number_too() {
        let old = TEXT.replace("bob(2002)={", "2002={").replace("alice(2001)={", "2001={");
        let known = known(&old, &job(7, "alice", "PENDING", "gres/gpu:a40=2"), &["q"]);
        assert_eq!(known.qoses[0].fields["MaxTRESPU"]["gres/gpu:a40"], (Some(3), 2), "as 22.05 prints it");
    }
}
