//! Lines of a Slurm configuration file and their `Key=Value` fields, as Slurm's parse_config.c reads them.

use std::path::{Path, PathBuf};

/// How deeply includes are followed.
pub const DEPTH: usize = 4;

/// The lines with their numbers: comments removed, continued lines (`\` at the end) joined, escapes resolved. These
/// steps are in Slurm's order (`_get_next_line`): a backslash within a comment continues nothing.
pub fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut joined = String::new();
    let mut begin = None;
    for (number, line) in (1..).zip(text.split('\n')) {
        let begun = *begin.get_or_insert(number);
        let line = without_comment(line);
        match continued(line) {
            Some(part) => joined.push_str(part),
            None => {
                joined.push_str(line);
                lines.push((begun, unescaped(&joined)));
                joined.clear();
                begin = None;
            }
        }
    }
    lines.extend(begin.map(|begun| (begun, unescaped(&joined))));
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

/// The line up to the first `#` with an even number of backslashes before it.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    let end = line.find(|c| {
        let ends = c == '#' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.and_then(|end| line.get(..end)).unwrap_or(line)
}

/// The text before the backslash that continues a line.
fn continued(line: &str) -> Option<&str> {
    let end = line.trim_end();
    let backslashes = end.len() - end.trim_end_matches('\\').len();
    if backslashes % 2 == 1 { end.strip_suffix('\\') } else { None }
}

fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

/// The value of a key; if there are several, Slurm uses the last.
pub fn last<'a>(fields: &[(&str, &'a str)], key: &str) -> Option<&'a str> {
    fields.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| *value)
}

/// Splits `Key=Value Key="Value with blanks" …`. `None` for text that Slurm would refuse, and for `+=` and the like.
pub fn fields(line: &str) -> Option<Vec<(&str, &str)>> {
    let mut fields = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=')?;
        let (key, value) = (key.trim_end(), value.trim_start());
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte)) {
            return None;
        }
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => {
                let (value, next) = quoted.split_once('"')?;
                if !next.is_empty() && !next.starts_with(char::is_whitespace) {
                    return None;
                }
                (value, next)
            }
            None => {
                let (value, next) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                (Some(value).filter(|value| !value.is_empty() && !value.contains('"'))?, next)
            }
        };
        fields.push((key, value));
        rest = after.trim_start();
    }
    Some(fields)
}

/// The file that an `Include` line names.
pub fn include(line: &str) -> Option<&str> {
    let (word, name) = line.trim().split_once(char::is_whitespace)?;
    word.eq_ignore_ascii_case("include").then(|| name.trim())
}

/// Its path: 24.11 and 26.05 look beside the file that comes first, 22.05 beside the one with the line.
pub fn included(name: &str, top: &Path, path: &Path) -> PathBuf {
    let beside = [top, path].map(|file| file.with_file_name(name));
    beside.iter().find(|path| path.exists()).unwrap_or(&beside[0]).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_as_slurm_does() {
        for (text, expected) in [
            ("a=1\n\n# b\n  c=2 # d\n", vec![(1, "a=1"), (4, "  c=2 ")]),
            ("a=1 \\\nb=2\nc=3", vec![(1, "a=1 b=2"), (3, "c=3")]),
            ("a=1 \\  \r\nb=2", vec![(1, "a=1 b=2")]),
            ("a=1 # x \\\nb=2", vec![(1, "a=1 "), (2, "b=2")]),
            ("a=\\#1 \\\\\nb=2", vec![(1, "a=#1 \\"), (2, "b=2")]),
            ("a=1 \\\\#x\nb", vec![(1, "a=1 \\"), (2, "b")]),
            ("a=1\\", vec![(1, "a=1")]),
        ] {
            let found = logical_lines(text);
            let found: Vec<(usize, &str)> = found.iter().map(|(n, line)| (*n, line.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn fields_are_keys_and_values() {
        for (line, expected) in [
            ("Name=gpu File=/dev/x", Some(vec![("Name", "gpu"), ("File", "/dev/x")])),
            (" Name = \"a b\"\tCount=  2 ", Some(vec![("Name", "a b"), ("Count", "2")])),
            ("a=b=c", Some(vec![("a", "b=c")])),
            ("a=\"\"", Some(vec![("a", "")])),
            ("gpu", None),
            ("a=1 gpu", None),
            ("a=", None),
            ("a+=1", None),
            ("a=\"b", None),
            ("a=\"b\"c", None),
            ("a=b\"c", None),
        ] {
            assert_eq!(fields(line), expected, "{line:?}");
        }
    }
}
