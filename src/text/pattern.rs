//! Names as an administrator writes them in gpushare.conf: `*` stands for any characters.

/// Whether case matters: Slurm ignores case in QOSes, accounts and users, but not in partitions and reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `A` equals `a`.
    Ignored,
    /// `A` differs from `a`.
    Counts,
}

/// A list of patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// Parses patterns separated by commas. One in double quotes may contain blanks and `=`. `None` if one is empty, or
    /// contains a control character, a quote, or outside of quotes a blank or an `=`. No name has a comma.
    pub fn parse(text: &str) -> Option<Patterns> {
        let one = |part: &str| {
            let quoted = part.trim().strip_prefix('"').map(|rest| rest.strip_suffix('"'));
            let name = quoted.unwrap_or(Some(part.trim())).filter(|name| !name.is_empty())?;
            let wrong =
                |c: char| c.is_control() || c == '"' || quoted.is_none() && (c.is_whitespace() || c == '=');
            (!name.contains(wrong)).then(|| name.to_owned())
        };
        text.split(',').map(one).collect::<Option<_>>().map(Patterns)
    }

    /// Those of the patterns that match none of the names.
    pub fn without_match<'s>(&'s self, names: &[&str], case: Case) -> Vec<&'s str> {
        let matched =
            |pattern: &&str| names.iter().any(|name| glob(pattern.as_bytes(), name.as_bytes(), case, false));
        self.iter().filter(|pattern| !matched(pattern)).collect()
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them matches the whole of `name`.
    pub fn match_name(&self, name: &[u8], case: Case) -> bool {
        self.0.iter().any(|pattern| glob(pattern.as_bytes(), name, case, false))
    }

    /// Whether one of them occurs in `name`, as in a search.
    pub fn occur_in(&self, name: &[u8], case: Case) -> bool {
        let found = |pattern: &String| {
            // A `*` in front of the pattern, instead of this loop, would retry ever longer beginnings.
            (0..=name.len()).any(|start| {
                let rest = name.get(start..).unwrap_or_default();
                glob(pattern.as_bytes(), rest, case, true)
            })
        };
        self.0.iter().any(found)
    }

    /// The patterns as written.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn equal(a: u8, b: u8, case: Case) -> bool {
    match case {
        Case::Ignored => a.eq_ignore_ascii_case(&b),
        Case::Counts => a == b,
    }
}

/// Linear in pattern and name: only the last `*` is ever retried. With `open_end` the pattern may end before the name.
fn glob(pattern: &[u8], name: &[u8], case: Case, open_end: bool) -> bool {
    let (mut at, mut pos) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), name.get(pos)) {
            (Some(b'*'), _) => {
                retry = Some((at, pos));
                at += 1;
            }
            (Some(wanted), Some(found)) if equal(*wanted, *found, case) => {
                at += 1;
                pos += 1;
            }
            (None, None) => return true,
            (None, Some(_)) if open_end => return true,
            _ => match retry {
                Some((star, from)) if from < name.len() => {
                    retry = Some((star, from + 1));
                    at = star + 1;
                    pos = from + 1;
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_globs_do() {
        for (pattern, name, expected) in [
            ("qos_*", "qos_lafferty", true),
            ("QOS_*", "qos_lafferty", true),
            ("*", "", true),
            ("a", "", false),
            ("*_gpu", "savio_gpu", true),
            ("*_gpu", "savio_gpu2", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("lafferty", "qos_lafferty", false),
        ] {
            let patterns = Patterns::parse(pattern).unwrap();
            assert_eq!(patterns.match_name(name.as_bytes(), Case::Ignored), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn case_counts_where_it_does_in_slurm() {
        let patterns = Patterns::parse("Course").unwrap();
        assert!(patterns.match_name(b"course", Case::Ignored));
        assert!(!patterns.match_name(b"course", Case::Counts));
    }

    #[test]
    fn a_pattern_is_found_inside_a_name() {
        let patterns = Patterns::parse("jhl_homework_gpu,jupyterhub_course_,a*c").unwrap();
        for (name, expected) in [
            ("jhl_homework_gpu", true),
            ("x_jhl_homework_gpu_2", true),
            ("jupyterhub_course_jobset_2022", true),
            ("jupyterhub_cours", false),
            ("JHL_homework_gpu", false),
            ("xabcx", true),
            ("xab", false),
            ("", false),
        ] {
            assert_eq!(patterns.occur_in(name.as_bytes(), Case::Counts), expected, "{name}");
        }
    }

    #[test]
    fn a_name_with_a_blank_is_in_quotes() {
        let patterns = Patterns::parse("\"max mustermann\",jörg, \"two *\"").unwrap();
        assert_eq!(patterns.iter().collect::<Vec<_>>(), ["max mustermann", "jörg", "two *"]);
        assert_eq!(patterns.without_match(&["JÖRG", "Two Words"], Case::Ignored), ["max mustermann", "jörg"]);
    }

    #[test]
    fn a_list_with_a_hole_is_none() {
        for text in [
            "",
            "a,,b",
            "a b",
            "a,",
            "a=b",
            "a\u{7}",
            "\"\"",
            "\"a",
            "a\"",
            "\"a\"b",
            "\"a,b\"",
            "\"a\u{7}\"",
        ] {
            assert_eq!(Patterns::parse(text), None, "{text:?}");
        }
        assert!(
            Patterns::parse(" a , b* ").is_some_and(|patterns| patterns.match_name(b"bcd", Case::Counts))
        );
    }
}
