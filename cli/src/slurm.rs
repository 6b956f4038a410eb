//! What Slurm says of itself: its settings, nodes, partitions and QOSes, each asked of a program of Slurm's and read here.
//! Nothing is changed, and nobody waits longer than a health check may.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use gpushare::config::Config;
use gpushare::node_gres::{self, NodeGres};

use crate::explain::program;

mod accounts;
mod settings;

pub use accounts::Accounts;
pub use settings::Settings;

/// How long one of Slurm's commands may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that `check` and `conf` compare gpushare.conf with. The default is a cluster that there isn't yet.
#[derive(Debug, Default)]
pub struct Slurm {
    /// slurm.conf and cgroup.conf.
    pub settings: Settings,
    /// Every node.
    pub nodes: Vec<Node>,
    /// Every partition.
    pub partitions: Vec<Partition>,
    /// What the database says of QOSes.
    pub qoses: Qoses,
    /// And of associations.
    pub accounts: Accounts,
}

/// A node, as `scontrol show node` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `(gpu, Some(a40), 4)`
    pub gres: Vec<NodeGres>,
    /// The partitions that it is in.
    pub partitions: Vec<String>,
    /// What its slurmd is, such as 24.11.5; empty while slurmctld has not heard of it.
    pub version: String,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// `TRESBillingWeights`, a word each.
    pub billing: Vec<String>,
    /// QOSes that are allowed or denied in it, or its own.
    pub qoses: Vec<String>,
}

/// What is to be known of QOSes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qoses {
    /// Those with a limit on a type of a governed GRES.
    pub governed: Vec<String>,
    /// Those that preempt others.
    pub preempting: Vec<String>,
    /// Whether they differ in priority.
    pub priorities: bool,
}

impl Slurm {
    /// Asks slurmctld and slurmdbd. An error is one line.
    pub fn ask(config: &Config) -> Result<Slurm, String> {
        let settings = Settings::parse(&ask("scontrol", &["show", "config"])?);
        let cluster = settings.get("ClusterName").to_owned();
        Ok(Slurm {
            settings,
            nodes: ask("scontrol", &["-a", "-o", "show", "node"])?.lines().filter_map(node).collect(),
            partitions: ask("scontrol", &["-a", "-o", "show", "partition"])?
                .lines()
                .filter_map(partition)
                .collect(),
            qoses: qoses(config)?,
            accounts: Accounts::ask(config, &cluster)?,
        })
    }
}

/// Where slurm.conf is.
pub fn conf() -> PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// This machine's name as Slurm would have it; in a job, as slurmd has it.
pub fn host() -> String {
    if let Some(name) = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// What one of Slurm's commands prints. A health check must come to an end: without slurmctld or a slurm.conf some of them
/// try for minutes.
pub fn ask(name: &str, arguments: &[&str]) -> Result<String, String> {
    let answer = program::run(command(name).args(arguments), PATIENCE)?;
    program::succeeded(name, arguments, answer).map(|output| String::from_utf8_lossy(&output).into_owned())
}

/// Without the caller's variables that make Slurm's programs speak of another cluster, or of some jobs only.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text == "SLURM_CLUSTERS" || text.starts_with("SQUEUE_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The value of `Key=` in a line of words.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    found.filter(|value| *value != "(null)")
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Reads a line of `scontrol -o show node`.
pub fn node(line: &str) -> Option<Node> {
    Some(Node {
        name: value(line, "NodeName")?.to_owned(),
        gres: node_gres::read(value(line, "Gres").unwrap_or_default()),
        partitions: words(value(line, "Partitions").unwrap_or_default()),
        version: value(line, "Version").unwrap_or_default().to_owned(),
    })
}

/// Reads a line of `scontrol -o show partition`.
pub fn partition(line: &str) -> Option<Partition> {
    let name = value(line, "PartitionName")?.to_owned();
    let list = |key| words(value(line, key).unwrap_or_default());
    let qoses = ["AllowQos", "DenyQos", "QoS"].into_iter().flat_map(list);
    // What stands where there is none.
    let qoses = qoses.filter(|name| !["ALL", "N/A"].contains(&name.as_str())).collect();
    Some(Partition { name, billing: list("TRESBillingWeights"), qoses })
}

fn qoses(config: &Config) -> Result<Qoses, String> {
    let fields = "format=name,priority,preempt,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA";
    let text = ask("sacctmgr", &["-nP", "show", "qos", fields])?;
    let mut found = Qoses::default();
    let mut priorities: Vec<&str> = Vec::new();
    for line in text.lines() {
        let mut columns = line.split('|');
        let (Some(name), Some(priority), Some(preempts)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let is_typed = |limit: &str| {
            let gres = limit.strip_prefix("gres/").and_then(|rest| rest.split_once(':'));
            gres.is_some_and(|(gres, _)| config.policy.gres.0.iter().any(|name| name == gres))
        };
        if columns.flat_map(|column| column.split(',')).any(is_typed) {
            found.governed.push(name.to_owned());
        }
        if !preempts.is_empty() {
            found.preempting.push(name.to_owned());
        }
        priorities.push(priority);
    }
    priorities.dedup();
    found.priorities = priorities.len() > 1;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_with_its_gres_and_partitions() {
        let read = |text: &str| node(&format!("NodeName=n1 Gres={text} NodeAddr=x Partitions=p,q")).unwrap();
        assert_eq!(read("(null)").gres, []);
        assert_eq!(read("gpu:a40:4(S:0,1),mps:1K").gres.len(), 2);
        assert_eq!((read("x").partitions, read("x").version), (words("p,q"), String::new()));
        assert_eq!(read("x Version=24.11.5").version, "24.11.5");
    }

    #[test]
    fn a_partition_is_read_with_what_it_bills() {
        let read =
            |text: &str| partition(&format!("PartitionName=p AllowGroups=ALL {text}")).unwrap().billing;
        assert_eq!(read("TRESBillingWeights=CPU=1.0,GRES/gpu:a40=2"), ["CPU=1.0", "GRES/gpu:a40=2"]);
        assert_eq!(read("TRESBillingWeights=(null)"), [""; 0]);
        assert_eq!(read(""), [""; 0]);
    }

    #[test]
    fn a_partition_is_read_with_the_qoses_that_it_names() {
        for (text, expected) in [
            ("AllowQos=ALL QoS=N/A", vec![]),
            ("AllowQos=course,free QoS=n", vec!["course", "free", "n"]),
            ("DenyQos=course QoS=(null)", vec!["course"]),
        ] {
            assert_eq!(partition(&format!("PartitionName=p {text}")).unwrap().qoses, expected, "{text}");
        }
    }
}
