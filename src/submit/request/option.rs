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
