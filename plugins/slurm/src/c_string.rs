//! Text for a call of C: all that the log needs, and so spank_gpushare_prolog.so. [`text`](crate::text) has the rest.

use std::ffi::CString;

/// A C string for a call. Cuts the text at a NUL, since C would not see the rest either.
pub fn c_string(text: impl AsRef<[u8]>) -> CString {
    let seen = text.as_ref().split(|byte| *byte == 0).next();
    CString::new(seen.unwrap_or_default()).unwrap_or_default()
}
