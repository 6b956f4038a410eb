//! What users are told, and which commands end jobs.

use super::super::act::{end, note, tell};
use super::*;

fn rule(action: &str) -> Rule {
    Rules::parse(&RULE.replace("cancel", action)).unwrap().others.unwrap()
}

#[test]
fn a_user_is_told_what_comes_and_why_it_came() {
    let job = told(Job::default());
    let said = |action: &str, step| note(&job, &rule(action), 605, step, "n1");
    assert_eq!(
        said("cancel", Step::Warn(0)),
        "gpushare: job 7 has not used its GPUs for 00:10:05; it will be cancelled in 00:10:00 unless it uses one"
    );
    assert_eq!(
        said("requeue", Step::Warn(1)),
        "gpushare: job 7 has not used its GPUs for 00:10:05; it will be requeued, or cancelled if it can't be \
         requeued, in 00:05:00 unless it uses one"
    );
    assert_eq!(said("warn", Step::Warn(0)), "gpushare: job 7 has not used its GPUs for 00:10:05");
    assert_eq!(
        said("cancel", Step::End(IdleAction::Cancel)),
        "gpushare: job 7 has not used its GPUs for 00:10:05 and is cancelled (IdleLimit=00:20:00)"
    );
    let large = Running { job: Job { nodes: 2, ..job.job.clone() }, ..job.clone() };
    assert_eq!(
        note(&large, &rule("cancel"), 605, Step::Warn(0), "n1"),
        "gpushare: job 7 has not used its GPUs on n1 for 00:10:05"
    );
}

/// The commands that were run, and the result; those that `refused` names fail.
fn commands<T>(
    refused: &str,
    act: impl FnOnce(gpushare_slurm_run::control::Ask) -> Result<T, String>,
) -> (Vec<String>, Result<T, String>) {
    let mut all = Vec::new();
    let mut ask = |program: &str, arguments: &[&str]| {
        let line = [&[program], arguments].concat().join(" ");
        all.push(line.clone());
        if !refused.is_empty() && line.contains(refused) {
            return Err("Requested operation is presently disabled for job 7".to_owned());
        }
        Ok(String::new())
    };
    let result = act(&mut ask);
    (all, result)
}

#[test]
fn a_line_in_the_output_tells_the_user() {
    let job = told(Job::default());
    let line = vec!["scontrol notify 7 note".to_owned()];
    assert_eq!(commands("", |ask| tell(&job, "note", ask)), (line, Ok(true)));
    assert!(commands("notify", |ask| tell(&job, "note", ask)).1.is_err());
}

#[test]
fn an_allocation_without_output_is_not_kept_for_want_of_a_warning() {
    let without = Running { is_batch: false, ..told(Job::default()) };
    let warned = |why: &str| tell(&without, "note", &mut |_, _| Err(why.to_owned()));
    assert_eq!(warned("job notify failure: Requested operation is presently disabled"), Ok(false));
    assert!(warned("slurmctld is away").is_err());
}

/// What runs of an idle job each minute do: the commands, without their notes; the steps; and the failures. `answer`
/// says what a command prints; the second argument says in which minutes nothing can be kept.
fn runs_of(
    minutes: u64,
    full: &[u64],
    mut answer: impl FnMut(&str, u64) -> Result<String, String>,
) -> (Vec<(u64, String)>, Vec<One>, Vec<String>) {
    let rules = Rules::parse(RULE).unwrap();
    let (mut disk, mut all, mut ones, mut failures) = (None, Vec::new(), Vec::new(), Vec::new());
    for minute in 0..=minutes {
        let known: Vec<History> = disk.iter().cloned().collect();
        let mut job = |_| Ok(runs());
        let mut ask = |program: &str, arguments: &[&str]| {
            let line = [program, arguments[0]].join(" ");
            all.push((minute, line.clone()));
            answer(&line, minute)
        };
        let mut write = |history: &History| {
            if full.contains(&minute) {
                return Err("no space left".to_owned());
            }
            disk = Some(history.clone());
            Ok(())
        };
        let (job, ask, write): (_, control::Ask, _) = (&mut job, &mut ask, &mut write);
        let (node, is_dry) = ("n1".to_owned(), false);
        let mut run = Run { node, is_dry, job, ask, write, failures: Vec::new(), all: Vec::new() };
        run.each(&known, &[look(Usage::Idle)], &rules, &at(minute * 60));
        ones.append(&mut run.all);
        failures.append(&mut run.failures);
    }
    all.retain(|(_, line)| line != "scontrol show");
    (all, ones, failures)
}

