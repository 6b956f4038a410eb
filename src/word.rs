//! Settings that are one of a few words: each enum is written once, with its words.

/// A value that gpushare.conf writes as one of a few words.
pub trait Word: Copy + PartialEq + 'static {
    /// The words, each with its meaning.
    const WORDS: &'static [(&'static str, Self)];
    /// The words, as an error lists them.
    const ALLOWED: &'static str;

    /// Reads a word, ignoring case.
    fn read(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, meaning)| *meaning)
    }

    /// The word as written.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, meaning)| *meaning == self).map_or("", |(word, _)| word)
    }
}

impl Word for bool {
    const WORDS: &'static [(&'static str, bool)] = &[("yes", true), ("no", false)];
    const ALLOWED: &'static str = "yes or no";
}

/// Declares an enum with the name of each variant, the method that returns it, and `ALL` variants in order.
///
/// ```
/// gpushare::names! {
///     /// Half of a day.
///     pub enum Half: word {
///         /// Before noon.
///         First = "am",
///         /// From noon on.
///         Second = "pm",
///     }
/// }
/// assert_eq!(Half::ALL.map(Half::word), ["am", "pm"]);
/// ```
#[macro_export]
macro_rules! names {
    ($(#[$about:meta])* $vis:vis enum $name:ident: $method:ident {$(
        $(#[$note:meta])*
        $variant:ident = $word:literal,
    )+}) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {$(
            #[doc = $word]
            $(#[$note])*
            $variant,
        )+}

        impl $name {
            /// All of them, in order.
            $vis const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// Its name.
            $vis const fn $method(self) -> &'static str {
                match self {$($name::$variant => $word,)+}
            }
        }
    };
}

/// Declares an enum of settings with the word of each variant, and how an error lists them.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident: $allowed:literal {$(
        $(#[$note:meta])*
        $variant:ident = $word:literal,
    )+}) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {$(
            $(#[$note])*
            $variant,
        )+}

        impl $crate::word::Word for $name {
            const WORDS: &'static [(&'static str, $name)] = &[$(($word, $name::$variant)),+];
            const ALLOWED: &'static str = $allowed;
        }
    };
}
pub use words;
