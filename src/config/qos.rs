//! A record `QOS=NAME Key=Value…` of gpushare.conf: how gpushare treats jobs under a QOS, and the QOS's settings in the
//! accounting database, on one line.
//!
//! A line has three kinds of keys: rules of submission (`RULES`), the QOS's owner and GPUs (`OWNERS`), and every
//! [`field`] of a QOS by its current name and its name of 2009. A QOS with a key of the last two kinds is a
//! [`ManagedQos`]: `gpushare qos` makes the database match it. Such a line names one QOS; rules may name several, with
//! `*` for any characters. A line with only a name is a QOS that exists and has no limits.

use std::collections::BTreeMap;
use std::fmt;

use super::Problem;
use super::values::{Key, number, word};
use crate::submit::policy::{Mode, QosRecord, Throttle};
use crate::text::gres::is_gpu_type;
use crate::text::pattern::Patterns;
use crate::text::time;
use crate::text::words;
use crate::word::Word;

pub mod field;
pub(super) mod per_gpu;
pub mod value;

#[cfg(test)]
use field::{FIELDS, OLD_NAMES};
use field::{Field, OldName};
use per_gpu::{CPUS_PER_GPU, MEM_PER_GPU, per_gpu};
use value::{Settings, Value, is_name, quantity, written};

/// The key that begins such a line.
pub(super) const KEY: &str = "QOS";

/// A QOS that gpushare.conf defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedQos {
    /// Its line in gpushare.conf, counted from 1.
    pub line: usize,
    /// Its name, in lowercase as in Slurm's database.
    pub name: String,
    /// Who may use it.
    pub members: Members,
    /// Types and numbers of the group's GPUs, which `settings` also contains.
    pub gpus: Vec<(String, u64)>,
    /// All of the QOS's settings.
    pub settings: Settings,
    /// Whether its jobs may have no GPU of a type that it doesn't limit (`ForeignTypes`, `GovernedQOS`, `Mode`).
    pub keeps_to_its_types: bool,
    /// The names of 2009 that the line uses.
    pub old_names: Vec<&'static OldName>,
}

/// Which users may use a QOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Members {
    /// The line names none.
    #[default]
    Unsaid,
    /// All users.
    All,
    /// All users of these accounts.
    Accounts(Vec<String>),
    /// Some users of an account.
    Users(String, Vec<String>),
}

/// A TRES limit that a line sets in two ways.
#[derive(Debug, PartialEq, Eq)]
pub struct SaidTwice {
    /// The field.
    pub field: &'static str,
    /// The TRES.
    pub tres: String,
}

impl fmt::Display for SaidTwice {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} of {} is given twice", self.field, self.tres)
    }
}

impl fmt::Display for OldName {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let OldName { name, field, tres } = self;
        write!(out, "{name} is now written {field}={tres}")
    }
}

impl ManagedQos {
    /// The value of a field.
    pub fn setting(&self, field: &Field) -> Option<&Value> {
        self.settings.get(field.name)
    }
}

impl Members {
    /// The named accounts.
    pub fn accounts(&self) -> impl Iterator<Item = &str> {
        let (several, one): (&[String], _) = match self {
            Members::Accounts(names) => (names, None),
            Members::Users(account, _) => (&[], Some(account)),
            Members::Unsaid | Members::All => (&[], None),
        };
        several.iter().chain(one).map(String::as_str)
    }
}

/// How gpushare treats jobs under the QOS.
const RULES: [Key<Draft>; 9] = [
    Key {
        name: KEY,
        allowed: "names of QOSes separated by commas, in which * stands for any characters",
        take: |draft, value| Patterns::parse(value).map(|names| draft.rules.names = names),
    },
    Key {
        name: "Mode",
        allowed: Mode::ALLOWED,
        take: |draft, value| Mode::read(value).map(|mode| draft.rules.mode = Some(mode)),
    },
    Key {
        name: "DefaultType",
        allowed: "the name of a GPU type",
        take: |draft, value| {
            draft.rules.default_type = Some(value.to_owned());
            is_gpu_type(value).then_some(())
        },
    },
    Key {
        name: "Requeue",
        allowed: bool::ALLOWED,
        take: |draft, value| bool::read(value).map(|yes| draft.rules.requeue = Some(yes)),
    },
    Key {
        name: "OpenMode",
        allowed: "append or truncate",
        take: |draft, value| {
            word(value, &[("append", true), ("truncate", false)])
                .map(|append| draft.rules.append = Some(append))
        },
    },
    Key {
        name: "ArrayTasks",
        allowed: "a whole number from 1 to 1000000",
        take: |draft, value| number(value, 1, 1_000_000).map(|tasks| draft.tasks = Some(tasks)),
    },
    Key {
        name: "ArrayTasksOver",
        allowed: "minutes, hours:minutes:seconds or days-hours:minutes:seconds",
        take: |draft, value| time::minutes(value).map(|minutes| draft.over_minutes = Some(minutes)),
    },
    Key {
        name: "MaxCPUsPerGpu",
        allowed: CPUS_PER_GPU,
        take: |draft, value| per_gpu(value, "cpu").map(|cap| draft.rules.caps.cpus = Some(cap)),
    },
    Key {
        name: "MaxMemPerGpu",
        allowed: MEM_PER_GPU,
        take: |draft, value| per_gpu(value, "mem").map(|cap| draft.rules.caps.mem = Some(cap)),
    },
];

