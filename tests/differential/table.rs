//! The table of strings and their readings, `tests/data/grammar.tsv`.

use crate::reading::{Reading, Wanted};
use gpushare::submit::grammar::Spelling;

const TABLE: &str = include_str!("../data/grammar.tsv");

/// A string as it arrives at a Slurm of that spelling, and what Slurm makes of it.
pub struct Row {
    /// With the release's prefix in it.
    pub text: Vec<u8>,
    /// What Slurm makes of it.
    pub reading: Reading,
}

/// The rows for one spelling.
///
/// # Errors
/// The first line that is no row.
pub fn rows(spelling: Spelling) -> Result<Vec<Row>, String> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| row(line, spelling).ok_or_else(|| format!("no row of the table: '{line}'"))).collect()
}

fn row(line: &str, spelling: Spelling) -> Option<Row> {
    let prefix = std::str::from_utf8(spelling.prefix()).ok()?;
    let mut cells = line.split('\t');
    let (text, colon, slash) = (cells.next()?, cells.next()?, cells.next()?);
    let cell = match spelling {
        Spelling::Colon => colon,
        Spelling::Slash => slash,
    };
    let reading = match cell {
        "error" => Reading::Error,
        "nothing" => Reading::Wants(Vec::new()),
        _ => Reading::Wants(cell.split(", ").map(wanted).collect::<Option<_>>()?),
    };
    cells.next().is_none().then(|| Row { text: text.replace('^', prefix).into_bytes(), reading })
}

/// `NAME[:TYPE]=COUNT`; the type may hold colons and equals signs.
fn wanted(text: &str) -> Option<Wanted> {
    let (name, count) = text.rsplit_once('=')?;
    let (name, gres_type) = match name.split_once(':') {
        Some((name, gres_type)) => (name, Some(gres_type.as_bytes().to_vec())),
        None => (name, None),
    };
    Some(Wanted { name: name.as_bytes().to_vec(), gres_type, count: count.parse().ok()? })
}