fn line(minute: u64, text: &str) -> (u64, String) {
    (minute, text.to_owned())
}

#[test]
fn an_end_that_is_refused_is_tried_again_and_told_once() {
    let refused = |line: &str, _| {
        if line.starts_with("scancel") { Err("refused".to_owned()) } else { Ok(String::new()) }
    };
    let (lines, ones, failures) = runs_of(22, &[], refused);
    let told = [10, 15, 20].map(|minute| line(minute, "scontrol notify"));
    let tried = [20, 21, 22].map(|minute| line(minute, "scancel 7"));
    let mut expected = [told, tried].concat();
    expected.sort_by_key(|(minute, _)| *minute);
    assert_eq!(lines, expected);
    assert_eq!((failures.len(), ones.last().map(|one| one.warned)), (3, Some(2)));
}

#[test]
fn nobody_is_told_what_the_next_run_would_not_know() {
    let (lines, _, failures) = runs_of(21, &[10, 11], |_, _| Ok(String::new()));
    let expected = [(12, "scontrol notify"), (17, "scontrol notify")];
    assert_eq!(lines, expected.map(|(minute, text)| line(minute, text)));
    assert_eq!(failures, ["job 7: no space left"; 2]);
    // One that dies after the line, or before it.
    let mut steps = Vec::new();
    let dies = |line: &str, minute| {
        steps.push(minute);
        if line == "scontrol notify" && minute == 10 { Err("it died".to_owned()) } else { Ok(String::new()) }
    };
    let (lines, ones, _) = runs_of(11, &[], dies);
    assert_eq!(lines, [line(10, "scontrol notify"), line(11, "scontrol notify")]);
    assert_eq!(ones.last().map(|one| (one.idle, one.warned)), Some((660, 1)));
}

#[test]
fn a_job_of_scrontab_is_only_warned() {
    let record = |more: &str| {
        format!("JobId=7 JobName=x\n   UserId=alice(2001) GroupId=x\n   {more}Requeue=1\n   Command=x\n")
    };
    let ends = |said: &str| {
        let answer =
            |line: &str, _| Ok(if line == "scontrol show" { said.to_owned() } else { String::new() });
        let (lines, ones, failures) = runs_of(20, &[], answer);
        assert!(failures.is_empty(), "{failures:?}");
        (lines.len(), ones.last().unwrap().step)
    };
    assert_eq!(ends(&record("CronJob=Yes ")), (2, Step::Over));
    assert_eq!(ends(&record("")), (4, Step::End(IdleAction::Cancel)));
    // A user's text.
    let forged = record("").replace("JobName=x", "JobName=x\n   UserId=x\n   CronJob=Yes");
    assert_eq!(ends(&forged), (4, Step::End(IdleAction::Cancel)));
    let silent =
        |line: &str, _| if line == "scontrol show" { Err("late".to_owned()) } else { Ok(String::new()) };
    assert_eq!(runs_of(10, &[], silent).0, []);
}

#[test]
fn a_job_that_cannot_be_requeued_is_cancelled_and_a_task_ends_alone() {
    let mut job = told(Job::default());
    job.job.name = "12_3".to_owned();
    let ended = |action, refused: &str| commands(refused, |ask| end(&job, action, ask));
    assert_eq!(ended(IdleAction::Cancel, ""), (vec!["scancel 12_3".to_owned()], Ok("cancelled")));
    assert_eq!(ended(IdleAction::Requeue, ""), (vec!["scontrol requeue 12_3".to_owned()], Ok("requeued")));
    assert_eq!(ended(IdleAction::Requeue, "requeue").1, Ok("cancelled"));
    let silent = end(&job, IdleAction::Requeue, &mut |_, _| Err("no answer".to_owned()));
    assert_eq!(silent, Err("no answer".to_owned()));
}
