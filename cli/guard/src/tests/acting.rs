//! What two looks agree on.

use super::*;

const ALL: usize = usize::MAX;

fn acted(first: &[Made], second: &[Made], conf: &str) -> Vec<String> {
    let chosen = agree(&snapshot(first), &snapshot(second), &rules(conf), ALL);
    chosen.into_iter().map(|(job, _)| job.handle).collect()
}

#[test]
fn only_what_two_looks_agree_on_is_acted_upon() {
    let job = |id, made: Made| Made { id, qos: "typed", ..made };
    let both = [job(1, TWO), job(2, ONE)];
    assert_eq!(acted(&both, &both, ""), ["2"]);
    // It is gone, or new, or has started again; the one before it is gone; the user isn't held to limits any more.
    assert_eq!(acted(&both, &both[..1], ""), [""; 0]);
    assert_eq!(acted(&both[..1], &both, ""), [""; 0]);
    assert_eq!(acted(&both, &[job(1, TWO), Made { start: 99, ..job(2, ONE) }], ""), [""; 0]);
    assert_eq!(acted(&both, &both[1..], ""), [""; 0]);
    assert_eq!(acted(&both, &both, "ExemptUsers=alice"), [""; 0]);
    assert_eq!(acted(&both, &both, "Mode=audit"), [""; 0]);
    assert_eq!(acted(&both, &both, "Mode=enforce\nQOS=typed Mode=warn"), [""; 0]);
    // The limit was raised.
    let mut raised = snapshot(&both);
    raised.qoses.extend(qoses("typed||gres/gpu:a40=4,gres/gpu:h100=0||||\n"));
    assert_eq!(agree(&snapshot(&both), &raised, &rules(""), ALL), []);
    // Slurm holds nobody to limits.
    let mut free = snapshot(&both);
    free.settings = Settings::default();
    assert_eq!(agree(&snapshot(&both), &free, &rules(""), ALL), []);
    // A type that isn't named is no limit that is passed.
    let unnamed = [Made { asks: "gres/gpu:1", ..job(1, ONE) }];
    assert_eq!(acted(&unnamed, &unnamed, ""), [""; 0]);
}

#[test]
fn who_is_within_once_others_are_gone_stays() {
    // Job 2 is beyond the account's limit; without it job 3 is within the limit of the QOS.
    let made = [
        Made { id: 1, account: "capped", ..TWO },
        Made { id: 2, account: "capped", qos: "user", ..TWO },
        Made { id: 3, qos: "user", ..TWO },
    ];
    assert_eq!(acted(&made, &made, ""), ["2"]);
}

#[test]
fn a_task_is_acted_upon_alone_and_a_heterogeneous_job_once() {
    let task = [Made { id: 7, name: "_3", qos: "typed", ..FOUR }];
    assert_eq!(acted(&task, &task, ""), ["7_3"]);
    let mut now = snapshot(&[Made { qos: "job", ..TWO }, Made { id: 2, qos: "job", ..TWO }]);
    for (at, job) in now.jobs.iter_mut().enumerate() {
        job.name = format!("1+{at}");
    }
    let chosen = agree(&now.clone(), &now, &rules(""), ALL);
    assert_eq!(chosen.iter().map(|(job, _)| job.handle.as_str()).collect::<Vec<_>>(), ["1"]);
}

#[test]
fn one_look_tells_whether_there_is_anything_to_do() {
    let any = |made: &[Made], conf: &str| {
        let (now, rules) = (snapshot(made), rules(conf));
        any_to_act_on(&now, &judge(&now, &rules))
    };
    let over = [Made { qos: "typed", ..FOUR }];
    assert!(any(&over, ""));
    for conf in ["Mode=audit", "ExemptUsers=alice"] {
        assert!(!any(&over, conf), "{conf}");
    }
    assert!(!any(&[Made { qos: "typed", ..TWO }], ""));
    let mut free = snapshot(&over);
    free.settings = Settings::default();
    assert!(!any_to_act_on(&free, &judge(&free, &rules(""))));
}

#[test]
fn no_more_are_chosen_than_asked_for_and_the_oldest_first() {
    let made: Vec<Made> = (1..=9).map(|id| Made { id, qos: "typed", ..TWO }).collect();
    let now = snapshot(&made);
    let chosen =
        |most| agree(&now, &now, &rules(""), most).into_iter().map(|(job, _)| job.id).collect::<Vec<_>>();
    assert_eq!((chosen(3), chosen(ALL).len()), (vec![2, 3, 4], 8));
}
