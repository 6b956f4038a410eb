//! The keys of gpushare.conf, from keys.txt, as the template, the manual page and docs/gpushare.conf.md have them.

use std::path::Path;

use gpushare::config::Problem;

use super::is_in_its_file;
use gpushare_machine::config::Config;

const TABLE: &str = include_str!("keys.txt");
const WIDTH: usize = 118;

const BEGIN_OF_TEMPLATE: &str = "\
# gpushare.conf: who must name GPU types, and how GPUs are shared. See gpushare.conf(5).
#
# This is a template. Copy it beside slurm.conf, the same file on all machines; nodes with another Placement may have
# their own. A line that begins with #Key= is a key's default. A key without one has an example, after '#  '. slurmctld
# adopts an edit within seconds; nodes read the file for each job.
";

#[derive(Debug, Default)]
struct Key {
    section: &'static str,
    names: Vec<&'static str>,
    values: &'static str,
    default: Option<&'static str>,
    examples: Vec<&'static str>,
    /// What holds without the key, if it has no default.
    without: &'static str,
    text: String,
    more: String,
    see: Option<&'static str>,
}

fn keys() -> Vec<Key> {
    let blocks = TABLE.split("\n\n").map(|block| block.trim_matches('\n'));
    let mut section = "";
    let mut keys = Vec::new();
    for block in blocks.filter(|block| !block.is_empty() && !block.starts_with('#')) {
        if let Some(title) = block.strip_prefix('[').and_then(|block| block.strip_suffix(']')) {
            section = title;
            continue;
        }
        let (first, lines) = block.split_once('\n').unwrap();
        let (names, values) = first.split_once(" = ").unwrap();
        let mut key = Key { section, names: names.split(", ").collect(), values, ..Key::default() };
        let (mut text, mut more, mut is_more) = (Vec::new(), Vec::new(), false);
        for line in lines.lines() {
            match line.split_once(": ").unwrap_or((line, "")) {
                ("default", value) => key.default = Some(value),
                ("example", value) => key.examples = value.split("; ").collect(),
                ("without", value) => key.without = value,
                ("see", value) => key.see = Some(value),
                ("--", _) => is_more = true,
                _ if is_more => more.push(line),
                _ => text.push(line),
            }
        }
        (key.text, key.more) = (text.join(" "), more.join(" "));
        assert!(key.text.ends_with('.') && key.default.is_some() != (key.examples.len() == key.names.len()));
        keys.push(key);
    }
    keys
}

impl Key {
    /// What the manual page and docs/ say.
    fn all(&self) -> String {
        let mut text = self.text.clone();
        if !self.more.is_empty() {
            text += &format!(" {}", self.more);
        }
        if let ([name], [example]) = (self.names.as_slice(), self.examples.as_slice()) {
            text += &format!(" For example `{name}={example}`.");
        }
        text
    }
}

/// The text of links alone.
fn unlinked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[')
        && let Some((name, target)) = after.split_once("](")
        && let Some((_, after)) = target.split_once(')')
        // A hostlist has brackets, too.
        && !name.contains(']')
    {
        out += &format!("{before}{name}");
        rest = after;
    }
    out + rest
}

/// The text with each word or command in code made by a function. A command stays on one line.
fn with_code(text: &str, code: impl Fn(&str) -> String) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 1 { code(part).replace(' ', "\u{a0}") } else { part.to_owned() })
        .collect()
}

fn filled(text: &str, begin: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{begin}{word}")),
        }
    }
    lines.join("\n").replace('\u{a0}', " ") + "\n"
}

fn template() -> String {
    let mut out = BEGIN_OF_TEMPLATE.to_owned();
    let mut section = "";
    for key in keys() {
        if key.section != section {
            section = key.section;
            out += &format!("\n# ---- {section}\n\n");
        }
        // A command is easier to see in quotes.
        let code =
            |code: &str| if code.contains("gpushare ") { format!("`{code}`") } else { code.to_owned() };
        out += &filled(&with_code(&unlinked(&key.text).replace('…', "..."), code), "# ");
        for (index, name) in key.names.iter().enumerate() {
            out += &match key.default {
                Some(default) => format!("#{name}={default}\n"),
                None => format!("#  {name}={}\n", key.examples[index]),
            };
        }
    }
    out
}

