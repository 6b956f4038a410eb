//! Lines for people: words in columns, some in colour, without characters that control a terminal. A colour is never
//! the only sign of a fact.

/// How to show a word if there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// As it is.
    #[default]
    Plain,
    /// Column names and sums.
    Bold,
    /// Something is free.
    Free,
    /// Nothing is free.
    Full,
    /// Something needs an administrator.
    Wrong,
}

impl Look {
    /// ECMA-48's Select Graphic Rendition.
    fn sequence(self) -> &'static str {
        match self {
            Look::Plain => "",
            Look::Bold => "\x1b[1m",
            Look::Free => "\x1b[32m",
            Look::Full => "\x1b[33m",
            Look::Wrong => "\x1b[31m",
        }
    }
}

/// One or more words with the same look. The text has no control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    text: String,
    look: Look,
}

/// A line, without its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<Span>);

/// The side of a column to which its words are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its left.
    Left,
    /// Its right.
    Right,
}

/// Text that can't control a terminal: control characters, and those that change the direction of writing, are escaped
/// as in Rust.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_safe(c) { out.push(c) } else { out.extend(c.escape_debug()) }
    }
    out
}

/// Whether a terminal shows the character and does nothing else: the one place that decides this for all commands.
pub(crate) fn is_safe(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().len() == 1
}

impl Span {
    /// Words from any text.
    pub fn new(text: &str, look: Look) -> Span {
        Span { text: clean(text), look }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: std::fmt::Display> From<T> for Span {
    fn from(text: T) -> Span {
        Span::new(&text.to_string(), Look::Plain)
    }
}

impl Line {
    /// A line from any text.
    pub fn new(text: &str, look: Look) -> Line {
        Line(vec![Span::new(text, look)])
    }

    /// The line, cut to a width, with or without colours.
    pub fn render(&self, width: Option<usize>, colour: bool) -> String {
        let mut left = width.unwrap_or(usize::MAX);
        let mut out = String::new();
        for span in &self.0 {
            let text: String = span.text.chars().take(left).collect();
            left = left.saturating_sub(span.width());
            if colour && span.look != Look::Plain && !text.is_empty() {
                out += &format!("{}{text}\x1b[0m", span.look.sequence());
            } else {
                out += &text;
            }
        }
        out
    }
}

/// All lines, one after another.
pub fn text(lines: &[Line], colour: bool) -> String {
    lines.iter().map(|line| line.render(None, colour) + "\n").collect()
}

/// Rows in columns, each with its alignment and the width of its widest word.
pub fn aligned(rows: Vec<Vec<Span>>, columns: &[Side]) -> Vec<Line> {
    let widest = |index: usize| rows.iter().filter_map(|row| row.get(index)).map(Span::width).max();
    let widths: Vec<usize> = (0..columns.len()).map(|index| widest(index).unwrap_or(0)).collect();
    let line = |row: Vec<Span>| {
        let mut spans = Vec::with_capacity(2 * row.len());
        for (index, (span, width)) in row.into_iter().zip(&widths).enumerate() {
            let gap = if index == 0 { 0 } else { 2 };
            let blank = |count| Span { text: " ".repeat(count), look: Look::Plain };
            let missing = width.saturating_sub(span.width());
            match columns.get(index).copied().unwrap_or(Side::Right) {
                Side::Right => spans.extend([blank(gap + missing), span]),
                Side::Left => spans.extend([blank(gap), span, blank(missing)]),
            }
        }
        while spans.last().is_some_and(|span| span.text.trim_end().is_empty()) {
            spans.pop();
        }
        Line(spans)
    };
    rows.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let nasty = "a\x1b[2Jb\u{9b}31m\x07\r\n\u{202e}c\u{7f}ü '\"\\";
        assert_eq!(clean(nasty), "a\\u{1b}[2Jb\\u{9b}31m\\u{7}\\r\\n\\u{202e}c\\u{7f}ü '\"\\");
        let all: String = (0..=0x2fff).filter_map(char::from_u32).collect();
        let turns = |c: char| "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}".contains(c);
        assert!(!clean(&all).contains(|c: char| c.is_control() || turns(c) || c == '\u{2028}'));
        assert_eq!(Line::new("\x1b]0;x\x07", Look::Wrong).render(None, false), "\\u{1b}]0;x\\u{7}");
    }

    #[test]
    fn columns_are_aligned_on_their_sides() {
        let row = |words: [&str; 3]| words.into_iter().map(Span::from).collect();
        let rows = vec![row(["NODE", "N", "WHO"]), row(["n1", "10", "a"]), row(["n100x", "7", ""])];
        let sides = [Side::Left, Side::Right, Side::Left];
        let lines = aligned(rows, &sides);
        assert_eq!(text(&lines, false), "NODE    N  WHO\nn1     10  a\nn100x   7\n");
    }

    #[test]
    fn colours_stand_around_words_and_are_not_counted() {
        let row = vec![Span::new("ab", Look::Free), Span::from("cd"), Span::new("e", Look::Wrong)];
        let line = Line(row);
        assert_eq!(line.render(None, true), "\x1b[32mab\x1b[0mcd\x1b[31me\x1b[0m");
        assert_eq!(line.render(None, false), "abcde");
        assert_eq!(line.render(Some(1), true), "\x1b[32ma\x1b[0m");
        assert_eq!(line.render(Some(4), true), "\x1b[32mab\x1b[0mcd");
        assert_eq!(line.render(Some(0), true), "");
    }
}
