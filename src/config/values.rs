//! A key of gpushare.conf, and the values that keys of several readers have.

use std::path::PathBuf;

use super::Problem;

/// A key: its name, its allowed values, and how it takes a value.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// As in [`names`](super::names).
    pub name: &'static str,
    /// The allowed values, as an error lists them.
    pub allowed: &'static str,
    /// Puts a value where it belongs; `None` if it isn't allowed.
    pub take: fn(&mut T, &str) -> Option<()>,
}

impl<T> Key<T> {
    /// The key of a table.
    pub fn of(keys: &'static [Key<T>], name: &str) -> Option<&'static Key<T>> {
        keys.iter().find(|key| key.name == name)
    }

    /// Puts a value where it belongs.
    ///
    /// # Errors
    /// The value isn't allowed.
    pub fn take(&self, target: &mut T, value: &str) -> Result<(), Problem> {
        let Key { name: key, allowed, take } = *self;
        take(target, value).ok_or_else(|| Problem::BadValue { key, value: value.to_owned(), allowed })
    }

    /// Puts a value where its key's place is; a key that the table doesn't have is another reader's.
    ///
    /// # Errors
    /// The value isn't allowed.
    pub fn take_of(keys: &'static [Key<T>], target: &mut T, name: &str, value: &str) -> Result<(), Problem> {
        Key::of(keys, name).map_or(Ok(()), |key| key.take(target, value))
    }
}

/// Declares keys, one a line: the name, the allowed values, where a value goes, and what reads it.
#[macro_export]
macro_rules! keys {
    ($($name:literal: $allowed:expr => $($place:ident).+ = $read:expr;)+) => {
        &[$($crate::config::values::Key {
            name: $name,
            allowed: $allowed,
            take: |target, value| {
                target.$($place).+ = $read(value)?.into();
                Some(())
            },
        }),+]
    };
}
pub use keys;

/// The values of a key with names.
pub const NAMES: &str = "names separated by commas, in which * matches any characters; a name with a blank \
                                in double quotes";

/// The values of `QOS`.
pub const QOSES: &str = "names of QOSes separated by commas, in which * matches any characters";

/// The meaning of a word.
pub fn word<T: Copy>(value: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning)
}

/// Parses a whole number within limits.
pub fn number(value: &str, least: u32, most: u32) -> Option<u32> {
    value.parse().ok().filter(|number| (least..=most).contains(number))
}

/// Parses an absolute path without characters that a shell or a log would misread.
pub fn path(value: &str) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    (value.starts_with('/') && value.chars().all(plain)).then(|| value.into())
}

/// The values of a key with a path.
pub const OFF_OR_PATH: &str = "off, or an absolute path";

/// Parses `off` or a path.
pub fn off_or_path(value: &str) -> Option<Option<PathBuf>> {
    if value.eq_ignore_ascii_case("off") { Some(None) } else { path(value).map(Some) }
}

/// Whether gres.conf may have this as a GPU's `Type=`.
pub fn is_gpu_type(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-+".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

/// Parses `TYPE:NUMBER`, where no type may be in `known`: a type may be in uppercase, and is then the same type.
pub fn of_type<'v, N>(part: &'v str, known: &[(String, N)]) -> Option<(String, &'v str)> {
    let (gres_type, number) = part.split_once(':')?;
    let again = known.iter().any(|(known, _)| known.eq_ignore_ascii_case(gres_type));
    (is_gpu_type(gres_type) && !again).then(|| (gres_type.to_owned(), number))
}

/// The values of `ShareGRES`.
pub const SHARE_GRES: &str = "the name of a GRES, such as mps, shard or gpushare; not gpu";

/// Parses a GRES name as Slurm writes it; `gpu` means whole GPUs.
pub fn share_gres(value: &str) -> Option<String> {
    is_gres_name(value).then(|| value.to_owned()).filter(|name| name != "gpu")
}

pub(super) fn is_gres_name(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    !value.is_empty() && value.len() <= 64 && value.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_one_that_gres_conf_may_have() {
        for (text, expected) in [
            ("a40", true),
            ("3090", true),
            ("1g.5gb", true),
            ("a_b-c+d", true),
            ("_a", false),
            ("-a", false),
            ("a b", false),
            ("a:b", false),
            ("", false),
        ] {
            assert_eq!(is_gpu_type(text), expected, "{text}");
        }
        let known = [("A40".to_owned(), ())];
        assert_eq!(of_type("h100:4", &known), Some(("h100".to_owned(), "4")));
        for wrong in ["a40:4", "h100", ":4", "h 100:4"] {
            assert_eq!(of_type(wrong, &known), None, "{wrong}");
        }
    }

    #[test]
    fn values_are_taken_whole_or_not_at_all() {
        assert_eq!(
            [0, 1, 5, 6].map(|value| number(&value.to_string(), 1, 5)),
            [None, Some(1), Some(5), None]
        );
        assert_eq!((number("", 0, 9), number("-1", 0, 9), number("1x", 0, 9)), (None, None, None));
        assert_eq!((word("WARN", &[("warn", 1)]), word("warns", &[("warn", 1)])), (Some(1), None));
        assert_eq!(
            (off_or_path("OFF"), off_or_path("/x"), off_or_path("x")),
            (Some(None), Some(Some("/x".into())), None)
        );
    }
}
