//! The typed reader of what Slurm's commands print: jobs, nodes, partitions, QOSes and associations as types, each with
//! its one list of fields and the question that fetches it. It runs no command and checks nothing; how releases spell
//! things stays in here.
//!
//! Users choose texts that Slurm prints as they are, even with line breaks: a job's name, command, directory and
//! comment. So what identifies a job and counts for it comes from squeue, in columns without such text ([`job`]).
//! scontrol's records of jobs only add which devices a job has, and say so where a text could be forged ([`record`]).
#![forbid(unsafe_code)]

use std::collections::HashMap;

pub mod assoc_mgr;
pub mod gres;
pub mod job;
pub mod limits;
pub mod node;
pub mod own;
pub mod partition;
pub mod past;
pub mod placed;
pub mod queue;
pub mod record;
pub mod running;
pub mod sacct;
pub mod settings;
pub mod sreport;
pub mod tres;
pub mod version;

pub use gres::{Gres, Which};
pub use job::{Job, State};
pub use limits::{Association, Associations, Kind, Limits, Qos};
pub use node::Node;
pub use partition::{Partition, Reservation};
pub use record::{On, Record, Trust};
pub use settings::Settings;
pub use tres::Tres;

/// A program and its arguments.
pub type Question = (&'static str, &'static [&'static str]);

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
    /// slurmctld's settings.
    pub settings: Settings,
}

/// Text that may have been cut within a character.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The columns of a line of squeue, sacctmgr or sacct.
fn columns(line: &str) -> std::str::Split<'_, char> {
    line.split('|')
}

/// The value of `KEY=` in a text of words.
fn word<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// The same, if it has one.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    word(text, key).filter(|value| *value != "(null)")
}

/// The words of a list.
fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
