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
    /// Takes a key, outside of records or of one, and ignores those of others. A record's first is the one with which
    /// its line begins.
    ///
    /// # Errors
    /// The value isn't allowed.
    fn take(&mut self, record: Option<Record>, key: &'static str, value: &str) -> Result<(), Problem>;

    /// Whether it reads records of a kind. A mistake in one that nobody reads is no error.
    fn reads(&self, record: Record) -> bool;

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

/// The keys that a line, or all that are no records, had so far, and in which line.
type Seen = Vec<(&'static str, Option<usize>)>;

fn take(
    line: &str,
    number: usize,
    seen: &mut Seen,
    sections: &mut [&mut dyn Section],
) -> Result<(), Problem> {
    let Some(record) = Record::named(key_and_value(line)?.0) else {
        return take_key(None, line, Some(number), seen, sections);
    };
    if !sections.iter().any(|section| section.reads(record)) {
        return Ok(());
    }
    let mut seen = Seen::new();
    words(line).try_for_each(|word| take_key(Some(record), word, None, &mut seen, sections))?;
    let mut readers = sections.iter_mut().filter(|section| section.reads(record));
    readers.try_for_each(|section| section.end(record, number))
}

fn take_key(
    record: Option<Record>,
    text: &str,
    number: Option<usize>,
    seen: &mut Seen,
    sections: &mut [&mut dyn Section],
) -> Result<(), Problem> {
    let (name, value) = key_and_value(text)?;
    let key = known(record, name).ok_or_else(|| Problem::UnknownKey(name.to_owned(), meant(record, name)))?;
    if let Some((_, first)) = seen.iter().find(|(seen, _)| *seen == key) {
        return Err(Problem::Twice { key, first: *first });
    }
    seen.push((key, number));
    let mut readers = sections.iter_mut().filter(|section| record.is_none_or(|kind| section.reads(kind)));
    readers.try_for_each(|section| section.take(record, key, value))
}

fn key_and_value(text: &str) -> Result<(&str, &str), Problem> {
    let (key, value) = text.split_once('=').ok_or_else(|| Problem::NoValue(text.to_owned()))?;
    Ok((key.trim(), value.trim()))
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
