//! gpushare.conf's keys.

use gpushare::config::Problem;
use gpushare::config::names::{Record, all};

use super::*;

#[test]
fn a_qos_counts_before_a_partition_and_a_partition_before_the_file() {
    let text = format!(
        "{RULE}QOS=long* IdleLimit=off\nQOS=q IdleWarn=1:00:00 IdleLimit=2:00:00\nPartitionName=p IdleWarn=1 \
         IdleLimit=2 IdleAction=requeue\nIdleExemptUsers=bob,2009\n"
    );
    let rules = Rules::parse(&text).unwrap();
    let limit = |qos: &str, partition: &str, user: &str, user_id| {
        let job = Job { qos: qos.to_owned(), partition: partition.to_owned(), user_id, ..Job::default() };
        let job = Job { user: user.to_owned(), ..told(job).job };
        rules.of(&Running { job, ..told(Job::default()) }).map(|rule| (rule.limit, rule.action))
    };
    let (requeue, cancel) = (IdleAction::Requeue, IdleAction::Cancel);
    for (qos, partition, user, user_id, expected) in [
        ("normal", "x", "alice", 2001, Some((1200, cancel))),
        ("normal", "p", "alice", 2001, Some((120, requeue))),
        ("normal", "P", "alice", 2001, Some((1200, cancel))),
        ("Q", "p", "alice", 2001, Some((7200, IdleAction::Warn))),
        ("LONG_x", "p", "alice", 2001, None),
        ("normal", "x", "Bob", 2002, None),
        ("normal", "x", "carol", 2009, None),
    ] {
        assert_eq!(limit(qos, partition, user, user_id), expected, "{qos} {partition} {user}");
    }
    assert!(Rules::parse("").unwrap().are_none());
    assert!(Rules::parse("QOS=q IdleLimit=off\nIdleLimit=off\n").unwrap().are_none());
    assert!(!rules.are_none());
}

#[test]
fn nobody_ends_while_the_name_service_is_down_if_the_exempt_have_names() {
    for (exempt, user, has_rule) in [
        ("root,2009", "alice", true),
        ("root,2009", "2001", false),
        ("root,2009", "nobody", false),
        ("root,2009", "", false),
        ("2009", "2001", true),
        ("2001", "2001", false),
    ] {
        let rules = Rules::parse(&format!("{RULE}IdleExemptUsers={exempt}\n")).unwrap();
        let mut told = told(Job::default());
        (told.job.user, told.job.user_id) = (user.to_owned(), 2001);
        assert_eq!(rules.of(&told).is_some(), has_rule, "{exempt} {user}");
    }
    let mut told = told(Job::default());
    (told.job.user, told.job.user_id) = ("2001".to_owned(), 2001);
    assert!(Rules::parse(RULE).unwrap().of(&told).is_some());
}

#[test]
fn an_interactive_job_has_its_grace() {
    let rules = Rules::parse(&format!("{RULE}IdleGrace=1:00:00\n")).unwrap();
    let times = |is_batch| {
        let rule = rules.of(&Running { is_batch, ..told(Job::default()) }).unwrap();
        (rule.warn, rule.limit)
    };
    assert_eq!(times(true), (vec![600, 900], 1200));
    assert_eq!(times(false), (vec![4200, 4500], 4800));
}

#[test]
fn a_mistake_names_the_key_its_value_and_what_is_allowed() {
    let warn = "1 to 4 rising times such as 1:00:00,1:45:00";
    let limit = "off, or a time above IdleWarn such as 2:00:00";
    for (text, expected) in [
        ("IdleWarn=soon", format!("line 1: IdleWarn can't be 'soon'; allowed is {warn}")),
        ("IdleWarn=2:00,1:00", format!("line 1: IdleWarn can't be '2:00,1:00'; allowed is {warn}")),
        ("IdleWarn=0", format!("line 1: IdleWarn can't be '0'; allowed is {warn}")),
        ("IdleWarn=1,2,3,4,5", format!("line 1: IdleWarn can't be '1,2,3,4,5'; allowed is {warn}")),
        ("QOS=q IdleLimit=never", format!("line 1: IdleLimit can't be 'never'; allowed is {limit}")),
        (
            "PartitionName=p IdleWarn=60,120 IdleLimit=60",
            format!("line 1: IdleLimit can't be '01:00:00'; allowed is {limit}"),
        ),
        (
            "IdleAction=kill",
            "line 1: IdleAction can't be 'kill'; allowed is warn, requeue or cancel".to_owned(),
        ),
        ("IdleGrace=x", "line 1: IdleGrace can't be 'x'; allowed is a time such as 1:00:00".to_owned()),
        ("QOS=q IdleWarn=60", "line 1: IdleWarn needs IdleLimit".to_owned()),
        ("IdleLimit=60", "IdleLimit needs IdleWarn".to_owned()),
        ("IdleAction=cancel", "IdleAction needs IdleLimit".to_owned()),
        (
            "QOS=q IdleLimit=off IdleAction=warn",
            "line 1: IdleAction needs an IdleLimit that is not off".to_owned(),
        ),
    ] {
        assert_eq!(Rules::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

/// The parser's lists have this part's keys.
#[test]
fn every_name_is_a_key_of_this_part() {
    let mut count = 0;
    for record in [None, Some(Record::Qos), Some(Record::Partition)] {
        for key in all(record).into_iter().filter(|key| key.starts_with("Idle")) {
            let line = record.map_or_else(String::new, |record| format!("{}=x ", record.key()));
            let problem = Rules::parse(&format!("{line}{key}=;,")).unwrap_err().problem;
            assert!(matches!(problem, Problem::BadValue { key: found, .. } if found == key), "{key}");
            count += 1;
        }
    }
    assert_eq!(count, 5 + 4 + 4);
}

#[test]
fn check_compares_the_qoses_that_only_these_keys_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gpushare.conf");
    let named = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let mut config = Config::load_named(&path).unwrap();
        names(&path, &mut config).map(|()| config.policy.records.len()).map_err(|error| error.to_string())
    };
    assert_eq!(named("QOS=q IdleLimit=off\nQOS=r Mode=warn IdleLimit=off\n"), Ok(2));
    assert!(named("QOS=q IdleLimit=never\n").unwrap_err().contains("IdleLimit can't be 'never'"));
}
