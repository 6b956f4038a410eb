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
    act: impl FnOnce(super::super::act::Ask) -> Result<T, String>,
) -> (Vec<String>, Result<T, String>) {
    let mut all = Vec::new();
    let mut ask = |program: &str, arguments: &[&str]| {
        let line = [&[program], arguments].concat().join(" ");
        all.push(line.clone());
        if !refused.is_empty() && line.contains(refused) {
            return Err("Requested operation is presently disabled for job 7".to_owned());
        }
        Ok("MailProg = /bin/mail\n".to_owned())
    };
    let result = act(&mut ask);
    (all, result)
}

#[test]
fn a_line_in_the_output_or_mail_tells_the_user() {
    let job = told(Job { name: "7".to_owned(), ..Job::default() });
    let (output, mail) = ("scontrol notify 7 note", ["scontrol show config", "/bin/mail -s note alice"]);
    let said = |notify, refused: &str| {
        let (all, result) = commands(refused, |ask| tell(&job, "note", notify, ask));
        (all, result.is_ok())
    };
    assert_eq!(said(IdleNotify::Output, ""), (vec![output.to_owned()], true));
    assert_eq!(said(IdleNotify::Mail, ""), (mail.map(str::to_owned).to_vec(), true));
    assert_eq!(said(IdleNotify::Both, "").0.len(), 3);
    assert!(said(IdleNotify::Both, "notify").1 && said(IdleNotify::Both, "mail").1, "one is enough");
    assert!(!said(IdleNotify::Output, "notify").1 && !said(IdleNotify::Mail, "mail").1);
    let odd = Running { job: Job { user: "-x".to_owned(), ..job.job.clone() }, ..job.clone() };
    assert!(tell(&odd, "note", IdleNotify::Mail, &mut |_, _| Ok(String::new())).is_err());
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
