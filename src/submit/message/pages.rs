//! The longer texts behind the messages' numbers: docs/messages.md, which `gpushare explain GS101` quotes.

use std::sync::LazyLock;

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
