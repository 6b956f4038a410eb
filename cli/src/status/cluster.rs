//! The cluster's shares: as Slurm counts them or, if Slurm doesn't know the GPU, as the nodes have reported.
//!
//! It queries Slurm three times, whatever the number of nodes: for nodes, for jobs, and for the jobs' users. squeue
//! answers the last query, in lines without text from users.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use gpushare::text::hostlist;
use gpushare_machine::config::Config;
use serde::Serialize;

use super::{StatusError, Wanted};
use gpushare_machine::local::{self, now};
use gpushare_slurm_run::{self as slurm, ProgramError, run};
use gpushare_terminal::FileError;

mod assemble;
pub mod collected;
pub mod write;

pub use assemble::is_usable;
use gpushare_slurm_text::node::{self, Node as NodeText};
use gpushare_slurm_text::placed::{self, Placed};
use gpushare_slurm_text::queue::{self, Row};
use gpushare_slurm_text::record::RECORDS;

/// States of nodes on which no job can start.
const OUT: [&str; 9] =
    ["DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "ERROR", "UNKNOWN", "FUTURE", "INVAL", "INVALID_REG"];

/// The cluster to show.
#[derive(Debug, Default, Serialize)]
pub struct Cluster {
    /// Seconds since 1970.
    pub time: u64,
    pub nodes: Vec<Node>,
    /// How many nodes have no shares.
    pub without_shares: usize,
    /// Whether only some jobs, and their nodes, were requested.
    #[serde(skip)]
    pub filtered: bool,
    /// What could not be read, one line each.
    #[serde(skip)]
    pub complaints: Vec<String>,
}

/// A node with shares.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Node {
    pub node: String,
    /// Such as `idle+drain`.
    pub state: String,
    /// Whether jobs can start on it.
    pub usable: bool,
    pub reason: Option<String>,
    /// How many GPUs it has, if known.
    pub gpu_count: Option<u64>,
    /// How many GPUs jobs have whole.
    pub whole: u64,
    pub units: u64,
    /// Free units; 0 if the node isn't usable.
    pub free: u64,
    pub capacity: u64,
    /// The GPUs; empty if it is unknown which GPU each share is on.
    pub gpus: Vec<Gpu>,
    pub jobs: Vec<Job>,
    pub partitions: Vec<String>,
    /// The age of the node's report in seconds; null if Slurm's count is shown.
    pub age: Option<u64>,
}

/// One of the node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpu {
    pub index: u32,
    pub units: u64,
    pub free: u64,
    pub capacity: u64,
    pub whole: bool,
    /// The error that NVML reported on the node.
    pub fault: Option<String>,
}

/// One of the node's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Job {
    /// 0 if unknown.
    pub job: u32,
    /// The name up to the first line break.
    pub name: Option<String>,
    pub user: Option<String>,
    #[serde(skip)]
    pub user_id: Option<u32>,
    pub partition: Option<String>,
    /// The units of its share; null if it has whole GPUs.
    pub units: Option<u64>,
    /// The GPUs that it is on, if known.
    pub gpus: Vec<u32>,
}

/// Asks Slurm, and reads the nodes' files.
///
/// # Errors
/// slurmctld doesn't answer, or has no such node or partition.
pub fn gather(
    places: &Places,
    wanted: &Wanted,
    folder: Option<&Path>,
    conf: Option<&Path>,
) -> Result<Cluster, StatusError> {
    let (config, mut complaints) = config(conf);
    let nodes = places.of(node::read(&slurm::ask(node::NODES.0, node::NODES.1)?))?;
    let mut jobs = placed::Jobs::default();
    if let Err(reason) = run::lines(RECORDS.0, RECORDS.1, |line| jobs.line(line)) {
        complaints.push(format!("no jobs: {reason}"));
        jobs = placed::Jobs::default();
    }
    let jobs = jobs.all();
    let mut users = BTreeMap::new();
    if !jobs.is_empty() {
        let ids: HashSet<u32> = jobs.iter().map(|job| job.id).collect();
        let (program, asked) = queue::QUEUE;
        let row = |line: &str| queue::row(line).filter(|row| ids.contains(&row.id)).map(|row| (row.id, row));
        let said = run::lines(program, asked, |line| users.extend(row(line)));
        complaints.extend(said.err().map(|reason| format!("no users: {reason}")));
    }
    let mut cluster = made(nodes, jobs, &users, folder, (&config, complaints));
    cluster.filtered = wanted.is_some();
    cluster.keep_jobs(wanted, places);
    Ok(cluster)
}

