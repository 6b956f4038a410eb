//! docs/dev/claims.md: the words that it quotes are on their page, and the tests and functions that decide them exist.

use std::path::Path;

use super::{defines, has_ending, has_in_order, is_ours, read, top};

const PAGE: &str = "docs/dev/claims.md";

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

#[test]
fn claims_stand_on_their_pages_and_are_decided() {
    let (mut page, mut claims, mut wrong) = (String::new(), 0, Vec::new());
    for line in read(Path::new(PAGE)).lines() {
        if let Some(name) = line.strip_prefix("## ") {
            assert!(has_ending(Path::new(name), "md"), "{PAGE}: '{name}' is no page");
            page = plain(&read(Path::new(name)));
        }
        let row = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")?.split_once(" | "));
        let Some((claim, decides)) = row.filter(|(claim, _)| *claim != "claim") else { continue };
        claims += 1;
        let words = plain(claim);
        if !has_in_order(&page, &words.split('…').map(str::trim).collect::<Vec<_>>()) {
            wrong.push(format!("{claim}: these words are not on its page"));
        }
        wrong.extend(faults(decides).into_iter().map(|fault| format!("{claim}: {fault}")));
    }
    assert!(claims > 100, "only {claims} found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
