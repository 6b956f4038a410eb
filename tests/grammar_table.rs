//! The grammar against the table of what Slurm makes of strings, for both spellings.
//!
//! What the grammar recognises must be what Slurm reads; the rest must be seen as unrecognised, which a governed QOS
//! refuses. `tests/differential` holds the same table against Slurm itself.

#[path = "differential/reading.rs"]
mod reading;
#[path = "differential/table.rs"]
mod table;

use gpushare::submit::grammar::Spelling::{Colon, Slash};
use reading::{Reading, ours};
use table::rows;

#[test]
fn the_table_has_all_its_rows() {
    for spelling in [Colon, Slash] {
        assert_eq!(rows(spelling).unwrap().len(), 107, "{spelling:?}");
    }
}

#[test]
fn what_is_recognised_is_what_slurm_reads() {
    for spelling in [Colon, Slash] {
        for row in rows(spelling).unwrap() {
            let (shown, seen) = (row.text.escape_ascii().to_string(), ours(&row.text, spelling));
            match (seen, row.reading) {
                (Some(ours), Reading::Wants(slurms)) => assert_eq!(ours, slurms, "{shown}"),
                (None, _) | (Some(_), Reading::Error) => {}
            }
        }
    }
}

/// So that the test above can't pass by recognising less.
#[test]
fn plain_strings_are_recognised_and_no_others() {
    for (spelling, expected) in [(Colon, 61), (Slash, 46)] {
        let rows = rows(spelling).unwrap();
        let unrecognised = rows.iter().filter(|row| ours(&row.text, spelling).is_none()).count();
        assert_eq!(unrecognised, expected, "{spelling:?}");
    }
}