/// The nodes that a job is on, with only that job. Asks Slurm only about these nodes.
///
/// # Errors
/// slurmctld doesn't answer.
pub fn around(node_list: &str, job: Vec<Placed>, conf: Option<&Path>) -> Result<Cluster, ProgramError> {
    let (config, complaints) = config(conf);
    let nodes = node::read(&slurm::ask("scontrol", &["-a", "-d", "show", "node", node_list])?);
    Ok(made(nodes, job, &BTreeMap::new(), None, (&config, complaints)))
}

/// Combines Slurm's answers and the nodes' files.
fn made(
    nodes: Vec<NodeText>,
    jobs: Vec<Placed>,
    users: &BTreeMap<u32, Row>,
    folder: Option<&Path>,
    (config, mut complaints): (&Config, Vec<String>),
) -> Cluster {
    let (time, all) = (now(), nodes.len());
    let mut nodes = assemble::nodes(nodes, jobs, users, &|node| config.of_node(node));
    if let Some(folder) = folder {
        if let Err(error) = folder.read_dir() {
            complaints.push(FileError::of(folder)(error).to_string());
        }
        for node in &mut nodes {
            match collected::of::<collected::Said>(folder, &node.node, time) {
                Ok(Some(said)) => {
                    let rules = config.of_node(&node.node);
                    assemble::overlay(node, said, time, rules);
                }
                Ok(None) => {}
                Err(ignored) => complaints.push(ignored.to_string()),
            }
        }
    }
    Cluster { time, without_shares: all - nodes.len(), filtered: false, nodes, complaints }
}

/// The rules, and a complaint if they can't be read. Without a gpushare.conf, shares are Slurm's own.
fn config(conf: Option<&Path>) -> (Config, Vec<String>) {
    match local::config(conf) {
        Ok(config) => (config.unwrap_or_default(), Vec::new()),
        Err(reason) => (Config::default(), vec![format!("{reason}; shares are shown as Slurm's own")]),
    }
}

/// The nodes to show; all if this names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Hostlists.
    pub hosts: Vec<String>,
    pub partitions: Vec<String>,
}

impl Places {
    /// The requested nodes. As with squeue, a node that the cluster doesn't have is an error.
    fn of(&self, nodes: Vec<NodeText>) -> Result<Vec<NodeText>, StatusError> {
        let mut left = hostlist::names::MOST;
        let hosts: BTreeSet<String> =
            self.hosts.iter().flat_map(|list| hostlist::names::of(list, &mut left)).collect();
        if hosts.is_empty() && !self.hosts.is_empty() {
            return Err(StatusError::NoNodes(self.hosts.clone()));
        }
        let there: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let unknown: Vec<String> =
            hosts.iter().filter(|name| !there.contains(name.as_str())).cloned().collect();
        if !unknown.is_empty() {
            return Err(StatusError::UnknownNodes(unknown));
        }
        for partition in &self.partitions {
            let all: BTreeSet<&String> = nodes.iter().flat_map(|node| &node.partitions).collect();
            if !all.contains(partition) {
                let (partition, there) = (partition.clone(), all.into_iter().cloned().collect());
                return Err(StatusError::NoPartition { partition, there });
            }
        }
        let is_meant = |node: &NodeText| {
            (hosts.is_empty() || hosts.contains(&node.name))
                && (self.partitions.is_empty()
                    || node.partitions.iter().any(|name| self.partitions.contains(name)))
        };
        Ok(nodes.into_iter().filter(is_meant).collect())
    }
}

impl Cluster {
    /// Keeps the wanted jobs, and their nodes if only some jobs are wanted.
    fn keep_jobs(&mut self, wanted: &Wanted, places: &Places) {
        let is_there = |job: &Job| {
            let partition = job.partition.as_ref().filter(|_| !places.partitions.is_empty());
            partition.is_none_or(|partition| places.partitions.contains(partition))
        };
        for node in &mut self.nodes {
            node.jobs.retain(|job| is_there(job) && wanted.has(job.job, job.user.as_deref(), job.user_id));
        }
        if self.filtered {
            self.nodes.retain(|node| !node.jobs.is_empty());
        }
    }
}

#[cfg(test)]
mod tests;
