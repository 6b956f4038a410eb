//! Prints JSON with serde_json, without characters that control a terminal.

use std::fmt::Write;

use serde::Serialize;

/// One object on its own lines.
///
/// # Errors
/// It has a map whose keys aren't texts.
pub fn text(object: &impl Serialize) -> serde_json::Result<String> {
    Ok(safe(&serde_json::to_string_pretty(object)?))
}

/// One object on one line.
///
/// # Errors
/// The same as for [`text`].
pub fn line(object: &impl Serialize) -> serde_json::Result<String> {
    Ok(safe(&serde_json::to_string(object)?))
}

fn safe(text: &str) -> String {
    // JSON doesn't escape DEL and C1.
    let mut safe = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe + "\n"
}
