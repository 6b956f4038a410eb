//! All names of a list, for those who need every one of them.

use super::{MOST_NODES, in_brackets, read};

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

/// All nodes of a list; `None` if the list can't be read, is empty, or has more nodes than any cluster.
pub fn all(list: &str) -> Option<Vec<String>> {
    let (names, whole) = read(list, &mut MOST_NODES.clone());
    (whole && !names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_all_its_nodes_or_can_not_be_read() {
        let number = |list| all(list).map(|names| names.len());
        for (list, expected) in [
            ("a", Some(1)),
            ("a,b[1-3]", Some(4)),
            ("gpu[001-300]", Some(300)),
            ("rack[0-1]n[0-3]", Some(8)),
            ("", None),
            ("b[1-3", None),
            ("b1-3]", None),
            ("b[3-1],a", None),
            ("a[x]", None),
            ("a[0-999999]", None),
        ] {
            assert_eq!(number(list), expected, "{list}");
        }
    }
}