fn roff(text: &str) -> String {
    let bold = |code: &str| format!("\\fB{}\\fR", code.replace('-', "\\-"));
    let text = with_code(&unlinked(text).replace('…', "..."), bold);
    // A new sentence is a new line.
    text.split_inclusive(". ").map(|sentence| filled(sentence, "")).collect()
}

fn of_page() -> String {
    let mut out = String::new();
    let mut section = "";
    // Its settings have a section of their own.
    for key in keys().into_iter().filter(|key| key.names != ["QOS"]) {
        if key.section != section {
            section = key.section;
            out += &format!(".SS {section}\n");
        }
        for (index, name) in key.names.iter().enumerate() {
            let tag = if index == 0 { "TP" } else { "TQ" };
            out += &format!(".{tag}\n.BI {name}= {}\n", key.values.replace('-', "\\-"));
        }
        out += &roff(&key.all());
        out += &key.default.map_or_else(String::new, |default| format!("Default: {default}.\n"));
    }
    out
}

fn of_docs(section: &str) -> String {
    let row = |key: &Key| {
        let names: Vec<String> = key.names.iter().map(|name| format!("`{name}`")).collect();
        let mut text = key.all();
        if let Some(see) = key.see {
            text = format!("{} ({see}).", text.trim_end_matches('.'));
        }
        let default = key.default.map_or_else(|| key.without.to_owned(), |default| format!("`{default}`"));
        format!("| {} | {} | {default} |\n", names.join(", "), text.replace('|', "\\|"))
    };
    let keys = keys();
    let rows = keys.iter().filter(|key| key.section == section).map(row);
    "| key | values | default |\n|---|---|---|\n".to_owned() + &rows.collect::<String>()
}

/// The text between two lines made anew.
fn replaced(text: &str, begin: &str, end: &str, new: &str) -> String {
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("no {end} after {begin}"));
    format!("{before}{begin}{new}{end}{after}")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(name)).unwrap()
}

#[test]
fn the_template_is_that_of_the_keys() {
    is_in_its_file("packaging/gpushare.conf", &template());
}

#[test]
fn the_manual_page_has_the_keys() {
    let name = "man/gpushare.conf.5";
    let page = replaced(&read(name), ".SH KEYS\n", ".SH \"SETTINGS OF A QOS\"\n", &of_page());
    is_in_its_file(name, &page);
}

#[test]
fn the_tables_of_the_docs_have_the_keys() {
    let name = "docs/gpushare.conf.md";
    let mut page = read(name);
    let mut sections: Vec<&str> = keys().iter().map(|key| key.section).collect();
    sections.dedup();
    for section in sections.into_iter().filter(|section| *section != "QOS records") {
        let begin = format!("<!-- keys: {section} -->\n\n");
        page = replaced(&page, &begin, "\n<!-- end of keys -->\n", &of_docs(section));
    }
    is_in_its_file(name, &page);
}

/// A value of a key with fixed words is one of those that the table names, and no other.
#[test]
fn the_words_of_the_table_are_those_of_the_code() {
    let parse = |text: &str| Config::parse(text).and(gpushare_idle::config::Rules::parse(text));
    let refused = |name: &str, value: &str| match parse(&format!("{name}={value}")) {
        Err(error) => match error.problem {
            Problem::BadValue { allowed, .. } => Some(allowed),
            _ => None,
        },
        Ok(_) => None,
    };
    let kinds = ["names", "list", "path", "paths", "number", "types"];
    let mut compared = 0;
    for key in keys().iter().filter(|key| key.values.contains('|')) {
        let words: Vec<&str> = key.values.split('|').collect();
        for (name, word) in key.names.iter().flat_map(|name| words.iter().map(move |word| (name, *word))) {
            assert!(kinds.contains(&word) || refused(name, word).is_none(), "{name}={word}");
        }
        if words.iter().all(|word| !kinds.contains(word)) {
            let allowed = refused(key.names[0], "no_such_word").unwrap();
            let mut known: Vec<&str> = allowed.split(", ").flat_map(|part| part.split(" or ")).collect();
            let mut words = words.clone();
            known.sort_unstable();
            words.sort_unstable();
            assert_eq!(words, known, "{}", key.names[0]);
            compared += 1;
        }
    }
    assert!(compared > 12, "{compared}");
}
