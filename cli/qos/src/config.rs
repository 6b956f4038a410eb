//! What gpushare.conf says about the accounting database, and about what only the command `gpushare` does: records
//! `QOS=`, `GpuWeight` and `Guard`. slurmctld's plugin and nodes read none of it.

use std::collections::BTreeMap;
use std::fmt;

use gpushare::config::names::Record;
use gpushare::config::values::{Key, is_gpu_type, keys};
use gpushare::config::{ConfigError, Problem, Section, read, rules};
use gpushare::submit::{policy::Policy, whole_nodes::keeps_to_its_types};
use gpushare::word::{Word, words};

pub mod field;
pub mod lending;
mod record;
pub mod value;

pub use record::{Burst, ManagedQos, Members};
use value::{decimal, factor};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// The QOSes that the file defines, in the order of their lines.
    pub qoses: Vec<ManagedQos>,
    /// `GpuWeight`: how much a GPU of each type counts for fair-share.
    pub gpu_weights: Vec<GpuWeight>,
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

words! {
    /// What `gpushare guard --act` does about running jobs beyond a limit.
    pub enum Guard: "report, requeuehold or cancel" {
        /// It only says so.
        #[default]
        Report = "report",
        /// It requeues them and holds them.
        RequeueHold = "requeuehold",
        /// It cancels them.
        Cancel = "cancel",
    }
}

impl Database {
    /// Reads a text, and the rules in it: they decide which QOSes keep to their types.
    ///
    /// # Errors
    /// The first mistake in either.
    pub fn parse(text: &str) -> Result<Database, ConfigError> {
        let (mut rules, mut own) = (rules::Draft::default(), Draft::default());
        read(text, &mut [&mut rules, &mut own])?;
        Ok(own.finish(&rules.finish()?.policy))
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
pub struct Draft {
    database: Database,
    line: record::Draft,
    /// Line numbers by QOS.
    lines: BTreeMap<String, usize>,
}

const KEYS: &[Key<Database>] = keys! {
    "GpuWeight": "TYPE:NUMBER, such as a40:1,h100:4.5, separated by commas, each type once"
        => gpu_weights = gpu_weights;
    "Guard": Guard::ALLOWED => guard = Guard::read;
};

impl Section for Draft {
    fn take(&mut self, record: Option<Record>, key: &'static str, value: &str) -> Result<(), Problem> {
        if record.is_some() {
            return self.line.take(key, value);
        }
        Key::take_of(KEYS, &mut self.database, key, value)
    }

    fn reads(&self, record: Record) -> bool {
        record == Record::Qos
    }

    fn end(&mut self, _: Record, line: usize) -> Result<(), Problem> {
        if let Some(managed) = std::mem::take(&mut self.line).finish(line)? {
            let second = managed.burst.map(|_| lending::name(&managed.name));
            for name in [Some(managed.name.clone()), second].into_iter().flatten() {
                if let Some(first) = self.lines.insert(name.clone(), line) {
                    return Err(Problem::SameQos(name, first));
                }
            }
            self.database.qoses.push(managed);
        }
        Ok(())
    }
}

impl Draft {
    /// What all lines say, under the file's rules.
    pub fn finish(mut self, policy: &Policy) -> Database {
        self.database.qoses = lending::pairs(self.database.qoses);
        for qos in &mut self.database.qoses {
            qos.unruled = lending::unruled(qos, policy);
            qos.requeues = policy.of_qos(qos.name.as_bytes(), |record| record.requeue) == Some(true);
            qos.keeps_to_its_types = keeps_to_its_types(policy, qos.name.as_bytes());
        }
        self.database
    }
}

fn gpu_weights(value: &str) -> Option<Vec<GpuWeight>> {
    let mut weights: Vec<GpuWeight> = Vec::new();
    for part in value.split(',') {
        let (gres_type, number) = part.trim().split_once(':')?;
        let millionths = factor(number).filter(|millionths| *millionths <= 1_000_000 * 1_000_000)?;
        // A type may be in uppercase, and is then the same type.
        if !is_gpu_type(gres_type)
            || weights.iter().any(|known| known.gres_type.eq_ignore_ascii_case(gres_type))
        {
            return None;
        }
        weights.push(GpuWeight { gres_type: gres_type.to_owned(), millionths });
    }
    Some(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_of_one_type_and_at_most_a_million() {
        let read = |value| {
            let weights = gpu_weights(value)?;
            Some(weights.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
        };
        for (value, expected) in [
            ("a40:8, h100:7.5", Some("GRES/gpu:a40=8,GRES/gpu:h100=7.5")),
            ("a40:0", Some("GRES/gpu:a40=0")),
            ("a40:1000000", Some("GRES/gpu:a40=1000000")),
            ("a40:1000000.000001", None),
            ("a40:1000001", None),
            ("a40:1,A40:2", None),
            ("a 40:1", None),
            ("a40", None),
        ] {
            assert_eq!(read(value).as_deref(), expected, "{value}");
        }
    }
}
