//! Tables of named columns, for people and for programs: which columns and rows, and in which order.
//!
//! A view (`write`, `cluster::write`) defines its columns; the command line selects some of them ([`Style`]).

use std::cmp::Ordering;

use super::StatusError;
use gpushare_terminal::columns::{Line, Look, Side, Span, aligned, clean};

/// A value of a row in a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    value: Value,
    /// The text that people see instead of the value.
    shown: Option<String>,
    look: Look,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    /// An unknown value; it sorts first.
    #[default]
    Unknown,
    Number(u64),
    Text(String),
}

impl Cell {
    /// A number, if it is known.
    pub fn number(number: impl Into<Option<u64>>) -> Cell {
        Cell { value: number.into().map_or(Value::Unknown, Value::Number), ..Cell::default() }
    }

    /// Text, if it is known.
    pub fn text<'t>(text: impl Into<Option<&'t str>>) -> Cell {
        let value = text.into().map_or(Value::Unknown, |text| Value::Text(text.to_owned()));
        Cell { value, ..Cell::default() }
    }

    pub fn yes_or_no(is_so: bool) -> Cell {
        Cell::text(if is_so { "yes" } else { "no" })
    }

    /// The same value, but people see this text.
    pub fn shown(self, text: impl Into<Option<String>>) -> Cell {
        Cell { shown: text.into(), ..self }
    }

    pub fn look(self, look: Look) -> Cell {
        Cell { look, ..self }
    }

    fn span(&self) -> Span {
        let text = match (&self.shown, &self.value) {
            (Some(shown), _) => shown.clone(),
            (None, Value::Unknown) => "-".to_owned(),
            (None, Value::Number(number)) => number.to_string(),
            (None, Value::Text(text)) => text.clone(),
        };
        Span::new(&text, self.look)
    }

    /// The value as a field for programs.
    fn field(&self) -> String {
        match &self.value {
            Value::Unknown => String::new(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => clean(text).replace('|', "/"),
        }
    }
}

/// A column.
pub struct Column<Row> {
    /// Its name in `--format`, in `--sort` and for programs.
    name: &'static str,
    /// Its heading, unless a user requested the column by name.
    head: &'static str,
    side: Side,
    cell: fn(&Row) -> Cell,
}

impl<Row> Column<Row> {
    pub fn new(name: &'static str, side: Side, cell: fn(&Row) -> Cell) -> Column<Row> {
        Column { name, head: name, side, cell }
    }

    pub fn head(self, head: &'static str) -> Column<Row> {
        Column { head, ..self }
    }
}

/// How to show a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Only these columns, each with its width if one is given.
    pub format: Option<Vec<(String, Option<usize>)>>,
    /// Sort by these columns; `true` means descending.
    pub sort: Vec<(String, bool)>,
    pub noheader: bool,
    pub parsable: bool,
}

impl Style {
    /// Whether to print only the table.
    pub fn is_bare(&self) -> bool {
        self.parsable || self.noheader || self.format.is_some()
    }
}

/// Parses `JOB,USER:10`, or sacct's `JOB,USER%10`.
///
/// # Errors
/// A width isn't a number.
pub fn format(text: &str) -> Result<Vec<(String, Option<usize>)>, StatusError> {
    let one = |word: &str| {
        let Some((name, width)) = word.split_once([':', '%']) else { return Ok((word.to_owned(), None)) };
        let width = width.parse().ok().filter(|width| (1..=1000).contains(width));
        let width = width.ok_or_else(|| StatusError::BadColumn(word.to_owned()))?;
        Ok((name.to_owned(), Some(width)))
    };
    text.split(',').map(str::trim).map(one).collect()
}

/// Parses `USER,-UNITS`: `-` means descending.
pub fn sort(text: &str) -> Vec<(String, bool)> {
    let one = |word: &str| match word.strip_prefix('-') {
        Some(name) => (name.to_owned(), true),
        None => (word.strip_prefix('+').unwrap_or(word).to_owned(), false),
    };
    text.split(',').map(str::trim).map(one).collect()
}

/// The lines of a table. `default` names the columns that people see unless they choose others, in order. A column with
/// `?` is shown only if any row has a value for it.
///
/// # Errors
/// The table doesn't have a requested column.
pub fn lines<Row>(
    columns: &[Column<Row>],
    default: &[&str],
    mut rows: Vec<Row>,
    style: &Style,
) -> Result<Vec<Line>, StatusError> {
    let find = |name: &str| {
        columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            StatusError::NoColumn {
                name: name.to_owned(),
                there: columns.iter().map(|column| column.name).collect(),
            }
        })
    };
    let keys = style
        .sort
        .iter()
        .map(|(name, down)| Ok((find(name)?, *down)))
        .collect::<Result<Vec<_>, StatusError>>()?;
    rows.sort_by(|left, right| {
        let by = |(column, down): &(&Column<Row>, bool)| {
            let order = (column.cell)(left).value.cmp(&(column.cell)(right).value);
            if *down { order.reverse() } else { order }
        };
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let wanted: Vec<(&Column<Row>, &str, Option<usize>)> = match &style.format {
        Some(format) => {
            let one =
                |(name, width): &(String, Option<usize>)| find(name).map(|found| (found, found.name, *width));
            format.iter().map(one).collect::<Result<_, _>>()?
        }
        None if style.parsable => columns.iter().map(|column| (column, column.name, None)).collect(),
        None => {
            let is_known = |column: &Column<Row>| {
                rows.iter().any(|row| !matches!((column.cell)(row).value, Value::Unknown))
            };
            let named = default.iter().map(|name| (find(name.trim_end_matches('?')), name.ends_with('?')));
            named
                .filter_map(|(column, if_known)| Some((column.ok()?, if_known)))
                .filter(|(column, if_known)| !if_known || is_known(column))
                .map(|(column, _)| (column, column.head, None))
                .collect()
        }
    };
    let heads = wanted.iter().map(|(_, head, _)| *head);
    if style.parsable {
        let head = (!style.noheader).then(|| heads.collect::<Vec<_>>().join("|"));
        let line = |row: &Row| {
            wanted.iter().map(|(column, ..)| (column.cell)(row).field()).collect::<Vec<_>>().join("|")
        };
        let lines = head.into_iter().chain(rows.iter().map(line));
        return Ok(lines.map(|line| Line::new(&line, Look::Plain)).collect());
    }
    let mut table: Vec<Vec<Span>> = Vec::with_capacity(rows.len() + 1);
    table.extend((!style.noheader).then(|| heads.map(|head| Span::new(head, Look::Bold)).collect()));
    table
        .extend(rows.iter().map(|row| wanted.iter().map(|(column, ..)| (column.cell)(row).span()).collect()));
    let shape: Vec<(Side, Option<usize>)> =
        wanted.iter().map(|(column, _, width)| (column.side, *width)).collect();
    Ok(aligned(table, &shape))
}

#[cfg(test)]
mod tests;
