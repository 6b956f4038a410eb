//! Words and numbers under column names, and remarks below them, as reports have them.

use std::ops::Range;

use crate::clean;
use crate::columns::{Side, Span, aligned};

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns' names.
    pub head: Vec<&'static str>,
    /// Which columns have numbers, and are aligned to the right.
    pub numbers: Range<usize>,
    /// A word for each column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Its lines, each after some blanks: the first rows, and where the others are. Nothing if it has no rows.
    pub fn text(&self, indent: &str, most: usize, others: &str) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let side = |at| if self.numbers.contains(&at) { Side::Right } else { Side::Left };
        let sides: Vec<_> = (0..self.head.len()).map(side).collect();
        let head = self.head.iter().map(Span::from).collect();
        let rows = self.rows.iter().take(most).map(|row| row.iter().map(Span::from).collect());
        let lines = aligned(std::iter::once(head).chain(rows).collect(), &sides);
        let text: String =
            lines.iter().map(|line| format!("{indent}{}\n", line.render(None, false))).collect();
        match self.rows.len().saturating_sub(most) {
            0 => text,
            more => format!("{text}{indent}and {more} more, in {others}\n"),
        }
    }
}

/// A line for each remark.
pub fn notes(remarks: &[String]) -> String {
    remarks.iter().map(|remark| format!("note: {}\n", clean(remark))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_on_the_right_and_rows_beyond_the_first_are_counted() {
        let row = |words: [&str; 3]| words.map(str::to_owned).to_vec();
        let rows = vec![row(["a", "10", "x\x1b"]), row(["bob", "9", "y"]), row(["c", "1", "z"])];
        let table = Table { head: vec!["USER", "JOBS", "SAID"], numbers: 1..2, rows };
        let expected =
            "  USER  JOBS  SAID\n  a       10  x\\u{1b}\n  bob      9  y\n  and 1 more, in --csv\n";
        assert_eq!(table.text("  ", 2, "--csv"), expected);
        assert_eq!(Table::default().text("  ", 2, "--csv"), "");
        assert_eq!(notes(&["a\x1bb".to_owned()]), "note: a\\u{1b}b\n");
    }
}
