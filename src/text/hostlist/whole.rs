//! The files for which an expression stands, as configurations of nodes have them.

use super::in_brackets;

/// No list has more names; limits what a configuration can make us do.
pub const MOST: usize = 256;

/// All names for which an expression stands, in order; `None` if it can't be read or has too many.
pub fn expand(name: &str) -> Option<Vec<String>> {
    let Some((head, ranges, tail)) = in_brackets(name)? else { return Some(vec![name.to_owned()]) };
    let mut names = Vec::new();
    for range in &ranges {
        if range.last - range.first >= MOST || names.len() >= MOST {
            return None;
        }
        names.extend((range.first..=range.last).map(|value| format!("{head}{}{tail}", range.write(value))));
    }
    Some(names)
}
