//! C strings: bytes that end with NUL, in memory that belongs to Slurm.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use crate::line::c_string;

/// The bytes of a C string; `None` for a null pointer.
///
/// # Safety
/// `string` is null, or points to bytes that end with NUL and don't change for `'a`.
pub unsafe fn bytes<'a>(string: *const c_char) -> Option<&'a [u8]> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not null, and by the caller's promise it ends with NUL and doesn't change for 'a.
    Some(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// Calls `use_it` with the text as a C string. The string is on the stack if it fits; names of QOSes and accounts do.
pub fn with_c_string<T>(text: &[u8], use_it: impl FnOnce(&CStr) -> T) -> T {
    let mut buffer = [0_u8; ON_STACK];
    match put_into(&mut buffer, text) {
        Some(string) => use_it(string),
        None => use_it(&c_string(text)),
    }
}

#[inline(never)] // rather than once for each closure above
fn put_into<'b>(buffer: &'b mut [u8; ON_STACK], text: &[u8]) -> Option<&'b CStr> {
    let room = buffer.get_mut(..text.len()).filter(|room| room.len() < ON_STACK)?;
    room.copy_from_slice(text);
    CStr::from_bytes_until_nul(buffer).ok()
}

const ON_STACK: usize = 64;

/// A copy in Slurm's own memory: Slurm frees it with its own xfree(). `None` only if there is no memory.
#[must_use]
#[doc(alias = "slurm_xstrdup")]
pub fn in_slurm_memory(text: impl AsRef<[u8]>) -> Option<NonNull<c_char>> {
    with_c_string(text.as_ref(), |text| {
        // SAFETY: xstrdup() reads a C string up to its NUL and returns a copy (src/common/xstring.c).
        NonNull::new(unsafe { slurm_sys::slurm_xstrdup(text.as_ptr()) })
    })
}

/// Frees memory of Slurm's allocator and sets the pointer to null; does nothing for null.
///
/// # Safety
/// `*string` is null or came from Slurm's allocator, and it isn't used afterwards.
#[doc(alias = "slurm_xfree")]
pub unsafe fn free(string: &mut *mut c_char) {
    let place: *mut *mut c_char = string;
    // SAFETY: xfree() takes the address of such a pointer and clears it (src/common/xmalloc.c); the caller guarantees
    // the pointer's origin.
    unsafe { slurm_sys::slurm_xfree(place.cast()) }
}

/// Replaces the content of a field of a Slurm structure by `text`.
///
/// # Safety
/// As for [`free`].
pub unsafe fn replace(field: &mut *mut c_char, text: impl AsRef<[u8]>) {
    if let Some(copy) = in_slurm_memory(text) {
        // SAFETY: the caller's promise for this field.
        unsafe { free(field) };
        *field = copy.as_ptr();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_texts_reach_c_whole() {
        for length in [0, 1, ON_STACK - 1, ON_STACK, ON_STACK + 1, 5000] {
            let text = vec![b'x'; length];
            with_c_string(&text, |string| assert_eq!(string.to_bytes(), text));
        }
        with_c_string(b"a\0b", |string| assert_eq!(string.to_bytes(), b"a", "C sees no more"));
    }
}
