//! Tests of what is decided, told and kept.

use gpushare_node::job::JobKey;
use gpushare_slurm_text::Job;

use super::config::IdleAction;
use super::decide::FAR;
use super::*;

mod histories;
mod looks;
mod rules;
mod told;

/// A rule with two warnings, for all jobs.
const RULE: &str = "IdleWarn=0:10:00,0:15:00\nIdleLimit=0:20:00\nIdleAction=cancel\n";

fn look(usage: Usage) -> Look {
    let (key, node) = (JobKey { id: 7, restart: 0 }, Some("n1".to_owned()));
    Look { key, node, since: 1000, usage, processes: vec![(4711, 5)] }
}

fn told(job: Job) -> Running {
    Running {
        job: Job { nodes: 1, id: 7, name: "7".to_owned(), user: "alice".to_owned(), ..job },
        restarts: 0,
        nodes: "n1".to_owned(),
        is_batch: true,
    }
}

fn runs() -> Said {
    Said::Runs(Box::new(told(Job::default())))
}

fn at(seconds: u64) -> Now {
    Now { boot: "a".to_owned(), seconds }
}

/// Looks at these times, whose warnings are delivered; the steps other than none, with their times.
fn steps(rules: &str, looks: impl IntoIterator<Item = (u64, Usage, Said)>) -> Vec<(u64, Step)> {
    let rules = Rules::parse(rules).unwrap();
    let (mut history, mut found) = (None, Vec::new());
    for (seconds, usage, said) in looks {
        let decision = decide(history.as_ref(), &look(usage), &said, &rules, &at(seconds));
        history = decision.history;
        if let (Step::Warn(_), Some(history)) = (decision.step, &mut history) {
            history.told.push(history.idle);
        }
        if decision.step != Step::None {
            found.push((seconds, decision.step));
        }
    }
    found
}

/// A look each minute from the first to the last of these minutes.
fn each_minute(from: u64, to: u64, usage: Usage) -> impl Iterator<Item = (u64, Usage, Said)> {
    (from..=to).map(move |minute| (minute * 60, usage, runs()))
}

#[test]
fn an_idle_job_is_warned_twice_and_then_ends() {
    let end = Step::End(IdleAction::Cancel);
    let expected = [(600, Step::Warn(0)), (900, Step::Warn(1)), (1200, end)];
    assert_eq!(steps(RULE, each_minute(0, 20, Usage::Idle)), expected);
    assert_eq!(
        steps(&RULE.replace("cancel", "warn"), each_minute(0, 20, Usage::Idle))[2],
        (1200, Step::Over)
    );
    assert_eq!(steps("", each_minute(0, 99, Usage::Idle)), []);
}

#[test]
fn use_begins_its_idle_time_and_its_warnings_anew() {
    let looks = each_minute(0, 16, Usage::Idle).chain(each_minute(17, 17, Usage::Busy)).chain(each_minute(
        18,
        38,
        Usage::Idle,
    ));
    let expected = [
        (600, Step::Warn(0)),
        (900, Step::Warn(1)),
        (28 * 60, Step::Warn(0)),
        (33 * 60, Step::Warn(1)),
        (38 * 60, Step::End(IdleAction::Cancel)),
    ];
    assert_eq!(steps(RULE, looks), expected);
}

#[test]
fn a_look_that_sees_nothing_counts_for_nothing() {
    let idle = |from, to| each_minute(from, to, Usage::Idle);
    // Two looks that fail are within FAR; with a third one it begins anew.
    for (last_failed, expected) in [(6, 600), (7, 18 * 60)] {
        let looks =
            idle(0, 4).chain(each_minute(5, last_failed, Usage::Unknown)).chain(idle(last_failed + 1, 30));
        assert_eq!(steps(RULE, looks)[0], (expected, Step::Warn(0)), "{last_failed}");
    }
    for said in [Said::Nothing, Said::RunsNot] {
        let looks = idle(0, 19).chain([(1200, Usage::Idle, said)]);
        assert_eq!(steps(RULE, looks).len(), 2);
    }
    let never =
        [(0, Usage::Idle, runs()), (FAR + 1, Usage::Idle, runs()), (2 * (FAR + 1), Usage::Idle, runs())];
    assert_eq!(steps(&RULE.replace("0:10:00,0:15:00", "0:02:00"), never), []);
}

#[test]
fn a_suspended_job_begins_anew() {
    let looks = each_minute(0, 9, Usage::Idle).chain([(600, Usage::Idle, Said::RunsNot)]).chain(each_minute(
        11,
        21,
        Usage::Idle,
    ));
    assert_eq!(steps(RULE, looks), [(21 * 60, Step::Warn(0))]);
}

