//! What Slurm's database has, as sacctmgr prints it, and sacctmgr's arguments for that.

use std::collections::BTreeMap;

use gpushare_slurm_text::own;

use super::tree::Tree;
use super::{BURST, MARK, ReadError, lines};
use crate::config::field::FIELDS;
use crate::config::value::{Settings, printed};

/// A QOS of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Its description; one that begins with [`super::MARK`] belongs to a gpushare.conf.
    pub description: String,
    /// All of its settings.
    pub settings: Settings,
}

/// The current content of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// The QOSes by name.
    pub qoses: BTreeMap<String, Qos>,
    /// Which users may use which QOS.
    pub tree: Tree,
}

impl Qos {
    /// The cluster whose gpushare.conf has made it or taken it over, in lowercase as in Slurm's descriptions.
    pub fn owner(&self) -> Option<String> {
        let first = self.description.split_whitespace().next()?.to_ascii_lowercase();
        first.strip_prefix(MARK).map(str::to_owned)
    }

    /// Whether it was made for what a group borrows: so says the word after its owner.
    pub fn is_burst(&self) -> bool {
        self.description.split_whitespace().nth(1) == Some(BURST)
    }

    /// Whether it belongs to this cluster's file.
    pub fn is_of(&self, cluster: &str) -> bool {
        self.owner().is_some_and(|owner| owner.eq_ignore_ascii_case(cluster))
    }
}

/// sacctmgr's arguments for [`qoses`].
pub fn ask_qoses() -> Vec<String> {
    own::qoses(FIELDS.iter().map(|field| field.column))
}

/// Reads the QOSes.
///
/// # Errors
/// A value can't be read: a plan must not be based on incomplete data.
pub fn qoses(text: &str) -> Result<BTreeMap<String, Qos>, ReadError> {
    lines(text).map(qos).collect()
}

fn qos(line: &str) -> Result<(String, Qos), ReadError> {
    let short = || ReadError::Short(line.to_owned());
    let (name, columns, description) = own::qos(line, FIELDS.len()).ok_or_else(short)?;
    let mut settings = Settings::new();
    for (field, text) in FIELDS.iter().zip(columns) {
        let value = printed(field, text).map_err(|_| ReadError::Value {
            qos: name.to_owned(),
            field: field.name,
            text: text.to_owned(),
        })?;
        if let Some(value) = value {
            settings.insert(field.name, value);
        }
    }
    Ok((name.to_owned(), Qos { description: description.to_owned(), settings }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::text;

    /// The output of the three releases, with everything set.
    const FULL: &str = "qa|billing=7,cpu=32,gres/gpu:a40=4,gres/gpu=4,mem=975G,node=2|cpu=100,mem=1T|cpu=200|5|6|7|1-00:00:00|\
                        cpu=8,mem=10G|cpu=9|cpu=1000|02:00:00|cpu=10|11|12|13|cpu=16|cpu=14|17|18|19|cpu=15|cpu=1|20|1000|\
                        normal,qb|within,requeue|01:00:00|01:00:00|DenyOnLimit,Relative|0.500000|0.250000|1.500000|gpushare x|y\n";

    #[test]
    fn every_column_is_read() {
        let all = qoses(FULL).unwrap();
        let qos = all.get("qa").unwrap();
        assert_eq!(qos.settings.len(), FIELDS.len(), "{qos:?}");
        assert_eq!(qos.description, "gpushare x|y");
        let shown = |name| text(qos.settings.get(name).unwrap());
        assert_eq!(shown("GrpTRES"), "billing=7,cpu=32,gres/gpu=4,gres/gpu:a40=4,mem=975G,node=2");
        assert_eq!(shown("GrpTRESMins"), "cpu=100,mem=1024G");
        assert_eq!(text(qos.settings.get("LimitFactor").unwrap()), "1.5");
        assert_eq!(text(qos.settings.get("GraceTime").unwrap()), "01:00:00");
    }

    #[test]
    fn a_bare_qos_has_nothing_set() {
        let line = format!("normal|{}0||cluster||00:00:00||1.000000|||Normal QOS default\n", "|".repeat(23));
        let all = qoses(&line).unwrap();
        assert!(all.get("normal").unwrap().settings.is_empty(), "{all:?}");
    }

    #[test]
    fn what_cannot_be_read_is_not_guessed() {
        assert_eq!(qoses("qa|cpu=4\n").unwrap_err().to_string(), "sacctmgr's line 'qa|cpu=4' is too short");
        let error = qoses(&FULL.replace("mem=975G", "mem=975Q")).unwrap_err().to_string();
        assert!(error.starts_with("sacctmgr shows GrpTRES 'billing=7,cpu=32,"), "{error}");
        assert!(error.ends_with("for QOS 'qa', which can't be read"), "{error}");
    }

    #[test]
    fn every_column_is_asked_for() {
        let format = ask_qoses().pop().unwrap();
        assert_eq!(format.split(',').count(), FIELDS.len() + 2);
    }
}
