//! C's strings: bytes that end in NUL, whose memory belongs to Slurm.

use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;

/// The bytes of a C string; `None` for a null pointer.
///
/// # Safety
/// `string` is null, or points to bytes that end in NUL and stay as they are for `'a`.
#[must_use]
pub unsafe fn bytes<'a>(string: *const c_char) -> Option<&'a [u8]> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not null, and by the caller's promise it ends in NUL and stays for 'a.
    Some(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// A C string for a call; whatever follows a NUL in `text` is cut off, since C would not see it either.
#[must_use]
pub fn c_string(text: impl AsRef<[u8]>) -> CString {
    let kept: Vec<u8> = text.as_ref().iter().copied().take_while(|byte| *byte != 0).collect();
    CString::new(kept).unwrap_or_default()
}

/// A copy in Slurm's own memory: Slurm frees it with its own xfree(). `None` only when there is no memory.
#[must_use]
#[doc(alias = "slurm_xstrdup")]
pub fn in_slurm_memory(text: impl AsRef<[u8]>) -> Option<NonNull<c_char>> {
    let text = c_string(text);
    // SAFETY: xstrdup() reads a C string up to its NUL and returns a copy (src/common/xstring.c).
    NonNull::new(unsafe { slurm_sys::slurm_xstrdup(text.as_ptr()) })
}

/// Frees what Slurm's allocator made and sets the pointer to null; null is left as it is.
///
/// # Safety
/// `*string` is null or came from Slurm's allocator, and nobody uses it afterwards.
#[doc(alias = "slurm_xfree")]
pub unsafe fn free(string: &mut *mut c_char) {
    let place: *mut *mut c_char = string;
    // SAFETY: xfree() takes the address of such a pointer and clears it (src/common/xmalloc.c); the caller vouches for
    // the pointer's origin.
    unsafe { slurm_sys::slurm_xfree(place.cast()) }
}

/// Puts `text` in place of what a field of a Slurm structure holds.
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
