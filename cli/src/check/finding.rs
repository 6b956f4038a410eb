//! The result of a check, and how to print it: one line each, or as JSON.

use std::io::{self, IsTerminal};

use clap::ColorChoice;
use gpushare_terminal::clean;
use gpushare_terminal::columns::{Line, Look};
use rustix::termios::tcgetwinsize;

use super::fix::Fix;
use crate::status::colours;

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The key, file or program.
    pub about: &'static str,
    /// What was found.
    pub said: String,
    /// Whether that is right.
    pub status: Status,
}

/// Whether something is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub fn ok(about: &'static str, said: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), status: Status::Ok }
    }

    /// Something is wrong, and how to fix it.
    pub fn wrong(about: &'static str, said: impl Into<String>, fix: impl Into<Fix>) -> Finding {
        Finding { about, said: said.into(), status: Status::Wrong(fix.into()) }
    }

    pub fn is_wrong(&self) -> bool {
        matches!(self.status, Status::Wrong(_))
    }

    /// It can't be determined here.
    pub fn unknown(about: &'static str, said: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), status: Status::Unknown }
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

/// The findings as lines of text: what is wrong first, each with its fix, then what can't be told.
pub fn lines(findings: &[Finding], form: Form) -> String {
    let width = findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    let shown: &[&str] = match (form.quiet, form.all) {
        (true, _) => &["WRONG"],
        (false, false) => &["WRONG", "?"],
        (false, true) => &["WRONG", "?", "ok"],
    };
    for kind in shown {
        for Finding { about, said, status } in findings.iter().filter(|one| word(&one.status) == *kind) {
            let fix = if let Status::Wrong(fix) = status { Some(fix.to_string()) } else { None };
            text += &form.row("", kind, (about, width), said, fix.as_deref());
        }
    }
    let count = |wanted: &str| findings.iter().filter(|finding| word(&finding.status) == wanted).count();
    if form.quiet { text } else { text + &sums(count("ok"), count("WRONG"), count("?")) + "\n" }
}

impl Form {
    /// On standard output, at its width if that is a terminal.
    pub fn on_stdout(all: bool, quiet: bool, color: ColorChoice) -> Form {
        let stdout = io::stdout();
        let size = stdout.is_terminal().then(|| tcgetwinsize(stdout).ok()).flatten();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Form { all, quiet, colour: colours(color), width }
    }

    /// A line and its fix, after an indent; `width`: that of the second column.
    pub fn row(
        self,
        indent: &str,
        kind: &str,
        (about, width): (&str, usize),
        said: &str,
        fix: Option<&str>,
    ) -> String {
        let look = match kind {
            "WRONG" => Look::Wrong,
            "?" => Look::Full,
            _ => Look::Free,
        };
        // A user can name a process or a directory so that its name controls a terminal.
        let about = clean(about);
        let said = (kind, about.as_str(), plain(said));
        let fix = fix.map(|fix| ("", "", plain(&format!("fix: {fix}"))));
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
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            if let Some(last) = lines.last_mut() {
                if last.is_empty() {
                    last.push_str(word);
                } else if last.chars().count() + 1 + word.chars().count() <= most {
                    last.push(' ');
                    last.push_str(word);
                } else {
                    lines.push(word.to_owned());
                }
            }
        }
        lines
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
pub fn sums(ok: usize, wrong: usize, unknown: usize) -> String {
    let rest = if unknown == 0 { String::new() } else { format!(", {unknown} to check (?)") };
    format!("{ok} ok, {wrong} wrong{rest}")
}

fn word(status: &Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Wrong(_) => "WRONG",
        Status::Unknown => "?",
    }
}

/// The first few names.
pub fn listed(names: &[String]) -> String {
    let shown = names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
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
    use crate::check::fleet::Line;
    use serde_json::{Value, json};

    #[test]
    fn what_is_wrong_and_only_that_has_a_fix() {
        let findings =
            [Finding::ok("a", "is"), Finding::wrong("b", "is \u{9b}not", "mend"), Finding::unknown("c", "?")];
        let text = gpushare_terminal::json::text(&findings.each_ref().map(Line::of));
        let told: Value = serde_json::from_str(&text).unwrap();
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
        assert_eq!(lines(&findings, Form { quiet: true, ..form }), wrong);
        assert_eq!(lines(&findings[..2], Form { quiet: true, ..form }), "");
        let coloured = lines(&findings, Form { colour: true, ..form });
        assert!(coloured.starts_with("\u{1b}[31mWRONG\u{1b}[0m  c   it is"), "{coloured:?}");
        let narrow = lines(&findings, Form { quiet: true, width: Some(32), ..form });
        assert_eq!(narrow, "WRONG  c   it is not as it has\n           to be\n           fix: mend it\n");
    }
}
