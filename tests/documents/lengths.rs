//! How long the pages for sites are, and how many words a reader needs for an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{pages_of, read};

/// The words of a page: what has a letter or a digit.
fn words(page: &Path) -> usize {
    words_of(&read(page))
}

fn words_of(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// The words of a page's parts, each from a heading to the next one of its level; "" is what comes before the first.
fn words_of_parts(page: &str, headings: &[&str]) -> usize {
    let text = read(Path::new(page));
    let parts: Vec<&str> = text.split("\n## ").collect();
    let is_wanted = |part: &str, heading: &str| {
        if heading.is_empty() { part.starts_with("# ") } else { part.starts_with(heading) }
    };
    let part = |heading: &&str| parts.iter().find(|part| is_wanted(part, heading)).copied().unwrap();
    headings.iter().map(part).map(words_of).sum()
}

/// The words that answer a question, read in their order.
#[test]
fn answers_come_soon() {
    let readme = read(Path::new("README.md"));
    let first: Vec<&str> = readme.split("\n\n").take(2).collect();
    let guide = read(Path::new("docs/guide.md"));
    let (_, audit) = guide.split_once("## 7. Running cluster: audit first").unwrap();
    let (audit, _) = audit.split_once("\n4. **Warn.**").unwrap();
    let node = words_of_parts("docs/placement.md", &["", "Choose a mode"]);
    for (question, found, most) in [
        ("what does it do?", words_of(&first.concat()), 60),
        ("do I need it?", words_of_parts("README.md", &["", "Do I need it?"]), 600),
        ("how do I log what it would refuse?", words_of_parts("README.md", &["Install"]), 250),
        ("and on a running cluster?", words_of(audit), 250),
        (
            "how do I add shares to a running cluster?",
            node + words_of_parts(
                "docs/running-cluster.md",
                &["", "The order of restarts", "2. Prolog", "3. follow", "4. override", "5. own"],
            ),
            3000,
        ),
    ] {
        println!("{found} of {most}: {question}");
        assert!(found <= most, "{found} of {most}: {question}");
    }
}

/// What a site reads, at 230 words a minute: whether gpushare fits in 2 minutes, all in 2 hours.
#[test]
fn pages_for_sites_are_short() {
    let pages = pages_of("docs");
    let all: usize = pages.iter().map(|page| words(page)).sum();
    let each: Vec<_> = pages.iter().map(|page| (words(page), page.display().to_string())).collect();
    assert!(pages.len() <= 18, "{each:#?}");
    assert!(all <= 30_000, "{all}: {each:#?}");
    assert!(words(Path::new("README.md")) <= 450, "{}", words(Path::new("README.md")));
}

/// The words in a row that show that a fact is on two pages.
const RUN: usize = 8;

/// No fact is told twice: no page has eight words in a row that another one has. Code and generated tables don't count.
#[test]
fn nothing_is_said_twice() {
    let is_generated =
        |page: &PathBuf| ["messages.md", "gpushare.conf.md"].iter().any(|name| page.ends_with(name));
    let pages = pages_of("docs").into_iter().filter(|page| !is_generated(page));
    let mut found = BTreeMap::<String, BTreeSet<PathBuf>>::new();
    for page in pages.chain([PathBuf::from("README.md")]) {
        for part in parts(&read(&page)) {
            let words: Vec<&str> = part.split_whitespace().collect();
            for run in words.windows(RUN) {
                found.entry(run.join(" ")).or_default().insert(page.clone());
            }
        }
    }
    found.retain(|_, pages| pages.len() > 1);
    assert!(found.is_empty(), "{found:#?}");
}

/// The words of each paragraph, item and row, without code blocks, signs, and the targets of links.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut is_code) = (vec![String::new()], false);
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let is_new = line.trim().is_empty() || line.trim_start().starts_with(['|', '*', '-', '#']);
        if is_new {
            parts.push(String::new());
        }
        if !is_code
            && !line.starts_with("    ")
            && let Some(part) = parts.last_mut()
        {
            let shown = line.split("](").enumerate().map(|(at, text)| match text.split_once(')') {
                Some((_, rest)) if at > 0 => rest,
                _ => text,
            });
            let kept = |sign: char| sign.is_alphanumeric() || "'./=-".contains(sign);
            let words = shown.collect::<String>().replace(|sign| !kept(sign), " ").to_lowercase();
            part.push_str(&words);
            part.push(' ');
        }
    }
    parts
}
