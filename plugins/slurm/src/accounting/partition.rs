//! How many nodes partitions allow a job, and their default memory for a job that requests none. A partition's record
//! has a different layout in every micro release, so this reads it in the form that slurmctld sends to a client: the
//! protocol defines that layout, and its first fields and its last one are the same from 22.05 to 26.05.

use std::ffi::CStr;

use gpushare::submit::policy::DefaultMemory;
use gpushare::submit::request::{Names, Partitions, Request};

use super::locks::{self, Locks, is_given};
use crate::text;

/// slurmctld checks, the newest release first, whether the client's protocol is at least that of a release, so this
/// selects slurmctld's own.
const NEWEST: u16 = u16::MAX;

/// A partition's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// `MaxNodes`, all ones for no limit.
    most: u32,
    nodes: u32,
    cpus: u32,
}

impl Size {
    /// Whether this many of its nodes can hold the job's tasks, as far as that is known here.
    fn holds(self, request: &Request) -> bool {
        let tasks = request.num_tasks.unwrap_or(1);
        let of_a_node = request.ntasks_per_node.filter(|tasks| *tasks > 0);
        let nodes = of_a_node.map_or(1, |each| tasks.div_ceil(u32::from(each)));
        let cpus = u64::from(tasks) * u64::from(request.cpus_per_task.unwrap_or(1));
        let cpus_there = u64::from(self.cpus) * u64::from(self.most) / u64::from(self.nodes.max(1));
        self.most >= nodes.max(request.min_nodes.unwrap_or(1)) && cpus_there >= cpus
    }
}

/// What the partitions that a job names, or the default one, allow. Ignores unknown partitions. `None` if the job's
/// reservation decides, and if there is no limit.
#[doc(alias = "_part_access_check")]
pub(super) fn most_nodes(held: &Locks, request: &Request) -> Option<u32> {
    let names = match request.partitions() {
        Partitions::Named(names) => names,
        Partitions::OfReservation => return None,
        Partitions::Default => Names::of(locks::default_partition(held)?),
    };
    let names = names.each().into_iter().filter(|name| !name.is_empty());
    let sizes: Vec<Size> = names.filter_map(|name| text::with_c_string(name, size_of_partition)).collect();
    allowed(&sizes, request, locks::enforces_all_partitions())
}

/// Slurm passes over a partition with a lower `MaxNodes` than the job's maximum, so this is the highest of those that
/// can hold the job, and the job may use the most of its nodes. If it must keep to the limits of all, it is the lowest.
fn allowed(sizes: &[Size], request: &Request, all: bool) -> Option<u32> {
    let fitting = || sizes.iter().filter(|size| size.holds(request)).map(|size| size.most);
    let most = if all { fitting().min() } else { fitting().max() };
    most.or_else(|| sizes.iter().map(|size| size.most).max()).filter(|most| *most < slurm_sys::UNSET_U32)
}

fn size_of_partition(name: &CStr) -> Option<Size> {
    packed(name, |packed| read(packed, name.to_bytes()))
}

/// A partition's own defaults for a job that requests no memory; `None` if the partition doesn't exist.
pub(super) fn default_memory(name: &[u8]) -> Option<DefaultMemory> {
    text::with_c_string(name, |name| packed(name, |packed| memory(packed, name.to_bytes())))
}

/// Shows the partition in the form that slurmctld sends.
#[doc(alias = "find_part_record")]
fn packed<T>(name: &CStr, show: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    // SAFETY: the name is only read; the partition lock, which callers of job_submit and job_modify hold, keeps the
    // record valid.
    let record = unsafe { slurm_sys::find_part_record(name.as_ptr().cast_mut()) };
    if record.is_null() {
        return None;
    }
    // SAFETY: a buffer of Slurm's, which grows as it is written (src/common/pack.c).
    let buffer = unsafe { slurm_sys::init_buf(1024) };
    if buffer.is_null() {
        return None;
    }
    // SAFETY: the record and the buffer from above; writes the record as this release sends it
    // (src/slurmctld/partition_mgr.c).
    unsafe { slurm_sys::pack_part(record, buffer, NEWEST) };
    // SAFETY: made above; its first members are those of slurm_exports.h in every release.
    let head = unsafe { (*buffer).head };
    // SAFETY: the same.
    let length = unsafe { (*buffer).processed };
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: `processed` bytes were written from `head` on.
    let written = unsafe { std::slice::from_raw_parts(head.cast::<u8>(), length) };
    let found = show(written);
    // SAFETY: made above, not used afterwards.
    unsafe { slurm_sys::free_buf(buffer) };
    found
}

