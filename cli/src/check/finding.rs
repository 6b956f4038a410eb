//! What a check has found, and how it is printed: a line each, or as JSON.

use serde::Serialize;

use crate::json;

/// A line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The key, file or program that it is about.
    pub about: &'static str,
    /// What is the case.
    pub said: String,
    /// Whether that is right.
    pub verdict: Verdict,
}

/// Whether something is as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Ok,
    /// It is not; what mends it.
    Wrong(String),
    /// That can't be told here; why is what was said.
    Unknown,
}

impl Finding {
    /// As it must be.
    pub fn ok(about: &'static str, said: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), verdict: Verdict::Ok }
    }

    /// Not as it must be, and what mends it.
    pub fn wrong(about: &'static str, said: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), verdict: Verdict::Wrong(fix.into()) }
    }

    /// Can't be told here.
    pub fn unknown(about: &'static str, said: impl Into<String>) -> Finding {
        Finding { about, said: said.into(), verdict: Verdict::Unknown }
    }
}

/// Lines for a person.
pub fn lines(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { about, said, verdict } in findings {
        let word = word(verdict);
        text += &format!("{word:<5}  {about:<width$}  {said}\n");
        if let Verdict::Wrong(fix) = verdict {
            text += &format!("{:<5}  {:<width$}  fix: {fix}\n", "", "");
        }
    }
    let count = |wanted: &str| findings.iter().filter(|finding| word(&finding.verdict) == wanted).count();
    let unknown = count("?");
    let rest = if unknown == 0 { String::new() } else { format!(", {unknown} can't be told here") };
    text + &format!("{} ok, {} wrong{rest}\n", count("ok"), count("WRONG"))
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Wrong(_) => "WRONG",
        Verdict::Unknown => "?",
    }
}

/// The same as one JSON object.
pub fn json(findings: &[Finding]) -> Result<String, String> {
    json::text(&Findings { findings: findings.iter().map(One::of).collect() })
}

#[derive(Serialize)]
struct Findings<'a> {
    findings: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    about: &'a str,
    verdict: &'static str,
    said: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

impl One<'_> {
    fn of(finding: &Finding) -> One<'_> {
        let Finding { about, said, verdict } = finding;
        let (verdict, fix) = match verdict {
            Verdict::Ok => ("ok", None),
            Verdict::Wrong(fix) => ("wrong", Some(fix.as_str())),
            Verdict::Unknown => ("unknown", None),
        };
        One { about, verdict, said, fix }
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
        let text = json(&findings).unwrap();
        let told: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({"findings": [
            {"about": "a", "verdict": "ok", "said": "is"},
            {"about": "b", "verdict": "wrong", "said": "is \u{9b}not", "fix": "mend"},
            {"about": "c", "verdict": "unknown", "said": "?"},
        ]});
        assert_eq!(told, expected);
        assert!(!text.contains('\u{9b}'), "{text:?}");
    }
}
