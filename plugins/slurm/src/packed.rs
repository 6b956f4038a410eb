//! What slurmctld packs for clients, and what Slurm's library makes of it: the only form of its records that a plugin
//! may read, since their own layout changes between micro releases.

use std::ffi::c_void;
use std::ptr::NonNull;

use slurm_sys::packed_t;

/// Above every version of Slurm's protocol, so slurmctld and its library take the newest.
pub(crate) const NEWEST: u16 = u16::MAX - 2;

/// A kind of message (src/common/slurm_protocol_defs.h, the same in each release), with the bytes before its only
/// record: how many there are, and times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    number: u16,
    head: &'static [u8],
}

/// RESPONSE_JOB_INFO (src/slurmctld/job_mgr.c, `_pack_init_job_info`).
pub(crate) const JOB: Kind =
    Kind { number: 2004, head: &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };

/// RESPONSE_PARTITION_INFO (src/slurmctld/partition_mgr.c, `pack_all_part`).
pub(crate) const PARTITION: Kind = Kind { number: 2010, head: &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0] };

/// Slurm's buffer.
struct Buffer(NonNull<packed_t>);

impl Buffer {
    #[doc(alias = "init_buf")]
    fn of(size: usize) -> Option<Buffer> {
        // SAFETY: a buffer of Slurm's, which grows as it is written (src/common/pack.c).
        NonNull::new(unsafe { slurm_sys::init_buf(u32::try_from(size).ok()?) }).map(Buffer)
    }

    fn head(&self) -> *mut u8 {
        // SAFETY: made by `of`; its first members are those of slurm_exports.h in every release.
        unsafe { (*self.0.as_ptr()).head }.cast()
    }

    fn written(&self) -> &[u8] {
        // SAFETY: as in `head`.
        let length = unsafe { (*self.0.as_ptr()).processed };
        // SAFETY: `processed` bytes were written from `head` on.
        unsafe { std::slice::from_raw_parts(self.head(), usize::try_from(length).unwrap_or(0)) }
    }
}

impl Drop for Buffer {
    #[doc(alias = "free_buf")]
    fn drop(&mut self) {
        // SAFETY: made by `of`, not used afterwards.
        unsafe { slurm_sys::free_buf(self.0.as_ptr()) }
    }
}

/// Shows what `pack` writes into a buffer of Slurm's; `None` if that is nothing.
pub(crate) fn with_packed<T>(pack: impl FnOnce(*mut packed_t), show: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let buffer = Buffer::of(2048)?;
    pack(buffer.0.as_ptr());
    let written = buffer.written();
    (!written.is_empty()).then(|| show(written))
}

/// Has Slurm's library unpack a message with one record. Whoever calls this frees what it gives.
#[doc(alias = "unpack_msg")]
pub(crate) fn unpacked(kind: Kind, record: &[u8]) -> Option<NonNull<c_void>> {
    // SAFETY: a C structure of numbers and pointers, for which all zeros are a valid value.
    let mut message: slurm_sys::message_t = unsafe { std::mem::zeroed() };
    // SAFETY: larger than Slurm's own, which the call fills (slurm_exports.h).
    unsafe { slurm_sys::slurm_msg_t_init(&raw mut message) };
    let unset = slurm_sys::UNSET_U16;
    if (message.msg_type, message.protocol_version) != (unset, unset) {
        return None; // This release has another layout.
    }
    (message.msg_type, message.protocol_version) = (kind.number, NEWEST);
    let buffer = Buffer::of(kind.head.len() + record.len())?;
    // SAFETY: `of` made room for both.
    unsafe { std::ptr::copy_nonoverlapping(kind.head.as_ptr(), buffer.head(), kind.head.len()) };
    // SAFETY: the same.
    let behind = unsafe { buffer.head().add(kind.head.len()) };
    // SAFETY: the same.
    unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), behind, record.len()) };
    // SAFETY: a message of that kind and a buffer with its text; whatever it says, the library reads within it.
    let code = unsafe { slurm_sys::unpack_msg(&raw mut message, buffer.0.as_ptr()) };
    NonNull::new(message.data).filter(|_| code == 0)
}
