//! gpushare.conf: the administrator's rules for both sides. Reads the whole file or nothing.
//!
//! `Key=Value` lines as in slurm.conf: `#` starts a comment, keys and fixed words ignore case, names and paths don't; a
//! line that begins with `QOS=`, `PartitionName=` or `NodeName=` is a record of several settings. An unknown key, a
//! value that isn't allowed or a key given twice is an error that names the line, the key and the allowed values, so
//! half a policy is never used. The caller decides which file to read ([`find`]). The keys are in `keys` and
//! `node_keys`, those of a QOS in [`qos`].

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::submit::policy::Policy;
use qos::value::decimal;

pub mod gpu_files;
mod keys;
pub mod last_good;
mod memory;
mod node;
mod node_keys;
mod nodes;
mod partitions;
pub mod qos;
mod units;
mod values;

pub use gpu_files::GpuFiles;
pub use keys::Guard;
pub use node::{
    ComputeMode, ForeignProcesses, FrameworkEnv, Mps, NodeConfig, Nvml, OnCollision, OnMpsFailure,
    Overcommit, Packing, Placement, UserMix, VisibleDevices,
};
pub use nodes::NodeRecord;
pub use qos::{ManagedQos, Members, SaidTwice};
pub use units::{UnitsPerGpu, units_written};

/// No real file is longer; a daemon must not read without a limit.
const LONGEST: u64 = 1 << 20;

/// The ledger's folder on a node.
pub const RUN_DIR: &str = "/run/gpushare";

/// The whole of gpushare.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The rules of submission.
    pub policy: Policy,
    /// The settings of nodes without a `NodeName=` line.
    pub node: NodeConfig,
    /// Nodes with their own settings, in the order of the lines.
    pub nodes: Vec<NodeRecord>,
    /// The QOSes that the file defines, in the order of their lines.
    pub qoses: Vec<ManagedQos>,
    /// `GpuWeight`: how much a GPU of each type counts for fair-share.
    pub gpu_weights: Vec<GpuWeight>,
    /// `RefusalCounts`: the file in which slurmctld's plugin counts its messages.
    pub refusal_counts: Option<PathBuf>,
    /// `Guard`
    pub guard: Guard,
}

/// How much a GPU of one type counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuWeight {
    /// The type.
    pub gres_type: String,
    /// The weight, in millionths.
    pub millionths: u64,
}

impl fmt::Display for GpuWeight {
    /// As in `TRESBillingWeights`.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "GRES/gpu:{}={}", self.gres_type, decimal(self.millionths))
    }
}

/// Why a text isn't a valid configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Counted from 1; `None` if no single line is wrong.
    pub line: Option<usize>,
    /// What is wrong and what is allowed.
    pub problem: Problem,
}

