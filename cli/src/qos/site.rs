//! Reads everything that a plan needs: the file, the database, the nodes, and the existing users. Calls sacctmgr three
//! times and scontrol three times, whatever the number of QOSes.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use gpushare::config::LoadError;
use gpushare_qos::config::{ManagedQos, Members};
use gpushare_qos::plan::InUse;
use gpushare_qos::tree::Tree;
use gpushare_qos::{Actual, Cluster, Finding, check, stale, state};
use gpushare_slurm_text::partition::{self, PARTITIONS};
use gpushare_slurm_text::{assoc_mgr, own};

use super::error::QosError;
use gpushare_machine::local;
use gpushare_slurm_run::run::{PATIENCE, question, run, text};
use gpushare_slurm_run::{ProgramError, Snapshot, command};

/// How many names one call of getent gets.
const NAMES: usize = 500;

/// The file's content, and the site's current state.
pub struct Site {
    /// The file that defines the QOSes.
    pub path: PathBuf,
    /// The QOSes that the file defines.
    pub qoses: Vec<ManagedQos>,
    /// The database.
    pub actual: Actual,
    /// The cluster's name, TRES and GPUs.
    pub cluster: Cluster,
    /// Members who are unknown to the system.
    pub strangers: HashSet<String>,
}

impl Site {
    /// Reads all of it.
    ///
    /// # Errors
    /// The file or the database can't be read.
    pub fn read(conf: Option<&Path>) -> Result<Site, QosError> {
        let (path, qoses) = qoses(conf)?;
        let slurm = Snapshot::default();
        let cluster = Cluster::of(slurm.settings()?, slurm.nodes()?)?;
        let cluster = Cluster { partitions: slurm.partitions()?.to_vec(), ..cluster };
        let actual = actual(&cluster)?;
        let strangers = strangers(&qoses);
        Ok(Site { path, qoses, actual, cluster, strangers })
    }

    /// What is wrong or odd in the lines.
    pub fn findings(&self) -> Vec<Finding> {
        check::check(&self.qoses, &self.actual, &self.cluster, &self.strangers)
    }

    /// The same file with the current database.
    ///
    /// # Errors
    /// The same as for [`actual`].
    pub fn read_again(self) -> Result<Site, QosError> {
        Ok(Site { actual: actual(&self.cluster)?, ..self })
    }
}

/// The current database.
///
/// # Errors
/// The database can't be read, or its output can't be parsed.
pub fn actual(cluster: &Cluster) -> Result<Actual, QosError> {
    let qoses = state::qoses(&sacctmgr(&state::ask_qoses())?)?;
    Ok(Actual { qoses, tree: tree(&cluster.name)? })
}

/// The QOSes that the file defines. Finds the file as slurmctld's plugin does.
///
/// # Errors
/// The file doesn't exist, or has a mistake.
pub fn qoses(conf: Option<&Path>) -> Result<(PathBuf, Vec<ManagedQos>), LoadError> {
    let (path, config) = local::config_there(conf)?;
    Ok((path, config.qoses))
}

fn tree(cluster: &str) -> Result<Tree, QosError> {
    let at = format!("cluster={cluster}");
    let associations = question(own::ASSOCIATIONS, &["where", &at])?;
    Ok(Tree::read(&associations, &question(own::PARENTS, &["where", &at, "user="])?)?)
}

/// How many jobs each QOS has, in any partition and any state but over, and which partitions name it.
///
/// # Errors
/// slurmctld can't be asked.
pub fn used() -> Result<InUse, QosError> {
    let mut used = InUse::new();
    // A job with several QOSes lists them.
    for name in text("squeue", &["-h", "-a", "-r", "-o", "%q"])?.lines().flat_map(|line| line.split(',')) {
        used.entry(name.trim().to_ascii_lowercase()).or_default().jobs += 1;
    }
    for partition in partition::read(&question(PARTITIONS, &[])?) {
        for name in partition.qoses {
            let name = name.to_ascii_lowercase();
            used.entry(name).or_default().partitions.insert(partition.name.clone());
        }
    }
    Ok(used)
}

/// How slurmctld's QOSes differ from the database's, in one line; `None` if they don't.
///
/// # Errors
/// slurmctld or slurmdbd can't be asked.
pub fn missed() -> Result<Option<String>, QosError> {
    let missed = stale::missed(&question(own::NUMBERS, &[])?, &question(assoc_mgr::QOSES, &[])?);
    let shown: Vec<&str> = missed.iter().map(String::as_str).take(4).collect();
    let more = if missed.len() > 4 { " and more" } else { "" };
    Ok((!missed.is_empty()).then(|| {
        format!("slurmctld missed changes while it could not reach slurmdbd: {}{more}", shown.join(", "))
    }))
}

/// Asks getent(1), because the site configures the name service. If getent fails, every user counts as known.
fn strangers(qoses: &[ManagedQos]) -> HashSet<String> {
    let users = qoses.iter().filter_map(|managed| match &managed.members {
        Members::Users(_, users) => Some(users),
        _ => None,
    });
    let users: BTreeSet<&str> = users.flatten().map(String::as_str).collect();
    let users: Vec<&str> = users.into_iter().collect();
    let mut strangers = HashSet::new();
    for names in users.chunks(NAMES) {
        let Ok(answer) = run(command("getent").arg("passwd").args(names), PATIENCE) else { continue };
        // 2 means that some of them were not found.
        if !matches!(answer.status.code(), Some(0 | 2)) {
            continue;
        }
        let text = String::from_utf8_lossy(&answer.output).into_owned();
        let known: HashSet<&str> = text.lines().filter_map(|line| line.split(':').next()).collect();
        strangers.extend(names.iter().filter(|name| !known.contains(**name)).map(|name| (*name).to_owned()));
    }
    strangers
}

/// Its output.
///
/// # Errors
/// It can't be asked, or it says no.
pub fn sacctmgr(arguments: &[String]) -> Result<String, ProgramError> {
    text("sacctmgr", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}
