//! What a user reads: the refusal of a submission, and the longer text behind its number.
//!
//! Built from the QOS's own limits and ending in a command that works. Users' text is quoted with everything but plain
//! ASCII escaped, and never used as a format.

use std::fmt::Write;

use crate::policy::{Offer, Refusal, Rule};
use crate::request::LONGEST;

impl Rule {
    /// Every rule, in the order of the numbers.
    pub const ALL: [Rule; 8] = [
        Rule::TypeMissing,
        Rule::TypeUnknown,
        Rule::TypeForeign,
        Rule::Unreadable,
        Rule::NtasksPerGpuAlone,
        Rule::QosList,
        Rule::OptionInsideQos,
        Rule::TooLong,
    ];

    /// The number that messages and `gpushare explain` use.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Rule::TypeMissing => "GS101",
            Rule::TypeUnknown => "GS102",
            Rule::TypeForeign => "GS103",
            Rule::Unreadable => "GS104",
            Rule::NtasksPerGpuAlone => "GS105",
            Rule::QosList => "GS106",
            Rule::OptionInsideQos => "GS107",
            Rule::TooLong => "GS108",
        }
    }

    /// What the rule is for and what to do, in a few sentences.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Rule::TypeMissing => {
                "The QOS guarantees its group GPUs of certain types. Slurm counts a request against such a guarantee \
                 only when the request names the type, so under this QOS every GPU option must name one: \
                 --gres=gpu:TYPE:COUNT, --gpus=TYPE:COUNT, --gpus-per-node=TYPE:COUNT, --gpus-per-task=TYPE:COUNT or \
                 --gpus-per-socket=TYPE:COUNT."
            }
            Rule::TypeUnknown => {
                "The type named is not one that Slurm counts on this cluster (AccountingStorageTRES has no \
                 gres/gpu:TYPE of that name). Types are written exactly as in the message, capitals included."
            }
            Rule::TypeForeign => {
                "The type exists, but the QOS has no GPUs of it. Choose a type that the QOS has, or another QOS. An \
                 administrator can allow any type with ForeignTypes=allow in gpushare.conf."
            }
            Rule::Unreadable => {
                "Part of the request is not in the plain form NAME[:TYPE][:COUNT], so it can't be told whether it asks \
                 for GPUs and of which type. Write it in that form."
            }
            Rule::NtasksPerGpuAlone => {
                "--ntasks-per-gpu without a GPU option makes Slurm add GPUs of no particular type. Say which GPUs as \
                 well, for example --gpus=TYPE:COUNT."
            }
            Rule::QosList => {
                "A list of QOSes lets Slurm choose one later. A QOS that guarantees GPUs must be the only one named."
            }
            Rule::OptionInsideQos => {
                "A comma joined the next option to --qos, so Slurm took both as the name of a QOS. Options are \
                 separated by a blank, or put on #SBATCH lines of their own."
            }
            Rule::TooLong => {
                "A part of the request is longer than Slurm accepts (1024 characters for a list of resources or a \
                 name). Ask for each kind of resource once."
            }
        }
    }

    /// The rule of a number such as `GS101`; case does not count.
    #[must_use]
    pub fn from_number(number: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.number().eq_ignore_ascii_case(number))
    }

    /// Whether the QOS rather than the GPU request is at fault; decides which of Slurm's errors goes with the message.
    #[must_use]
    pub const fn is_about_qos(self) -> bool {
        matches!(self, Rule::QosList | Rule::OptionInsideQos)
    }
}

/// The refusal as its user sees it: several lines, no newline at the end.
#[must_use]
pub fn refusal(refusal: &Refusal) -> String {
    let Refusal { rule, qos, asked, .. } = refusal;
    let qos = quoted(qos);
    let asked = quoted(asked);
    let mut text = match rule {
        Rule::TypeMissing => format!("gpushare: QOS '{qos}' needs a GPU type; '{asked}' names none"),
        Rule::TypeUnknown => {
            format!("gpushare: QOS '{qos}' needs a GPU type that exists; '{asked}' names another")
        }
        Rule::TypeForeign => format!("gpushare: QOS '{qos}' has no GPUs of the type in '{asked}'"),
        Rule::Unreadable => {
            format!(
                "gpushare: QOS '{qos}' needs requests of the form NAME[:TYPE][:COUNT]; '{asked}' is not one"
            )
        }
        Rule::NtasksPerGpuAlone => {
            format!("gpushare: QOS '{qos}' needs a GPU type; --ntasks-per-gpu alone names none")
        }
        Rule::QosList => format!("gpushare: QOS '{qos}' must be named alone, not in the list '{asked}'"),
        Rule::OptionInsideQos => {
            format!("gpushare: '{asked}' is an option of its own, not part of the QOS's name")
        }
        Rule::TooLong => {
            format!("gpushare: more than {LONGEST} characters, which Slurm won't accept: '{asked}…'")
        }
    };
    if let Some(offer) = offer(refusal) {
        let _ = write!(text, "\n  {offer}");
    }
    if let Some(command) = correction(refusal) {
        let _ = write!(text, "\n  try: {command}");
    }
    let number = rule.number();
    let _ = write!(text, "\n  {number}, see `gpushare explain {number}`");
    text
}