crate::errors! {
    /// What is wrong with a line, or with the whole file.
    #[derive(Debug, PartialEq, Eq)]
    pub enum Problem {
        NoValue(line: String) => "'{}' is not of the form Key=Value", line.escape_debug();
        /// The key doesn't exist; the keys that do.
        UnknownKey(name: String, keys: Vec<&'static str>) =>
            "unknown key '{}' here; {}gpushare.conf(5) lists the keys", name.escape_debug(), meant(name, keys);
        BadValue { key: &'static str, value: String, allowed: &'static str } =>
            "{key} can't be '{}'; allowed is {allowed}", value.escape_debug();
        /// `first` is the line that has it first; `None` for the same line.
        Twice { key: &'static str, first: Option<usize> } => "{key} is given twice{}",
            first.map(|first| format!(", first in line {first}")).unwrap_or_default();
        /// The value of one key requires another key.
        Missing { key: &'static str, because: &'static str } => "{because} needs {key}";
        /// One setting doesn't work with another.
        Against { setting: &'static str, needs: &'static str } => "{setting} needs {needs}";
        /// One limit is set in two ways.
        SaidTwice(what: SaidTwice) => "{what}";
        SameQos(qos: String, first: usize) => "the owner or limits of QOS '{qos}' are already in line {first}";
        NotText => "bytes that are not UTF-8";
        /// A disk was full, or an editor is still writing.
        Empty => "the file is empty; for the defaults, leave a comment in it";
    }
}

crate::errors! {
    /// Why a file isn't a valid configuration.
    #[derive(Debug)]
    pub enum LoadError {
        Read(path: PathBuf, error: io::Error) => "{}: {error}", path.display();
        TooLong(path: PathBuf) => "{}: longer than {LONGEST} bytes", path.display();
        /// The name of this node is unknown.
        Nameless(path: PathBuf) =>
            "{}: it has NodeName= lines, but SLURMD_NODENAME doesn't say which node this is", path.display();
        /// The file was named explicitly.
        Missing(path: PathBuf) => "{}: there is no such file", path.display();
        Content(path: PathBuf, error: ConfigError) => "{}: {error}", path.display();
    }
}

/// Where the configuration is if it isn't in slurm.conf's folder: a configless slurmd keeps its slurm.conf in a folder
/// that it makes itself, and fetches no other files.
pub const FALLBACK: &str = "/etc/slurm/gpushare.conf";

/// The configuration's path: in the folder of the running slurm.conf if anything has that name there, otherwise
/// `fallback`.
pub fn find(slurm_conf: &Path, fallback: &Path) -> PathBuf {
    let beside = slurm_conf.with_file_name("gpushare.conf");
    if beside.symlink_metadata().is_ok() { beside } else { fallback.to_owned() }
}

impl Config {
    /// Reads the file; `None` if it doesn't exist. A dangling link is an error, not "doesn't exist".
    ///
    /// # Errors
    /// The file can't be read, or has a mistake.
    pub fn load(path: &Path) -> Result<Option<Config>, LoadError> {
        Ok(Config::load_with_text(path)?.map(|(config, _)| config))
    }

    /// Reads a file that must exist.
    ///
    /// # Errors
    /// As for [`Config::load`]; or the file doesn't exist.
    pub fn load_named(path: &Path) -> Result<Config, LoadError> {
        Config::load(path)?.ok_or_else(|| LoadError::Missing(path.to_owned()))
    }

    /// Reads the file. Also returns its text.
    ///
    /// # Errors
    /// As for [`Config::load`].
    pub fn load_with_text(path: &Path) -> Result<Option<(Config, String)>, LoadError> {
        load_with(path, Some(keys::take_record))
    }

    /// Reads the file on a node, where a job waits for it. Skips records `QOS=` and `PartitionName=`, which nodes don't
    /// need, so that a mistake in one fails no job. `node` is Slurm's name for this node.
    ///
    /// # Errors
    /// As for [`Config::load`]; or the file has lines for single nodes, and `node` is unknown.
    pub fn load_on_node(path: &Path, node: Option<&str>) -> Result<Option<NodeConfig>, LoadError> {
        match (load_with(path, None)?.map(|(config, _)| config), node) {
            (None, _) => Ok(None),
            (Some(config), None) if !config.nodes.is_empty() => Err(LoadError::Nameless(path.to_owned())),
            (Some(config), node) => Ok(Some(config.of_node(node.unwrap_or_default()).clone())),
        }
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

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(text, Some(keys::take_record))
    }

    fn parse_with(text: &str, records: Option<keys::TakeRecord>) -> Result<Config, ConfigError> {
        let mut draft = keys::Draft::new(records);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                draft.take(number, line).map_err(|problem| ConfigError { line: Some(number), problem })?;
            }
        }
        draft.finish()
    }
}

fn load_with(path: &Path, records: Option<keys::TakeRecord>) -> Result<Option<(Config, String)>, LoadError> {
    if let Err(error) = path.symlink_metadata()
        && error.kind() == io::ErrorKind::NotFound
    {
        return Ok(None);
    }
    let unreadable = |error| LoadError::Read(path.to_owned(), error);
    let mut bytes = Vec::with_capacity(4096);
    // Opening a pipe would make a daemon wait for its other end.
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        return Err(LoadError::TooLong(path.to_owned()));
    }
    let wrong = |error| LoadError::Content(path.to_owned(), error);
    if bytes.is_empty() {
        return Err(wrong(ConfigError { line: None, problem: Problem::Empty }));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(ConfigError { line: Some(line), problem: Problem::NotText })
    })?;
    Config::parse_with(&text, records).map(|config| Some((config, text))).map_err(wrong)
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.problem),
            None => self.problem.fmt(out),
        }
    }
}

/// Whether the words differ by a typing error in one place, of at most two letters.
fn is_nearly(word: &str, key: &str) -> bool {
    let (word, key) = (word.to_ascii_lowercase(), key.to_ascii_lowercase());
    let (longer, shorter) = if word.len() < key.len() { (key, word) } else { (word, key) };
    let start = longer.bytes().zip(shorter.bytes()).take_while(|(a, b)| a == b).count();
    let ends = longer.bytes().rev().zip(shorter.bytes().rev()).take(shorter.len() - start);
    longer.len() - start - ends.take_while(|(a, b)| a == b).count() <= 2
}

/// The key that an unknown one resembles.
fn meant(name: &str, keys: &[&str]) -> String {
    let found = keys.iter().find(|key| is_nearly(name, key));
    found.map(|key| format!("did you mean {key}? ")).unwrap_or_default()
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
