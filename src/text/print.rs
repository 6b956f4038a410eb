//! What commands print, and what one line of a log may have.

use std::fmt::Display;

/// `1 user`, `2 users`
pub fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    format!("{count} {what}{}", if count == "1" { "" } else { "s" })
}

/// Text for one line of a log or a terminal: without characters that control it, end the line or change the direction
/// of writing, and cut after `longest` characters.
pub fn printable(text: &str, longest: usize) -> String {
    let turn = |c| matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().take(longest).map(|c| if c.is_control() || turn(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printable_moves_no_cursor_and_has_an_end() {
        assert_eq!(printable("GPU\u{1b}[2J\n1", 80), "GPU [2J 1");
        assert_eq!(printable("größer", 3), "grö");
        assert_eq!(printable("a\u{61c}a\u{202e}b\u{2066}c\u{200f}d\u{2028}e", 80), "a a b c d e");
    }
}
