//! One call of sacctmgr: its arguments, and what it changes in words.

/// What kind of change a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// Something new.
    Add,
    /// Something else.
    Change,
    /// Something less.
    Remove,
}

/// A call of sacctmgr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The text about it, a line each.
    pub lines: Vec<(Sign, String)>,
    /// All arguments, one a word: no shell reads them.
    pub arguments: Vec<String>,
}

/// So many names go into one call: their text stays a small part of what a command line may be.
pub(super) const BATCH: usize = 200;

impl Sign {
    /// As a diff writes it.
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

    /// `sacctmgr -i VERB…`
    pub(super) fn call<'a>(lines: Vec<(Sign, String)>, words: impl IntoIterator<Item = &'a str>) -> Change {
        let arguments = ["-i"].into_iter().chain(words).map(str::to_owned).collect();
        Change { lines, arguments }
    }
}

/// `name=a,b,c`
pub(super) fn named(names: &[&str]) -> String {
    format!("name={}", names.join(","))
}
