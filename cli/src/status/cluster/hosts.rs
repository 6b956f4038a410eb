//! Slurm's hostlists (`n[1-3,07-09],login`), as names. Only for what Slurm itself prints of jobs; a list that a user gives
//! goes to Slurm as it is.

/// More nodes than any cluster has: no expression may take all memory.
const MOST: usize = 1 << 17;

/// The names of a list, in its order; what can't be read is left out.
pub fn names(list: &str) -> Vec<String> {
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
        expand(String::new(), word, &mut names);
    }
    names
}

/// Brackets may stand more than once in a name.
fn expand(before: String, word: &str, names: &mut Vec<String>) {
    if names.len() >= MOST {
        return;
    }
    let Some((prefix, rest)) = word.split_once('[') else {
        names.push(before + word);
        return;
    };
    let Some((inside, after)) = rest.split_once(']') else { return };
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(low), Ok(high)) = (first.parse::<u64>(), last.parse::<u64>()) else { continue };
        for number in low..=high {
            if names.len() >= MOST {
                return;
            }
            expand(format!("{before}{prefix}{number:0width$}", width = first.len()), after, names);
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
            assert_eq!(names(list), expected, "{list}");
        }
    }

    #[test]
    fn no_list_is_endless() {
        assert_eq!(names("n[0-18446744073709551615]").len(), MOST);
        assert_eq!(names("n[0-99999][0-99999],m[0-99999]").len(), MOST);
    }
}
