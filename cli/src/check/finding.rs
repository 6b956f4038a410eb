//! The result of a check, and how to print it: one line each, or as JSON.

use serde::Serialize;

use gpushare_terminal::clean;
use gpushare_terminal::json;

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
    Wrong(String),
    /// That can't be determined here; `said` has the reason.
    Unknown,
}

impl Finding {
    /// Something is right.
    pub fn ok(about: &'static str, said: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), status: Status::Ok }
    }

    /// Something is wrong, and how to fix it.
    pub fn wrong(about: &'static str, said: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), status: Status::Wrong(fix.into()) }
    }

    /// The same finding with another fix, if it is wrong.
    pub fn fixed_by(self, fix: String) -> Finding {
        let status = if matches!(self.status, Status::Wrong(_)) { Status::Wrong(fix) } else { self.status };
        Finding { status, ..self }
    }

    /// It can't be determined here.
    pub fn unknown(about: &'static str, said: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), status: Status::Unknown }
    }
}

/// The findings as lines of text.
pub fn lines(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { about, said, status } in findings {
        // A user can name a process or a folder so that its name controls a terminal.
        text += &(line(word(status), about, width, &clean(said)) + "\n");
        if let Status::Wrong(fix) = status {
            text += &(line("", "", width, &clean(&format!("fix: {fix}"))) + "\n");
        }
    }
    let count = |wanted: &str| findings.iter().filter(|finding| word(&finding.status) == wanted).count();
    text + &sums(count("ok"), count("WRONG"), count("?")) + "\n"
}

/// A line of a table whose second column has this width.
pub fn line(word: &str, about: &str, width: usize, said: &str) -> String {
    format!("{word:<5}  {about:<width$}  {said}")
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

/// The findings as one JSON object, with the machine's facts.
///
/// # Errors
/// The same as for [`json::text`].
pub fn json<M: Serialize>(findings: &[Finding], machine: Option<&M>) -> serde_json::Result<String> {
    json::text(&Findings { machine, findings: findings.iter().map(One::of).collect() })
}

#[derive(Serialize)]
struct Findings<'a, M> {
    #[serde(flatten)]
    machine: Option<&'a M>,
    findings: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    about: &'a str,
    status: &'static str,
    said: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

impl One<'_> {
    fn of(finding: &Finding) -> One<'_> {
        let Finding { about, said, status } = finding;
        let (status, fix) = match status {
            Status::Ok => ("ok", None),
            Status::Wrong(fix) => ("wrong", Some(fix.as_str())),
            Status::Unknown => ("unknown", None),
        };
        One { about, status, said, fix }
    }
}

/// The first few names.
pub fn listed(names: &[String]) -> String {
    let shown = names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_is_wrong_and_only_that_has_a_fix() {
        let findings =
            [Finding::ok("a", "is"), Finding::wrong("b", "is \u{9b}not", "mend"), Finding::unknown("c", "?")];
        let text = json(&findings, None::<&()>).unwrap();
        let told: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({"findings": [
            {"about": "a", "status": "ok", "said": "is"},
            {"about": "b", "status": "wrong", "said": "is \u{9b}not", "fix": "mend"},
            {"about": "c", "status": "unknown", "said": "?"},
        ]});
        assert_eq!(told, expected);
        assert!(!text.contains('\u{9b}'), "{text:?}");
        assert!(!lines(&findings).contains('\u{9b}'), "{:?}", lines(&findings));
    }
}
