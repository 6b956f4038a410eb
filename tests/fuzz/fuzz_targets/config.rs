//! Any text as gpushare.conf: no panic, a message that fits into one line of a log and names a line that is there, no
//! meaning in comments and blank lines, and for sacctmgr only words that mean what the file says.
#![no_main]

use gpushare::config::Config;
use gpushare::config::qos::field::Field;
use gpushare::config::qos::value::{argument, written};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let read = Config::parse(text);
    if let Err(error) = &read {
        let lines = text.lines().count();
        assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}: of {lines} lines");
        let message = error.to_string();
        assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
    }
    for (name, value) in read.iter().flat_map(|config| &config.qoses).flat_map(|qos| &qos.settings) {
        let field = Field::named(name).unwrap();
        let word = argument(field, value);
        assert!(!word.contains(char::is_whitespace), "{name}={word}");
        assert_eq!(written(field, &word), Ok(Some(value.clone())), "{name}={word}");
    }
    let padded: String = text.lines().map(|line| format!("  {line} # = Placement=off\n")).collect();
    assert_eq!(Config::parse(&padded), read, "comments and blanks");
});
