//! How many nodes partitions allow a job, and their default memory for a job that requests none. A partition's record
//! has a different layout in every micro release, so slurmctld packs it as it does for a client, and Slurm's library
//! unpacks it.

use std::ffi::CStr;

use gpushare::submit::policy::DefaultMemory;
use gpushare::submit::request::{Partitions, Request};

use slurm_sys::{part_record, partition_info_msg_t, partition_info_t};

use super::locks::{self, is_given};
use crate::{packed, text};

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

/// The distinct partitions that a job names, or the default one; `None` if its reservation decides.
pub(super) fn named<'r>(request: &'r Request<'_>) -> Option<Vec<&'r [u8]>> {
    match request.partitions() {
        Partitions::Named(names) => Some(names.each()),
        Partitions::Default => Some(locks::default_partition(request).into_iter().collect()),
        Partitions::OfReservation => None,
    }
}

/// What the partitions that a job names, or the default one, allow. Ignores unknown partitions. `None` if the job's
/// reservation decides, and if there is no limit.
#[doc(alias = "_part_access_check")]
pub(super) fn most_nodes(request: &Request) -> Option<u32> {
    let size = |part: &partition_info_t| Size {
        most: part.max_nodes,
        nodes: part.total_nodes,
        cpus: part.total_cpus,
    };
    let of = |name| text::with_c_string(name, |name| shown(name, size));
    let sizes: Vec<Size> = named(request)?.into_iter().filter_map(of).collect();
    allowed(&sizes, request, locks::enforces_all_partitions())
}

/// Slurm passes over a partition with a lower `MaxNodes` than the job's maximum, so this is the highest of those that
/// can hold the job, and the job may use the most of its nodes. If it must keep to the limits of all, it is the lowest.
fn allowed(sizes: &[Size], request: &Request, all: bool) -> Option<u32> {
    let fitting = || sizes.iter().filter(|size| size.holds(request)).map(|size| size.most);
    let most = if all { fitting().min() } else { fitting().max() };
    most.or_else(|| sizes.iter().map(|size| size.most).max()).filter(|most| *most < slurm_sys::UNSET_U32)
}

/// A partition's own defaults for a job that requests no memory; `None` if the partition doesn't exist.
pub(super) fn default_memory(name: &[u8]) -> Option<DefaultMemory> {
    text::with_c_string(name, |name| {
        shown(name, |part| DefaultMemory {
            of_node: is_given(part.def_mem_per_cpu),
            // SAFETY: null, or a list of such records, which nothing else uses (src/common/slurm_protocol_pack.c,
            // `_unpack_partition_info_members`).
            of_gpu: unsafe { locks::default_of_gpu(part.job_defaults_list) },
        })
    })
}

/// Shows `TRESBillingWeights` of each partition in which the job may run: of all if its reservation decides.
pub(super) fn billing_weights(request: &Request, mut look: impl FnMut(&[u8])) {
    let mut show = |part: &partition_info_t| {
        // SAFETY: null or a C string of the record, which lives as long as it.
        unsafe { text::bytes(part.billing_weights_str) }.into_iter().for_each(&mut look);
    };
    let Some(names) = named(request) else { return each(&mut show) };
    for name in names {
        text::with_c_string(name, |name| shown(name, &mut show));
    }
}

/// Shows all partitions.
#[doc(alias = "part_list")]
pub(super) fn each(show: &mut impl FnMut(&partition_info_t)) {
    // SAFETY: slurmctld's own variable, set at its start.
    let list = unsafe { slurm_sys::part_list };
    let show = |record: *mut std::ffi::c_void| {
        shown_record(record.cast(), &mut *show);
    };
    // SAFETY: null, or a list of partitions, which stay under the partition lock, as in `shown`.
    unsafe { locks::each_pointer(list, show) }
}

/// Shows the partition in the form that slurmctld sends.
#[doc(alias = "find_part_record")]
pub(super) fn shown<T>(name: &CStr, show: impl FnOnce(&partition_info_t) -> T) -> Option<T> {
    // SAFETY: the name is only read; the partition lock, which callers of job_submit and job_modify hold, keeps the
    // record valid.
    let record = unsafe { slurm_sys::find_part_record(name.as_ptr().cast_mut()) };
    if record.is_null() { None } else { shown_record(record, show) }
}

fn shown_record<T>(record: *mut part_record, show: impl FnOnce(&partition_info_t) -> T) -> Option<T> {
    let pack = |buffer| {
        // SAFETY: the record and a buffer of Slurm's; writes the record as this release sends it
        // (src/slurmctld/partition_mgr.c).
        unsafe { slurm_sys::pack_part(record, buffer, packed::NEWEST) };
    };
    let message = packed::with_packed(pack, |written| packed::unpacked(packed::PARTITION, written))??;
    let message: *mut partition_info_msg_t = message.cast().as_ptr();
    // SAFETY: what the library made of a message of this kind.
    let only = unsafe { (*message).partition_array };
    // SAFETY: null, or the only partition.
    let found = unsafe { only.as_ref() }.map(show);
    // SAFETY: made by the library, not used afterwards.
    unsafe { slurm_sys::slurm_free_partition_info_msg(message) };
    found
}

#[cfg(test)]
mod tests {
    use gpushare::submit::grammar::Spelling;
    use gpushare::submit::request::Request;

    use super::{Size, allowed};

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
}
