//! Prints JSON with serde_json, without characters that control a terminal.

use std::fmt::Write;

use serde::Serialize;

use crate::columns::is_safe;

/// One object on its own lines, whose maps have texts as keys: only other keys could fail.
#[expect(clippy::expect_used, reason = "no map here has other keys than texts")]
pub fn text(object: &impl Serialize) -> String {
    safe(&serde_json::to_string_pretty(object).expect("keys are texts"))
}

/// The same on one line.
#[expect(clippy::expect_used, reason = "no map here has other keys than texts")]
pub fn line(object: &impl Serialize) -> String {
    safe(&serde_json::to_string(object).expect("keys are texts"))
}

fn safe(text: &str) -> String {
    // JSON doesn't escape DEL, C1, and what changes the direction of writing.
    let mut safe = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c == '\n' || is_safe(c) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        }
    }
    safe + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_the_same_and_controls_no_terminal() {
        let nasty = "a\x1b[2J\u{9b}\u{7f}\u{202e}\u{e0001}ü \"'\\\n";
        let said = text(&[nasty]);
        assert_eq!(serde_json::from_str::<[String; 1]>(&said).unwrap(), [nasty]);
        assert!(said.contains("\\u202e") && said.contains("ü \\\"'"), "{said}");
        assert!(
            said.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}' && c != '\u{e0001}')),
            "{said}"
        );
    }
}
