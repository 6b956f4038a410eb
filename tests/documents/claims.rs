//! docs/dev/claims.md: the words that it quotes are on their page, and the tests and functions that decide them exist.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::{defines, has_ending, has_in_order, is_ours, read, top};

const PAGE: &str = "docs/dev/claims.md";

/// Pages of which each of [`WORDS`] is part of a claim.
const WHOLE: [&str; 7] = [
    "README.md",
    "docs/limits.md",
    "docs/security.md",
    "docs/dev/threat-model.md",
    "docs/placement.md",
    "docs/mps.md",
    "docs/upgrade.md",
];
const WORDS: [&str; 6] = ["every", "never", "only", "always", "at most", "none"];

/// A page's text in one line, without the marks that set code and bold text.
fn plain(text: &str) -> String {
    text.replace(['`', '*'], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is wrong with what decides a claim: a file, then the tests and functions in it.
fn faults(decides: &str) -> Vec<String> {
    let (mut file, mut found, mut wrong) = (None, decides.contains("read: "), Vec::new());
    for word in decides.split('`').skip(1).step_by(2) {
        let name = word.trim_end_matches("()");
        if is_ours(word) {
            found = true;
            file = top().join(word).is_file().then(|| read(Path::new(word)));
            if file.is_none() {
                wrong.push(format!("no file {word}"));
            }
        } else if name != word || word.starts_with("test_") {
            let text = file.as_deref().unwrap_or_default();
            if !defines(text, name) && !text.contains(&format!("def {name}(")) {
                wrong.push(format!("no {word} in the file before it"));
            }
        }
    }
    if !found {
        wrong.push("nothing decides it".to_owned());
    }
    wrong
}

/// Each row: its page, the claim, and what decides it.
fn rows() -> Vec<(String, String, String)> {
    let (mut page, mut found) = (String::new(), Vec::new());
    for line in read(Path::new(PAGE)).lines() {
        if let Some(name) = line.strip_prefix("## ") {
            assert!(has_ending(Path::new(name), "md"), "{PAGE}: '{name}' is no page");
            name.clone_into(&mut page);
        }
        let row = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")?.split_once(" | "));
        if let Some((claim, decides)) = row.filter(|(claim, _)| *claim != "claim") {
            found.push((page.clone(), claim.to_owned(), decides.to_owned()));
        }
    }
    found
}

/// Where a claim's words are on its page; those before and behind an ellipsis are two places.
fn places(page: &str, claim: &str) -> Vec<Range<usize>> {
    let (mut from, mut found) = (0, Vec::new());
    for words in plain(claim).split('…').map(str::trim) {
        let Some(at) = page.get(from..).and_then(|rest| rest.find(words)) else { return found };
        found.push(from + at..from + at + words.len());
        from += at + words.len();
    }
    found
}

/// The strong words of a text, and where they are.
fn strong(text: &str) -> Vec<Range<usize>> {
    let small = text.to_ascii_lowercase();
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let each = WORDS.iter().flat_map(|word| small.match_indices(word));
    each.map(|(at, word)| at..at + word.len())
        .filter(|found| {
            let before = found.start.checked_sub(1).and_then(|at| small.as_bytes().get(at));
            is_end(before) && is_end(small.as_bytes().get(found.end))
        })
        .collect()
}

#[test]
fn strong_words_are_part_of_a_claim() {
    let mut claims: HashMap<String, Vec<String>> = HashMap::new();
    for (page, claim, _) in rows() {
        claims.entry(page).or_default().push(claim);
    }
    let (mut words, mut wrong) = (0, Vec::new());
    for name in WHOLE {
        let page = plain(&read(Path::new(name)));
        let claimed: Vec<_> = claims[name].iter().flat_map(|claim| places(&page, claim)).collect();
        for found in strong(&page) {
            words += 1;
            if !claimed.iter().any(|place| place.start <= found.start && found.end <= place.end) {
                let near: String = page[found.start..].chars().take(60).collect();
                wrong.push(format!("{name}: '{near}' is in no claim of {PAGE}"));
            }
        }
    }
    assert!(words > 100, "only {words} found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn claims_stand_on_their_pages_and_are_decided() {
    let (rows, mut wrong) = (rows(), Vec::new());
    for (page, claim, decides) in &rows {
        let page = plain(&read(Path::new(page)));
        if !has_in_order(&page, &plain(claim).split('…').map(str::trim).collect::<Vec<_>>()) {
            wrong.push(format!("{claim}: these words are not on its page"));
        }
        wrong.extend(faults(decides).into_iter().map(|fault| format!("{claim}: {fault}")));
    }
    assert!(rows.len() > 200, "only {} found", rows.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
