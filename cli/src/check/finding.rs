//! The result of a check, and how to print it: one line each, or as JSON.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use clap::ColorChoice;
use gpushare_terminal::columns::{Line, Look};
pub use gpushare_terminal::listed;
use gpushare_terminal::{clean, wrapped};
use rustix::termios::tcgetwinsize;
use serde::{Deserialize, Serialize};

use super::fix::Fix;
use crate::status::colours;

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The key, file or program.
    pub about: Cow<'static, str>,
    /// What was found.
    pub said: String,
    /// Whether that is right.
    #[serde(flatten)]
    pub status: Status,
}

/// Whether something is as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", content = "fix", rename_all = "lowercase")]
pub enum Status {
    /// It is right.
    Ok,
    /// It is wrong; how to fix it.
    Wrong(Fix),
    /// That can't be determined here; `said` has the reason.
    Unknown,
}

impl Finding {
    /// Something is right.
    pub fn ok(about: impl Into<Cow<'static, str>>, said: impl Into<String>) -> Finding {
        Finding { about: about.into(), said: said.into(), status: Status::Ok }
    }

    /// Something is wrong, and how to fix it.
    pub fn wrong(
        about: impl Into<Cow<'static, str>>,
        said: impl Into<String>,
        fix: impl Into<Fix>,
    ) -> Finding {
        Finding { about: about.into(), said: said.into(), status: Status::Wrong(fix.into()) }
    }

    /// The text of its fix.
    #[cfg(test)]
    pub fn fix(&self) -> Option<String> {
        if let Status::Wrong(fix) = &self.status { Some(fix.to_string()) } else { None }
    }

    pub fn is_wrong(&self) -> bool {
        matches!(self.status, Status::Wrong(_))
    }

    /// It can't be determined here.
    pub fn unknown(about: impl Into<Cow<'static, str>>, said: impl Into<String>) -> Finding {
        Finding { about: about.into(), said: said.into(), status: Status::Unknown }
    }
}

/// What of the findings to print, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// Also what is right.
    pub all: bool,
    /// Only what is wrong.
    pub quiet: bool,
    pub colour: bool,
    /// Where to break lines, on a terminal.
    pub width: Option<usize>,
}

/// The findings as lines of text, and how many there are of each kind.
pub fn lines(findings: &[Finding], form: Form) -> String {
    let shown: &[&str] = if form.quiet { &["WRONG"] } else { &["WRONG", "?"] };
    let text = form.rows("", findings, shown);
    if form.quiet { text } else { text + &sums(findings) + "\n" }
}

impl Form {
    /// On standard output, at its width if that is a terminal.
    pub fn on_stdout(all: bool, quiet: bool, color: ColorChoice) -> Form {
        let stdout = io::stdout();
        let size = stdout.is_terminal().then(|| tcgetwinsize(stdout).ok()).flatten();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Form { all, quiet, colour: colours(color), width }
    }

    /// The findings of these kinds, or of all, each with its fix, after an indent: what is wrong first.
    pub fn rows(self, indent: &str, findings: &[Finding], kinds: &[&str]) -> String {
        let kinds = if self.all { &["WRONG", "?", "ok"] } else { kinds };
        let shown = || kinds.iter().flat_map(|kind| findings.iter().filter(|one| word(&one.status) == *kind));
        let width = shown().map(|finding| finding.about.chars().count()).max().unwrap_or(0);
        shown().map(|finding| self.row(indent, width, finding)).collect()
    }

    fn row(self, indent: &str, width: usize, Finding { about, said, status }: &Finding) -> String {
        let (look, fix) = match status {
            Status::Wrong(fix) => (Look::Wrong, Some(("", "", plain(&format!("fix: {fix}"))))),
            Status::Unknown => (Look::Full, None),
            Status::Ok => (Look::Free, None),
        };
        // A user can name a process or a directory so that its name controls a terminal.
        let about = clean(about);
        let said = (word(status), about.as_str(), plain(said));
        let mut text = String::new();
        for (word, about, said) in std::iter::once(said).chain(fix) {
            for (index, part) in self.wrapped(&said, indent.len() + width + 9).iter().enumerate() {
                let (word, about) = if index == 0 { (word, about) } else { ("", "") };
                let coloured = Line::new(word, look).render(None, self.colour);
                let padding = " ".repeat(5_usize.saturating_sub(word.len()));
                text += &format!("{indent}{coloured}{padding}  {about:<width$}  {part}\n");
            }
        }
        text
    }