/// Reads cpu_bind, grace_time, max_time, default_time, max_nodes, min_nodes, total_nodes and total_cpus: big-endian
/// numbers of 32 bits.
fn read(packed: &[u8], name: &[u8]) -> Option<Size> {
    let mut numbers = numbers(packed, name)?.skip(4);
    let most = numbers.next()?;
    Some(Size { most, nodes: numbers.nth(1)?, cpus: numbers.next()? })
}

/// After total_cpus comes def_mem_per_cpu, of 64 bits. At the very end comes job_defaults_list: the number of
/// entries, and each entry's type in 16 bits and value in 64 (src/slurmctld/partition_mgr.c, `pack_part`).
fn memory(packed: &[u8], name: &[u8]) -> Option<DefaultMemory> {
    let mut numbers = numbers(packed, name)?.skip(8);
    let of_cpu_or_node = [numbers.next()?, numbers.next()?];
    let of_gpu = defaults(packed).into_iter().find(|(kind, _)| *kind == slurm_sys::JOB_DEF_MEM_PER_GPU);
    let [high, low] = of_cpu_or_node.map(u64::from);
    Some(DefaultMemory { of_node: is_given((high << 32) | low), of_gpu: of_gpu.map(|(_, value)| value > 0) })
}

/// There are two types, each at most once. The end of a text comes before the list, and can't be such a number.
fn defaults(packed: &[u8]) -> Vec<(u32, u64)> {
    const EACH: usize = 10;
    let list = |count: u8| {
        let length = 4 + usize::from(count) * EACH;
        let (said, list) = number(packed.get(packed.len().checked_sub(length)?..)?)?;
        let (list, rest) = list.as_chunks::<EACH>();
        let read = list.iter().map(|[high, low, value @ ..]| {
            (u32::from(u16::from_be_bytes([*high, *low])), u64::from_be_bytes(*value))
        });
        let read: Vec<_> = read.collect();
        let known = [slurm_sys::JOB_DEF_CPU_PER_GPU, slurm_sys::JOB_DEF_MEM_PER_GPU];
        let is_it = said == u32::from(count) && rest.is_empty();
        (is_it && read.iter().all(|(kind, _)| known.contains(kind))).then_some(read)
    };
    [2, 1].into_iter().find_map(list).unwrap_or_default()
}

/// The numbers after the name. The name comes first: its length including the NUL, then its bytes.
fn numbers<'p>(packed: &'p [u8], name: &[u8]) -> Option<impl Iterator<Item = u32> + use<'p>> {
    let (length, rest) = number(packed)?;
    let (packed_name, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let same = packed_name.strip_suffix(b"\0") == Some(name);
    let numbers = std::iter::successors(number(rest), |(_, rest)| number(rest));
    same.then(|| numbers.map(|(number, _)| number))
}

fn number(packed: &[u8]) -> Option<(u32, &[u8])> {
    let (bytes, rest) = packed.split_first_chunk()?;
    Some((u32::from_be_bytes(*bytes), rest))
}

#[cfg(test)]
mod tests {
    use gpushare::submit::grammar::Spelling;
    use gpushare::submit::policy::DefaultMemory;
    use gpushare::submit::request::Request;

