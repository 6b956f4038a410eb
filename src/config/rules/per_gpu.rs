//! Caps for each GPU by type, such as `a40:8,h100:16`: in a QOS's record, in a partition's, and for the whole file.

use crate::config::values::of_type;
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
        let number = |text| quantity(tres, text).filter(|number| *number > 0);
        if part.contains(':') {
            let (gres_type, text) = of_type(part, &caps.types)?;
            caps.types.push((gres_type, number(text)?));
        } else if caps.others.replace(number(part)?).is_some() {
            return None; // It must not occur twice.
        }
    }
    Some(caps)
}
