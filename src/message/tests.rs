//! The texts, word for word where users and the documentation rely on them.

use super::pages::{PAGES, page};
use super::*;
use crate::grammar::Spelling;

fn untyped() -> Refusal {
    Refusal {
        rule: Rule::TypeMissing,
        ground: Ground::Qos(b"qos_lafferty".to_vec()),
        asked: b"gpu:2".to_vec(),
        field: Field::Node,
        gres: b"gpu".to_vec(),
        others: Vec::new(),
        count: 2,
        ntasks_per_gpu: 0,
        offer: Offer::OfQos(vec![(b"a40".to_vec(), Some(4))]),
        command: Command::Submit,
    }
}

#[test]
fn the_refusal_ends_in_a_command_that_works() {
    assert_eq!(
        refusal(&untyped()),
        "gpushare: QOS 'qos_lafferty' needs a GPU type; 'gpu:2' names none\n  \
         this QOS has: a40 (4)\n  \
         try: --qos=qos_lafferty --gres=gpu:a40:2\n  \
         GS101, see `gpushare explain GS101`"
    );
}

#[test]
fn the_refusal_says_whose_limit_it_is() {
    let account =
        |own, named| Refusal { ground: Ground::Account { name: b"acct".to_vec(), own, named }, ..untyped() };
    assert_eq!(
        refusal(&account(false, None)),
        "gpushare: account 'acct' has a limit on GPU types; 'gpu:2' names none\n  \
         this account has: a40 (4)\n  \
         try: --gres=gpu:a40:2\n  \
         GS101, see `gpushare explain GS101`"
    );
    let own = refusal(&account(true, Some(("account", b"acct".to_vec()))));
    assert!(
        own.starts_with("gpushare: your association with account 'acct' has a limit on GPU types;"),
        "{own}"
    );
    assert!(own.contains("this association has: a40 (4)\n  try: --account=acct --gres=gpu:a40:2"), "{own}");
    let named = Refusal { offer: Offer::OfCluster(vec![b"a40".to_vec()]), ..account(false, None) };
    let text = refusal(&named);
    assert!(text.starts_with("gpushare: account 'acct' needs a GPU type; 'gpu:2' names none\n"), "{text}");
    let command = Command::Update { job: b"7".to_vec(), spelling: Spelling::Slash };
    let moved = account(false, Some(("partition", b"q".to_vec())));
    let text = refusal(&Refusal { rule: Rule::NotRestated, command, ..moved });
    assert!(
        text.starts_with("gpushare: account 'acct' takes a job in only with its GPUs named again"),
        "{text}"
    );
    assert!(text.contains("try: scontrol update job=7 partition=q TresPerNode=gres/gpu:a40:2;"), "{text}");
}

#[test]
fn the_refusal_of_an_update_is_one_line() {
    for (spelling, prefix) in [(Spelling::Colon, "gres:"), (Spelling::Slash, "gres/")] {
        let refused = Refusal {
            command: Command::Update { job: b"12_3".to_vec(), spelling },
            field: Field::Job,
            ..untyped()
        };
        assert_eq!(
            refusal(&refused),
            format!(
                "gpushare: QOS 'qos_lafferty' needs a GPU type; 'gpu:2' names none; this QOS has: a40 (4); \
                 try: scontrol update job=12_3 qos=qos_lafferty TresPerJob={prefix}gpu:a40:2; \
                 GS101, see `gpushare explain GS101`"
            )
        );
    }
}

#[test]
fn the_correction_stays_within_what_the_qos_has() {
    let limits = vec![(b"p100".to_vec(), Some(0)), (b"a40".to_vec(), Some(4)), (b"h100".to_vec(), Some(8))];
    for (count, expected) in [(1, "a40:1"), (4, "a40:4"), (5, "h100:5"), (9, "h100:8")] {
        let refused = Refusal { count, offer: Offer::OfQos(limits.clone()), ..untyped() };
        assert_eq!(correction(&refused), Some(format!("--qos=qos_lafferty --gres=gpu:{expected}")));
    }
}

#[test]
fn a_qos_without_limits_offers_the_clusters_types() {
    let refused = Refusal { offer: Offer::OfCluster(vec![b"a40".to_vec(), b"h100".to_vec()]), ..untyped() };
    let text = refusal(&refused);
    assert!(
        text.contains("this cluster has: a40, h100\n  try: --qos=qos_lafferty --gres=gpu:TYPE:2"),
        "which of them the nodes have is not known: {text}"
    );
    let only = Refusal { offer: Offer::OfCluster(vec![b"a40".to_vec()]), ..untyped() };
    assert_eq!(correction(&only).as_deref(), Some("--qos=qos_lafferty --gres=gpu:a40:2"));
}

#[test]
fn the_correction_keeps_what_else_the_option_asks_for() {
    let task = Refusal { field: Field::Task, others: b"cpu=2".to_vec(), ..untyped() };
    assert_eq!(correction(&task).as_deref(), Some("--qos=qos_lafferty --tres-per-task=cpu=2,gres/gpu:a40:2"));
    let node = Refusal { others: b"gres/nic:1".to_vec(), ..untyped() };
    assert_eq!(correction(&node).as_deref(), Some("--qos=qos_lafferty --gres=gpu:a40:2,nic:1"));
    let update = Command::Update { job: b"7".to_vec(), spelling: Spelling::Slash };
    assert_eq!(
        correction(&Refusal { command: update, ..node }).as_deref(),
        Some("scontrol update job=7 qos=qos_lafferty TresPerNode=gres/gpu:a40:2,gres/nic:1")
    );
}

