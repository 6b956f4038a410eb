//! A record `QOS=NAME Key=Value…` of gpushare.conf: the QOS's settings in the accounting database, on one line.
//!
//! A line has three kinds of keys: the QOS's owner, GPUs and loans (`OWNERS`, `QUOTA`), every [`field`](super::field)
//! of a QOS by its current name and its name of 2009, and rules of submission, which are slurmctld's plugin's. A QOS
//! with a key of the first two kinds is a [`ManagedQos`]: `gpushare qos` makes the database match it. Such a line names
//! one QOS; rules may name several, with `*` for any characters. A line with only a name is a QOS that exists and has
//! no limits.

use std::collections::BTreeMap;
use std::fmt;

use gpushare::config::Problem;
use gpushare::config::names::Record;
use gpushare::config::values::{Key, QOSES, is_gpu_type, keys};
use gpushare::text::pattern::Patterns;
use gpushare::text::quantity::{count, quantity};
use gpushare::text::time;

use super::field::{Field, OldName};
use super::value::{self, Settings, Value, is_name, written};

/// A QOS that gpushare.conf defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Whether the line has `Priority=0`, which is no setting.
    pub is_last: bool,
    /// Rules that hold for the group's QOS, but not for the one for what it borrows.
    pub unruled: Vec<&'static str>,
    /// Whether its batch jobs ask for a requeue (`Requeue=yes`).
    pub requeues: bool,
    /// The names of 2009 that the line uses.
    pub old_names: Vec<&'static OldName>,
    /// What the group may borrow.
    pub burst: Option<Burst>,
    /// The owner's QOS, if this is the one for what the group borrows.
    pub burst_of: Option<String>,
}

/// What a group may borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How many times its quota.
    pub times: u64,
    /// How long such a job may run, in seconds.
    pub time: Option<u64>,
    /// The time between SIGTERM and the end of a preempted job, in seconds.
    pub grace: u64,
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

/// The QOS's owner, and how much it may borrow.
const OWNERS: &[Key<Draft>] = keys! {
    "Account": "* or names of accounts separated by commas" => accounts = accounts;
    "Users": "names of users separated by commas" => users = list;
    "Burst": "how many times the line's quota, from 1x to 1000x" => burst = times;
    "BurstTime": "minutes, hours:minutes:seconds or days-hours:minutes:seconds" => burst_time = burst_time;
    "BurstGraceTime": "seconds, hours:minutes:seconds or days-hours:minutes:seconds, up to a day"
        => burst_grace = burst_grace;
};

/// How much the owner has.
const QUOTA: [Key<Draft>; 3] = [
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

/// The grace time without `BurstGraceTime`, in seconds.
const GRACE: u64 = 300;

const ONE_NAME: &str = "the name of one QOS, if the line has its owner or limits: letters, digits, '_', '.', '-' and \
                        '@', starting with a letter, a digit or '_'";

/// A line as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    names: Patterns,
    accounts: Vec<String>,
    users: Vec<String>,
    gpus: Vec<(String, u64)>,
    settings: Settings,
    old_names: Vec<&'static OldName>,
    burst: Option<u64>,
    burst_time: Option<u64>,
    burst_grace: Option<u64>,
    twice: Option<Problem>,
    is_last: bool,
    /// Whether the line has a key that the database stores.
    is_managed: bool,
    /// Whether it has others' keys.
    has_rules: bool,
}

