//! What is written, against the tree: links lead somewhere, and files, tests and functions that are named are there.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

#[path = "documents/claims.rs"]
mod claims;
#[path = "documents/lengths.rs"]
mod lengths;

/// Pages on which every name with `()` is a function of ours; others name Slurm's and C's too.
const ABOUT_OUR_CODE: [&str; 2] = ["docs/dev/architecture.md", "docs/dev/threat-model.md"];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a directory, as a path from the top; not what is built, nor what begins with a dot.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let hidden = name.to_string_lossy().starts_with('.');
        if !entry.file_type().unwrap().is_dir() {
            found.push(entry.path().strip_prefix(top()).unwrap().to_owned());
        } else if !hidden && name != "target" && name != "__pycache__" {
            files(&entry.path(), found);
        }
    }
}

fn tree() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(top(), &mut found);
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(top().join(path)).unwrap()
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

/// The lines of a page that are no block of code: one between fences, or indented behind an empty line.
fn prose(page: &Path) -> Vec<String> {
    let (mut fenced, mut is_code) = (false, true);
    let mut kept = Vec::new();
    for line in read(page).lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        is_code = line.is_empty() || (is_code && line.starts_with("    "));
        if !fenced && !is_code {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// What a link to a heading ends in, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn has_heading(page: &Path, wanted: &str) -> bool {
    prose(page)
        .iter()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor(line.trim_start_matches('#').trim()) == wanted)
}

