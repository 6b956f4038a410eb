//! Compares the report with what was put into the lines of a log.

use std::collections::BTreeMap;

use gpushare::submit::log_line::{Key, LogLine};
use gpushare::submit::policy::{Because, LimitAdvice};
use proptest::prelude::*;

use super::*;

const PERIOD: Period = Period { start: 1_700_000_000, end: 1_700_600_000 };

fn clock() -> Clock {
    Clock { zone: TimeZone::UTC, latest: PERIOD.end + 86_400 }
}

fn report<'l>(lines: impl IntoIterator<Item = &'l [u8]>, advice: LimitAdvice) -> Report {
    let mut collector = Collector::new(PERIOD);
    lines.into_iter().for_each(|line| collector.take(line, &clock()));
    Report::of_logs(collector, vec!["/log".to_owned()], "grace".to_owned(), advice)
}

fn at(time: u32, message: &str) -> String {
    let time = jiff::Timestamp::from_second(time.into()).unwrap().to_zoned(TimeZone::UTC);
    format!("[{}] {message}", time.strftime("%Y-%m-%dT%H:%M:%S%.3f"))
}

fn line(passed: Option<Because>, number: &str, user: (u32, &str)) -> LogLine {
    LogLine::new(passed, number, user.0)
        .with(Key::User, user.1.as_bytes())
        .with(Key::Qos, b"qos_lafferty")
        .with(Key::Asked, b"gpu:2")
        .with(Key::Request, b"--gres=gpu:2")
        .with(Key::Try, b"--qos=qos_lafferty --gres=gpu:a40:2")
}

const ALICE: (u32, &str) = (2001, "alice");
const BOB: (u32, &str) = (2002, "bob");