    use super::{Size, allowed, memory, read};

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
    fn of_several_partitions_the_most_that_can_hold_the_job_counts() {
        let size = |most| Size { most, nodes: 4, cpus: 256 };
        let of = |tasks, each| Request {
            num_tasks: tasks,
            ntasks_per_node: each,
            ..Request::new(Spelling::Slash)
        };
        let one = of(None, None);
        for (sizes, request, all, expected) in [
            (&[1][..], one, false, Some(1)),
            (&[1, 3], one, false, Some(3)),
            (&[1, 3], one, true, Some(1)),
            (&[1, 3], Request { min_nodes: Some(2), ..one }, true, Some(3)),
            (&[1, 3], Request { min_nodes: Some(4), ..one }, true, Some(3)),
            (&[1, u32::MAX], one, false, None),
            (&[1, u32::MAX], one, true, Some(1)),
            (&[], one, false, None),
        ] {
            let sizes: Vec<_> = sizes.iter().copied().map(size).collect();
            assert_eq!(allowed(&sizes, &request, all), expected, "{sizes:?} {request:?} {all}");
        }
        for (request, holds) in [
            (one, true),
            (of(Some(64), None), true),
            (of(Some(65), None), false),
            (of(Some(2), Some(1)), false),
            (Request { min_nodes: Some(2), ..one }, false),
            (Request { cpus_per_task: Some(65), ..one }, false),
        ] {
            assert_eq!(size(1).holds(&request), holds, "{request:?}");
        }
        assert!(size(u32::MAX).holds(&of(Some(u32::MAX), Some(1))));
    }

    /// The beginning as 24.11 sends a partition without texts, and the end as 22.05 sends it.
    #[test]
    fn the_memory_is_after_the_first_numbers_and_at_the_end() {
        let packed = |of_node: u64, texts: &[u8], defaults: &[(u16, u64)]| {
            let mut packed = b"\0\0\0\x02p\0".to_vec();
            (1_u32..=8).for_each(|number| packed.extend(number.to_be_bytes()));
            packed.extend(of_node.to_be_bytes());
            packed.extend(texts);
            match defaults {
                [] => packed.extend(slurm_sys::NO_VAL.to_be_bytes()),
                all => packed.extend(u32::try_from(all.len()).unwrap().to_be_bytes()),
            }
            for (kind, value) in defaults {
                packed.extend(kind.to_be_bytes());
                packed.extend(value.to_be_bytes());
            }
            packed
        };
        const MEM_PER_CPU: u64 = 1 << 63;
        let (cpus, mem) = (slurm_sys::JOB_DEF_CPU_PER_GPU, slurm_sys::JOB_DEF_MEM_PER_GPU);
        let [cpus, mem] = [cpus, mem].map(|kind| u16::try_from(kind).unwrap());
        for (of_node, defaults, expected) in [
            (0, vec![], (None, None)),
            (4096, vec![], (Some(true), None)),
            (MEM_PER_CPU | 1024, vec![], (Some(true), None)),
            (MEM_PER_CPU, vec![], (Some(false), None)),
            (0, vec![(cpus, 4)], (None, None)),
            (0, vec![(mem, 4)], (None, Some(true))),
            (0, vec![(mem, 0)], (None, Some(false))),
            (0, vec![(cpus, 4), (mem, 1 << 32)], (None, Some(true))),
            (0, vec![(mem, 1 << 40), (cpus, 0)], (None, Some(true))),
        ] {
            let expected = DefaultMemory { of_node: expected.0, of_gpu: expected.1 };
            for texts in [&[0; 60][..], b"\0\0\0\x09cpu=4,gr\0\0\0\0\x01\0", b"\0\0\0\x01\0\0\x01\0\0"] {
                let packed = packed(of_node, texts, &defaults);
                assert_eq!(memory(&packed, b"p"), Some(expected), "{of_node} {defaults:?} {texts:?}");
                assert_eq!(memory(&packed, b"q"), None);
                for length in 0..packed.len() {
                    let _ = memory(&packed[..length], b"p");
                }
            }
        }
    }
}
