//! Tests of columns, widths and orders on the command line.

use super::*;
use gpushare_terminal::columns::text;

type Row = (u32, &'static str, Option<u64>);

fn columns() -> [Column<Row>; 3] {
    [
        Column::new("JOB", Side::Right, |row: &Row| Cell::number(u64::from(row.0))),
        Column::new("USER", Side::Left, |row: &Row| Cell::text(row.1).look(Look::Free)),
        Column::new("MEMORY", Side::Right, |row: &Row| Cell::number(row.2)).head("MIB"),
    ]
}

fn shown(style: &Style) -> Result<String, StatusError> {
    let rows = vec![(7, "alice", None), (12, "b|b\x1b", Some(5)), (3, "alice", Some(40))];
    lines(&columns(), &["USER", "JOB", "MEMORY?"], rows, style).map(|lines| text(&lines, false))
}

fn style(format_text: &str, sort_text: &str) -> Style {
    let format = (!format_text.is_empty()).then(|| format(format_text).unwrap());
    let sort = if sort_text.is_empty() { Vec::new() } else { sort(sort_text) };
    Style { format, sort, ..Style::default() }
}

#[test]
fn columns_and_orders_are_those_that_are_asked_for() {
    for (format, sort, expected) in [
        ("", "", "USER       JOB  MIB\nalice        7    -\nb|b\\u{1b}   12    5\nalice        3   40\n"),
        ("job", "", "JOB\n  7\n 12\n  3\n"),
        ("Memory,JOB", "user,-job", "MEMORY  JOB\n     -    7\n    40    3\n     5   12\n"),
        ("JOB", "memory", "JOB\n  7\n 12\n  3\n"),
        ("JOB", "-memory", "JOB\n  3\n 12\n  7\n"),
        ("JOB", "+job", "JOB\n  3\n  7\n 12\n"),
        ("user:3,job%5", "", "USE    JOB\nali      7\nb|b     12\nali      3\n"),
    ] {
        assert_eq!(shown(&style(format, sort)).unwrap(), expected, "{format} {sort}");
    }
}

#[test]
fn programs_get_fields_and_a_header_unless_they_want_none() {
    let parsable = Style { parsable: true, ..Style::default() };
    assert_eq!(shown(&parsable).unwrap(), "JOB|USER|MEMORY\n7|alice|\n12|b/b\\u{1b}|5\n3|alice|40\n");
    let bare = Style { noheader: true, ..parsable };
    assert_eq!(shown(&bare).unwrap(), "7|alice|\n12|b/b\\u{1b}|5\n3|alice|40\n");
    assert_eq!(
        shown(&Style { parsable: false, ..bare }).unwrap(),
        "alice       7   -\nb|b\\u{1b}  12   5\nalice       3  40\n"
    );
}

#[test]
fn a_column_that_there_is_not_is_an_error_with_their_names() {
    let expected = "there is no column 'x\\u{1b}' here; the columns are JOB, USER, MEMORY";
    assert_eq!(shown(&style("JOB,x\x1b", "")).unwrap_err().to_string(), expected);
    assert_eq!(shown(&style("", "-x\x1b")).unwrap_err().to_string(), expected);
    for wrong in ["JOB:", "JOB:0", "JOB:x", "JOB%-5", "JOB:1001", "JOB:5:5"] {
        assert_eq!(format(wrong).unwrap_err().to_string(), format!("'{wrong}' is not NAME or NAME:WIDTH"));
    }
}