#[test]
fn a_user_is_told_of_with_what_to_ask_for() {
    let audit = Some(Because::Audit);
    let (old, first, last) = (PERIOD.start - 1, PERIOD.start, PERIOD.end - 1);
    let lines = [
        at(old, &line(audit, "GS101", ALICE).to_string()),
        at(first, &line(audit, "GS101", ALICE).with(Key::Name, b"train").to_string()),
        at(first + 5, "error: something else"),
        at(first + 7, "job_submit/gpushare: /etc/slurm/gpushare.conf read again"),
        at(last, &line(Some(Because::Warn), "GS101", ALICE).with(Key::Name, b"eval").to_string()),
        at(last, &line(None, "GS103", BOB).to_string()),
        at(last, &line(Some(Because::Account), "GS101", BOB).to_string()),
        at(PERIOD.end, &line(audit, "GS101", ALICE).to_string()),
    ];
    let report = report(lines.iter().map(String::as_bytes), LimitAdvice::Warn);
    assert_eq!((report.would_be_refused, report.users_would_be_refused), (2, 1));
    assert_eq!((report.refused, report.users_refused, report.exempt, report.users_exempt), (1, 1, 1, 1));
    let one = &report.requests[0];
    assert_eq!(
        (one.form.user.as_str(), one.sum.warned, one.sum.audited, one.would_be_refused),
        ("alice", 1, 1, true)
    );
    assert_eq!(
        ((one.sum.first, one.sum.last), one.sum.jobs.as_slice()),
        ((Some(first), Some(last)), &["train".to_owned(), "eval".to_owned()][..])
    );
    assert_eq!(report.requests.len(), 3);
    let text = text::lines(&report);
    for part in [
        "gpushare audit of grace, ",
        "1 user would be refused if you switched to enforce today.\n",
        "Refused: 1 request of 1 user.\n",
        "Exempt: 1 request of 1 user.\n",
        "  train, eval  --gres=gpu:2  GS101: --qos=qos_lafferty --gres=gpu:a40:2\n",
        "read: /log\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(report.remarks.is_empty(), "{:?}", report.remarks);
    assert_eq!(text::csv(&report).lines().count(), 4);
    assert!(gpushare_terminal::json::text(&report).contains("\"would_be_refused\": 2"));
}

#[test]
fn advice_refuses_nobody_unless_it_is_set_to() {
    let lines = [at(PERIOD.start, &line(Some(Because::Warn), "GS114", ALICE).to_string())];
    let with = |advice| report(lines.iter().map(String::as_bytes), advice);
    assert_eq!(
        (with(LimitAdvice::Warn).would_be_refused, with(LimitAdvice::Refuse).would_be_refused),
        (0, 1)
    );
    let text = text::lines(&with(LimitAdvice::Warn));
    assert!(
        text.contains("(advice only)")
            && text.contains("No request was accepted that Mode=enforce would refuse."),
        "{text}"
    );
}

/// Text that users write into their jobs, or others into the log, makes no entry.
#[test]
fn no_text_forges_an_entry() {
    let genuine = line(Some(Because::Audit), "GS101", BOB);
    let hostile =
        format!("x' try='' {genuine} \u{1b}[2J\"GS101\"\n{}", at(PERIOD.start + 1, &genuine.to_string()));
    let mut lines =
        vec![at(PERIOD.start, &line(None, "GS101", ALICE).with(Key::Name, hostile.as_bytes()).to_string())];
    for other in [
        at(PERIOD.start, &format!("error: invalid qos {genuine}")),
        at(PERIOD.start, &format!("sched: {genuine}")),
        format!("error: {}", at(PERIOD.start, &genuine.to_string())),
        genuine.to_string(),
        format!("Oct 31 13:00:07 head alice: slurmctld[812]: {genuine}"),
    ] {
        lines.push(other);
    }
    // Each entry is one line of the file, as the plugin writes it.
    assert!(!lines[0].contains('\n'));
    let report = report(lines.iter().map(String::as_bytes), LimitAdvice::Warn);
    let [one] = report.requests.as_slice() else { panic!("{report:?}") };
    assert_eq!((one.form.user.as_str(), one.sum.refused, one.sum.audited), ("alice", 1, 0));
    assert!(!text::lines(&report).contains('\u{1b}') && !text::csv(&report).contains('\u{1b}'));
    assert_eq!(text::csv(&report).lines().count(), 2);
}

#[test]
fn what_logs_cannot_tell_is_said() {
    let good = line(None, "GS101", ALICE).to_string();
    let (late, cut) = (at(PERIOD.start + 60, &good), at(PERIOD.start + 60, &good[..good.len() - 3]));
    let clock = format!("[123456] {good}");
    let said = |lines: &[&str]| {
        report(lines.iter().map(|line| line.as_bytes()), LimitAdvice::Warn).remarks.join("\n")
    };
    assert!(
        said(&[&late]).contains("the logs begin at 2023-11-14 22:14: this report has nothing from before")
    );
    assert!(said(&[&cut]).contains("1 lines of gpushare's can't be read"));
    assert!(said(&[&clock]).contains("1 lines have no date"));
}

#[test]
fn so_many_forms_are_kept_and_no_more() {
    let mut collector = Collector::new(PERIOD);
    for number in 0..30_000 {
        let asked = format!("gpu:{number}");
        let line = line(None, "GS101", ALICE).with(Key::Request, asked.as_bytes());
        collector.take(at(PERIOD.start, &line.to_string()).as_bytes(), &clock());
    }
    assert_eq!(collector.forms.len(), 20_001);
    let report = Report::of_logs(collector, Vec::new(), String::new(), LimitAdvice::Warn);
    assert_eq!(
        (report.refused, report.requests[0].form.request.as_str(), report.requests[0].sum.refused),
        (30_000, "other requests", 10_000)
    );
}

#[test]
fn counts_tell_how_often() {
    let names = counters::names();
    let mut counts = vec![0; names.len()];
    for (name, count) in
        [("GS101 audited", 5), ("GS101 refused", 2), ("GS114 warned", 3), ("GS151 changed", 7)]
    {
        counts[names.iter().position(|known| known == name).unwrap()] = count;
    }
    let report =
        Report::of_counts(counts, Some(PERIOD.start), Path::new("/run/counts"), "no log", LimitAdvice::Warn);
    assert_eq!((report.would_be_refused, report.refused, report.requests.len()), (5, 2, 2));
    let text = text::lines(&report);
    assert!(text.contains("         5        2       -  GS101: a GPU type is missing\n"), "{text}");
    assert!(text.contains("note: no log could be read: no log\n") && !text.contains("1 user"), "{text}");
    let none = Report::of_counts(vec![0; names.len()], None, Path::new("/c"), "x", LimitAdvice::Warn);
    assert!(text::lines(&none).contains(" would refuse, as far as this can tell: see the notes.\n"));
    assert!(text.contains(" was made, at 2023-11-14 22:13, whatever "), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_log_is_summed_as_it_was_written(
        entries in proptest::collection::vec((0_usize..7, 0_u32..4, 0_u32..3, 0_u32..700_000, 0_u8..8), 0..200),
    ) {
        let verdicts = [None].into_iter().chain(
            [
                Because::Warn, Because::Audit, Because::User, Because::Account, Because::Partition,
                Because::Reservation,
            ].map(Some),
        ).collect::<Vec<_>>();
        let (mut lines, mut truth) = (Vec::new(), BTreeMap::<(u32, u32), [u64; 4]>::new());
        for (verdict, user, form, second, noise) in entries {
            let (verdict, time) = (verdicts[verdict], PERIOD.start - 50_000 + second);
            let request = format!("--gres=gpu:{form}");
            let entry = line(verdict, "GS101", (user, "u")).with(Key::Request, request.as_bytes());
            lines.push(at(time, &entry.to_string()));
            if noise == 0 {
                lines.push(at(time, "sched: Allocate JobId=1 job_submit/gpushare: refused GS101 uid=1"));
            }
            if (PERIOD.start..PERIOD.end).contains(&time) {
                let place = match verdict {
                    None => 0,
                    Some(Because::Warn) => 1,
                    Some(Because::Audit) => 2,
                    Some(_) => 3,
                };
                truth.entry((user, form)).or_default()[place] += 1;
            }
        }
        let report = report(lines.iter().map(String::as_bytes), LimitAdvice::Warn);
        let found: BTreeMap<_, _> = report.requests.iter().map(|one| {
            let form: u32 = one.form.request.rsplit(':').next().unwrap().parse().unwrap();
            ((one.form.user_id.unwrap(), form), [one.sum.refused, one.sum.warned, one.sum.audited, one.sum.exempt])
        }).collect();
        prop_assert_eq!(&found, &truth);
        let passed = truth.iter().map(|((user, _), counts)| (*user, counts[1] + counts[2]));
        let passed: BTreeMap<u32, u64> = passed.filter(|(_, sum)| *sum > 0).collect();
        prop_assert_eq!(report.users_would_be_refused, passed.len() as u64);
    }
}
