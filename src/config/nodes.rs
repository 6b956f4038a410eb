//! A line `NodeName=LIST Key=Value…`: settings of some nodes, which replace those for all nodes; written as in
//! slurm.conf.

use super::node_keys::{NODE_KEYS, NodeKey};
use super::{NodeConfig, Problem};
use crate::text::hostlist;

pub(super) const KEY: &str = "NodeName";

/// The settings of some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Their names, such as `gpu[01-04],big1`.
    pub names: String,
    /// All of their settings.
    pub config: NodeConfig,
}

impl NodeRecord {
    /// Whether a node is one of them.
    pub fn names(&self, node: &str) -> bool {
        hostlist::contains(&self.names, node) == Some(true)
    }
}

/// A line as it was read, before the settings for all nodes are known.
pub(super) struct Line {
    pub(super) number: usize,
    names: String,
    changes: Vec<(&'static NodeKey, String)>,
}

impl Line {
    /// Reads a line, which has its number.
    ///
    /// # Errors
    /// A word that is not `Key=Value`, a key that is unknown or given twice, or a value that isn't allowed.
    pub(super) fn parse(number: usize, line: &str) -> Result<Line, Problem> {
        let mut read = Line { number, names: String::new(), changes: Vec::new() };
        let mut scratch = NodeConfig::default();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| Problem::NoValue(word.to_owned()))?;
            if name.eq_ignore_ascii_case(KEY) {
                if !read.names.is_empty() {
                    return Err(Problem::Twice { key: KEY, first: None });
                }
                if !hostlist::is_list(value) {
                    let allowed = "names of nodes separated by commas, such as gpu[01-04],big1";
                    return Err(Problem::BadValue { key: KEY, value: value.to_owned(), allowed });
                }
                value.clone_into(&mut read.names);
                continue;
            }
            let known = || NODE_KEYS.iter().map(|key| key.name).collect();
            let key = NodeKey::named(&NODE_KEYS, name)
                .ok_or_else(|| Problem::UnknownKey(name.to_owned(), known()))?;
            if read.changes.iter().any(|(seen, _)| seen.name == key.name) {
                return Err(Problem::Twice { key: key.name, first: None });
            }
            key.take(&mut scratch, value)?;
            read.changes.push((key, value.to_owned()));
        }
        Ok(read)
    }

    /// These settings over those for all nodes.
    ///
    /// # Errors
    /// A setting lacks another that it needs, or can't be had with another.
    pub(super) fn over(self, all: &NodeConfig) -> Result<NodeRecord, Problem> {
        let mut config = all.clone();
        for (key, value) in &self.changes {
            key.take(&mut config, value)?;
        }
        config.is_sound()?;
        Ok(NodeRecord { names: self.names, config })
    }
}
