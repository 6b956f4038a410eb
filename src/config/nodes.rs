//! Settings of nodes: lines `NodeName=LIST Key=Value…`, whose settings replace those for all nodes, as in slurm.conf;
//! and what both slurmctld's plugin and the nodes need, which is who chooses a share's GPU and how many units fill it.

use super::names::Record;
use super::units::UnitsPerGpu;
use super::values::{Key, number};
use super::{ConfigError, Problem};
use crate::text::hostlist;
use crate::word::words;

words! {
    /// What chooses a share's GPU.
    pub enum Placement: "off, follow, own or override" {
        /// Slurm alone; gpushare doesn't touch the node's jobs.
        #[default]
        Off = "off",
        /// Slurm; gpushare records and verifies the GPU, and tells the job.
        Follow = "follow",
        /// gpushare, on a node whose GPUs Slurm doesn't know: the node has a count-only GRES, and no `gpu`.
        Own = "own",
        /// gpushare, which replaces the GPU that Slurm allocated.
        Override = "override",
    }
}

impl Placement {
    /// How many units the largest GPU has; `None` if gpushare places no shares.
    ///
    /// # Errors
    /// Shares are placed, and `UnitsPerGpu` is missing.
    pub fn largest_gpu(self, units: Option<&UnitsPerGpu>) -> Result<Option<u64>, Problem> {
        let because = match self {
            Placement::Off => return Ok(None),
            Placement::Follow => "Placement=follow",
            Placement::Own => "Placement=own",
            Placement::Override => "Placement=override",
        };
        let units = units.ok_or(Problem::Missing { key: "UnitsPerGpu", because })?;
        Ok(Some(u64::from(units.most())))
    }
}

/// The values of `MemPerUnit`.
pub const MEM_PER_UNIT: &str = "a whole number of MiB from 1 to 1000000";

/// Reads `MemPerUnit`.
pub fn mem_per_unit(value: &str) -> Option<u32> {
    number(value, 1, 1_000_000)
}

/// The lines of nodes with their own settings, as a reader of some keys sees them.
#[derive(Debug, Default)]
pub struct NodeLines<T: 'static>(Vec<Line<T>>);

/// A line as it was read, before the settings for all nodes are known.
#[derive(Debug)]
struct Line<T: 'static> {
    number: usize,
    names: String,
    changes: Vec<(&'static Key<T>, String)>,
}

impl<T: Clone + Default> NodeLines<T> {
    /// Takes a key of a line, if it is one of these.
    ///
    /// # Errors
    /// The value isn't allowed.
    pub fn take(&mut self, keys: &'static [Key<T>], name: &'static str, value: &str) -> Result<(), Problem> {
        if name == Record::Node.key() {
            if !hostlist::is_list(value) {
                let allowed = "names of nodes separated by commas, such as gpu[01-04],big1";
                return Err(Problem::BadValue { key: name, value: value.to_owned(), allowed });
            }
            self.0.push(Line { number: 0, names: value.to_owned(), changes: Vec::new() });
        } else if let (Some(key), Some(line)) = (Key::of(keys, name), self.0.last_mut()) {
            key.take(&mut T::default(), value)?;
            line.changes.push((key, value.to_owned()));
        }
        Ok(())
    }

    /// Notes the last line's number.
    pub fn end(&mut self, number: usize) {
        if let Some(line) = self.0.last_mut() {
            line.number = number;
        }
    }

    /// The nodes of each line, and its settings over those for all nodes.
    ///
    /// # Errors
    /// The settings of a line don't go together.
    pub fn over(
        self,
        all: &T,
        check: impl Fn(&T) -> Result<(), Problem>,
    ) -> Result<Vec<(String, T)>, ConfigError> {
        let settings = |line: &Line<T>| {
            let mut own = all.clone();
            line.changes.iter().try_for_each(|(key, value)| key.take(&mut own, value))?;
            check(&own).map(|()| own)
        };
        let of = |line: Line<T>| match settings(&line) {
            Ok(own) => Ok((line.names, own)),
            Err(problem) => Err(ConfigError { line: Some(line.number), problem }),
        };
        self.0.into_iter().map(of).collect()
    }
}
