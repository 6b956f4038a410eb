//! The cluster's shares: as Slurm counts them, and where Slurm doesn't know which GPU it is, as the nodes have said.
//!
//! Slurm is asked three times, whatever the number of nodes: for nodes, for jobs, and for whose the jobs are. The last is
//! squeue's word, in a line that holds no text of a user's.

use std::collections::BTreeMap;
use std::path::Path;

use gpushare::config::{Config, NodeConfig, Placement, UnitsPerGpu};
use serde::Serialize;

use super::local::{conf_path, now};
use crate::slurm;

mod assemble;
pub mod collected;
pub mod read;
pub mod write;

pub use assemble::is_usable;

/// States of nodes on which no job can start.
const OUT: [&str; 9] =
    ["DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "ERROR", "UNKNOWN", "FUTURE", "INVAL", "INVALID_REG"];

/// What is shown.
#[derive(Debug, Default, Serialize)]
pub struct Cluster {
    /// Seconds since 1970.
    pub time: u64,
    pub nodes: Vec<Node>,
    /// How many nodes have no shares.
    pub without_shares: usize,
    /// What could not be read, a line each.
    #[serde(skip)]
    pub complaints: Vec<String>,
}

/// A node with shares.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    pub node: String,
    /// `idle+drain`
    pub state: String,
    /// Whether jobs can start on it.
    pub usable: bool,
    pub reason: Option<String>,
    /// How many GPUs it has, where known.
    pub gpu_count: Option<u64>,
    /// How many jobs have whole.
    pub whole: u64,
    pub units: u64,
    /// Units that can still be given; none of a node that is not usable.
    pub free: u64,
    pub capacity: u64,
    /// The GPUs; empty where nobody says on which GPU a share is.
    pub gpus: Vec<Gpu>,
    pub jobs: Vec<Job>,
    /// How many seconds ago the node said so; null where Slurm's count is shown.
    pub age: Option<u64>,
}

/// A GPU of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpu {
    pub index: u32,
    pub units: u64,
    pub free: u64,
    pub capacity: u64,
    pub whole: bool,
    /// What NVML has said of it on the node.
    pub fault: Option<String>,
}

/// A job on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// 0 where nobody can say which it is.
    pub job: u32,
    pub user: Option<String>,
    /// Units of its share; null where it has whole GPUs.
    pub units: Option<u64>,
    /// Where it is, as far as known.
    pub gpus: Vec<u32>,
}

/// How shares are counted, by gpushare.conf.
#[derive(Clone, Debug)]
pub struct CountingRules {
    /// Whether Slurm picks the GPU, and so knows it.
    slurm_picks: bool,
    /// The GRES that is the share.
    share: String,
    /// Units that fill a GPU; not known without a placement.
    units: Option<UnitsPerGpu>,
}

impl Default for CountingRules {
    fn default() -> CountingRules {
        CountingRules { slurm_picks: true, share: "mps".to_owned(), units: None }
    }
}

impl From<&NodeConfig> for CountingRules {
    fn from(config: &NodeConfig) -> CountingRules {
        let NodeConfig { placement, units_per_gpu, share_gres, .. } = config;
        CountingRules {
            slurm_picks: matches!(placement, Placement::Off | Placement::Follow),
            share: share_gres.clone(),
            units: units_per_gpu.clone().filter(|_| *placement != Placement::Off),
        }
    }
}

/// Asks Slurm, and the nodes' files. An error is one line.
pub fn gather(hosts: &str, folder: Option<&Path>, conf: Option<&Path>) -> Result<Cluster, String> {
    let mut complaints = Vec::new();
    let config = rules(conf).unwrap_or_else(|reason| {
        complaints.push(format!("{reason}; shares are taken for Slurm's own"));
        None
    });
    let rules = |node: &str| {
        config.as_ref().map_or_else(CountingRules::default, |config| config.of_node(node).into())
    };
    let mut arguments = vec!["-a", "-d", "show", "node"];
    arguments.extend((!hosts.is_empty()).then_some(hosts));
    let nodes = read::nodes(&slurm::ask("scontrol", &arguments)?);
    let mut jobs = Vec::new();
    match slurm::ask("scontrol", &["-a", "-d", "show", "job"]) {
        Ok(text) => jobs = read::jobs(&text),
        Err(reason) => complaints.push(format!("no jobs: {reason}")),
    }
    let mut users = BTreeMap::new();
    if !jobs.is_empty() {
        match slurm::ask("squeue", &["-a", "-h", "-t", "all", "-o", "%A|%u"]) {
            Ok(text) => users = owners(&text),
            Err(reason) => complaints.push(format!("no users: {reason}")),
        }
    }
    let time = now();
    let all = nodes.len();
    let mut nodes = assemble::nodes(nodes, jobs, &users, &rules);
    if let Some(folder) = folder {
        if let Err(error) = folder.read_dir() {
            complaints.push(format!("{}: {error}", folder.display()));
        }
        for node in &mut nodes {
            match collected::of::<collected::Said>(folder, &node.node, time) {
                Ok(Some(said)) => {
                    let rules = rules(&node.node);
                    assemble::overlay(node, said, time, &rules);
                }
                Ok(None) => {}
                Err(reason) => complaints.push(reason),
            }
        }
    }
    Ok(Cluster { time, without_shares: all - nodes.len(), nodes, complaints })
}

/// Without a gpushare.conf shares are Slurm's own.
fn rules(conf: Option<&Path>) -> Result<Option<Config>, String> {
    let config = Config::load(&conf_path(conf)).map_err(|error| error.to_string())?;
    match (config, conf) {
        (Some(config), _) => Ok(Some(config)),
        (None, None) => Ok(None),
        (None, Some(path)) => Err(format!("{}: there is no such file", path.display())),
    }
}

fn owners(text: &str) -> BTreeMap<u32, String> {
    let owner = |line: &str| {
        let (id, user) = line.split_once('|')?;
        Some((id.parse().ok()?, user.to_owned()))
    };
    text.lines().filter_map(owner).collect()
}

#[cfg(test)]
mod tests;
