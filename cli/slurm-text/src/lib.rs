//! The typed reader of what Slurm's commands print: jobs, nodes, partitions, QOSes and associations as types, each with
//! its one list of fields and the question that fetches it. It runs no command and judges nothing; how releases spell
//! things stays in here.
//!
//! Users choose texts that Slurm prints as they are, even with line breaks: a job's name, command, folder and comment.
//! So what identifies a job and counts for it comes from squeue, in columns without such text ([`job`]). scontrol's
//! records of jobs only add which devices a job has, and say so where a text could be forged ([`record`]).
#![forbid(unsafe_code)]

use std::collections::HashMap;

pub mod job;
pub mod limits;
pub mod node;
pub mod partition;
pub mod record;
pub mod tres;

pub use job::{Job, State};
pub use limits::{Association, Associations, Kind, Qos};
pub use node::Node;
pub use partition::Partition;
pub use record::{On, Record, Trust};
pub use tres::Tres;

/// A program and its arguments.
pub type Question = (&'static str, &'static [&'static str]);

/// The cluster's settings, for [`Settings::read`].
pub const SETTINGS: Question = ("scontrol", &["show", "config"]);

/// One moment of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// All jobs that slurmctld knows.
    pub jobs: Vec<Job>,
    /// Nodes by name.
    pub nodes: HashMap<String, Node>,
    /// Partitions by name.
    pub partitions: HashMap<String, Partition>,
    /// QOSes by name.
    pub qoses: HashMap<String, Qos>,
    /// The cluster's associations.
    pub associations: Associations,
    /// Some of slurmctld's settings.
    pub settings: Settings,
}

/// What guard needs of slurmctld's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `ClusterName`
    pub cluster: String,
    /// Whether `AccountingStorageEnforce` has `limits`: otherwise Slurm holds no job to any.
    pub enforces_limits: bool,
    /// The number of `SlurmUser`, who sees every job, as root does.
    pub slurm_user: Option<u32>,
}

impl Settings {
    /// Reads `scontrol show config`; `None` if it names no cluster.
    pub fn read(text: &str) -> Option<Settings> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
        };
        let enforced = value("AccountingStorageEnforce").unwrap_or_default().to_ascii_lowercase();
        // `safe` includes limits (slurm.conf(5)), and slurmctld prints both.
        let enforces_limits = enforced.split(',').any(|word| ["limits", "safe", "all"].contains(&word));
        let number = |user: &str| user.split_once('(')?.1.trim_end_matches(')').parse().ok();
        let slurm_user = value("SlurmUser").and_then(number);
        Some(Settings { cluster: value("ClusterName")?.to_owned(), enforces_limits, slurm_user })
    }
}

/// The value of `KEY=` in a line of words.
fn word<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_slurmctld() {
        let text = |enforce: &str| {
            format!(
                "Configuration
AccountingStorageEnforce = {enforce}
ClusterName             = lab
\
                 SlurmUser = slurm(64030)
"
            )
        };
        for (enforce, expected) in
            [("associations,limits,qos", true), ("associations,qos", false), ("none", false)]
        {
            let found = Settings::read(&text(enforce));
            assert_eq!(
                found,
                Some(Settings {
                    cluster: "lab".to_owned(),
                    enforces_limits: expected,
                    slurm_user: Some(64030)
                })
            );
        }
        assert_eq!(Settings::read("slurm_load_ctl_conf error: Unable to contact"), None);
    }
}
