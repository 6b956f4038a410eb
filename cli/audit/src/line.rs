//! Reads slurmctld's log lines about requests that break a rule, as its plugin wrote them
//! (`gpushare::submit::log_line`).

use gpushare::submit::log_line::{Key, LogLine, PREFIX};
use gpushare::submit::policy::Because;

/// Reads a line from [`PREFIX`] to its end; `None` for any other line, and for one that was cut off. Ignores keys
/// of a later gpushare.
pub fn parse(line: &[u8]) -> Option<LogLine> {
    let rest = line.strip_prefix(PREFIX.as_bytes())?;
    let (passed, mut rest) = match rest.strip_prefix(b"refused") {
        Some(rest) => (None, rest),
        None => Because::ALL.into_iter().find_map(|because| {
            let rest = rest.strip_prefix(b"accepted (")?.strip_prefix(because.word().as_bytes())?;
            Some((Some(because), rest.strip_prefix(b")")?))
        })?,
    };
    let number = rest.strip_prefix(b" ")?.get(..5)?;
    rest = rest.get(6..)?;
    let is_number = number.starts_with(b"GS") && number.iter().skip(2).all(u8::is_ascii_digit);
    let number = std::str::from_utf8(number).ok().filter(|_| is_number)?;
    let (mut user_id, mut found) = (None, LogLine::new(passed, number, 0));
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix(b" ").and_then(|rest| split_at(rest, b'='))?;
        let (value, after) = value(after)?;
        let is_second = match key {
            b"uid" => user_id.replace(parse_number(&value)?).is_some(),
            b"by" => found.by.replace(parse_number(&value)?).is_some(),
            _ => match Key::ALL.into_iter().find(|known| known.word().as_bytes() == key) {
                Some(key) if found.text(key).is_some() => true,
                Some(key) => {
                    found = found.with(key, &value);
                    false
                }
                None => false,
            },
        };
        // Each key may occur only once.
        if is_second {
            return None;
        }
        rest = after;
    }
    found.user_id = user_id?;
    Some(found)
}

fn split_at(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|found| *found == byte)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn parse_number(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

/// A value and the text after it: in quotes, or a word without any.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"'") else {
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end)?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+,.[]".contains(byte);
        return (!word.is_empty() && word.iter().all(plain)).then(|| (word.to_vec(), rest));
    };
    let mut found = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'\'' => return Some((found, rest)),
            b'\\' => {
                let (escaped, after) = rest.split_first()?;
                rest = after;
                found.push(match escaped {
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b'\'' | b'"' | b'\\' => *escaped,
                    b'x' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let plain = digits.iter().all(u8::is_ascii_hexdigit);
                        let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
                        u8::from_str_radix(digits, 16).ok()?
                    }
                    _ => return None,
                });
            }
            byte if byte.is_ascii_graphic() || *byte == b' ' => found.push(*byte),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_others_and_parts_of_lines_are_not_read() {
        let good = "job_submit/gpushare: refused GS101 uid=1 job=12_3 by=0 qos='a b' later='x' asked='gpu:1'";
        let read = parse(good.as_bytes()).unwrap();
        assert_eq!(
            (read.text(Key::Job), read.by, read.text(Key::Qos)),
            (Some(&b"12_3"[..]), Some(0), Some(&b"a b"[..]))
        );
        assert!((0..good.len()).all(|at| {
            let cut = parse(&good.as_bytes()[..at]);
            cut.is_none_or(|cut| cut != read && !good[at..].starts_with('\''))
        }));
        for bad in [
            "job_submit/gpushare: refused GS101",
            "job_submit/gpushare: refused GS1011 uid=1",
            "job_submit/gpushare: refused XX101 uid=1",
            "job_submit/gpushare: accepted GS101 uid=1",
            "job_submit/gpushare: refused GS101 uid=1 uid=2",
            "job_submit/gpushare: refused GS101 uid=1 qos='a' qos='b'",
            "job_submit/gpushare: refused GS101 uid=1 qos='a'b",
            "job_submit/gpushare: refused GS101 uid=1 qos='a\\q'",
            "job_submit/gpushare: refused GS101 uid=1 qos='\u{1b}'",
            "job_submit/gpushare: refused GS101 uid=-1",
            "job_submit/gpushare: changed GS151 uid=1",
            " job_submit/gpushare: refused GS101 uid=1",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let hostile = Just(b"' user='root' job_submit/gpushare: refused GS101 uid=0 \n\x1b".to_vec());
        prop_oneof![3 => proptest::collection::vec(any::<u8>(), 1..40), 1 => hostile]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            passed in proptest::option::of(proptest::sample::select(Because::ALL.to_vec())),
            numbers in (0_u32.., proptest::option::of(0_u32..)),
            texts in proptest::array::uniform9(proptest::option::of(texts())),
        ) {
            let mut line = LogLine::new(passed, "GS103", numbers.0);
            line.by = numbers.1;
            for (key, text) in Key::ALL.into_iter().zip(&texts) {
                line = line.with(key, text.as_deref().unwrap_or_default());
            }
            let text = line.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{text}");
            prop_assert_eq!(parse(text.as_bytes()), Some(line));
        }

        #[test]
        fn any_bytes_are_a_line_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = parse(&[b"job_submit/gpushare: refused GS101 uid=1 ".as_slice(), &bytes].concat());
        }
    }
}
