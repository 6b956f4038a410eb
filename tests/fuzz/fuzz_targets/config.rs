//! Any text as gpushare.conf: no panic, a message that fits into one line of a log and names a line that is there, no
//! meaning in comments and blank lines, and for sacctmgr only words that mean what the file says.
#![no_main]

use gpushare::config::rules::{Draft as RulesDraft, Rules};
use gpushare::config::{ConfigError, read};
use gpushare_node::config::{Draft as NodesDraft, Nodes};
use gpushare_qos::config::field::Field;
use gpushare_qos::config::value::{argument, written};
use gpushare_qos::config::{Database, Draft as DatabaseDraft};
use libfuzzer_sys::fuzz_target;

/// What the command reads: all three sections at once.
fn parse(text: &str) -> Result<(Rules, Nodes, Database), ConfigError> {
    let (mut rules, mut nodes, mut database) =
        (RulesDraft::default(), NodesDraft::default(), DatabaseDraft::default());
    read(text, &mut [&mut rules, &mut nodes, &mut database])?;
    let (nodes, rules) = (nodes.finish()?, rules.finish()?);
    let database = database.finish(&rules.policy);
    Ok((rules, nodes, database))
}

fuzz_target!(|text: &str| {
    let all = parse(text);
    // What is right for all is right for each.
    if let Ok((rules, nodes, database)) = &all {
        assert_eq!(Rules::parse(text).as_ref(), Ok(rules));
        assert_eq!(Nodes::parse(text).as_ref(), Ok(nodes));
        assert_eq!(Database::parse(text).as_ref(), Ok(database));
    }
    if let Err(error) = &all {
        let lines = text.lines().count();
        assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}: of {lines} lines");
        let message = error.to_string();
        assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
    }
    for (name, value) in all.iter().flat_map(|(.., database)| &database.qoses).flat_map(|qos| &qos.settings) {
        let field = Field::named(name).unwrap();
        let word = argument(field, value);
        assert!(!word.contains(char::is_whitespace), "{name}={word}");
        assert_eq!(written(field, &word), Ok(Some(value.clone())), "{name}={word}");
    }
    let padded: String = text.lines().map(|line| format!("  {line} # = Placement=off\n")).collect();
    assert_eq!(parse(&padded), all, "comments and blanks");
});
