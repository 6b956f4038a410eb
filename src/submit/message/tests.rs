//! The exact texts, if users and the documentation rely on them.

use super::pages::{PAGES, page};
use super::*;
use crate::submit::request::Field;

fn untyped() -> Refusal {
    Refusal {
        rule: Rule::TypeMissing,
        ground: Ground::Qos(b"qos_lafferty".to_vec()),
        asked: b"gpu:2".to_vec(),
        field: Field::Node,
        gres: b"gpu".to_vec(),
        resembles: Vec::new(),
        count: 2,
        offer: Offer::OfQos(vec![(b"a40".to_vec(), Some(4))]),
        beyond: None,
        denied: false,
        correction: None,
        command: Command::Submit,
    }
}

#[test]
fn a_warning_says_that_the_job_was_accepted() {
    let text = remark(&Remark::Passed(Box::new(untyped()), Because::Warn)).unwrap();
    assert!(text.starts_with("gpushare: warning: QOS 'qos_lafferty' requires"), "{text}");
    assert!(text.ends_with("\n  accepted for now; GS101, see `gpushare explain GS101`"), "{text}");
    assert_eq!(remark(&Remark::Passed(Box::new(untyped()), Because::Audit)), None);
    assert_eq!(remark(&Remark::Passed(Box::new(untyped()), Because::User)), None);
}

#[test]
fn a_share_larger_than_a_gpu_is_not_told_of_sizes() {
    let offer = Offer::UpTo(100);
    let refused = Refusal {
        rule: Rule::ShareSize,
        ground: Ground::Site,
        asked: b"mps:150".to_vec(),
        offer,
        ..untyped()
    };
    let expected = "gpushare: the share 'mps:150' is more than one GPU\n  at most: 100, a whole GPU\n  GS122, see \
                    `gpushare explain GS122`";
    assert_eq!(refusal(&refused), expected);
}

#[test]
fn what_was_changed_is_said() {
    let qos = b"savio_lowprio".to_vec();
    let change = Change::Throttle { qos, array: b"0-127%8".to_vec(), tasks: 8, over_minutes: 120 };
    assert_eq!(
        remark(&Remark::Changed(change)).unwrap(),
        "gpushare: QOS 'savio_lowprio' runs at most 8 array tasks longer than 2:00 hours at once: \
         --array=0-127%8 was set (GS154)"
    );
    let (qos, asked, given) = (|| b"q".to_vec(), b"gpu:2".to_vec(), b"gpu:a40:2".to_vec());
    let typed = |asked: &[u8]| Change::Type {
        qos: qos(),
        fields: Vec::new(),
        asked: asked.to_vec(),
        given: given.clone(),
    };
    let share = Change::Share {
        text: Vec::new(),
        asked: b"gpumem:6000M".to_vec(),
        given: b"mps:20".to_vec(),
        mebibytes: 6000,
    };
    for (change, expected) in [
        (typed(b""), "QOS 'q' requires a GPU type; 'gpu:a40:2' was added (GS151)"),
        (typed(&asked), "QOS 'q' requires a GPU type; 'gpu:2' was changed to 'gpu:a40:2' (GS151)"),
        (Change::Requeue { qos: qos() }, "jobs of QOS 'q' may be preempted: --requeue was set (GS152)"),
        (
            Change::Append { qos: qos() },
            "jobs of QOS 'q' may start again: --open-mode=append was set (GS153)",
        ),
        (
            Change::Throttle { qos: qos(), array: b"0-9%1".to_vec(), tasks: 1, over_minutes: 61 },
            "QOS 'q' runs at most 1 array tasks longer than 1:01 hours at once: --array=0-9%1 was set (GS154)",
        ),
        (
            Change::UserEnv,
            "the node doesn't run your login shell before the job; the job has only the variables that you export \
             (GS155)",
        ),
        (share, "'gpumem:6000M' was changed to 'mps:20', a share with 6000M of GPU memory (GS156)"),
    ] {
        assert_eq!(remark(&Remark::Changed(change)), Some(format!("gpushare: {expected}")));
    }
}

#[test]
fn it_is_said_whose_rule_it_is_and_what_is_there() {
    let account = |own| Ground::Account { name: b"lab".to_vec(), own, named: None };
    let of_cluster = Offer::OfCluster(vec![b"a40".to_vec(), b"h100".to_vec()]);
    for (ground, offer, whose, what) in [
        (account(false), untyped().offer, "account 'lab' limits GPU types", "this account has: a40 (4)"),
        (
            account(true),
            untyped().offer,
            "your association with account 'lab' limits GPU types",
            "this association has: a40 (4)",
        ),
        (
            Ground::Partition(b"p".to_vec()),
            of_cluster.clone(),
            "partition 'p' requires a GPU type",
            "this cluster has: a40, h100",
        ),
        (
            Ground::Partition(Vec::new()),
            of_cluster.clone(),
            "a reservation without --partition requires a GPU type",
            "this cluster has: a40, h100",
        ),
        (account(false), of_cluster, "account 'lab' requires a GPU type", "this cluster has: a40, h100"),
    ] {
        let expected = format!(
            "gpushare: {whose}; 'gpu:2' has no type\n  {what}\n  GS101, see `gpushare explain GS101`"
        );
        assert_eq!(refusal(&Refusal { ground, offer, ..untyped() }), expected);
    }
    let fixed = Refusal { rule: Rule::ShareFixed, offer: Offer::Nothing, ..untyped() };
    assert!(refusal(&fixed).contains("a job's share 'gpu:2' can't be changed after submission\n"));
}

