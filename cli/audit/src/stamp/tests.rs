//! Each form in tests/data/audit/forms.tsv is read, and what isn't slurmctld's is not.

use jiff::tz::TimeZone;

use super::*;

/// Saturday, 31 October 2026, 12:00:07 UTC.
const THEN: u32 = 1_793_448_007;
const FORMS: &str = include_str!("../../../../tests/data/audit/forms.tsv");
const ENTRY: &str = r#"{"SYSLOG_IDENTIFIER":"slurmctld","MESSAGE":null,"_SYSTEMD_UNIT":"slurmctld.service"}"#;
const MESSAGE: &[u8] = b"job_submit/gpushare: [x] y";

fn clock() -> Clock {
    Clock { zone: TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), latest: THEN + 86_400 }
}

#[test]
fn every_form_is_read() {
    let mut count = 0;
    for row in FORMS.lines().filter(|row| !row.starts_with('#')) {
        let [_form, _releases, has_date, line] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let found = split(line.as_bytes(), &clock()).expect(line);
        assert_eq!(found.message.as_deref(), Some(MESSAGE), "{line}");
        assert_eq!(found.time, (has_date == "yes").then_some(THEN), "{line}");
        count += 1;
    }
    assert!(count > 40, "{count}");
}

/// What users can write into the journal or syslog, and what another program or another format of journalctl writes.
#[test]
fn lines_of_others_have_no_message() {
    for line in [
        "job_submit/gpushare: refused",
        "x [2026-10-31T13:00:07.123] job_submit/gpushare: refused",
        "x slurmctld: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head slurmd[812]: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head slurmd[812]: slurmctld: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head alice: slurmctld[812]: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head alice: slurmctld: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head alice: [2026-10-31T13:00:07.123] job_submit/gpushare: refused",
        "Oct 31 13:00:07 head alice: head slurmctld[812]: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head slurmctld[x]: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head slurmctld.service.x[812]: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head slurmctld-x[812]: job_submit/gpushare: refused",
        "Oct 31 13:00:07  slurmctld[812]: job_submit/gpushare: refused",
        "Sat 2026-10-31 12:00:07 UTC head user@1000.service/slurmctld.service[812]: job_submit/gpushare: refused",
        "<13>1 2026-10-31T12:00:07Z head alice 812 - - slurmctld: job_submit/gpushare: refused",
        "<13>1 2026-10-31T12:00:07Z head alice slurmctld - - job_submit/gpushare: refused",
        "<13>Oct 31 13:00:07 head slurmctld[812]: job_submit/gpushare: refused",
        "Oct 31 13:00:07.123456   812 srvcn        0x7f3a5c1fe6cx: job_submit/gpushare: refused",
        "Oct 31 13:00:07 head alice 0x7f: job_submit/gpushare: refused",
        "[2026-10-31T13:00:07.123]job_submit/gpushare: refused",
        "[alice] job_submit/gpushare: refused",
        "[] job_submit/gpushare: refused",
        // short-monotonic, short-delta, verbose, export, json-sse, json-seq
        "[ 1234.567890] head slurmctld[812]: job_submit/gpushare: refused",
        "[ 1234.567890 <    0.000001 >] head slurmctld[812]: job_submit/gpushare: refused",
        "    MESSAGE=slurmctld: job_submit/gpushare: refused",
        "MESSAGE=slurmctld: job_submit/gpushare: refused",
        r#"data: {"SYSLOG_IDENTIFIER":"slurmctld","MESSAGE":"job_submit/gpushare: refused"}"#,
        "\u{1e}{\"SYSLOG_IDENTIFIER\":\"slurmctld\",\"MESSAGE\":\"job_submit/gpushare: refused\"}",
        // The journal's entries of others, even if they have taken slurmctld's name.
        r#"{"SYSLOG_IDENTIFIER":"alice","MESSAGE":"slurmctld: job_submit/gpushare: refused"}"#,
        r#"{"SYSLOG_IDENTIFIER":"slurmctld","MESSAGE":"job_submit/gpushare: r","_SYSTEMD_UNIT":"user@1000.service"}"#,
        r#"{"SYSLOG_IDENTIFIER":"slurmctld","MESSAGE":"job_submit/gpushare: refused"}"#,
        r#"{"SYSLOG_IDENTIFIER":["slurmctld","x"],"MESSAGE":"job_submit/gpushare: r","_SYSTEMD_UNIT":"slurmctld.service"}"#,
        r#"{"SYSLOG_IDENTIFIER":"slurmctld","message":"job_submit/gpushare: r","_SYSTEMD_UNIT":"slurmctld.service"}"#,
        r#"{"SYSLOG_IDENTIFIER":"slurmctld","MESSAGE":"job_submit/gpushare: r","_SYSTEMD_UNIT":"slurmctld.service""#,
        "",
    ] {
        assert_eq!(split(line.as_bytes(), &clock()), None, "{line}");
    }
}

/// slurmctld never writes two of its own prefixes, so what follows one is the message, whatever it looks like.
#[test]
fn one_prefix_is_taken_off() {
    for line in [
        "[2026-10-31T13:00:07.123] error: x [y] job_submit/gpushare: z",
        "[2026-10-31T13:00:07.123] slurmctld: job_submit/gpushare: z",
        "[2026-10-31T13:00:07.123] [2026-10-31T13:00:07.123] job_submit/gpushare: z",
        "slurmctld: slurmctld: job_submit/gpushare: z",
        "slurmctld: [2026-10-31T13:00:07.123] job_submit/gpushare: z",
        "Oct 31 13:00:07 head slurmctld[812]: slurmctld: slurmctld: job_submit/gpushare: z",
        "Oct 31 13:00:07 head slurmctld[812]: slurmctld: [123456] job_submit/gpushare: z",
        "Oct 31 13:00:07 head slurmctld[812]: head slurmctld[812]: job_submit/gpushare: z",
    ] {
        let found = split(line.as_bytes(), &clock()).expect(line).message.unwrap();
        assert!(!found.starts_with(b"job_submit/"), "{line}");
    }
}

#[test]
fn the_way_of_a_line_is_known() {
    let way = |line: &str| split(line.as_bytes(), &clock()).map(|found| found.way);
    assert_eq!(way("[2026-10-31T13:00:07.123] x y"), Some(Way::Own));
    assert_eq!(way("slurmctld: x y"), Some(Way::Own));
    assert_eq!(way("Oct 31 13:00:07 head slurmctld[812]: slurmctld: x"), Some(Way::Stderr));
    assert_eq!(way("Oct 31 13:00:07 head slurmctld[812]: [2026-10-31T13:00:07.123] x"), Some(Way::Stderr));
    assert_eq!(way("Oct 31 13:00:07 head slurmctld[812]: x"), Some(Way::Syslog));
    let left_out = split(ENTRY.as_bytes(), &clock()).unwrap();
    assert_eq!((left_out.message, left_out.time), (None, None));
}
