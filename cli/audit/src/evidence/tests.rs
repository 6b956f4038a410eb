//! What logs show, line by line, and what follows if they have no request.

use jiff::tz::TimeZone;

use super::super::collect::Collector;
use super::super::moment::Clock;
use super::*;

const PERIOD: Period = Period { start: 1_700_000_000, end: 1_700_600_000 };
const BEFORE: u32 = PERIOD.start - 1_000;
const IN: u32 = PERIOD.start + 1_000;
const AFTER: u32 = PERIOD.end + 1_000;

const START: &str = "slurmctld version 24.11.5 started on cluster lab(1)";
const OURS: &str = "job_submit/gpushare: /etc/slurm/gpushare.conf read";
const OTHER: &str = "sched: Allocate JobId=1";

fn unasked() -> Loaded {
    Loaded::Unknown(String::new())
}

fn collected(lines: &[String]) -> Collector {
    let mut collector = Collector::new(PERIOD);
    let clock = Clock { zone: TimeZone::UTC, latest: AFTER + 86_400 };
    lines.iter().for_each(|line| collector.take(line.as_bytes(), &clock));
    collector
}

fn log(lines: &[(u32, &str)]) -> Vec<String> {
    let time = |time: u32| jiff::Timestamp::from_second(time.into()).unwrap().to_string();
    lines.iter().map(|(when, message)| format!("[{}] {message}", time(*when))).collect()
}

fn doubt_of(lines: &[(u32, &str)], loaded: &Loaded) -> Option<Doubt> {
    collected(&log(lines)).doubts(loaded).into_iter().next()
}

#[test]
fn gpushare_was_there_if_it_spoke_since_the_last_start() {
    for (lines, doubt) in [
        // It spoke in the period, or before it and slurmctld hasn't started again.
        (&[(IN, START), (IN, OURS), (IN, OTHER)][..], None),
        (&[(BEFORE, START), (BEFORE, OURS), (IN, OTHER)], None),
        (&[(BEFORE, OURS), (IN, OTHER)], None),
        (&[(BEFORE, OURS), (IN, START), (IN, OURS)], None),
        (&[(IN, START), (IN, OTHER), (IN, OURS), (AFTER, START)], None),
        (&[(IN, OTHER), (IN, "error: job_submit/gpushare: the last good rules stay in force")], None),
        // Not at all, or not any more.
        (&[(IN, START), (IN, OTHER)], Some(Doubt::Silent(Some(IN)))),
        (&[(BEFORE, START), (BEFORE, OURS), (IN, START), (IN + 9, OTHER)], Some(Doubt::Silent(Some(IN)))),
        (&[(IN, OTHER)], Some(Doubt::NotShown)),
        (&[(IN, OTHER), (AFTER, OURS)], Some(Doubt::NotShown)),
        // What somebody else says of it is nothing.
        (&[(IN, "sched: job_submit/gpushare: x"), (IN, OTHER)], Some(Doubt::NotShown)),
        (&[(IN, START), (IN, OURS), (IN, "sched: x started on cluster y")], None),
    ] {
        assert_eq!(doubt_of(lines, &unasked()), doubt, "{lines:?}");
    }
}

#[test]
fn a_standby_tells_nothing_of_what_the_other_one_judged() {
    let (stands_by, in_control) = ("slurmctld running in background mode", "Running as primary controller");
    for (lines, doubt, is_partial) in [
        (&[(IN, START), (IN, OURS), (IN, stands_by), (IN, OTHER)][..], Some(Doubt::StandsBy), true),
        // Another controller's log beside it, or it took control itself.
        (&[(IN, START), (IN, OURS), (IN, stands_by), (IN, START), (IN, OURS), (IN, in_control)], None, true),
        (&[(IN, START), (IN, OURS), (IN, in_control), (IN, OTHER)], None, false),
        (
            &[(IN, START), (IN, OURS), (IN, "error: slurmctld running in background mode"), (IN, OTHER)],
            None,
            false,
        ),
    ] {
        assert_eq!(doubt_of(lines, &unasked()), doubt, "{lines:?}");
        assert_eq!(collected(&log(lines)).evidence.stood_by, is_partial, "{lines:?}");
    }
}

