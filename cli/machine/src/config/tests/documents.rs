//! Compares what docs/, man/gpushare.conf.5 and the installed file say about gpushare.conf with the keys.

use std::collections::BTreeMap;

use super::*;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)).unwrap()
}

#[test]
fn every_example_is_a_configuration() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join("gpushare.conf"));
    let read = files.filter_map(|path| Config::load(&path).unwrap()).count();
    assert!(read >= 8, "{read} in {folder}");
}

#[test]
fn every_key_is_in_the_docs() {
    let text = text("docs/gpushare.conf.md");
    for key in all(None).into_iter().chain(all(Some(Record::Qos))) {
        assert!(text.contains(&format!("`{key}`")) || text.contains(&format!("`{key}=")), "{key}");
    }
}

/// The lines of the installed file that begin with `mark`, without the mark.
fn lines(mark: &str) -> Vec<String> {
    let text = text("packaging/gpushare.conf");
    let found = text.lines().filter_map(|line| line.strip_prefix(mark));
    let starts = |line: &&str| line.starts_with(|c: char| c.is_ascii_uppercase()) && line.contains('=');
    found.filter(starts).map(str::to_owned).collect()
}

fn key(line: &str) -> &str {
    line.split('=').next().unwrap_or_default()
}

#[test]
fn the_installed_file_has_every_key_and_switches_nothing_on() {
    assert_eq!(Config::parse(&text("packaging/gpushare.conf")), Ok(Config::default()));
    let (defaults, examples) = (lines("#"), lines("#  "));
    assert_eq!(Config::parse(&defaults.join("\n")), Ok(Config::default()), "its defaults are the code's");
    Config::parse(&examples.join("\n")).unwrap();
    // The keys of `gpushare idle` are read by it alone.
    for line in examples.iter().filter(|line| !line.starts_with("Idle")) {
        assert_ne!(
            Config::parse(&format!("Placement=off\n{line}")),
            Ok(Config::default()),
            "{line} is no default"
        );
    }
    let mut there: Vec<&str> = defaults.iter().chain(&examples).map(|line| key(line)).collect();
    let mut known = all(None);
    there.sort_unstable();
    known.sort_unstable();
    assert_eq!(there, known);
}

/// The terms of a page by section, each with its text, without macros for fonts.
fn terms(page: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut sections: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let (mut section, mut is_term) = (String::new(), false);
    for line in page.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            ".SH" => section = rest.trim_matches('"').to_owned(),
            ".TP" | ".TQ" => is_term = true,
            _ if is_term => {
                sections.entry(section.clone()).or_default().push((key(rest).to_owned(), String::new()));
                is_term = false;
            }
            _ => {
                if let Some((_, said)) = sections.get_mut(&section).and_then(|terms| terms.last_mut()) {
                    said.push_str(if matches!(name, ".B" | ".I" | ".BR" | ".IR") { rest } else { line });
                    said.push('\n');
                }
            }
        }
    }
    sections
}

/// The page must have each key exactly once, with the same default as the installed file, and no other keys.
#[test]
fn the_manual_page_has_every_key_and_nothing_else() {
    let mut sections = terms(&text("man/gpushare.conf.5"));
    let mut in_section = |name: &str| {
        let terms = sections.remove(name).unwrap_or_default();
        let mut keys: Vec<String> = terms.iter().map(|(key, _)| key.clone()).collect();
        keys.sort();
        (keys, terms)
    };
    let sorted = |mut keys: Vec<&str>| {
        keys.sort_unstable();
        keys.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let records = ["SETTINGS OF A QOS", "A MANAGED QOS"].map(|name| in_section(name).0).concat();
    assert_eq!(sorted(records.iter().map(String::as_str).collect()), sorted(all(Some(Record::Qos))));
    let (top, terms) = in_section("KEYS");
    assert_eq!(top, sorted(all(None).into_iter().filter(|key| *key != Record::Qos.key()).collect()));
    for line in lines("#") {
        let (name, default) = line.split_once('=').unwrap();
        let (_, said) = terms.iter().find(|(key, _)| key == name).unwrap();
        assert!(said.contains(&format!("Default: {default}.\n")), "{name}: {said}");
    }
    sections.remove("FILES");
    assert_eq!(sections, BTreeMap::new());
}
