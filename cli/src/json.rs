//! JSON, as far as printing it needs.

use std::fmt::Write;

/// A JSON string (RFC 8259, 7), with nothing in it that a terminal would obey.
pub fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}
