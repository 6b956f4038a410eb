//! The whole of gpushare.conf, as the command needs it: the rules of submission, the settings of nodes, and those of
//! the database. Each daemon and program reads only its own part of the file, so it is here that every mistake is
//! found.

use std::path::{Path, PathBuf};

use gpushare::config::{ConfigError, LoadError, load, read, rules};
use gpushare::submit::policy::Policy;
use gpushare_node::config::{self as node, NodeConfig, NodeRecord, Nodes, Placement};
use gpushare_qos::config::{self as database, Database, GpuWeight, Guard, ManagedQos};

/// The whole of gpushare.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The rules of submission.
    pub policy: Policy,
    /// `RefusalCounts`: the file in which slurmctld's plugin counts its messages.
    pub refusal_counts: Option<PathBuf>,
    /// The settings of nodes without a `NodeName=` line.
    pub node: NodeConfig,
    /// Nodes with their own settings, in the order of the lines.
    pub nodes: Vec<NodeRecord>,
    /// The QOSes that the file defines, in the order of their lines.
    pub qoses: Vec<ManagedQos>,
    /// `GpuWeight`: how much a GPU of each type counts for fair-share.
    pub gpu_weights: Vec<GpuWeight>,
    /// `Guard`
    pub guard: Guard,
}

impl Config {
    /// Reads the file; `None` if it doesn't exist. A dangling link is an error, not "doesn't exist".
    ///
    /// # Errors
    /// The file can't be read, or has a mistake.
    pub fn load(path: &Path) -> Result<Option<Config>, LoadError> {
        Ok(load(path, Config::parse)?.map(|(config, _)| config))
    }

    /// Reads a file that must exist.
    ///
    /// # Errors
    /// As for [`Config::load`]; or the file doesn't exist.
    pub fn load_named(path: &Path) -> Result<Config, LoadError> {
        Config::load(path)?.ok_or_else(|| LoadError::Missing(path.to_owned()))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let mut rules = rules::Draft::default();
        let mut nodes = node::Draft::default();
        let mut database = database::Draft::default();
        read(text, &mut [&mut rules, &mut nodes, &mut database])?;
        let Nodes { all, lines } = nodes.finish()?;
        let rules::Rules { policy, refusal_counts } = rules.finish()?;
        let Database { qoses, gpu_weights, guard } = database.finish(&policy);
        Ok(Config { policy, refusal_counts, node: all, nodes: lines, qoses, gpu_weights, guard })
    }

    /// The settings of a node: those of the first line that names it, otherwise those for all.
    pub fn of_node(&self, name: &str) -> &NodeConfig {
        let own = self.nodes.iter().find(|record| record.names(name));
        own.map_or(&self.node, |record| &record.config)
    }

    /// Whether gpushare places shares on any node.
    pub fn places_anywhere(&self) -> bool {
        self.every_node().any(|node| node.placement != Placement::Off)
    }

    /// The settings for all nodes, and those of each `NodeName=` line.
    pub fn every_node(&self) -> impl Iterator<Item = &NodeConfig> {
        self.nodes.iter().map(|record| &record.config).chain([&self.node])
    }
}

#[cfg(test)]
mod tests;
