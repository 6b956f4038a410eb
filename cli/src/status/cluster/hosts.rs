//! Slurm's hostlists (`n[1-3,07-09],login`), as names. Only for what Slurm itself prints of jobs; a list that a user gives
//! goes to Slurm as it is.

/// More nodes than any cluster has.
pub const MOST: usize = 1 << 17;

/// The names of a list, in its order; what can't be read is left out. `left`: how many steps may be taken for it, since no
/// expression may take all memory or all time.
pub fn names(list: &str, left: &mut usize) -> Vec<String> {
    let mut depth = 0_usize;
    let words = list.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let mut names = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        expand(String::new(), word, left, &mut names);
    }
    names
}

/// Brackets may stand more than once in a name. A step that comes to no name is one too.
fn expand(before: String, word: &str, left: &mut usize, names: &mut Vec<String>) {
    let Some(less) = left.checked_sub(1) else { return };
    *left = less;
    let Some((prefix, rest)) = word.split_once('[') else {
        names.push(before + word);
        return;
    };
    let Some((inside, after)) = rest.split_once(']') else { return };
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(low), Ok(high)) = (first.parse::<u64>(), last.parse::<u64>()) else { continue };
        for number in low..=high {
            if *left == 0 {
                return;
            }
            expand(format!("{before}{prefix}{number:0width$}", width = first.len()), after, left, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(names(list, &mut 100), expected, "{list}");
        }
    }

    #[test]
    fn no_list_is_endless() {
        for (list, expected) in [
            ("n[0-18446744073709551615]", 999),
            ("n[0-99999][0-99999],m[0-99999]", 998),
            ("n[0-18446744073709551615][", 0),
            ("n[0-18446744073709551615][x-y]", 0),
        ] {
            let mut left = 1000;
            assert_eq!((names(list, &mut left).len(), left), (expected, 0), "{list}");
            assert_eq!(names("n1", &mut left), [""; 0]);
        }
    }
}
