//! How many nodes partitions let a job have. A partition's record has a different layout in every micro release, so
//! this reads it in the form that slurmctld sends to a client: the protocol defines that layout, and its first fields
//! are the same from 22.05 to 26.05.

use std::ffi::CStr;

use gpushare::submit::request::Request;

use super::locks::{Locks, default_partition};
use crate::text;

/// slurmctld asks whether the client's protocol is at least of a release, the newest first: so this is its own.
const NEWEST: u16 = u16::MAX;

/// What a partition has to say about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// `MaxNodes`, all ones for no limit.
    most: u32,
    nodes: u32,
    cpus: u32,
}

impl Size {
    /// Whether so many of its nodes can hold the job's tasks, as far as that can be told.
    fn holds(self, request: &Request) -> bool {
        let tasks = request.num_tasks.unwrap_or(1);
        let of_a_node = request.ntasks_per_node.filter(|tasks| *tasks > 0);
        let nodes = of_a_node.map_or(1, |each| tasks.div_ceil(u32::from(each)));
        let cpus = u64::from(tasks) * u64::from(request.cpus_per_task.unwrap_or(1));
        let cpus_there = u64::from(self.cpus) * u64::from(self.most) / u64::from(self.nodes.max(1));
        self.most >= nodes.max(request.min_nodes.unwrap_or(1)) && cpus_there >= cpus
    }
}

/// The fewest `MaxNodes` of the partitions that a job names, or of the default one, but for those that are too small
/// for it; `None` if its reservation decides, where one is unknown, and where there is no limit.
pub(super) fn most_nodes(held: &Locks, request: &Request) -> Option<u32> {
    if request.partition_is_the_reservations() {
        return None;
    }
    let list = request.partition.filter(|list| !list.is_empty()).or_else(|| default_partition(held))?;
    let names = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    let sizes: Vec<Size> = names.filter_map(|name| text::with_c_string(name, size_of_partition)).collect();
    let all = || sizes.iter().map(|size| size.most);
    let fitting = sizes.iter().filter(|size| size.holds(request)).map(|size| size.most).min();
    fitting.or_else(|| all().max()).filter(|most| *most < slurm_sys::UNSET_U32)
}

#[doc(alias = "find_part_record")]
fn size_of_partition(name: &CStr) -> Option<Size> {
    // SAFETY: the name is only read; the partition lock, which callers of job_submit and job_modify hold, keeps the
    // record.
    let record = unsafe { slurm_sys::find_part_record(name.as_ptr().cast_mut()) };
    if record.is_null() {
        return None;
    }
    // SAFETY: a buffer of Slurm's own, which grows as it is written (src/common/pack.c).
    let buffer = unsafe { slurm_sys::init_buf(1024) };
    if buffer.is_null() {
        return None;
    }
    // SAFETY: the record of above and the buffer; writes the record as this release sends it
    // (src/slurmctld/partition_mgr.c).
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
    found
}

/// Name (its length with the NUL, then its bytes), cpu_bind, grace_time, max_time, default_time, max_nodes, min_nodes,
/// total_nodes, total_cpus: numbers of 32 bits, the highest byte first.
fn read(packed: &[u8], name: &[u8]) -> Option<Size> {
    let (length, rest) = number(packed)?;
    let (packed_name, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let same = packed_name.strip_suffix(b"\0") == Some(name);
    let numbers = std::iter::successors(number(rest), |(_, rest)| number(rest));
    let mut numbers = numbers.map(|(number, _)| number).skip(4);
    let most = numbers.next()?;
    let size = Size { most, nodes: numbers.nth(1)?, cpus: numbers.next()? };
    same.then_some(size)
}

fn number(packed: &[u8]) -> Option<(u32, &[u8])> {
    let (bytes, rest) = packed.split_first_chunk()?;
    Some((u32::from_be_bytes(*bytes), rest))
}

#[cfg(test)]
mod tests {
    use gpushare::submit::grammar::Spelling;
    use gpushare::submit::request::Request;

    use super::{Size, read};

    #[test]
    fn the_numbers_after_the_name_are_it() {
        let mut packed = b"\0\0\0\x02p\0".to_vec();
        for number in 1_u32..=8 {
            packed.extend(number.to_be_bytes());
        }
        assert_eq!(read(&packed, b"p"), Some(Size { most: 5, nodes: 7, cpus: 8 }));
        assert_eq!(read(&packed, b"q"), None, "another record than asked for");
        for length in 0..packed.len() {
            assert_eq!(read(&packed[..length], b"p"), None, "{length} bytes");
        }
    }

    #[test]
    fn a_partition_that_is_too_small_is_told() {
        let one_of_64 = Size { most: 1, nodes: 4, cpus: 256 };
        let of = |tasks, each| Request {
            num_tasks: tasks,
            ntasks_per_node: each,
            ..Request::new(Spelling::Slash)
        };
        assert!(one_of_64.holds(&of(None, None)));
        assert!(one_of_64.holds(&of(Some(64), None)));
        assert!(!one_of_64.holds(&of(Some(65), None)));
        assert!(!one_of_64.holds(&of(Some(2), Some(1))));
        assert!(!one_of_64.holds(&Request { min_nodes: Some(2), ..of(None, None) }));
        assert!(!one_of_64.holds(&Request { cpus_per_task: Some(65), ..of(None, None) }));
        assert!(Size { most: u32::MAX, ..one_of_64 }.holds(&of(Some(u32::MAX), Some(1))));
    }
}
