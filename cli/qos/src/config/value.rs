//! The values of a QOS's fields in one form, whether an administrator wrote them or sacctmgr printed them, so that
//! `mem=975G` and `mem=998400M`, `1:00:00` and `60`, or flags in another order are equal.
//!
//! A value that means "not set" is no value, because Slurm doesn't distinguish the two either.

use std::collections::{BTreeMap, BTreeSet};

use super::field::{FLAGS, Field, Kind, MISSPELT_FLAG, MODES};
use gpushare::text::quantity::{count, is_size, quantity};
use gpushare::text::time;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A number, such as of jobs, or a priority.
    Count(u64),
    /// Seconds.
    Time(u64),
    /// Millionths, as precise as sacctmgr's output.
    Factor(u64),
    /// Flags, modes or QOSes.
    Words(BTreeSet<String>),
    /// Numbers by TRES; memory in MiB.
    Tres(BTreeMap<String, u64>),
}

/// The text isn't a value of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAValue;

/// All values that are set for a QOS, by field.
pub type Settings = BTreeMap<&'static str, Value>;

static NO_LIMITS: BTreeMap<String, u64> = BTreeMap::new();
static NO_NAMES: BTreeSet<String> = BTreeSet::new();

/// The limits of a field with TRES; none if it isn't set.
pub fn limits<'s>(settings: &'s Settings, field: &str) -> &'s BTreeMap<String, u64> {
    if let Some(Value::Tres(limits)) = settings.get(field) { limits } else { &NO_LIMITS }
}

/// The words of a field with flags, modes or QOSes; none if it isn't set.
pub fn names<'s>(settings: &'s Settings, field: &str) -> &'s BTreeSet<String> {
    if let Some(Value::Words(names)) = settings.get(field) { names } else { &NO_NAMES }
}

/// slurmdbd ignores higher numbers (`(int32_t)number >= 0` in as_mysql_qos.c).
pub(super) const MOST: u64 = i32::MAX as u64;

/// The values that an administrator may write.
pub fn allowed(kind: Kind) -> &'static str {
    match kind {
        Kind::Count => "a whole number from 0 to 2147483647",
        Kind::Minutes | Kind::Time => "minutes, hours:minutes:seconds or days-hours:minutes:seconds",
        Kind::Seconds => "seconds, hours:minutes:seconds or days-hours:minutes:seconds",
        Kind::Factor => "a number such as 0, 0.5 or 2",
        Kind::Flags => {
            "some of DenyOnLimit, EnforceUsageThreshold, NoDecay, NoReserve, OverPartQOS, PartitionMaxNodes, \
             PartitionMinNodes, PartitionTimeLimit, RequiresReservation, UsageFactorSafe"
        }
        Kind::Names => "names of QOSes separated by commas",
        Kind::Modes => "cluster, gang, cancel, requeue or suspend; within may be added to the last three",
        Kind::Tres => "TRES such as cpu=32,mem=975G,node=2,gres/gpu:a40=4",
    }
}

/// Parses a value as gpushare.conf has it; `None` if it says that nothing is set.
///
/// # Errors
/// The field can't have it.
pub fn written(field: &Field, text: &str) -> Result<Option<Value>, NotAValue> {
    let value = read(field.kind, text, false).ok_or(NotAValue)?;
    Ok(Some(value).filter(|value| !is_unset(field, value)))
}

/// Parses a value as sacctmgr prints it; `None` if nothing is set.
///
/// # Errors
/// It isn't one.
pub fn printed(field: &Field, text: &str) -> Result<Option<Value>, NotAValue> {
    let value = (!text.is_empty()).then(|| read(field.kind, text, true).ok_or(NotAValue)).transpose()?;
    Ok(value.filter(|value| !is_unset(field, value)))
}

/// sacctmgr prints every time as one with colons, and may know more flags and modes than gpushare does.
fn read(kind: Kind, text: &str, is_printed: bool) -> Option<Value> {
    let most = if is_printed { u64::MAX } else { MOST };
    let fits = |number: &u64| *number <= most;
    Some(match kind {
        Kind::Count => Value::Count(count(text).filter(fits)?),
        Kind::Minutes => Value::Time(time::minutes(text).map(u64::from).filter(fits)?.checked_mul(60)?),
        Kind::Seconds => Value::Time(count(text).or_else(|| time::seconds(text)).filter(fits)?),
        Kind::Time => Value::Time(time::seconds(text).filter(fits)?),
        Kind::Factor => Value::Factor(factor(text)?),
        Kind::Flags => {
            let other = |word: &str| is_printed.then(|| word.to_owned());
            Value::Words(words(text, |word| flag(word).map(str::to_owned).or_else(|| other(word)))?)
        }
        Kind::Names | Kind::Modes if is_printed => {
            Value::Words(words(text, |word| Some(word.to_ascii_lowercase()))?)
        }
        Kind::Names => Value::Words(words(text, |word| is_name(word).then(|| word.to_ascii_lowercase()))?),
        Kind::Modes => Value::Words(words(text, |word| mode(word).map(str::to_owned)).filter(is_one_mode)?),
        Kind::Tres => Value::Tres(tres(text)?),
    })
}

