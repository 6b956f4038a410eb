//! Caps for each GPU by type, such as `a40:8,h100:16`: in a QOS's record, in a partition's, and for the whole file.

use crate::config::values::is_gpu_type;
use crate::submit::policy::PerGpu;
use crate::text::quantity::quantity;

pub(super) const CPUS_PER_GPU: &str =
    "whole numbers from 1 on by type, such as a40:8,h100:16, and one without a type for all other types";

pub(super) const MEM_PER_GPU: &str = "memory by type, such as a40:64G,h100:128G, and one without a type for \
                                                all other types; MiB without a unit";

pub(super) fn cpus_per_gpu(value: &str) -> Option<PerGpu> {
    per_gpu(value, "cpu")
}

pub(super) fn mem_per_gpu(value: &str) -> Option<PerGpu> {
    per_gpu(value, "mem")
}

/// Parses `a40:8,h100:16,4`; `tres` is `cpu` or `mem`.
fn per_gpu(value: &str, tres: &str) -> Option<PerGpu> {
    let mut caps = PerGpu { types: Vec::new(), others: None };
    for part in value.split(',').map(str::trim) {
        let (gres_type, number) =
            part.split_once(':').map_or((None, part), |(head, tail)| (Some(head), tail));
        let number = quantity(tres, number).filter(|number| *number > 0)?;
        let Some(gres_type) = gres_type else {
            // It must not occur twice.
            if caps.others.replace(number).is_some() {
                return None;
            }
            continue;
        };
        // A type may be in uppercase, and is then the same type.
        let again = caps.types.iter().any(|(known, _)| known.eq_ignore_ascii_case(gres_type));
        if again || !is_gpu_type(gres_type) {
            return None;
        }
        caps.types.push((gres_type.to_owned(), number));
    }
    Some(caps)
}
