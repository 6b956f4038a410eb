//! Parses the values of keys.

use std::path::PathBuf;
use std::time::Duration;

use super::Problem;
use crate::submit::policy::{Governed, GovernedAccounts, GovernedGres};
use crate::text::pattern::Patterns;

/// A key: its name, its allowed values, and how it takes a value.
pub(super) struct Key<T: 'static> {
    pub(super) name: &'static str,
    pub(super) allowed: &'static str,
    pub(super) take: fn(&mut T, &str) -> Option<()>,
}

impl<T> Key<T> {
    pub(super) fn named(keys: &'static [Key<T>], name: &str) -> Option<&'static Key<T>> {
        keys.iter().find(|key| key.name.eq_ignore_ascii_case(name))
    }

    /// Puts a value where it belongs.
    ///
    /// # Errors
    /// The value isn't allowed.
    pub(super) fn take(&self, target: &mut T, value: &str) -> Result<(), Problem> {
        let Key { name: key, allowed, take } = *self;
        take(target, value).ok_or_else(|| Problem::BadValue { key, value: value.to_owned(), allowed })
    }
}

/// A key whose value is one of a few words: its name, the words' meanings, and where the value goes.
macro_rules! word_key {
    ($name:literal: $meaning:ty => $($place:ident).+) => {
        Key {
            name: $name,
            allowed: <$meaning>::ALLOWED,
            take: |target, value| <$meaning>::read(value).map(|found| target.$($place).+ = found),
        }
    };
}
/// A key whose value is a list of names: its own name, and where the names go.
macro_rules! names_key {
    ($name:literal => $($place:ident).+) => {
        Key {
            name: $name,
            allowed: NAMES,
            take: |target, value| Patterns::parse(value).map(|found| target.$($place).+ = found),
        }
    };
}
pub(super) use {names_key, word_key};

pub(super) const NAMES: &str = "names separated by commas, in which * stands for any characters; a name with a blank \
                                in double quotes";

pub(super) fn word<T: Copy>(value: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning)
}

pub(super) fn number(value: &str, least: u32, most: u32) -> Option<u32> {
    value.parse().ok().filter(|number| (least..=most).contains(number))
}

pub(super) fn milliseconds(value: &str, least: u32, most: u32) -> Option<Duration> {
    number(value, least, most).map(|number| Duration::from_millis(number.into()))
}

/// Parses an absolute path without characters that a shell or a log would misread.
pub(super) fn path(value: &str) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    (value.starts_with('/') && value.chars().all(plain)).then(|| value.into())
}

pub(super) const OFF_OR_PATH: &str = "off, or an absolute path";

pub(super) fn off_or_path(value: &str) -> Option<Option<PathBuf>> {
    if value.eq_ignore_ascii_case("off") { Some(None) } else { path(value).map(Some) }
}

pub(super) fn governed(value: &str) -> Option<Governed> {
    if value.eq_ignore_ascii_case("auto") {
        return Some(Governed::Auto);
    }
    names(value, &["auto"]).map(Governed::Names)
}

pub(super) fn governed_accounts(value: &str) -> Option<GovernedAccounts> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Some(GovernedAccounts::Auto),
        "off" => Some(GovernedAccounts::Off),
        _ => names(value, &["auto", "off"]).map(GovernedAccounts::Names),
    }
}

/// Parses names, none of which may be one of the key's words: in a list, that would be meant as the word.
fn names(value: &str, words: &[&str]) -> Option<Patterns> {
    let is_word = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    Patterns::parse(value).filter(|patterns| !patterns.iter().any(is_word))
}

/// Parses a GRES name as Slurm writes it; `gpu` means whole GPUs.
pub(super) fn share_gres(value: &str) -> Option<String> {
    is_gres_name(value).then(|| value.to_owned()).filter(|name| name != "gpu")
}

fn is_gres_name(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    !value.is_empty() && value.len() <= 64 && value.chars().all(plain)
}

pub(super) fn governed_gres(value: &str) -> Option<GovernedGres> {
    let known = [("gpu", "gpu"), ("mps", "mps"), ("shard", "shard")];
    let names = value.split(',').map(str::trim).map(|name| word(name, &known).unwrap_or(name));
    names.clone().all(is_gres_name).then(|| GovernedGres(names.map(str::to_owned).collect()))
}
