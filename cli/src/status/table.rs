//! Tables of named columns, for people and for programs. A view (`write`, `cluster::write`) defines its columns.

use gpushare_terminal::columns::{Line, Look, Side, Span, aligned, clean};

/// A value of a row in a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// `None` if it is unknown.
    value: Option<String>,
    /// The text that people see instead of the value.
    shown: Option<String>,
    look: Look,
}

impl Cell {
    /// A number, if it is known.
    pub fn number(number: impl Into<Option<u64>>) -> Cell {
        Cell { value: number.into().map(|number| number.to_string()), ..Cell::default() }
    }

    /// Text, if it is known.
    pub fn text<'t>(text: impl Into<Option<&'t str>>) -> Cell {
        Cell { value: text.into().map(str::to_owned), ..Cell::default() }
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
        Span::new(self.shown.as_deref().or(self.value.as_deref()).unwrap_or("-"), self.look)
    }

    /// The value as a field for programs.
    fn field(&self) -> String {
        clean(self.value.as_deref().unwrap_or_default()).replace('|', "/")
    }
}

/// A column.
pub struct Column<Row> {
    /// Its name for programs.
    name: &'static str,
    /// Its heading for people.
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

/// The lines of a table. For people, `default` names its columns in order; one with `?` is shown only if any row has a
/// value for it.
pub fn lines<Row>(columns: &[Column<Row>], default: &[&str], rows: &[Row], parsable: bool) -> Vec<Line> {
    if parsable {
        let head = columns.iter().map(|column| column.name).collect::<Vec<_>>().join("|");
        let line =
            |row: &Row| columns.iter().map(|column| (column.cell)(row).field()).collect::<Vec<_>>().join("|");
        let lines = std::iter::once(head).chain(rows.iter().map(line));
        return lines.map(|line| Line::new(&line, Look::Plain)).collect();
    }
    let shown = |name: &&str| {
        let column = columns.iter().find(|column| column.name == name.trim_end_matches('?'))?;
        let is_known = || rows.iter().any(|row| (column.cell)(row).value.is_some());
        Some(column).filter(|_| !name.ends_with('?') || is_known())
    };
    let shown: Vec<&Column<Row>> = default.iter().filter_map(shown).collect();
    let heads = shown.iter().map(|column| Span::new(column.head, Look::Bold)).collect();
    let rows = rows.iter().map(|row| shown.iter().map(|column| (column.cell)(row).span()).collect());
    let sides: Vec<Side> = shown.iter().map(|column| column.side).collect();
    aligned(std::iter::once(heads).chain(rows).collect(), &sides)
}

#[cfg(test)]
mod tests;