/// The QOS's owner, and how much the owner has.
const OWNERS: [Key<Draft>; 5] = [
    Key {
        name: "Account",
        allowed: "* or names of accounts separated by commas",
        take: |draft, value| {
            draft.accounts = if value == "*" { vec!["*".to_owned()] } else { lower(list(value)?) };
            Some(())
        },
    },
    Key {
        name: "Users",
        allowed: "names of users separated by commas",
        take: |draft, value| list(value).map(|users| draft.users = users),
    },
    Key {
        name: "GPUs",
        allowed: "TYPE:NUMBER, such as a40:4, separated by commas",
        take: |draft, value| {
            draft.gpus = gpus(value)?;
            for (gres_type, number) in draft.gpus.clone() {
                draft.limit("GrpTRES", format!("gres/gpu:{gres_type}"), number);
            }
            // Limits the sum too, so that requests without a type get no more, even if the plugin is not loaded.
            let sum = draft.gpus.iter().map(|(_, number)| number).sum();
            draft.limit("GrpTRES", "gres/gpu".to_owned(), sum);
            Some(())
        },
    },
    Key {
        name: "CPUs",
        allowed: "a whole number",
        take: |draft, value| {
            quantity("cpu", value).map(|number| draft.limit("GrpTRES", "cpu".to_owned(), number))
        },
    },
    Key {
        name: "Mem",
        allowed: "memory such as 975G; MiB without a unit",
        take: |draft, value| {
            quantity("mem", value).map(|number| draft.limit("GrpTRES", "mem".to_owned(), number))
        },
    },
];

const ONE_NAME: &str = "the name of one QOS, if the line has its owner or limits: letters, digits, '_', '.', '-' and \
                        '@', starting with a letter, a digit or '_'";

/// The keys, as an error lists them.
fn own_names() -> Vec<&'static str> {
    let own = RULES.iter().chain(&OWNERS).map(|key| key.name);
    own.chain(["and a QOS's limits and other settings by sacctmgr's names"]).collect()
}

/// Every key of such a line; those of 2009 come last.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    let own = RULES.iter().chain(&OWNERS).map(|key| key.name);
    let fields = FIELDS.iter().map(|field| field.name);
    own.chain(fields).chain(OLD_NAMES.iter().map(|old| old.name)).collect()
}

#[derive(Default)]
struct Draft {
    rules: QosRecord,
    tasks: Option<u32>,
    over_minutes: Option<u32>,
    accounts: Vec<String>,
    users: Vec<String>,
    gpus: Vec<(String, u64)>,
    settings: Settings,
    old_names: Vec<&'static OldName>,
    twice: Option<SaidTwice>,
    /// Whether the line has a key that the database stores.
    is_managed: bool,
}

/// Parses a line; `line` is its number.
///
/// # Errors
/// A word that is not `Key=Value`, a key that is unknown or given twice, or a value that isn't allowed; a limit that is
/// given in two ways; or settings that don't go together.
pub(super) fn parse(line: usize, text: &str) -> Result<(Option<QosRecord>, Option<ManagedQos>), Problem> {
    let mut draft = Draft::default();
    let mut seen: Vec<&'static str> = Vec::new();
    for word in words(text) {
        let (name, value) = word.split_once('=').ok_or_else(|| Problem::NoValue(word.to_owned()))?;
        let key = draft.take(name, value)?;
        if seen.contains(&key) {
            return Err(Problem::Twice { key, first: None });
        }
        if let Some(twice) = draft.twice.take() {
            return Err(Problem::SaidTwice(twice));
        }
        seen.push(key);
    }
    draft.finish(line)
}