fn offer(refusal: &Refusal) -> Option<String> {
    let (whose, types): (_, Vec<String>) = match &refusal.offer {
        Offer::OfQos(limits) => ("QOS", limits.iter().map(|(kind, count)| limit(kind, *count)).collect()),
        Offer::OfCluster(types) => ("cluster", types.iter().map(|kind| quoted(kind)).collect()),
    };
    (!types.is_empty()).then(|| format!("this {whose} has: {}", types.join(", ")))
}

fn limit(kind: &[u8], count: Option<u64>) -> String {
    match count {
        Some(count) => format!("{} ({count})", quoted(kind)),
        None => quoted(kind),
    }
}

/// Options that would be accepted, where the QOS has a type to offer.
fn correction(refusal: &Refusal) -> Option<String> {
    let qos = quoted(&refusal.qos);
    match refusal.rule {
        // As it was meant: the same two options, with a blank between them.
        Rule::OptionInsideQos => {
            return (!qos.is_empty()).then(|| format!("--qos={qos} {}", quoted(&refusal.asked)));
        }
        // The rest of the command is not at fault.
        Rule::QosList => return Some(format!("--qos={qos}")),
        _ => {}
    }
    let offered: Vec<(String, u64)> = match &refusal.offer {
        Offer::OfQos(limits) => {
            limits.iter().map(|(kind, count)| (quoted(kind), count.unwrap_or(u64::MAX))).collect()
        }
        Offer::OfCluster(types) => types.iter().map(|kind| (quoted(kind), u64::MAX)).collect(),
    };
    let types = || offered.iter().filter(|(_, count)| *count > 0);
    let (kind, most) = types()
        .find(|(_, count)| *count >= refusal.count)
        .or_else(|| types().max_by_key(|(_, count)| *count))?;
    let count = refusal.count.clamp(1, *most);
    let option = refusal.field.gpu_option();
    let tasks = match refusal.ntasks_per_gpu {
        0 => String::new(),
        count => format!(" --ntasks-per-gpu={count}"),
    };
    Some(format!("--qos={qos} {option}{kind}:{count}{tasks}"))
}

/// Users' bytes as one line of printable ASCII.
fn quoted(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Field;

    fn untyped() -> Refusal {
        Refusal {
            rule: Rule::TypeMissing,
            qos: b"qos_lafferty".to_vec(),
            asked: b"gpu:2".to_vec(),
            field: Field::Node,
            count: 2,
            ntasks_per_gpu: 0,
            offer: Offer::OfQos(vec![(b"a40".to_vec(), Some(4))]),
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
    fn the_correction_stays_within_what_the_qos_has() {
        let limits =
            vec![(b"p100".to_vec(), Some(0)), (b"a40".to_vec(), Some(4)), (b"h100".to_vec(), Some(8))];
        for (count, expected) in [(1, "a40:1"), (4, "a40:4"), (5, "h100:5"), (9, "h100:8")] {
            let refused = Refusal { count, offer: Offer::OfQos(limits.clone()), ..untyped() };
            assert_eq!(correction(&refused), Some(format!("--qos=qos_lafferty --gres=gpu:{expected}")));
        }
    }

    #[test]
    fn a_qos_without_limits_offers_the_clusters_types() {
        let refused =
            Refusal { offer: Offer::OfCluster(vec![b"a40".to_vec(), b"h100".to_vec()]), ..untyped() };
        let text = refusal(&refused);
        assert!(
            text.contains("this cluster has: a40, h100\n  try: --qos=qos_lafferty --gres=gpu:a40:2"),
            "{text}"
        );
    }

    #[test]
    fn a_list_is_corrected_to_the_qos_alone() {
        let refused = Refusal { rule: Rule::QosList, ..untyped() };
        assert_eq!(correction(&refused).as_deref(), Some("--qos=qos_lafferty"));
    }

    #[test]
    fn two_options_run_together_are_taken_apart() {
        let refused =
            Refusal { rule: Rule::OptionInsideQos, asked: b"--gres=gpu:a40:2".to_vec(), ..untyped() };
        assert_eq!(correction(&refused).as_deref(), Some("--qos=qos_lafferty --gres=gpu:a40:2"));
    }

    #[test]
    fn user_text_can_not_break_the_lines() {
        let refused = Refusal { asked: b"gpu\n%s\xff\x1b[0m".to_vec(), ..untyped() };
        let text = refusal(&refused);
        assert!(text.is_ascii() && text.lines().count() == 4, "{text}");
    }

    #[test]
    fn numbers_lead_back_to_their_rules() {
        for rule in Rule::ALL {
            assert_eq!(Rule::from_number(rule.number()), Some(rule));
        }
        assert_eq!(Rule::from_number("gs101"), Some(Rule::TypeMissing));
        assert_eq!(Rule::from_number("GS999"), None);
    }
}
