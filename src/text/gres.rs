//! The GRES of a node as Slurm prints it: `gpu:a40:4(S:0,2),mps:a40:1K`.

/// One GRES: name, type, count.
pub type NodeGres = (String, Option<String>, u64);

/// Parses the value of `Gres=` in `scontrol show node`. Omits anything that isn't a GRES.
pub fn read(text: &str) -> Vec<NodeGres> {
    parts(text).filter_map(one).collect()
}

/// The words in such a list. Commas inside the brackets don't separate.
pub fn parts(text: &str) -> impl Iterator<Item = &str> {
    super::split_outside::<'(', ')'>(text)
}

/// A part of `GresUsed=` without `(null)` for a GRES that has no type, as Slurm up to 25.11 prints it.
pub fn without_null(part: &str) -> String {
    part.replacen(":(null)", "", 1)
}

fn one(part: &str) -> Option<NodeGres> {
    let part = without_null(part);
    let mut words: Vec<&str> =
        part.split('(').next()?.split(':').filter(|word| *word != "no_consume").collect();
    // `gpu` alone means one of them, `gpu:v100` one of that type.
    let number = words.last().and_then(|word| count(word));
    if number.is_some() && words.len() > 1 {
        words.pop();
    }
    let (name, gres_type) = match words.as_slice() {
        [name] => (name, None),
        [name, gres_type] => (name, Some((*gres_type).to_owned())),
        _ => return None,
    };
    (!name.is_empty() && *name != "(null)").then(|| ((*name).to_owned(), gres_type, number.unwrap_or(1)))
}

/// Parses `4`, and `1K` for 1024: Slurm prints multiples like this (`gres_add_value_str` and others in
/// src/interfaces/gres.c).
fn count(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let exponent = match text.get(digits.len()..)? {
        "" => 0,
        "K" | "k" => 1,
        "M" | "m" => 2,
        "G" | "g" => 3,
        "T" | "t" => 4,
        "P" | "p" => 5,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1024_u64.checked_pow(exponent)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_slurm_prints_is_read() {
        let gres = |name: &str, gres_type: Option<&str>, count| {
            (name.to_owned(), gres_type.map(str::to_owned), count)
        };
        for (text, expected) in [
            ("", vec![]),
            ("(null)", vec![]),
            ("gpu", vec![gres("gpu", None, 1)]),
            ("gpu:v100", vec![gres("gpu", Some("v100"), 1)]),
            ("gpu:4", vec![gres("gpu", None, 4)]),
            ("gpu:(null):4(IDX:0-3)", vec![gres("gpu", None, 4)]),
            ("gpu:a40:4(S:0,2),shard:400", vec![gres("gpu", Some("a40"), 4), gres("shard", None, 400)]),
            ("mps:a40:1K", vec![gres("mps", Some("a40"), 1024)]),
            ("gpushare:3M", vec![gres("gpushare", None, 3 << 20)]),
            ("gpu:a30:no_consume:2", vec![gres("gpu", Some("a30"), 2)]),
            ("gpu:1g.5gb:7", vec![gres("gpu", Some("1g.5gb"), 7)]),
            ("gpu:a40:b:4,gpu:2", vec![gres("gpu", None, 2)]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