impl Draft {
    /// Returns the key's own name.
    fn take(&mut self, name: &str, text: &str) -> Result<&'static str, Problem> {
        let bad = |key, allowed| Problem::BadValue { key, value: text.to_owned(), allowed };
        if let Some(key) = Key::named(&RULES, name) {
            return key.take(self, text).map(|()| key.name);
        }
        self.is_managed = true;
        if let Some(key) = Key::named(&OWNERS, name) {
            return key.take(self, text).map(|()| key.name);
        }
        if let Some(field) = Field::named(name) {
            match written(field, text).map_err(|_| bad(field.name, value::allowed(field.kind)))? {
                Some(Value::Tres(limits)) => {
                    limits.into_iter().for_each(|(tres, number)| self.limit(field.name, tres, number));
                }
                Some(value) => {
                    self.settings.insert(field.name, value);
                }
                None => {}
            }
            return Ok(field.name);
        }
        let old = OldName::named(name).ok_or_else(|| Problem::UnknownKey(name.to_owned(), own_names()))?;
        let allowed = if old.tres == "mem" { "memory; MiB without a unit" } else { "a whole number" };
        let number = quantity(old.tres, text).ok_or_else(|| bad(old.name, allowed))?;
        self.limit(old.field, old.tres.to_owned(), number);
        self.old_names.push(old);
        Ok(old.name)
    }

    fn limit(&mut self, field: &'static str, tres: String, number: u64) {
        let place = self.settings.entry(field).or_insert_with(|| Value::Tres(BTreeMap::new()));
        let Value::Tres(limits) = place else { return };
        // A type may be in uppercase, and is then the same type.
        if limits.keys().any(|known| known.eq_ignore_ascii_case(&tres)) {
            self.twice.get_or_insert(SaidTwice { field, tres });
            return;
        }
        limits.insert(tres, number);
    }

    fn finish(mut self, line: usize) -> Result<(Option<QosRecord>, Option<ManagedQos>), Problem> {
        self.rules.throttle = match (self.tasks, self.over_minutes) {
            (Some(tasks), over) => Some(Throttle { tasks, over_minutes: over.unwrap_or(0) }),
            (None, None) => None,
            (None, Some(_)) => return Err(Problem::Missing { key: "ArrayTasks", because: "ArrayTasksOver" }),
        };
        let no_rules = QosRecord { names: self.rules.names.clone(), ..QosRecord::default() };
        let rules = Some(self.rules).filter(|rules| *rules != no_rules);
        let name = no_rules.names.iter().collect::<Vec<&str>>().join(",");
        if !self.is_managed && (rules.is_some() || !is_name(&name)) {
            return Ok((rules, None));
        }
        if !is_name(&name) {
            return Err(Problem::BadValue { key: KEY, value: name, allowed: ONE_NAME });
        }
        let members = match (self.accounts.as_slice(), self.users.is_empty()) {
            ([], true) => Members::Unsaid,
            ([all], true) if all == "*" => Members::All,
            (_, true) => Members::Accounts(self.accounts),
            ([one], false) if one != "*" => Members::Users(one.clone(), self.users),
            (_, false) => return Err(Problem::Against { setting: "Users", needs: "one Account" }),
        };
        let managed = ManagedQos {
            line,
            name: name.to_ascii_lowercase(),
            members,
            gpus: self.gpus,
            settings: self.settings,
            // The other lines of the file decide this.
            keeps_to_its_types: false,
            old_names: self.old_names,
        };
        Ok((rules, Some(managed)))
    }
}

/// Distinct names.
fn list(text: &str) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for name in text.split(',') {
        if !is_name(name) || names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return None;
        }
        names.push(name.to_owned());
    }
    Some(names)
}

/// Spells names of accounts as Slurm does.
fn lower(names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// Parses `a40:4,h100:2`.
fn gpus(text: &str) -> Option<Vec<(String, u64)>> {
    let one = |part: &str| {
        let (gres_type, number) = part.split_once(':')?;
        let number: u64 = number.parse().ok().filter(|number| (1..=1_000_000).contains(number))?;
        is_gpu_type(gres_type).then(|| (gres_type.to_owned(), number))
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests;
