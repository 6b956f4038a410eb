//! Tables for people.

use super::*;
use gpushare_terminal::columns::text;

type Row = (u32, &'static str, Option<u64>);

#[test]
fn columns_without_a_value_are_left_out_if_they_may_be() {
    let columns = [
        Column::new("USER", Side::Left, |row: &Row| Cell::new(row.1).look(Look::Free)),
        Column::new("JOB", Side::Right, |row| Cell::new(row.0)),
        Column::new("MIB?", Side::Right, |row| Cell::known(row.2).or_as((row.0 == 3).then_some("all"))),
        Column::new("FAULT?", Side::Left, |_| Cell::default()),
    ];
    let rows = [(7, "alice", None), (12, "b|b\x1b", Some(5)), (3, "alice", Some(40))];
    assert_eq!(
        text(&lines(&columns, &rows), false),
        "USER       JOB  MIB\nalice        7    -\nb|b\\u{1b}   12    5\nalice        3  all\n"
    );
}