#[test]
fn what_one_rule_says_of_two_causes_differs() {
    let said = |rule, ground, field| {
        refusal(&Refusal { rule, ground, field, resembles: b"a40".to_vec(), ..untyped() })
    };
    let (named, none) = (Ground::Partition(b"p".to_vec()), Ground::Partition(Vec::new()));
    for (rule, field, of_none, of_named) in [
        (Rule::WholeGpu, Field::Node, "specify the partition for 'gpu:2'", "partition 'p' is for shares"),
        (
            Rule::GpuMissing,
            Field::Node,
            "specify the partition for a job without",
            "partition 'p' is for jobs",
        ),
    ] {
        let texts = [none.clone(), named.clone()].map(|ground| said(rule, ground, field));
        assert!(texts[0].contains(of_none) && texts[1].contains(of_named), "{texts:?}");
    }
    let (qos, site) = (|| untyped().ground, Ground::Site);
    for (rule, ground, field, expected) in [
        (Rule::NotAlone, qos(), Field::Task, "change tasks or GPUs in a separate command"),
        (Rule::NotAlone, qos(), Field::Node, "use a command that changes only its QOS, partition, and GPUs"),
        (Rule::NotRestated, site, Field::Node, "to move a job out of a reservation for shares"),
        (Rule::NotRestated, qos(), Field::Node, "to move a job to QOS 'qos_lafferty'"),
        (Rule::ShareSize, qos(), Field::Node, "has a size that this cluster doesn't allow"),
        (Rule::TypeResembles, qos(), Field::Node, "doesn't exist here, but Slurm would treat it as 'a40'"),
    ] {
        let text = said(rule, ground, field);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn user_text_can_not_break_the_lines() {
    let refused = Refusal { asked: b"gpu\n%s\xff\x1b[0m".to_vec(), ..untyped() };
    let text = refusal(&refused);
    assert!(text.is_ascii() && text.lines().count() == 3, "{text}");
}

#[test]
fn every_number_has_a_page_and_every_page_a_number() {
    let numbers = Rule::ALL.map(Rule::number).into_iter().chain(Change::NUMBERS);
    assert_eq!(PAGES.iter().map(|page| page.number).collect::<Vec<_>>(), numbers.collect::<Vec<_>>());
    assert!(PAGES.iter().all(|page| !page.title.is_empty() && page.text.trim().ends_with('.')));
    assert_eq!(page("gs101").map(|page| page.number), Some("GS101"));
    assert_eq!(page("GS999"), None);
}

#[test]
fn docs_messages_names_what_holds_in_every_mode() {
    let text = include_str!("../../../docs/messages.md");
    let (_, section) = text.split_once("\n## In every mode\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let named: Vec<&str> =
        section.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("GS")).collect();
    let holds = Rule::ALL.into_iter().filter(|rule| rule.is(Trait::Always)).map(Rule::number);
    assert_eq!(named, holds.collect::<Vec<_>>());
}

#[test]
fn the_manual_page_has_every_number_and_no_other() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/man/job_submit_gpushare.8");
    let page = std::fs::read_to_string(page).unwrap().replace('\\', "");
    let (_, diagnostics) = page.split_once("\n.SH DIAGNOSTICS\n").unwrap();
    let terms = diagnostics.split("\n.TP\n").skip(1).map(|term| {
        let mut lines = term.lines();
        let number = lines.next().unwrap().trim_start_matches(".B ").to_owned();
        (number, lines.next().unwrap().trim_end_matches('.').to_lowercase())
    });
    let known = PAGES.iter().map(|page| (page.number.to_owned(), page.title.to_lowercase()));
    assert_eq!(terms.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    assert_eq!(page.matches("GS").count(), PAGES.len(), "numbers elsewhere on the page");
}

#[test]
fn the_option_that_breaks_a_rule_is_named_if_it_is_known() {
    let of = |field, asked: &str, gres: &str| {
        let refused = Refusal { field, asked: asked.into(), gres: gres.into(), ..untyped() };
        request(&refused).map(|option| String::from_utf8(option).unwrap())
    };
    for (field, asked, gres, expected) in [
        (Field::Node, "gpu:2", "gpu", Some("--gres=gpu:2")),
        (Field::Task, "gpu:2", "gpu", Some("--gpus-per-task=2")),
        (Field::Socket, "gpu=2", "gpu", Some("--gpus-per-socket=2")),
        (Field::Job, "gpu", "gpu", None),
        (Field::Node, "gpu", "gpu", Some("--gres=gpu")),
        (Field::Node, "mps:2", "mps", Some("--gres=mps:2")),
        (Field::Node, "gpu:2", "", None),
        // Only --gres has shares.
        (Field::Job, "mps:2", "mps", None),
        (Field::Node, "gpus:2", "gpu", None),
        (Field::MemPerGpu, "gpu:2", "gpu", None),
    ] {
        assert_eq!(of(field, asked, gres).as_deref(), expected, "{asked}");
    }
    let of_the_job = Refusal { rule: Rule::BeyondLimit, ..untyped() };
    assert_eq!(request(&of_the_job), None, "all of the job's options together break it");
}

#[test]
fn a_warning_about_a_limit_says_what_becomes_of_the_job() {
    let last = |denied| {
        let beyond = Refusal { rule: Rule::BeyondLimit, denied, ..untyped() };
        let text = remark(&Remark::Passed(Box::new(beyond), Because::Warn)).unwrap();
        text.lines().last().unwrap().split(';').next().unwrap().trim().to_owned()
    };
    assert_eq!(last(true), "Slurm itself refuses it (DenyOnLimit)");
    assert_eq!(last(false), "if Slurm accepts it, cancel it and request less");
}
