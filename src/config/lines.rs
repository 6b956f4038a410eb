//! The lines of gpushare.conf, for all who read it.
//!
//! `Key=Value` lines as in slurm.conf: `#` starts a comment; keys and keywords are case-insensitive, names and paths
//! aren't; a line that begins with `QOS=`, `PartitionName=` or `NodeName=` is a record of several settings. A line of
//! another form, a key that nobody knows, and a key given twice are errors for every reader; a value is checked by
//! those whose key it is.

use super::names::{Record, known, meant};
use super::{ConfigError, Problem};
use crate::text::words;

/// What a kind of program reads of the file.
pub trait Section {
    /// Takes a key outside of records, and ignores those of others.
    ///
    /// # Errors
    /// The value isn't allowed.
    fn take(&mut self, key: &'static str, value: &str) -> Result<(), Problem>;

    /// Whether it reads records of a kind. A mistake in one that nobody reads is no error.
    fn reads(&self, record: Record) -> bool;

    /// Takes a key of a record, and ignores those of others. The first is the one with which the line begins.
    ///
    /// # Errors
    /// The value isn't allowed.
    fn take_in(&mut self, record: Record, key: &'static str, value: &str) -> Result<(), Problem>;

    /// All keys of a record were taken; its line has this number.
    ///
    /// # Errors
    /// The settings of the line don't go together, or not with those of an earlier line.
    fn end(&mut self, record: Record, line: usize) -> Result<(), Problem>;
}

/// Reads a text for some sections at once.
///
/// # Errors
/// The first mistake, with its line.
pub fn read(text: &str, sections: &mut [&mut dyn Section]) -> Result<(), ConfigError> {
    let mut seen = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let taken = take(line, number, &mut seen, sections);
            taken.map_err(|problem| ConfigError { line: Some(number), problem })?;
        }
    }
    Ok(())
}

fn take(
    line: &str,
    number: usize,
    seen: &mut Vec<(&'static str, usize)>,
    sections: &mut [&mut dyn Section],
) -> Result<(), Problem> {
    let (name, value) = key_and_value(line)?;
    let (name, value) = (name.trim(), value.trim());
    if let Some(record) = Record::named(name) {
        return take_record(record, line, number, sections);
    }
    let key = find(None, name)?;
    if let Some((_, first)) = seen.iter().find(|(seen, _)| *seen == key) {
        return Err(Problem::Twice { key, first: Some(*first) });
    }
    seen.push((key, number));
    sections.iter_mut().try_for_each(|section| section.take(key, value))
}

fn take_record(
    record: Record,
    line: &str,
    number: usize,
    sections: &mut [&mut dyn Section],
) -> Result<(), Problem> {
    if !sections.iter().any(|section| section.reads(record)) {
        return Ok(());
    }
    let mut seen = Vec::new();
    for word in words(line) {
        let (name, value) = key_and_value(word)?;
        let key = find(Some(record), name)?;
        if seen.contains(&key) {
            return Err(Problem::Twice { key, first: None });
        }
        seen.push(key);
        for section in sections.iter_mut().filter(|section| section.reads(record)) {
            section.take_in(record, key, value)?;
        }
    }
    let mut readers = sections.iter_mut().filter(|section| section.reads(record));
    readers.try_for_each(|section| section.end(record, number))
}

fn key_and_value(text: &str) -> Result<(&str, &str), Problem> {
    text.split_once('=').ok_or_else(|| Problem::NoValue(text.to_owned()))
}

fn find(record: Option<Record>, name: &str) -> Result<&'static str, Problem> {
    known(record, name).ok_or_else(|| Problem::UnknownKey(name.to_owned(), meant(record, name)))
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;

    fn problem(text: &str) -> String {
        Rules::parse(text).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_key_that_nobody_knows_is_an_error_and_a_value_is_judged_by_those_whose_key_it_is() {
        for (text, expected) in [
            // Of nodes and of the database: not this reader's.
            ("Mps=perhaps\nGpuWeight=much\nQOS=q GPUs=many\nNodeName=n Packing=tight\n", ""),
            (
                "Mpss=off",
                "line 1: unknown key 'Mpss' here; did you mean Mps? gpushare.conf(5) lists the keys",
            ),
            ("Gewicht=1", "line 1: unknown key 'Gewicht' here; gpushare.conf(5) lists the keys"),
            (
                "NodeName=n Pakking=pack",
                "line 1: unknown key 'Pakking' here; did you mean Packing? gpushare.conf(5) lists the keys",
            ),
            (
                "QOS=q GrpJob=3",
                "line 1: unknown key 'GrpJob' here; did you mean GrpJobs? gpushare.conf(5) lists the keys",
            ),
            // Its form is everybody's matter.
            ("Mps=off\nmps=off", "line 2: Mps is given twice, first in line 1"),
            ("Mps", "line 1: 'Mps' is not of the form Key=Value"),
            ("QOS=q MaxWall=1 MaxWallPJ=2", "line 1: MaxWallDurationPerJob is given twice"),
            // These are its own.
            ("Mode=off", "line 1: Mode can't be 'off'; allowed is enforce, warn, audit or default"),
            ("QOS=q Requeue=maybe", "line 1: Requeue can't be 'maybe'; allowed is yes or no"),
            ("NodeName=n Placement=own", "line 1: Placement=own needs UnitsPerGpu"),
        ] {
            assert_eq!(problem(text), expected, "{text}");
        }
    }
}
