//! A line `Share=QOS Key=Value Key=Value…` of gpushare.conf, read.
//!
//! Besides the keys here a line takes every field of a QOS by its names of today, and by those of 2009.

use std::collections::BTreeMap;

use super::field::{FIELDS, Field, OLD_NAMES, OldName};
use super::value::{self, Settings, Value, is_name, quantity, written};
use super::{Members, SaidTwice, Share};

/// What such a line begins with.
pub const KEY: &str = "Share";

/// The keys that are no field of a QOS.
const OWN: [(&str, &str); 6] = [
    (KEY, NAME),
    ("Account", "* or names of accounts separated by commas"),
    ("Users", "names of users separated by commas"),
    ("GPUs", "TYPE:NUMBER, such as a40:4, separated by commas"),
    ("CPUs", "a whole number"),
    ("Mem", "memory such as 975G; MiB without a unit"),
];

const NAME: &str =
    "a name of letters, digits, '_', '.', '-' and '@' that begins with a letter, a digit or '_'";

/// Why a line is no share.
#[derive(Debug, PartialEq, Eq)]
pub enum ShareError {
    /// A word has no `=`.
    NoValue(String),
    /// No such key.
    UnknownKey(String),
    /// The key can't have that value: key, value, what is allowed.
    BadValue(&'static str, String, &'static str),
    /// The key was there before.
    Twice(&'static str),
    /// One limit in two ways.
    SaidTwice(SaidTwice),
    /// `Users` without the one account that they are in.
    UsersWithoutAccount,
}

/// Every key of such a line, those of 2009 last.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let own = OWN.iter().map(|(name, _)| *name);
    let fields = FIELDS.iter().map(|field| field.name);
    own.chain(fields).chain(OLD_NAMES.iter().map(|old| old.name)).collect()
}

#[derive(Default)]
struct Draft {
    qos: String,
    accounts: Vec<String>,
    users: Vec<String>,
    gpus: Vec<(String, u64)>,
    settings: Settings,
    old_names: Vec<&'static OldName>,
}

/// Reads a line, which has its number.
pub fn parse(line: usize, text: &str) -> Result<Share, ShareError> {
    let mut draft = Draft::default();
    let mut seen: Vec<&'static str> = Vec::new();
    for word in text.split_whitespace() {
        let (name, text) = word.split_once('=').ok_or_else(|| ShareError::NoValue(word.to_owned()))?;
        let key = draft.take(name, text)?;
        if seen.contains(&key) {
            return Err(ShareError::Twice(key));
        }
        seen.push(key);
    }
    let members = match (draft.accounts.as_slice(), draft.users.is_empty()) {
        ([], true) => Members::Unsaid,
        ([all], true) if all == "*" => Members::All,
        (_, true) => Members::Accounts(draft.accounts),
        ([one], false) if one != "*" => Members::Users(one.clone(), draft.users),
        (_, false) => return Err(ShareError::UsersWithoutAccount),
    };
    let Draft { qos, gpus, settings, old_names, .. } = draft;
    // The other lines of the file say.
    Ok(Share { line, qos, members, gpus, settings, keeps_to_its_types: false, old_names })
}

impl Draft {
    /// Gives the key's own name.
    fn take(&mut self, name: &str, text: &str) -> Result<&'static str, ShareError> {
        if let Some((key, allowed)) = OWN.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)) {
            let bad = || ShareError::BadValue(key, text.to_owned(), allowed);
            self.take_own(key, text).ok_or_else(bad)?.map_err(ShareError::SaidTwice)?;
            return Ok(key);
        }
        if let Some(field) = Field::named(name) {
            let bad = |_| ShareError::BadValue(field.name, text.to_owned(), value::allowed(field.kind));
            match written(field, text).map_err(bad)? {
                Some(Value::Tres(limits)) => {
                    limits.into_iter().try_for_each(|(tres, number)| self.limit(field.name, tres, number))
                }
                Some(value) => {
                    self.settings.insert(field.name, value);
                    Ok(())
                }
                None => Ok(()),
            }
            .map_err(ShareError::SaidTwice)?;
            return Ok(field.name);
        }
        let old = OldName::named(name).ok_or_else(|| ShareError::UnknownKey(name.to_owned()))?;
        let allowed = if old.tres == "mem" { "memory; MiB without a unit" } else { "a whole number" };
        let bad = || ShareError::BadValue(old.name, text.to_owned(), allowed);
        let number = quantity(old.tres, text).ok_or_else(bad)?;
        self.limit(old.field, old.tres.to_owned(), number).map_err(ShareError::SaidTwice)?;
        self.old_names.push(old);
        Ok(old.name)
    }

    fn take_own(&mut self, key: &str, text: &str) -> Option<Result<(), SaidTwice>> {
        match key {
            "Account" => {
                self.accounts = if text == "*" { vec!["*".to_owned()] } else { lower(list(text)?) };
            }
            "Users" => self.users = list(text)?,
            "GPUs" => {
                self.gpus = gpus(text)?;
                let sum = self.gpus.iter().map(|(_, number)| number).sum();
                let typed =
                    self.gpus.clone().into_iter().map(|(kind, number)| (format!("gres/gpu:{kind}"), number));
                // The sum too: nobody gets more by asking without a type, even where the plugin is not loaded.
                let mut all = typed.chain([("gres/gpu".to_owned(), sum)]);
                return Some(all.try_for_each(|(tres, number)| self.limit("GrpTRES", tres, number)));
            }
            "CPUs" => return Some(self.limit("GrpTRES", "cpu".to_owned(), quantity("cpu", text)?)),
            "Mem" => return Some(self.limit("GrpTRES", "mem".to_owned(), quantity("mem", text)?)),
            _ => self.qos = Some(text).filter(|text| is_name(text))?.to_ascii_lowercase(),
        }
        Some(Ok(()))
    }

    fn limit(&mut self, field: &'static str, tres: String, number: u64) -> Result<(), SaidTwice> {
        let place = self.settings.entry(field).or_insert_with(|| Value::Tres(BTreeMap::new()));
        let Value::Tres(limits) = place else { return Ok(()) };
        // A type may be written in capitals, and then it is the same one.
        if limits.keys().any(|known| known.eq_ignore_ascii_case(&tres)) {
            return Err(SaidTwice { field, tres });
        }
        limits.insert(tres, number);
        Ok(())
    }
}

/// Names, none of them twice.
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

/// As Slurm keeps the names of accounts.
fn lower(names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// `a40:4,h100:2`
fn gpus(text: &str) -> Option<Vec<(String, u64)>> {
    let one = |part: &str| {
        let (kind, number) = part.split_once(':')?;
        let number: u64 = number.parse().ok().filter(|number| (1..=1_000_000).contains(number))?;
        is_gpu_type(kind).then(|| (kind.to_owned(), number))
    };
    text.split(',').map(one).collect()
}

/// What gres.conf may have as `Type=` of a GPU.
pub(crate) fn is_gpu_type(kind: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-+".contains(c);
    kind.starts_with(|c: char| c.is_ascii_alphanumeric()) && kind.chars().all(plain)
}

#[cfg(test)]
mod tests;
