//! One call of sacctmgr: its arguments, and what it changes, as text.

gpushare::names! {
    /// The kind of change in a line.
    pub enum Sign: word {
        /// Something is added.
        Add = "add",
        /// Something is changed.
        Change = "change",
        /// Something is removed.
        Remove = "remove",
    }
}

/// A call of sacctmgr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The text about it, one item per line.
    pub lines: Vec<(Sign, String)>,
    /// All arguments, one word each: no shell reads them.
    pub arguments: Vec<String>,
}

/// How many names go into one call, so that their text stays much shorter than a command line may be.
pub(super) const BATCH: usize = 200;

impl Sign {
    /// The mark in a diff.
    pub fn mark(self) -> char {
        match self {
            Sign::Add => '+',
            Sign::Change => '~',
            Sign::Remove => '-',
        }
    }
}

impl Change {
    /// The text about it.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|(sign, line)| format!("{} {line}\n", sign.mark()));
        lines.collect()
    }

    /// A call `sacctmgr -i VERB…`.
    pub(super) fn call<'a>(lines: Vec<(Sign, String)>, words: impl IntoIterator<Item = &'a str>) -> Change {
        let arguments = ["-i"].into_iter().chain(words).map(str::to_owned).collect();
        Change { lines, arguments }
    }
}

/// The argument `name=a,b,c`.
pub(super) fn named(names: &[&str]) -> String {
    format!("name={}", names.join(","))
}