    /// A line without columns; what doesn't fit follows, indented.
    pub fn line(self, said: &str) -> String {
        self.wrapped(&plain(said), 2).join("\n  ") + "\n"
    }

    /// The text in lines of at most the terminal's width, less what stands before them.
    fn wrapped(self, text: &str, before: usize) -> Vec<String> {
        // Narrower columns help nobody.
        let Some(most) = self.width.map(|width| width.saturating_sub(before).max(20)) else {
            return vec![text.to_owned()];
        };
        wrapped(text, most)
    }
}

/// Text for a terminal, without the numbers that Rust adds to the system's errors.
fn plain(said: &str) -> String {
    let mut text = clean(said);
    while let Some((before, after)) = text.split_once(" (os error ") {
        let Some((_, after)) = after.split_once(')') else { break };
        text = format!("{before}{after}");
    }
    text
}

/// How many findings there are of each kind.
pub fn sums(findings: &[Finding]) -> String {
    let count = |kind: &str| findings.iter().filter(|one| word(&one.status) == kind).count();
    let unknown = count("?");
    let rest = if unknown == 0 { String::new() } else { format!(", {unknown} to check (?)") };
    format!("{} ok, {} wrong{rest}", count("ok"), count("WRONG"))
}

fn word(status: &Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Wrong(_) => "WRONG",
        Status::Unknown => "?",
    }
}

/// Drops what is right about something if something else about it isn't: after `gpushare gpu resume`, gpushare.conf
/// fits, and slurmctld's count doesn't yet.
pub fn drop_right(findings: &mut Vec<Finding>, about: &str) {
    if findings.iter().any(|finding| finding.about == about && finding.status != Status::Ok) {
        findings.retain(|finding| finding.about != about || finding.status != Status::Ok);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_is_wrong_and_only_that_has_a_fix() {
        let findings =
            [Finding::ok("a", "is"), Finding::wrong("b", "is \u{9b}not", "mend"), Finding::unknown("c", "?")];
        let text = gpushare_terminal::json::text(&findings);
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::from_value::<[Finding; 3]>(told.clone()).unwrap(), findings);
        let expected = json!([
            {"about": "a", "status": "ok", "said": "is"},
            {"about": "b", "status": "wrong", "said": "is \u{9b}not", "fix": "mend"},
            {"about": "c", "status": "unknown", "said": "?"},
        ]);
        assert_eq!(told, expected);
        assert!(!text.contains('\u{9b}'), "{text:?}");
        let form = Form { all: true, ..Form::default() };
        assert!(!lines(&findings, form).contains('\u{9b}'), "{:?}", lines(&findings, form));
    }

    #[test]
    fn what_is_wrong_stands_first_and_what_is_right_is_counted() {
        let findings = [
            Finding::ok("a", "is"),
            Finding::unknown("bb", "/x: Permission denied (os error 13); run this as root"),
            Finding::wrong("c", "it is not as it has to be", "mend it"),
        ];
        let unknown = "?      bb  /x: Permission denied; run this as root\n";
        let wrong = "WRONG  c   it is not as it has to be\n           fix: mend it\n";
        let sums = "1 ok, 1 wrong, 1 to check (?)\n";
        let form = Form::default();
        assert_eq!(lines(&findings, form), format!("{wrong}{unknown}{sums}"));
        assert_eq!(
            lines(&findings, Form { all: true, ..form }),
            format!("{wrong}{unknown}ok     a   is\n{sums}")
        );
        assert_eq!(
            lines(&findings, Form { quiet: true, ..form }),
            "WRONG  c  it is not as it has to be\n          fix: mend it\n"
        );
        assert_eq!(lines(&findings[..2], Form { quiet: true, ..form }), "");
        let coloured = lines(&findings, Form { colour: true, ..form });
        assert!(coloured.starts_with("\u{1b}[31mWRONG\u{1b}[0m  c   it is"), "{coloured:?}");
        let narrow = lines(&findings, Form { quiet: true, width: Some(32), ..form });
        assert_eq!(narrow, "WRONG  c  it is not as it has to\n          be\n          fix: mend it\n");
    }
}
