//! Lists of names with numbers in brackets, as Slurm writes them: `node[01-04,7]`, `/dev/nvidia[0-3]`.
//!
//! Read as in Slurm's hostlist.c, including zero padding, but only with one pair of brackets in a name.

pub mod names;
pub mod whole;

/// A number or a range of them, written with at least this many digits.
struct Range {
    first: usize,
    last: usize,
    width: usize,
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Range { first: number(first)?, last: number(last)?, width: first.len() };
        (range.first <= range.last).then_some(range)
    }

    fn write(&self, value: usize) -> String {
        format!("{value:0width$}", width = self.width)
    }
}

/// The names, split at commas outside of brackets.
pub fn split(list: &str) -> Vec<&str> {
    super::split_outside::<'[', ']'>(list).map(str::trim).collect()
}

/// Whether `contains` works for every name with this list.
pub fn is_list(list: &str) -> bool {
    split(list).iter().all(|part| !part.is_empty() && in_brackets(part).is_some())
}

/// Whether a list contains a name; `None` if unknown.
pub fn contains(list: &str, name: &str) -> Option<bool> {
    let mut unclear = false;
    for part in split(list) {
        match is_in(part, name) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => unclear = true,
        }
    }
    (!unclear).then_some(false)
}

fn is_in(part: &str, name: &str) -> Option<bool> {
    let Some((head, ranges, tail)) = in_brackets(part).or_else(|| several_brackets(part, name))? else {
        return Some(part == name);
    };
    let Some(digits) = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)) else {
        return Some(false);
    };
    let Some(value) = number(digits) else { return Some(false) };
    let holds = |range: &Range| (range.first..=range.last).contains(&value) && range.write(value) == digits;
    Some(ranges.iter().any(holds))
}

type Brackets<'a> = Option<(&'a str, Vec<Range>, &'a str)>;

/// The text before, in and after the only pair of brackets; `Some(None)` for a name without brackets.
fn in_brackets(name: &str) -> Option<Brackets<'_>> {
    let Some((head, rest)) = name.split_once('[') else { return (!name.contains(']')).then_some(None) };
    let (ranges, tail) = rest.split_once(']')?;
    if head.contains(']') || tail.contains(['[', ']']) {
        return None;
    }
    let ranges = ranges.split(',').map(Range::parse).collect::<Option<Vec<Range>>>()?;
    Some(Some((head, ranges, tail)))
}

/// A list with several dimensions can't be read, but if it begins differently than the name, it doesn't contain the
/// name.
fn several_brackets<'a>(part: &'a str, name: &str) -> Option<Brackets<'a>> {
    let (head, rest) = part.split_once('[')?;
    let (_, tail) = rest.split_once(']')?;
    let balanced = !head.contains(']') && tail.matches('[').count() == tail.matches(']').count();
    (balanced && !name.starts_with(head)).then_some(Some((head, Vec::new(), "")))
}

fn number(digits: &str) -> Option<usize> {
    let fits = digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::whole::{MOST, expand};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_node_is_in_a_list_as_slurm_writes_it() {
        for (list, name, expected) in [
            ("node1", "node1", Some(true)),
            ("node1", "node01", Some(false)),
            ("node[01-04,7]", "node03", Some(true)),
            ("node[01-04,7]", "node3", Some(false)),
            ("node[01-04,7]", "node7", Some(true)),
            ("node[01-04,7]", "node07", Some(false)),
            ("node[01-04,7]", "node05", Some(false)),
            ("node[8-12]", "node10", Some(true)),
            ("node[8-12]", "node010", Some(false)),
            ("a1,node[1-2]-ib,b", "node2-ib", Some(true)),
            ("a1,node[1-2]-ib,b", "node2", Some(false)),
            ("a,,b", "b", Some(true)),
            ("Node1", "node1", Some(false)),
            ("node[1-2", "node1", None),
            ("node1-2]", "node1", None),
            ("node[2-1]", "node1", None),
            ("node[]", "node1", None),
            ("node[a]", "node1", None),
            ("rack[0-1]node[0-3]", "rack1node2", None),
            ("rack[0-1]node[0-3]", "login1", Some(false)),
            ("rack[0-1]node[0-3],rack1node2", "rack1node2", Some(true)),
            ("", "node1", Some(false)),
        ] {
            assert_eq!(contains(list, name), expected, "{list} {name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_makes_it_panic(list in "[a-c0-9\\[\\],\\- ]{0,24}", name in "[a-c0-9]{0,6}") {
            let _ = contains(&list, &name);
            for part in split(&list) {
                if let Some(names) = expand(part) {
                    prop_assert!(names.len() <= 2 * MOST);
                }
            }
        }

        #[test]
        fn a_list_contains_exactly_what_it_expands_to(
            part in "[a-c]{1,2}\\[[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2})?\\][a-c]?", number in "[0-9]{1,2}"
        ) {
            if let Some(names) = expand(&part) {
                for name in &names {
                    prop_assert_eq!(contains(&part, name), Some(true));
                }
                let head = part.split('[').next().unwrap_or_default();
                let tail = part.split(']').nth(1).unwrap_or_default();
                let name = format!("{head}{number}{tail}");
                prop_assert_eq!(contains(&part, &name), Some(names.contains(&name)));
            }
        }
    }
}
