//! Users' text for their eyes, and for their shell.

/// The text on one line: UTF-8 as it is, and escaped what isn't UTF-8, can't be seen or could deceive: control and
/// format characters, also those that change the direction, quotes, and backslashes.
pub fn shown(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.extend(chunk.valid().escape_debug());
        out.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    out
}

/// The text as a shell must read it after an option's `=`, in single quotes if it needs them; `None` if the text can't
/// be shown as it is.
pub fn shell_word(text: &[u8]) -> Option<String> {
    let mut word = String::from("'");
    let mut plain = true;
    for c in str::from_utf8(text).ok()?.chars() {
        plain &= c.is_ascii_alphanumeric() || !c.is_ascii() || "_.:,=/@%+-".contains(c);
        match c {
            '\'' => word.push_str(r"'\''"),
            '"' | '\\' => word.push(c),
            // A character that can't be seen is escaped by more than itself.
            _ if c.escape_debug().len() > 1 => return None,
            _ => word.push(c),
        }
    }
    word.push('\'');
    Some(if plain { word.trim_matches('\'').to_owned() } else { word })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are_and_nothing_can_deceive() {
        for (text, expected) in [
            ("größe", "größe"),
            ("u\u{308}ber 大学", "u\u{308}ber 大学"),
            ("it's", r"it\'s"),
            ("a\n\x1b[31m", r"a\n\u{1b}[31m"),
            ("\u{202e}evil\u{200b}", r"\u{202e}evil\u{200b}"),
            ("a\u{a0}b\u{85}", r"a\u{a0}b\u{85}"),
        ] {
            assert_eq!(shown(text.as_bytes()), expected);
        }
        assert_eq!(shown(b"gr\xf6\xc3\xb6"), r"gr\xf6ö");
    }

    #[test]
    fn a_shell_reads_the_word_as_the_text() {
        for text in ["qos_a", "größe", "two words", "q'uote", "$(id)", "a;b", "`x`", "*", "\\", "~", "\"", ""]
        {
            let command = format!("printf %s {}", shell_word(text.as_bytes()).unwrap());
            let read = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), text, "{command}");
        }
        for text in [b"a\nb".as_slice(), b"\x1b[1m", b"\xff", "\u{202e}x".as_bytes(), b"\0"] {
            assert_eq!(shell_word(text), None, "{text:?}");
        }
    }
}