#[test]
fn fewer_gpus_than_the_tasks_need_are_not_advised() {
    let tasks = Refusal { rule: Rule::NtasksPerGpuAlone, field: Field::Job, ntasks_per_gpu: 1, ..untyped() };
    let command = |count| correction(&Refusal { count, ..tasks.clone() });
    assert_eq!(command(4).as_deref(), Some("--qos=qos_lafferty --gpus=a40:4 --ntasks-per-gpu=1"));
    assert_eq!(command(5), None);
}

#[test]
fn a_list_is_corrected_to_the_qos_alone() {
    let refused = Refusal { rule: Rule::QosList, ..untyped() };
    assert_eq!(correction(&refused).as_deref(), Some("--qos=qos_lafferty"));
}

#[test]
fn two_options_run_together_are_taken_apart() {
    let joined = Refusal { rule: Rule::OptionInsideQos, asked: b"--gres=gpu:a40:2".to_vec(), ..untyped() };
    let plain = Refusal { offer: Offer::Nothing, ..joined.clone() };
    assert_eq!(correction(&plain).as_deref(), Some("--qos=qos_lafferty --gres=gpu:a40:2"));
    // With types to offer, the option by itself would have been refused.
    let untyped = Refusal { asked: b"--gres=gpu:2".to_vec(), ..joined };
    assert_eq!(correction(&untyped).as_deref(), Some("--qos=qos_lafferty --gres=gpu:a40:2"));
}

#[test]
fn rules_on_shares_say_what_is_allowed() {
    let share = Refusal {
        rule: Rule::ShareSize,
        ground: Ground::Site,
        asked: b"mps:30".to_vec(),
        gres: b"mps".to_vec(),
        count: 30,
        offer: Offer::Sizes(vec![16, 20, 40, 80]),
        ..untyped()
    };
    assert_eq!(
        refusal(&share),
        "gpushare: the share 'mps:30' is of no size that is given here\n  sizes: 16, 20, 40, 80\n  \
         try: --gres=mps:40\n  GS122, see `gpushare explain GS122`"
    );
    let too_big = Refusal { count: 100, ..share.clone() };
    assert_eq!(correction(&too_big).as_deref(), Some("--gres=mps:80"));
    let parts = vec!["jhl_homework_gpu".to_owned(), "jupyterhub_course_".to_owned()];
    let kept = Refusal {
        rule: Rule::ShareReservation,
        count: 40,
        offer: Offer::Reservations(parts),
        ..share.clone()
    };
    assert_eq!(correction(&kept).as_deref(), Some("--reservation=NAME --gres=mps:40"));
    let whole = Refusal { rule: Rule::WholeGpu, ground: Ground::Partition(b"course".to_vec()), ..share };
    assert_eq!(correction(&whole).as_deref(), Some("--partition=course --gres=mps:80"));
    let exclusive = Refusal { asked: b"--exclusive".to_vec(), ..whole.clone() };
    assert_eq!(correction(&exclusive), None, "the option would have to go");
    assert_eq!(correction(&Refusal { offer: Offer::Sizes(Vec::new()), ..whole.clone() }), None);
    let unnamed = Refusal { ground: Ground::Partition(Vec::new()), ..whole };
    assert_eq!(correction(&unnamed).as_deref(), Some("--partition=NAME"));
}

#[test]
fn a_warning_says_that_the_job_was_accepted() {
    let text = remark(&Remark::Passed(untyped(), Because::Warn)).unwrap();
    assert!(text.starts_with("gpushare: warning: QOS 'qos_lafferty' needs"), "{text}");
    assert!(text.ends_with("\n  accepted for now; GS101, see `gpushare explain GS101`"), "{text}");
    assert_eq!(remark(&Remark::Passed(untyped(), Because::Audit)), None);
    assert_eq!(remark(&Remark::Passed(untyped(), Because::User)), None);
}

#[test]
fn what_was_changed_is_said() {
    let qos = b"savio_lowprio".to_vec();
    let change = Change::Throttle { qos, array: b"0-127%8".to_vec(), tasks: 8, over_minutes: 120 };
    assert_eq!(
        remark(&Remark::Changed(change)).unwrap(),
        "gpushare: QOS 'savio_lowprio' runs at most 8 array tasks of more than 2:00 hours at once: \
         --array=0-127%8 was set (GS154)"
    );
}

#[test]
fn user_text_can_not_break_the_lines() {
    let refused = Refusal { asked: b"gpu\n%s\xff\x1b[0m".to_vec(), ..untyped() };
    let text = refusal(&refused);
    assert!(text.is_ascii() && text.lines().count() == 4, "{text}");
}

#[test]
fn numbers_lead_to_pages_in_order() {
    assert!(PAGES.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert_eq!(page("gs101").map(|page| page.number), Some("GS101"));
    assert_eq!(page("GS999"), None);
}

/// docs/messages.md is this text. After a change: `GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare messages`
#[test]
fn docs_messages_are_the_pages() {
    let mut text = String::from(
        "# Messages\n\nWhat gpushare says to users, by number; `gpushare explain GS101` shows the same. GS101 to GS110 \
         are about QOSes,\npartitions and accounts that count GPUs by type, GS121 to GS125 are a site's rules on shares of a \
         GPU, and GS151 to GS155 go\nwith accepted jobs. To change one, see `src/message/pages.rs`.\n",
    );
    for page in PAGES {
        let _ = write!(text, "\n## {}: {}\n\n", page.number, page.title);
        let mut width = 0;
        for word in page.text.split_whitespace() {
            let separator = match width {
                0 => "",
                _ if width + word.len() >= 118 => "\n",
                _ => " ",
            };
            width = if separator == " " { width + 1 + word.len() } else { word.len() };
            let _ = write!(text, "{separator}{word}");
        }
        text.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/messages.md");
    if std::env::var_os("GPUSHARE_WRITE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "{path} is not what the code says");
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
