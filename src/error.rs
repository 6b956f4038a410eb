//! Error enums: declares each variant once, with the message that an administrator reads.

/// Declares an error enum. A variant's message, in the form of `format!`, is also its documentation. `from` lists other
/// errors that `?` converts to this one, with their own messages.
///
/// ```
/// gpushare::errors! {
///     /// Why a file can't be used.
///     #[derive(Debug)]
///     pub enum FileError {
///         Missing(path: std::path::PathBuf) => "{} is missing", path.display();
///         TooLong { bytes: u64 } => "it has {bytes} bytes";
///     } from { NoText(std::str::Utf8Error) }
/// }
/// assert_eq!(FileError::TooLong { bytes: 9 }.to_string(), "it has 9 bytes");
/// let no_text = String::from_utf8(vec![0xff]).unwrap_err().utf8_error();
/// assert_eq!(FileError::from(no_text).to_string(), no_text.to_string());
/// ```
#[macro_export]
macro_rules! errors {
    ($(#[$about:meta])* $vis:vis enum $name:ident {$(
        $(#[$note:meta])*
        $variant:ident $(( $($field:ident: $type:ty),+ ))? $({ $($named:ident: $named_type:ty),+ })?
            => $message:literal $(, $argument:expr)*;
    )*} $(from { $($passed:ident($of:ty)),+ $(,)? })?) => {
        $(#[$about])*
        $vis enum $name {$(
            #[doc = $message]
            $(#[$note])*
            $variant $(( $($type),+ ))? $({ $(#[doc = stringify!($named)] $named: $named_type),+ })?,
        )* $($(
            #[doc = concat!("Of a `", stringify!($of), "`.")]
            $passed($of),
        )+)?}

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
                match self {$(
                    $name::$variant $(( $($field),+ ))? $({ $($named),+ })?
                        => write!(out, $message $(, $argument)*),
                )* $($(
                    $name::$passed(error) => write!(out, "{error}"),
                )+)?}
            }
        }

        impl std::error::Error for $name {}

        $($(
            impl From<$of> for $name {
                fn from(error: $of) -> Self {
                    $name::$passed(error)
                }
            }
        )+)?
    };
}