/// In a file of slurmctld's own, one with a user's line break would do for every report.
#[test]
fn no_users_line_break_keeps_audit_from_an_answer() {
    let bare = "job_submit/gpushare: accepted (audit) x".to_owned();
    let mut lines = log(&[(IN, START), (IN, OURS), (IN, "job_submit/gpushare: accepted x"), (IN, OTHER)]);
    lines.push(bare.clone());
    let collected = collected(&lines);
    assert_eq!(collected.doubts(&unasked()), []);
    assert_eq!((collected.unreadable, collected.evidence.odd), (1, 1), "but it is told");
    // Where no line is slurmctld's as a whole, as with journalctl -o cat, they may be all that there is.
    let head = format!("{} head slurmctld[8]: {OTHER}", jiff::Timestamp::from_second(IN.into()).unwrap());
    assert_eq!(self::collected(&[head, bare]).doubts(&unasked()), [Doubt::Bare(1)]);
}

#[test]
fn slurmctld_itself_knows_better() {
    let without = Loaded::No("lua".to_owned());
    for lines in [&[(IN, OTHER)][..], &[(IN, START), (IN, OTHER)]] {
        assert_eq!(doubt_of(lines, &Loaded::Yes), None, "{lines:?}");
        assert_eq!(doubt_of(lines, &without), Some(Doubt::NotLoaded("lua".to_owned())), "{lines:?}");
    }
    assert!(matches!(doubt_of(&[(IN, OURS)], &without), Some(Doubt::NotLoaded(_))));
    assert_eq!(of_counts(&Loaded::Yes), None);
    assert!(matches!(of_counts(&without), Some(Doubt::NotLoaded(_))));
    assert!(matches!(of_counts(&unasked()), Some(Doubt::NotCounted(_))));
}

/// Whatever slurmctld says of itself.
#[test]
fn logs_without_its_lines_tell_nothing() {
    for loaded in [Loaded::Yes, unasked()] {
        assert_eq!(doubt_of(&[], &loaded), Some(Doubt::Empty));
        for lines in
            [&[(BEFORE, START), (BEFORE, OURS)][..], &[(AFTER, OURS)], &[(BEFORE, OURS), (AFTER, OURS)]]
        {
            let found = doubt_of(lines, &loaded);
            assert!(matches!(found, Some(Doubt::Outside(..))), "{lines:?}: {found:?}");
        }
        let errors =
            [(BEFORE, OURS), (IN, "error: x"), (IN, "fatal: y"), (IN, "error: job_submit/gpushare: z")];
        assert_eq!(doubt_of(&errors, &loaded), Some(Doubt::OnlyErrors));
        let foreign =
            ["Nov 14 22:13:20 head slurmd[1]: x", "", "y: job_submit/gpushare: z"].map(str::to_owned);
        let [Doubt::Foreign(2, odd, example)] = &collected(&foreign).doubts(&loaded)[..] else {
            panic!("{:?}", collected(&foreign).doubts(&loaded))
        };
        assert_eq!(odd, ", though 1 with 'job_submit/gpushare:'");
        assert_eq!(example, &foreign[0]);
    }
}

