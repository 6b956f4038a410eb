//! The longer texts behind the messages' numbers: docs/messages.md, which `gpushare explain GS101` quotes.

use std::sync::LazyLock;

use crate::submit::policy::{Change, Rule};

const TEXT: &str = include_str!("../../../docs/messages.md");

/// One numbered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number, such as `GS101`.
    pub number: &'static str,
    /// What happened, in a few words.
    pub title: &'static str,
    /// What the rule is for and what to do.
    pub text: &'static str,
}

/// Every message, in the order of the numbers.
pub static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let section = |text: &'static str| {
        let (heading, text) = text.split_once("\n\n")?;
        let (number, title) = heading.split_once(": ")?;
        Some(Page { number, title, text })
    };
    TEXT.split("\n## ").filter_map(section).collect()
});

/// The page for a number such as `GS101`, ignoring case.
pub fn page(number: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.number.eq_ignore_ascii_case(number))
}

impl Rule {
    /// Whether the QOS is wrong rather than the GPU request; decides which of Slurm's errors goes with the message.
    pub const fn is_about_qos(self) -> bool {
        matches!(self, Rule::QosList | Rule::OptionInsideQos)
    }

    /// Whether it is about how GPUs are asked for and counted, and not about names or a site's rules.
    pub const fn is_about_gpus(self) -> bool {
        !matches!(
            self,
            Rule::QosList
                | Rule::OptionInsideQos
                | Rule::TooLong
                | Rule::TypeResembles
                | Rule::ShareReservation
                | Rule::ShareSize
                | Rule::WholeGpu
                | Rule::ShareFixed
                | Rule::ShareForm
                | Rule::GpuMissing
                | Rule::TooManyCpus
                | Rule::TooMuchMemory
                | Rule::ShareMemory
        )
    }

    /// Whether no mode and no exemption lets the request pass: Slurm itself would refuse it with a shorter message, or
    /// slurmctld or the node would take it for another request.
    pub const fn holds_in_every_mode(self) -> bool {
        matches!(
            self,
            Rule::OptionInsideQos
                | Rule::TooLong
                | Rule::TypeResembles
                | Rule::TooMuchAtOnce
                | Rule::ShareFixed
                | Rule::ShareForm
                | Rule::ShareMemory
        )
    }
}

impl Change {
    /// The number that messages and `gpushare explain` use.
    pub const fn number(&self) -> &'static str {
        match self {
            Change::Type { .. } => "GS151",
            Change::Requeue { .. } => "GS152",
            Change::Append { .. } => "GS153",
            Change::Throttle { .. } => "GS154",
            Change::UserEnv => "GS155",
            Change::Share { .. } => "GS156",
        }
    }

    /// Every number that a change may have.
    pub const NUMBERS: [&str; 6] = ["GS151", "GS152", "GS153", "GS154", "GS155", "GS156"];
}
