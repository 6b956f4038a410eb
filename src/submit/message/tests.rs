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
        correction: None,
        command: Command::Submit,
    }
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
        "gpushare: QOS 'savio_lowprio' runs at most 8 array tasks of more than 2:00 hours at once: \
         --array=0-127%8 was set (GS154)"
    );
}

#[test]
fn user_text_can_not_break_the_lines() {
    let refused = Refusal { asked: b"gpu\n%s\xff\x1b[0m".to_vec(), ..untyped() };
    let text = refusal(&refused);
    assert!(text.is_ascii() && text.lines().count() == 3, "{text}");
}

#[test]
fn numbers_lead_to_pages_in_order() {
    assert!(PAGES.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert_eq!(page("gs101").map(|page| page.number), Some("GS101"));
    assert_eq!(page("GS999"), None);
}

/// docs/messages.md has this text. After a change: `GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare messages`
#[test]
fn docs_messages_are_the_pages() {
    let mut text = String::from(
        "# Messages\n\nThis page lists gpushare's messages to users by number; `gpushare explain GS101` shows the \
         same. GS101 to GS117 are about\nQOSes, partitions and accounts that count GPUs by type. GS121 to GS129 are a \
         site's rules on shares and on jobs with GPUs.\nGS151 to GS156 go with accepted jobs. To change one, edit \
         `src/submit/message/pages.rs`.\n",
    );
    let always = Rule::ALL.into_iter().filter(|rule| rule.holds_in_every_mode()).map(Rule::number);
    let _ = write!(
        text,
        "\n## In every mode\n\n`Mode=warn` and `Mode=audit` let every request pass except those of {}: Slurm \
         itself would\nrefuse it, or slurmctld or the node would take it for another request.\n",
        always.collect::<Vec<_>>().join(", ")
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
