//! How many nodes partitions let a job have. A partition's record has another layout in every micro release, so it is read as
//! slurmctld sends it to a client: that layout is the protocol's, and its first fields are the same from 22.05 to 26.05.

use std::ffi::CStr;

use gpushare::request::Request;

use super::locks::{Locks, default_partition};
use crate::text;

/// slurmctld asks whether the client's protocol is at least of a release, the newest first: so this is its own.
const NEWEST: u16 = u16::MAX;

/// The fewest `MaxNodes` of the partitions that a job names, or of the default one; `None` where its reservation decides, where
/// one is unknown, and where there is no limit.
pub(super) fn most_nodes(held: &Locks, request: &Request) -> Option<u32> {
    if request.partition_is_the_reservations() {
        return None;
    }
    let list = request.partition.filter(|list| !list.is_empty()).or_else(|| default_partition(held))?;
    let names = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.filter_map(|name| text::with_c_string(name, max_nodes)).min()
}

#[doc(alias = "find_part_record")]
fn max_nodes(name: &CStr) -> Option<u32> {
    // SAFETY: the name is only read; the partition lock, which callers of job_submit and job_modify hold, keeps the record.
    let record = unsafe { slurm_sys::find_part_record(name.as_ptr().cast_mut()) };
    if record.is_null() {
        return None;
    }
    // SAFETY: a buffer of Slurm's own, which grows as it is written (src/common/pack.c).
    let buffer = unsafe { slurm_sys::init_buf(1024) };
    if buffer.is_null() {
        return None;
    }
    // SAFETY: the record of above and the buffer; writes the record as this release sends it (src/slurmctld/partition_mgr.c).
    unsafe { slurm_sys::pack_part(record, buffer, NEWEST) };
    // SAFETY: made above; its first members are those of slurm_exports.h in every release.
    let head = unsafe { (*buffer).head };
    // SAFETY: the same.
    let length = unsafe { (*buffer).processed };
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: `processed` bytes were written from `head` on.
    let written = unsafe { std::slice::from_raw_parts(head.cast::<u8>(), length) };
    let found = read(written, name.to_bytes());
    // SAFETY: made above, not used afterwards.
    unsafe { slurm_sys::free_buf(buffer) };
    found.filter(|most| *most < slurm_sys::UNSET_U32)
}

/// Name (its length with the NUL, then its bytes), cpu_bind, grace_time, max_time, default_time, max_nodes: numbers of 32 bits, the
/// highest byte first.
fn read(packed: &[u8], name: &[u8]) -> Option<u32> {
    let (length, rest) = number(packed)?;
    let (packed_name, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let same = packed_name.strip_suffix(b"\0") == Some(name);
    let numbers = std::iter::successors(number(rest), |(_, rest)| number(rest));
    numbers.map(|(number, _)| number).nth(4).filter(|_| same)
}

fn number(packed: &[u8]) -> Option<(u32, &[u8])> {
    let (bytes, rest) = packed.split_first_chunk()?;
    Some((u32::from_be_bytes(*bytes), rest))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_fifth_number_after_the_name_is_it() {
        let mut packed = b"\0\0\0\x02p\0".to_vec();
        for number in 1_u32..=6 {
            packed.extend(number.to_be_bytes());
        }
        assert_eq!(read(&packed, b"p"), Some(5));
        assert_eq!(read(&packed, b"q"), None, "another record than asked for");
        for length in 0..packed.len() - 4 {
            assert_eq!(read(&packed[..length], b"p"), None, "{length} bytes");
        }
    }
}
