//! Options of sbatch that were meant, but became part of another option's text.

use super::Field;
use crate::submit::grammar::Spelling;

/// The string into which sbatch converts an option, if the option requests a GRES.
pub(crate) fn meant(option: &[u8], spelling: Spelling) -> Option<(Field, Vec<u8>)> {
    let options = [
        (Field::Node, b"--gres=".as_slice(), b"".as_slice()),
        (Field::Node, b"--gpus-per-node=", b"gpu:"),
        (Field::Job, b"--gpus=", b"gpu:"),
        (Field::Task, b"--gpus-per-task=", b"gpu:"),
        (Field::Socket, b"--gpus-per-socket=", b"gpu:"),
    ];
    options.into_iter().find_map(|(field, start, gpu)| {
        let value = option.strip_prefix(start)?;
        let tokens = value.split(|byte| *byte == b',').filter(|token| !token.is_empty());
        let tokens: Vec<_> = tokens.map(|token| [spelling.prefix(), gpu, token].concat()).collect();
        Some((field, tokens.join(&b',')))
    })
}

/// Whether a member of a list is an option.
pub(crate) fn is_option(member: &[u8]) -> bool {
    member.starts_with(b"-")
}

/// Splits `NAME,--gres=gpu:2,nic:1` into the name and the options; `None` if it names no QOS or several.
pub(crate) fn taken_apart(list: super::Names<'_>) -> Option<(&[u8], Vec<Vec<u8>>)> {
    let mut members = list.iter();
    let name = members.next().filter(|name| !name.is_empty() && !is_option(name))?;
    let mut options: Vec<Vec<u8>> = Vec::new();
    for member in members.filter(|member| !member.is_empty()) {
        match options.last_mut() {
            _ if is_option(member) => options.push(member.to_vec()),
            Some(option) => *option = [option.as_slice(), member].join(&b','),
            None => return None,
        }
    }
    Some((name, options))
}

#[cfg(test)]
mod tests {
    use super::super::Names;
    use super::*;

    #[test]
    fn one_name_and_options_behind_it_are_taken_apart() {
        let apart = |list: &'static str| {
            let (name, options) = taken_apart(Names::of(list.as_bytes()))?;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            Some((text(name), options.iter().map(|option| text(option)).collect::<Vec<_>>()))
        };
        let found = |name: &str, options: &[&str]| {
            Some((name.to_owned(), options.iter().map(|option| (*option).to_owned()).collect()))
        };
        assert_eq!(apart("q,--gres=gpu:2,nic:1,-t5"), found("q", &["--gres=gpu:2,nic:1", "-t5"]));
        assert_eq!(apart("q,,--time=5,"), found("q", &["--time=5"]));
        assert_eq!(apart("q"), found("q", &[]));
        for none in [",--time=5", "--gres=gpu:2,--time=5", "a,b,--time=5", ""] {
            assert_eq!(apart(none), None, "{none}");
        }
    }

    #[test]
    fn an_option_becomes_the_string_that_sbatch_sends() {
        for (option, expected) in [
            ("--gres=gpu:2,,nic:1", Some((Field::Node, "gres/gpu:2,gres/nic:1"))),
            ("--gpus-per-node=a40:2", Some((Field::Node, "gres/gpu:a40:2"))),
            ("--gpus=2", Some((Field::Job, "gres/gpu:2"))),
            ("--gpus-per-task=1", Some((Field::Task, "gres/gpu:1"))),
            ("--gpus-per-socket=1", Some((Field::Socket, "gres/gpu:1"))),
            ("--time=5", None),
            ("-t5", None),
        ] {
            let found = meant(option.as_bytes(), Spelling::Slash);
            let found = found.map(|(field, text)| (field, String::from_utf8(text).unwrap()));
            assert_eq!(found, expected.map(|(field, text)| (field, text.to_owned())), "{option}");
        }
    }
}
