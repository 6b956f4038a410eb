//! Tables for people. A view (`write`, `cluster::write`) defines its columns.

use gpushare_terminal::columns::{Line, Look, Side, Span, aligned};

/// What a row has in a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// `None` if it is unknown.
    text: Option<String>,
    look: Look,
}

impl Cell {
    /// A number or text.
    pub fn new(value: impl ToString) -> Cell {
        Cell::known(Some(value))
    }

    /// The same if it is known.
    pub fn known(value: Option<impl ToString>) -> Cell {
        Cell { text: value.map(|value| value.to_string()), look: Look::Plain }
    }

    /// Another text instead, if there is one.
    pub fn or_as(self, text: Option<&str>) -> Cell {
        Cell { text: text.map(str::to_owned).or(self.text), ..self }
    }

    pub fn look(self, look: Look) -> Cell {
        Cell { look, ..self }
    }

    fn span(&self) -> Span {
        Span::new(self.text.as_deref().unwrap_or("-"), self.look)
    }
}

/// A column.
pub struct Column<Row> {
    /// With `?` it is shown only if any row has something in it.
    head: &'static str,
    side: Side,
    cell: fn(&Row) -> Cell,
}

impl<Row> Column<Row> {
    pub fn new(head: &'static str, side: Side, cell: fn(&Row) -> Cell) -> Column<Row> {
        Column { head, side, cell }
    }
}

/// The lines of a table.
pub fn lines<Row>(columns: &[Column<Row>], rows: &[Row]) -> Vec<Line> {
    let is_shown = |column: &&Column<Row>| {
        !column.head.ends_with('?')
            || rows.iter().any(|row| (column.cell)(row).text.is_some_and(|text| !text.is_empty()))
    };
    let shown: Vec<&Column<Row>> = columns.iter().filter(is_shown).collect();
    let heads = shown.iter().map(|column| Span::new(column.head.trim_end_matches('?'), Look::Bold)).collect();
    let rows = rows.iter().map(|row| shown.iter().map(|column| (column.cell)(row).span()).collect());
    let sides: Vec<Side> = shown.iter().map(|column| column.side).collect();
    aligned(std::iter::once(heads).chain(rows).collect(), &sides)
}

#[cfg(test)]
mod tests;