#[test]
fn a_job_that_runs_elsewhere_or_for_another_time_is_not_the_one_of_the_ledger() {
    for (restarts, nodes, idles) in [
        (0, "n1", true),
        (0, "n[1-3]", true),
        (0, "n[2-3]", false),
        (0, "n11", false),
        (0, "", false),
        (0, "r[0-1]n[0-3],n[1", false),
        (1, "n1", false),
    ] {
        let said =
            Said::Runs(Box::new(Running { restarts, nodes: nodes.to_owned(), ..told(Job::default()) }));
        let looks = each_minute(0, 20, Usage::Idle).map(|(at, usage, _)| (at, usage, said.clone()));
        assert_eq!(steps(RULE, looks).len(), if idles { 3 } else { 0 }, "{restarts} {nodes}");
    }
    let unnamed = Look { node: None, ..look(Usage::Idle) };
    let rules = Rules::parse(RULE).unwrap();
    assert_eq!(decide(None, &unnamed, &runs(), &rules, &at(100)).history, None);
}

#[test]
fn only_a_job_whose_gpus_are_all_here_ends() {
    for job in [
        Job { nodes: 2, ..told(Job::default()).job },
        Job { name: "7+0".to_owned(), ..told(Job::default()).job },
    ] {
        let said = Said::Runs(Box::new(Running { job, ..told(Job::default()) }));
        let looks = each_minute(0, 20, Usage::Idle).map(|(at, usage, _)| (at, usage, said.clone()));
        assert_eq!(steps(RULE, looks)[2], (1200, Step::Over));
    }
}

#[test]
fn another_start_or_boot_or_process_begins_anew() {
    let rules = Rules::parse(RULE).unwrap();
    let same = look(Usage::Idle);
    let known = decide(None, &same, &runs(), &rules, &at(100)).history;
    let idle = |look: &Look, said: &Said, now: &Now| {
        decide(known.as_ref(), look, said, &rules, now).history.map(|history| history.idle)
    };
    assert_eq!(idle(&same, &runs(), &at(160)), Some(60));
    let restarted = Look { key: JobKey { id: 7, restart: 1 }, ..same.clone() };
    let again = Said::Runs(Box::new(Running { restarts: 1, ..told(Job::default()) }));
    assert_eq!(idle(&restarted, &again, &at(160)), Some(0));
    let process = Look { processes: vec![(4711, 6)], ..same.clone() };
    for look in [Look { since: 1001, ..same.clone() }, process] {
        assert_eq!(idle(&look, &runs(), &at(160)), Some(0), "{look:?}");
    }
    assert_eq!(
        idle(&same, &Said::Runs(Box::new(told(Job { start: 9, ..Job::default() }))), &at(160)),
        Some(0)
    );
    assert_eq!(idle(&same, &runs(), &Now { boot: "b".to_owned(), seconds: 160 }), Some(0));
    assert_eq!(idle(&same, &runs(), &at(99)), Some(0), "a time that goes back");
}

#[test]
fn a_warning_that_comes_late_keeps_its_promise_and_a_new_rule_warns_anew() {
    let rules = Rules::parse(RULE).unwrap();
    let (mut history, mut found) = (None, Vec::new());
    for minute in 0..40 {
        let decision = decide(history.as_ref(), &look(Usage::Idle), &runs(), &rules, &at(minute * 60));
        history = decision.history;
        // slurmctld takes no line until minute 14.
        if let (Step::Warn(_), true, Some(history)) = (decision.step, minute >= 14, &mut history) {
            history.told.push(history.idle);
            found.push(minute);
        }
        if decision.step == Step::End(IdleAction::Cancel) {
            found.push(minute);
            break;
        }
    }
    assert_eq!(found, [14, 19, 24]);
    let shorter = Rules::parse(&RULE.replace("0:20:00", "0:16:00")).unwrap();
    let decision = decide(history.as_ref(), &look(Usage::Idle), &runs(), &shorter, &at(24 * 60));
    assert_eq!(decision.step, Step::Warn(0));
}

#[test]
fn what_is_kept_is_read_as_it_was_written_and_what_is_torn_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let state = State::at(dir.path());
    assert_eq!(state.read().unwrap(), (Vec::new(), Vec::new()));
    let _lock = state.lock().unwrap();
    assert!(matches!(state.lock(), Err(StateError::Taken)));
    let rules = Rules::parse(RULE).unwrap();
    let history = decide(None, &look(Usage::Idle), &runs(), &rules, &at(100)).history.unwrap();
    let history = History { told: vec![60, 120], idle: 180, ..history };
    state.write(&history).unwrap();
    assert_eq!(state.read().unwrap(), (vec![history.clone()], Vec::new()));
    let path = dir.path().join("idle/7");
    let whole = std::fs::read_to_string(&path).unwrap();
    for torn in (0..whole.len()).map(|end| &whole[..end]).chain(["", "x\n", &whole.replace("[7,0]", "[8,0]")])
    {
        std::fs::write(&path, torn).unwrap();
        assert_eq!(state.read().unwrap(), (Vec::new(), vec!["7".to_owned()]), "{torn}");
    }
    state.write(&history).unwrap();
    std::fs::rename(&path, dir.path().join("idle/9")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert_eq!(state.read().unwrap().1.len(), 2);
    state.write(&history).unwrap();
    assert_eq!(state.read().unwrap().0, [history]);
    state.remove(7).unwrap();
    assert!(!path.exists());
}