#[test]
fn every_link_leads_somewhere() {
    let pages: Vec<PathBuf> = tree().into_iter().filter(|path| has_ending(path, "md")).collect();
    assert!(pages.len() > 15, "{pages:?}");
    let mut wrong = Vec::new();
    for page in &pages {
        let text = prose(page).join(" ");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = top().join(&to).exists() && (heading.is_empty() || has_heading(&to, heading));
            if !there {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The pages of a directory of docs/, without its index.
fn pages_of(directory: &str) -> Vec<PathBuf> {
    let is_page = |path: &PathBuf| {
        has_ending(path, "md") && path.parent() == Some(Path::new(directory)) && !path.ends_with("README.md")
    };
    tree().into_iter().filter(is_page).collect()
}

#[test]
fn every_page_is_in_the_index() {
    let text = prose(Path::new("docs/README.md")).join(" ");
    for page in [pages_of("docs"), pages_of("docs/dev")].concat() {
        let link = page.strip_prefix("docs").unwrap().display();
        assert!(text.contains(&format!("]({link}")), "{link} is not in docs/README.md");
    }
}

/// The words that a page sets as code.
fn code(page: &Path) -> Vec<String> {
    let text = prose(page).join(" ");
    let spans = text.split('`').skip(1).step_by(2);
    spans
        .flat_map(str::split_whitespace)
        .map(|word| word.trim_end_matches([',', ';', '.']).to_owned())
        .collect()
}

/// Whether a word says where something is in this tree. Slurm's own sources are C, and its directory is called `src`
/// too.
fn is_ours(word: &str) -> bool {
    let Some((first, rest)) = word.split_once('/') else { return false };
    let slurms = first == "src" && (rest.ends_with(".c") || rest.ends_with(".h"));
    !first.is_empty()
        && !slurms
        && first != "target"
        && top().join(first).is_dir()
        && !word.contains(['*', '…', '$', '<'])
}

fn defines(rust: &str, function: &str) -> bool {
    [format!("fn {function}("), format!("fn {function}<")].iter().any(|start| rust.contains(start))
}

/// `function()` (`file.rs`), and `function()`, in `file.rs`: the function is in that file.
#[test]
fn functions_are_where_pages_say() {
    let (mut named, mut wrong) = (0, Vec::new());
    for page in ABOUT_OUR_CODE.map(Path::new) {
        let text = prose(page).join(" ");
        let spans: Vec<&str> = text.split('`').map(str::trim).collect();
        for window in spans.windows(3) {
            let [function, "(" | ", in", file] = *window else { continue };
            let Some(function) = function.strip_suffix("()") else { continue };
            let name = function.rsplit("::").next().unwrap();
            named += 1;
            if is_ours(file) && has_ending(Path::new(file), "rs") && !defines(&read(Path::new(file)), name) {
                wrong.push(format!("{}: {function}() is not in {file}", page.display()));
            }
        }
    }
    assert!(named > 5, "only {named} found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_test_and_function_that_is_named_is_there() {
    let tree = tree();
    let texts = |ending: &str| -> String {
        tree.iter().filter(|path| has_ending(path, ending)).map(|path| read(path)).collect()
    };
    let (rust, python) = (texts("rs"), texts("py"));
    let mut wrong = Vec::new();
    for page in tree.iter().filter(|path| has_ending(path, "md")) {
        for word in code(page) {
            let source =
                [".rs", ".py"].iter().any(|ending| word.ends_with(ending)) && !word.contains(['*', '…']);
            let there = if is_ours(&word) {
                top().join(&word).exists()
            } else if source && !word.starts_with('/') && !word.starts_with('.') {
                tree.iter().any(|path| path.ends_with(&word))
            } else if word.starts_with("test_") && !word.contains('.') {
                python.contains(&format!("def {word}("))
            } else if ABOUT_OUR_CODE.iter().any(|about| page == Path::new(about)) && word.ends_with("()") {
                let (of, name) = word.trim_end_matches("()").rsplit_once("::").unwrap_or(("", &word));
                let is_type = of.starts_with(char::is_uppercase);
                let kinds = ["struct", "enum", "trait"].map(|kind| format!("{kind} {of}"));
                defines(&rust, name.trim_end_matches("()"))
                    && (!is_type || kinds.iter().any(|kind| rust.contains(kind)))
            } else {
                true
            };
            if !there {
                wrong.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What our programs and plugins can print: their code without tests, a literal that goes over several lines as one.
fn printed() -> String {
    let sources = ["src", "qos", "node", "nvml", "prolog", "epilog", "cli", "plugins"];
    let is_ours = |path: &Path| {
        let test = path.iter().any(|part| part == "tests") || path.ends_with("tests.rs");
        has_ending(path, "rs") && !test && sources.iter().any(|source| path.starts_with(source))
    };
    let mut text = String::new();
    for path in tree().into_iter().filter(|path| is_ours(path)) {
        let code = read(&path);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap();
        let mut joins = false;
        for line in code.lines() {
            let line = if joins { line.trim_start() } else { line };
            joins = line.ends_with('\\');
            text.push_str(line.trim_end_matches('\\'));
            if !joins {
                text.push('\n');
            }
        }
    }
    text
}

/// Whether a line has these pieces, in their order.
fn has_in_order(line: &str, pieces: &[&str]) -> bool {
    let mut rest = Some(line);
    for piece in pieces {
        rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, after)| after);
    }
    rest.is_some()
}

/// In tables whose first column is headed `gpushare says`: what that column sets as code is in our sources. `…` is for
/// what a message puts in.
#[test]
fn gpushare_says_what_symptoms_quotes() {
    let printed = printed();
    let (mut quoted, mut wrong, mut ours) = (0, Vec::new(), false);
    let lines = prose(Path::new("docs/troubleshooting.md"));
    for (at, line) in lines.iter().enumerate() {
        let Some((first, _)) = line.strip_prefix("| ").and_then(|row| row.split_once(" |")) else { continue };
        if lines.get(at + 1).is_some_and(|next| next.starts_with("|--")) {
            ours = first == "gpushare says";
        }
        for message in first.split('`').skip(1).step_by(2).filter(|_| ours) {
            let pieces: Vec<&str> = message.split('…').filter(|piece| !piece.trim().is_empty()).collect();
            quoted += 1;
            if !printed.lines().any(|line| has_in_order(line, &pieces)) {
                wrong.push(message);
            }
        }
    }
    assert!(quoted > 60, "only {quoted} found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_message_number_is_in_symptoms() {
    let page = read(Path::new("docs/troubleshooting.md"));
    let messages = prose(Path::new("docs/messages.md"));
    let numbers: Vec<&str> = messages
        .iter()
        .filter_map(|line| line.strip_prefix("## ")?.split_once(':'))
        .map(|(number, _)| number)
        .collect();
    assert!(numbers.len() > 20, "{numbers:?}");
    let missing: Vec<&&str> =
        numbers.iter().filter(|number| !page.contains(&format!("[{number}]"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The name at the beginning of a text, of a metric or a label.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The labels that a query or a legend uses: those of `by (…)` and `on (…)`, of `{label=~"…"}`, `{{label}}` and
/// `{{ $labels.label }}`.
fn labels(text: &str) -> Vec<&str> {
    let listed = |start: &'static str| {
        let lists = text.split(start).skip(1).filter_map(|rest| rest.split(')').next());
        lists.flat_map(|list| list.split(',').map(str::trim))
    };
    let matched = text.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let matched = matched.flat_map(|rest| rest.split(',')).filter(|one| one.contains('=')).map(name);
    let shown = text.split("{{").skip(1).map(|rest| name(rest.trim_start().trim_start_matches("$labels.")));
    listed("by (").chain(listed("on (")).chain(matched).chain(shown).collect()
}

/// Each metric of docs/metrics.md with its labels.
fn documented_metrics() -> Vec<(String, Vec<String>)> {
    let row = |line: &String| {
        let (metric, rest) = line.strip_prefix("| `gpushare_")?.split_once("` | ")?;
        let (kind, _) = rest.split_once(" |")?;
        let labels = kind.split_once("; ").map_or("", |(_, labels)| labels);
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        Some((format!("gpushare_{metric}"), labels))
    };
    prose(Path::new("docs/metrics.md")).iter().filter_map(row).collect()
}

/// Each panel's query and legend, and each alert's, with its annotation.
fn queries() -> Vec<String> {
    let dashboard = read(Path::new("docs/metrics/dashboard.json")).replace("\\\"", "'");
    let value = |line: &str, key: &str| {
        Some(line.trim().strip_prefix(&format!("\"{key}\": \""))?.trim_end_matches(',').to_owned())
    };
    let pairs = dashboard.lines().zip(dashboard.lines().skip(1));
    let query = |(one, next)| Some(value(one, "expr")? + " " + &value(next, "legendFormat")?);
    let mut found: Vec<String> = pairs.filter_map(query).collect();
    assert_eq!(found.len(), dashboard.matches("\"expr\"").count(), "a legend follows its query");
    found.extend(read(Path::new("docs/metrics/alerts.yml")).split("- alert: ").skip(1).map(str::to_owned));
    found
}

/// Prometheus says nothing about a label that no metric has: a sum by it adds up what it should tell apart.
#[test]
fn dashboard_and_alerts_use_the_labels_that_their_metrics_have() {
    let documented = documented_metrics();
    assert!(documented.len() > 25, "{documented:?}");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for query in queries() {
        let expression = query.split("annotations:").next().unwrap();
        let metrics: Vec<&str> =
            expression.match_indices("gpushare_").map(|(at, _)| name(&expression[at..])).collect();
        assert!(!metrics.is_empty(), "{query}");
        for label in labels(&query) {
            seen += 1;
            // Prometheus adds the machine.
            let has = |metric: &&str| {
                let known = documented.iter().find(|(name, _)| name == metric);
                known.is_some_and(|(_, labels)| labels.iter().any(|one| one == label))
            };
            if label != "instance" && !metrics.iter().all(has) {
                wrong.push(format!("{label}: {query}"));
            }
        }
        let unknown = |metric: &&&str| !documented.iter().any(|(name, _)| name == *metric);
        wrong.extend(metrics.iter().filter(unknown).map(|metric| format!("no metric {metric}: {query}")));
    }
    assert!(seen > 60, "only {seen} found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_alert_has_a_severity_and_names_a_command() {
    let alerts = read(Path::new("docs/metrics/alerts.yml"));
    for alert in alerts.split("- alert: ").skip(1) {
        let is_one = |one: &&str| alert.contains(&format!("\n    labels: {{severity: {one}}}\n"));
        assert!(["critical", "warning", "info"].iter().any(is_one), "{alert}");
        let said =
            |key| alert.split(&format!("\n      {key}: \"")).nth(1).and_then(|rest| rest.lines().next());
        assert!(said("summary").is_some(), "{alert}");
        assert!(said("description").is_some_and(|text| text.matches('`').count() >= 2), "{alert}");
    }
}
