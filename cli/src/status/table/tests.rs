//! Tables for people and for programs.

use super::*;
use gpushare_terminal::columns::text;

type Row = (u32, &'static str, Option<u64>);

fn shown(parsable: bool) -> String {
    let columns = [
        Column::new("JOB", Side::Right, |row: &Row| Cell::number(u64::from(row.0))),
        Column::new("USER", Side::Left, |row: &Row| Cell::text(row.1).look(Look::Free)),
        Column::new("MEMORY", Side::Right, |row: &Row| Cell::number(row.2)).head("MIB"),
        Column::new("FAULT", Side::Left, |_| Cell::default()),
    ];
    let rows = [(7, "alice", None), (12, "b|b\x1b", Some(5)), (3, "alice", Some(40))];
    text(&lines(&columns, &["USER", "JOB", "MEMORY?", "FAULT?"], &rows, parsable), false)
}

#[test]
fn people_get_the_columns_with_values_and_programs_all() {
    assert_eq!(
        shown(false),
        "USER       JOB  MIB\nalice        7    -\nb|b\\u{1b}   12    5\nalice        3   40\n"
    );
    assert_eq!(shown(true), "JOB|USER|MEMORY|FAULT\n7|alice||\n12|b/b\\u{1b}|5|\n3|alice|40|\n");
}
