//! All names of a list, with any number of brackets in each.

use super::{Range, split};

/// No cluster has more nodes.
pub const MOST: usize = 1 << 17;

/// The names of a list, in its order; omits what can't be read. `left` limits the number of steps, so that no
/// expression can take all memory or all time.
pub fn of(list: &str, left: &mut usize) -> Vec<String> {
    read(list, left).0
}

/// The same, up to as many as any cluster has.
pub fn each(list: &str) -> Vec<String> {
    of(list, &mut MOST.clone())
}

/// All nodes of a list; `None` if the list can't be read, is empty, or has more nodes than any cluster.
pub fn all(list: &str) -> Option<Vec<String>> {
    let (names, whole) = read(list, &mut MOST.clone());
    (whole && !names.is_empty()).then_some(names)
}

/// The names, and whether these are all.
fn read(list: &str, left: &mut usize) -> (Vec<String>, bool) {
    let (mut names, mut whole) = (Vec::new(), true);
    for word in split(list).into_iter().filter(|word| !word.is_empty()) {
        whole &= expand_into(String::new(), word, left, &mut names);
    }
    (names, whole)
}

/// Handles any number of brackets in a name. Each step counts, even if it makes no name.
fn expand_into(before: String, word: &str, left: &mut usize, names: &mut Vec<String>) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    let Some((prefix, rest)) = word.split_once('[') else {
        names.push(before + word);
        return !word.contains(']');
    };
    let Some((inside, after)) = rest.split_once(']') else { return false };
    let mut whole = true;
    for range in inside.split(',').map(Range::parse) {
        let Some(range) = range else {
            whole = false;
            continue;
        };
        for value in range.first..=range.last {
            if *left == 0 {
                return false;
            }
            whole &= expand_into(format!("{before}{prefix}{}", range.write(value)), after, left, names);
        }
    }
    whole
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

    #[test]
    fn lists_are_names() {
        for (list, expected) in [
            ("", vec![]),
            ("n1", vec!["n1"]),
            ("a,b-2", vec!["a", "b-2"]),
            ("n[1-3,07-08,12],x", vec!["n1", "n2", "n3", "n07", "n08", "n12", "x"]),
            ("n[098-101]", vec!["n098", "n099", "n100", "n101"]),
            ("r[1-2]n[0-1]-ib", vec!["r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib"]),
            ("n[1-", vec![]),
            ("n[x-y]", vec![]),
            ("n[3-1]", vec![]),
        ] {
            assert_eq!(of(list, &mut 100), expected, "{list}");
        }
    }

    #[test]
    fn no_list_is_endless() {
        for (list, expected) in [
            ("n[0-999999999]", 999),
            ("n[0-99999][0-99999],m[0-99999]", 998),
            ("n[0-999999999][", 0),
            ("n[0-999999999][x-y]", 0),
        ] {
            let mut left = 1000;
            assert_eq!((of(list, &mut left).len(), left), (expected, 0), "{list}");
            assert_eq!(of("n1", &mut left), [""; 0]);
        }
    }
}
