//! Contributors' shares of the cluster: what gpushare.conf says of them, what Slurm's database has, and the changes that
//! make the second like the first.
//!
//! A line `Share=QOS …` ([`record`]) says all of a QOS: its fields ([`field`], [`value`]) and who may use it. What sacctmgr
//! prints becomes an [`Actual`]; [`check`] says which lines can't be had on this cluster, and [`plan`] gives the
//! [`Change`]s in order, each with sacctmgr's arguments. [`heard`] says what slurmctld has
//! missed of them. [`words`] has the users' table. Nothing here runs a program.

use std::fmt;

pub mod change;
pub mod check;
pub mod field;
pub mod foreign;
pub mod heard;
pub mod plan;
pub mod record;
pub mod state;
pub mod tree;
pub mod usage;
pub mod value;
pub mod words;

pub use change::Change;
pub use check::{Cluster, Finding};
pub use plan::{Leftover, Obstacle, Plan, plan};
pub use state::Actual;

use field::{Field, OldName};
use value::Settings;

/// What a QOS's description begins with if a gpushare.conf has it; then comes the cluster whose file that is. Only a QOS
/// with our own cluster's mark is ever removed: a database has the QOSes of all its clusters.
pub const MARK: &str = "gpushare@";

/// What the TRES of a type of GPU begins with.
const TYPE: &str = "gres/gpu:";

/// The account above all others.
pub const ROOT: &str = "root";

/// A contributor's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Of gpushare.conf, counted from 1.
    pub line: usize,
    /// The QOS's name, in small letters as Slurm keeps it.
    pub qos: String,
    /// Who may use it.
    pub members: Members,
    /// Types and numbers of the contributor's GPUs; they are in `settings` too.
    pub gpus: Vec<(String, u64)>,
    /// All that is set of the QOS.
    pub settings: Settings,
    /// Jobs under the QOS may have no GPU of a type that it doesn't limit (`ForeignTypes`, `GovernedQOS`, `Mode`).
    pub keeps_to_its_types: bool,
    /// The names of 2009 that the line uses.
    pub old_names: Vec<&'static OldName>,
}

/// Who may use a QOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Members {
    /// The line doesn't say.
    #[default]
    Unsaid,
    /// Everybody.
    All,
    /// All users of these accounts.
    Accounts(Vec<String>),
    /// Some users of an account.
    Users(String, Vec<String>),
}

/// A TRES limit that a line says in two ways.
#[derive(Debug, PartialEq, Eq)]
pub struct SaidTwice {
    /// The field.
    pub field: &'static str,
    /// The TRES.
    pub tres: String,
}

impl fmt::Display for SaidTwice {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} of {} is said twice", self.field, self.tres)
    }
}

impl fmt::Display for OldName {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let OldName { name, field, tres } = self;
        write!(out, "{name} is {field}={tres} today")
    }
}

impl Share {
    /// What is set of a field.
    #[must_use]
    pub fn setting(&self, field: &Field) -> Option<&value::Value> {
        self.settings.get(field.name)
    }
}

impl Members {
    /// The accounts that are named.
    pub fn accounts(&self) -> impl Iterator<Item = &str> {
        let (several, one): (&[String], _) = match self {
            Members::Accounts(names) => (names, None),
            Members::Users(account, _) => (&[], Some(account)),
            Members::Unsaid | Members::All => (&[], None),
        };
        several.iter().chain(one).map(String::as_str)
    }
}