fn is_unset(field: &Field, value: &Value) -> bool {
    match value {
        Value::Count(number) => field.unset == number.to_string(),
        Value::Time(seconds) => field.unset == seconds.to_string(),
        Value::Factor(millionths) => factor(field.unset) == Some(*millionths),
        Value::Words(words) => words.is_empty() || words.iter().all(|word| word == field.unset),
        Value::Tres(limits) => limits.is_empty(),
    }
}

/// The form that sacctmgr accepts after `NAME=`; times as the numbers that every release accepts.
pub fn argument(field: &Field, value: &Value) -> String {
    match value {
        Value::Time(seconds) if field.kind == Kind::Seconds => seconds.to_string(),
        other => text(other),
    }
}

/// The form for people, and for sacctmgr unless [`argument`] has a better one.
pub fn text(value: &Value) -> String {
    match value {
        Value::Count(number) => number.to_string(),
        Value::Time(seconds) => time::text(*seconds),
        Value::Factor(millionths) => decimal(*millionths),
        Value::Words(words) => words.iter().map(String::as_str).collect::<Vec<_>>().join(","),
        Value::Tres(limits) => {
            limits.iter().map(|(name, number)| limit(name, *number)).collect::<Vec<_>>().join(",")
        }
    }
}

/// `0.5` from millionths.
pub fn decimal(millionths: u64) -> String {
    let digits = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Such as `mem=975G` or `cpu=32`.
pub fn limit(name: &str, number: u64) -> String {
    format!("{name}={}", amount(name, number))
}

/// The number of a TRES with its unit: G for memory if that leaves no fraction, otherwise M.
pub fn amount(name: &str, number: u64) -> String {
    if !is_size(name) {
        return number.to_string();
    }
    // sacctmgr knows larger units, but G is the largest that people usually write.
    if number != 0 && number.is_multiple_of(1024) {
        format!("{}G", number / 1024)
    } else {
        format!("{number}M")
    }
}

/// Parses a number such as `0.5` into millionths. Ignores further digits than six after the point.
pub fn factor(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fraction = fraction.get(..6).unwrap_or(fraction);
    let millionths = format!("{fraction:0<6}");
    count(whole)?.checked_mul(1_000_000)?.checked_add(count(&millionths)?)
}

fn flag(word: &str) -> Option<&'static str> {
    let word = if word.eq_ignore_ascii_case(MISSPELT_FLAG.0) { MISSPELT_FLAG.1 } else { word };
    FLAGS.iter().find(|flag| flag.eq_ignore_ascii_case(word)).copied()
}

fn mode(word: &str) -> Option<&'static str> {
    MODES.iter().find(|mode| mode.eq_ignore_ascii_case(word)).copied()
}

/// Whether there is one mode, perhaps with `within`: sacctmgr refuses that with `gang`, and forgets `cluster` for it.
fn is_one_mode(words: &BTreeSet<String>) -> bool {
    let has_both = words.contains("within") && !["cluster", "gang"].iter().any(|mode| words.contains(*mode));
    words.len() <= if has_both { 2 } else { 1 }
}

fn words(text: &str, read: impl Fn(&str) -> Option<String>) -> Option<BTreeSet<String>> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(read).collect()
}

/// Parses `cpu=32,gres/gpu:a40=4`; also `None` if a TRES occurs twice.
fn tres(text: &str) -> Option<BTreeMap<String, u64>> {
    let mut limits = BTreeMap::new();
    for part in text.split(',') {
        let (name, number) = part.trim().rsplit_once('=')?;
        let known = is_tres(name).then(|| quantity(name, number)).flatten()?;
        if limits.insert(name.to_owned(), known).is_some() {
            return None;
        }
    }
    Some(limits)
}

/// Whether a text may be the name of a TRES; Slurm decides whether it is one.
fn is_tres(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:_.-+@".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain)
}

/// Whether a text may be the name of a QOS, an account or a user: without characters that sacctmgr or a shell would
/// misread.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-@".contains(c);
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
