//! Whether a job can have an MPS daemon for its whole GPUs, which it asks for with `--gpu-mps`.

use super::{PlaceError, Seen};
use crate::allocation::Allocation;
use crate::config::NodeConfig;
use crate::gpu::{self, Gpu, Unfit};
use crate::job::NodeJob;

/// Checks what the job has.
///
/// # Errors
/// It asks for a daemon, which the node doesn't allow, or has no whole GPU.
pub(super) fn check(config: &NodeConfig, job: &NodeJob, allocation: &Allocation) -> Result<(), PlaceError> {
    match allocation {
        _ if !job.gpu_mps => Ok(()),
        _ if !config.mps_whole_gpus => Err(PlaceError::MpsNotAllowed),
        Allocation::Share { .. } => Err(PlaceError::MpsOfShare),
        Allocation::Nothing => Err(PlaceError::MpsWithoutGpus),
        Allocation::Whole(_) => Ok(()),
    }
}

/// Checks its GPUs. A UUID that /proc lacks until something initialises the GPU is taken from NVML's answer.
///
/// # Errors
/// One has parts, which one daemon can't have.
pub(super) fn ready(own: &mut [Gpu], seen: &Seen) -> Result<(), PlaceError> {
    for gpu in own {
        if seen.gpus.detail(gpu.index).is_some_and(|detail| detail.unfit == Some(Unfit::MigEnabled)) {
            return Err(PlaceError::MpsOnMig);
        }
        let measured = seen.measured.as_ref().and_then(|measured| measured.of(gpu));
        let uuid = measured.map(|found| found.uuid.clone()).filter(|uuid| gpu::is_uuid(uuid));
        gpu.uuid = gpu.uuid.take().or(uuid);
    }
    Ok(())
}