impl Draft {
    /// Takes a key of the line.
    ///
    /// # Errors
    /// The value isn't allowed, or a limit is given in two ways.
    pub(super) fn take(&mut self, key: &'static str, text: &str) -> Result<(), Problem> {
        if key == Record::Qos.key() {
            let bad = || Problem::BadValue { key, value: text.to_owned(), allowed: QOSES };
            self.names = Patterns::parse(text).ok_or_else(bad)?;
        } else if let Some(owner) = Key::of(OWNERS, key).or(Key::of(&QUOTA, key)) {
            self.is_managed = true;
            owner.take(self, text)?;
        } else if let Some(field) = Field::named(key) {
            self.is_managed = true;
            let bad =
                |_| Problem::BadValue { key, value: text.to_owned(), allowed: value::allowed(field.kind) };
            match written(field, text).map_err(bad)? {
                Some(Value::Tres(limits)) => {
                    limits.into_iter().for_each(|(tres, number)| self.limit(field.name, tres, number));
                }
                Some(value) => {
                    self.settings.insert(field.name, value);
                }
                None => self.is_last |= field.name == "Priority",
            }
        } else if let Some(old) = OldName::named(key) {
            self.is_managed = true;
            let allowed = if old.tres == "mem" { "memory; MiB without a unit" } else { "a whole number" };
            let bad = || Problem::BadValue { key, value: text.to_owned(), allowed };
            self.limit(old.field, old.tres.to_owned(), quantity(old.tres, text).ok_or_else(bad)?);
            self.old_names.push(old);
        } else {
            self.has_rules = true;
        }
        self.twice.take().map_or(Ok(()), Err)
    }

    fn limit(&mut self, field: &'static str, tres: String, number: u64) {
        let place = self.settings.entry(field).or_insert_with(|| Value::Tres(BTreeMap::new()));
        let Value::Tres(limits) = place else { return };
        // A type may be in uppercase, and is then the same type.
        if limits.keys().any(|known| known.eq_ignore_ascii_case(&tres)) {
            self.twice.get_or_insert(Problem::SaidTwice { field, tres });
            return;
        }
        limits.insert(tres, number);
    }

    /// The QOS of the line with this number; `None` if the line has only rules.
    ///
    /// # Errors
    /// Settings that don't go together.
    pub(super) fn finish(self, line: usize) -> Result<Option<ManagedQos>, Problem> {
        let name = self.names.iter().collect::<Vec<&str>>().join(",");
        if !self.is_managed && (self.has_rules || !is_name(&name)) {
            return Ok(None);
        }
        if !is_name(&name) {
            return Err(Problem::BadValue { key: Record::Qos.key(), value: name, allowed: ONE_NAME });
        }
        let members = match (self.accounts.as_slice(), self.users.is_empty()) {
            ([], true) => Members::Unsaid,
            ([all], true) if all == "*" => Members::All,
            (_, true) => Members::Accounts(self.accounts),
            ([one], false) if one != "*" => Members::Users(one.clone(), self.users),
            (_, false) => return Err(Problem::Against { setting: "Users", needs: "one Account" }),
        };
        let burst = match (self.burst, self.burst_time, self.burst_grace) {
            (None, None, None) => None,
            (None, ..) => {
                return Err(Problem::Missing { key: "Burst", because: "BurstTime or BurstGraceTime" });
            }
            (Some(_), ..) if self.gpus.is_empty() || members == Members::Unsaid => {
                return Err(Problem::Against { setting: "Burst", needs: "Account and GPUs" });
            }
            (Some(times), time, grace) => Some(Burst { times, time, grace: grace.unwrap_or(GRACE) }),
        };
        if burst.is_some_and(|burst| burst.time.is_some_and(|time| time <= burst.grace)) {
            return Err(Problem::Against { setting: "BurstTime", needs: "to be longer than BurstGraceTime" });
        }
        Ok(Some(ManagedQos {
            line,
            name: name.to_ascii_lowercase(),
            members,
            gpus: self.gpus,
            settings: self.settings,
            is_last: self.is_last,
            old_names: self.old_names,
            burst,
            // The other lines of the file decide the rest.
            ..ManagedQos::default()
        }))
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

/// Names of accounts, spelled as Slurm does.
fn accounts(text: &str) -> Option<Vec<String>> {
    let all = (text == "*").then(|| vec!["*".to_owned()]);
    all.or_else(|| list(&text.to_ascii_lowercase()))
}

fn times(text: &str) -> Option<u64> {
    text.strip_suffix(['x', 'X']).and_then(count).filter(|times| (1..=1000).contains(times))
}

fn burst_time(text: &str) -> Option<u64> {
    time::minutes(text).filter(|minutes| *minutes > 0).map(|minutes| u64::from(minutes) * 60)
}

fn burst_grace(text: &str) -> Option<u64> {
    count(text).or_else(|| time::seconds(text)).filter(|seconds| *seconds <= 24 * 3600)
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