#[test]
fn a_request_of_which_only_the_start_is_left_is_a_doubt() {
    let line = |verdict: &str| {
        let line = format!("job_submit/gpushare: {verdict} GS101 uid=1 qos='q' asked='{}", "x".repeat(450));
        let line = &line[..500];
        assert_eq!(crate::line::parse(line.as_bytes()), None);
        assert_eq!(
            doubt_of(&[(IN, OURS), (IN, line)], &unasked()),
            None,
            "Slurm cuts nothing in its own file"
        );
        let head = format!("{} head slurmctld[8]: ", jiff::Timestamp::from_second(IN.into()).unwrap());
        collected(&[OURS, line].map(|line| format!("{head}{line}"))).doubts(&unasked()).into_iter().next()
    };
    for accepted in ["accepted (audit)", "accepted (warn)"] {
        assert_eq!(line(accepted), Some(Doubt::Cut(1)), "{accepted}");
    }
    for other in ["refused", "accepted (exempt user)"] {
        assert_eq!(line(other), None, "{other}");
    }
    let bare = |verdict: &str| format!("job_submit/gpushare: {verdict} GS101 uid=1 qos='q'");
    for (verdict, doubts) in
        [("accepted (warn)", &[Doubt::Bare(1)][..]), ("accepted (exempt user)", &[]), ("refused", &[])]
    {
        let ours = format!("{} head slurmctld[8]: {OURS}", jiff::Timestamp::from_second(IN.into()).unwrap());
        let lines = [ours, bare(verdict), format!("x {}", bare(verdict))];
        assert_eq!(collected(&lines).doubts(&unasked()), doubts, "{verdict}");
    }
    let json = |message: &str| {
        format!(
            r#"{{"SYSLOG_IDENTIFIER":"slurmctld","_SYSTEMD_UNIT":"slurmctld.service","MESSAGE":{message},"__REALTIME_TIMESTAMP":"{IN}000000"}}"#
        )
    };
    let whole = json(&format!("\"{OURS}\""));
    assert_eq!(collected(&[whole.clone(), json("[1,2]")]).doubts(&unasked()), []);
    assert_eq!(collected(&[whole, json("null")]).doubts(&unasked()), [Doubt::LeftOut(1)]);
}

#[test]
fn times_without_gpushare_are_told() {
    for (lines, times) in [
        // It was installed in the period; slurmctld ran without it for a time; it failed to start for some time.
        (&[(IN, START), (IN + 500, START), (IN + 500, OURS)][..], &[(IN, IN + 500)][..]),
        (&[(IN, OTHER), (IN + 500, START), (IN + 500, OURS)], &[(IN, IN + 500)]),
        (&[(BEFORE, START), (BEFORE, OTHER), (IN, START), (IN, OURS)], &[(BEFORE, IN)]),
        (
            &[(IN, OURS), (IN + 10, START), (IN + 50, START), (IN + 90, START), (IN + 90, OURS)],
            &[(IN + 10, IN + 90)],
        ),
        // Lines before the one that names it, as at each start; a restart; what was before the period.
        (&[(IN, "debug:  x"), (IN, START), (IN, OURS), (IN + 500, OTHER)], &[]),
        (&[(IN, START), (IN, OURS), (IN + 500, START), (IN + 500, OURS)], &[]),
        (&[(BEFORE - 500, START), (BEFORE, START), (BEFORE, OURS), (IN, OTHER)], &[]),
    ] {
        let collector = collected(&log(lines));
        assert_eq!(collector.evidence.without().collect::<Vec<_>>(), times, "{lines:?}");
    }
}

/// With SlurmctldSyslogDebug the journal has each message of slurmctld's unit twice.
#[test]
fn a_message_that_came_in_two_ways_is_one() {
    let request = "job_submit/gpushare: accepted (audit) GS101 uid=1 qos='q' asked='gpu:2'";
    let long = format!("{request} name='{}'", "x".repeat(500));
    let time = |time: u32| jiff::Timestamp::from_second(time.into()).unwrap().to_string();
    let stderr = |when: u32, message: &str| format!("{} head slurmctld[1]: slurmctld: {message}", time(when));
    let syslog = |when: u32, message: &str| format!("{} head slurmctld[1]: {message}", time(when));
    for (lines, count, unreadable) in [
        (vec![stderr(IN, request), syslog(IN, request)], 1, 0),
        (vec![syslog(IN, request), stderr(IN + 1, request)], 1, 0),
        (vec![stderr(IN, request), stderr(IN, request), syslog(IN, request), syslog(IN, request)], 2, 0),
        // syslog cuts at 500 bytes; a line that was cut anywhere else is no second one.
        (vec![stderr(IN, &long), syslog(IN, &long[..500])], 1, 0),
        (vec![stderr(IN, &long), syslog(IN, &long[..499])], 1, 1),
        (vec![stderr(IN, request), syslog(IN + 6, request)], 2, 0),
        (vec![stderr(IN, request), stderr(IN, request)], 2, 0),
        (vec![syslog(IN, request), syslog(IN, request)], 2, 0),
    ] {
        let collector = collected(&lines);
        let found: u64 = collector.forms.values().map(|sum| sum.audited).sum();
        assert_eq!((found, collector.unreadable), (count, unreadable), "{lines:?}");
    }
}
