//! Queries NVML for everything about each GPU. If a call fails, its value is omitted; [`fault`](crate::fault) decides
//! what it means if a GPU doesn't answer.

use std::path::Path;

use gpushare_node::gpu::{Roots, is_in_mig_mode, known_to_the_driver};
use gpushare_node::nvml::answer::{GpuState, MOST_PROCESSES, Measured, Mode};
use gpushare_node::proc::running::Running;
use gpushare_node::proc::start_time;
use gpushare_node::proc::step::Finder;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_DRAIN_AND_RESET_STATUS, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_REMAPPED_FAILURE,
    NVML_FI_DEV_RESET_STATUS, NVML_FI_DEV_RETIRED_PENDING_DBE,
};
use nvml_wrapper::{Device, Nvml};

use crate::fault::{self, Health};
use crate::raw;

/// `NVML_DEVICE_MIG_ENABLE`, NVML API reference.
const MIG_ENABLED: u32 = 1;

/// All GPUs; with `processes` also the processes that compute on them.
///
/// # Errors
/// NVML can't even list the GPUs.
pub fn all(nvml: &Nvml, roots: &Roots, processes: bool) -> Result<Measured, NvmlError> {
    let proc = processes.then_some(roots.proc.as_path());
    let mut measured = Measured { limits: raw::can_limit_memory(nvml), gpus: Vec::new() };
    let mut lost = false;
    for index in 0..nvml.device_count()? {
        match nvml.device_by_index(index).and_then(|device| gpu(nvml, &device, roots, proc)) {
            Ok(gpu) => measured.gpus.push(gpu),
            // Another user's limits hide this GPU.
            Err(NvmlError::NoPermission) => {}
            // Without its name nothing can be reported about it here.
            Err(_) => lost = true,
        }
    }
    if lost {
        measured.gpus.extend(nameless(&measured, nvml, roots));
    }
    Ok(measured)
}

/// GPUs that the driver knows but that NVML can't even name, because they are lost.
fn nameless(measured: &Measured, nvml: &Nvml, roots: &Roots) -> Vec<GpuState> {
    let named = |uuid: &Option<String>, minor: u32| {
        measured.gpus.iter().any(|gpu| Some(&gpu.uuid) == uuid.as_ref() || gpu.minor == Some(minor))
    };
    let known = known_to_the_driver(roots).into_iter().filter(|(uuid, minor)| !named(uuid, *minor));
    let lost = known.filter_map(|(uuid, minor)| {
        let error = match uuid.as_ref().map(|uuid| nvml.device_by_uuid(uuid.as_str())) {
            Some(Ok(_)) => return None,
            Some(Err(error)) if fault::is_unusable(&error) => error,
            // A lost GPU can't be found by its UUID either, and a GPU that was never initialised since boot has no
            // UUID.
            Some(Err(_)) | None => NvmlError::GpuLost,
        };
        let uuid = uuid.unwrap_or_else(|| format!("minor-{minor}"));
        let fault = Some(error.to_string());
        Some(GpuState { uuid, minor: Some(minor), fault, ..GpuState::default() })
    });
    lost.collect()
}

fn gpu(nvml: &Nvml, device: &Device, roots: &Roots, proc: Option<&Path>) -> Result<GpuState, NvmlError> {
    let mut health = Health::default();
    let uuid = device.uuid()?;
    let (memory, used) = health.answer(memory(nvml, device)).unzip();
    let utilization = health.answer(device.utilization_rates()).map(|rates| rates.gpu);
    let minor = health.answer(device.minor_number());
    let (computing, outside) = processes(device, &mut health).unzip();
    let mode = health.answer(device.compute_mode()).and_then(mode);
    ask_fields(device, &mut health);
    let in_mig_mode = health.answer(device.mig_mode()).is_some_and(|mode| mode.current == MIG_ENABLED);
    health.mig_without_instances = in_mig_mode && minor.is_some_and(|minor| !is_in_mig_mode(roots, minor));
    Ok(GpuState {
        uuid,
        minor,
        memory,
        used,
        utilization,
        processes: computing.as_ref().and_then(|found| u32::try_from(found.len()).ok()),
        outside: outside.flatten(),
        mode,
        fault: health.fault(),
        running: proc.map_or_else(Vec::new, |proc| running(device, &computing.unwrap_or_default(), proc)),
    })
}

/// All the memory that programs can have, and how much is in use, in MiB. The driver's own part is excluded if NVML
/// reports it (510 and newer); otherwise it counts as used.
fn memory(nvml: &Nvml, device: &Device) -> Result<(u32, u32), NvmlError> {
    match device.memory_info() {
        Ok(info) => Ok((mib(info.total.saturating_sub(info.reserved)), mib(info.used))),
        Err(NvmlError::FailedToLoadSymbol(_)) => {
            raw::memory_info_v1(nvml, device).map(|(total, used)| (mib(total), mib(used)))
        }
        Err(error) => Err(error),
    }
}

/// A process's number, and its memory in MiB, if NVML reports it.
type Computing = (u32, Option<u32>);

fn mib(bytes: u64) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}

/// Processes that compute on the GPU, and how many of them bypass MPS. MPS clients have their own list; their server
/// may be in both. A program can take a server's name: this is meant to find mistakes.
fn processes(device: &Device, health: &mut Health) -> Option<(Vec<Computing>, Option<u32>)> {
    let computing = health.answer(device.running_compute_processes())?;
    let clients = health.answer(device.mps_running_compute_processes());
    let memory = |process: &ProcessInfo| match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(mib(bytes)),
        UsedGpuMemory::Unavailable => None,
    };
    let all = computing.iter().chain(clients.iter().flatten());
    let mut found: Vec<Computing> = all.map(|process| (process.pid, memory(process))).collect();
    // If a process is in both lists, its larger value counts.
    found.sort_unstable_by_key(|(pid, memory)| (*pid, std::cmp::Reverse(*memory)));
    found.dedup_by_key(|(pid, _)| *pid);
    let outside = clients.and_then(|clients| {
        let goes_round = |pid: &u32| clients.iter().all(|client| client.pid != *pid) && !is_of_mps(*pid);
        u32::try_from(found.iter().map(|(pid, _)| *pid).filter(goes_round).count()).ok()
    });
    Some((found, outside))
}

/// What is known about these processes, and about those that used the GPU a moment ago. If a process is younger than
/// this one, its number belonged to another process, which NVML meant.
fn running(device: &Device, computing: &[Computing], proc: &Path) -> Vec<Running> {
    let asked = start_time(proc, std::process::id()).ok().flatten().unwrap_or(0);
    let finder = Finder::new(proc);
    let process = |(pid, memory): &Computing| Running { memory: *memory, ..finder.process(*pid, asked) };
    let mut running: Vec<Running> = computing.iter().map(process).collect();
    // Some GPUs have no samples. If all samples are 0, NVML also answers that there are none.
    for sample in device.process_utilization_stats(None).unwrap_or_default() {
        let busy = sample.sm_util.max(sample.mem_util).max(sample.enc_util).max(sample.dec_util);
        // Samples of processes that didn't compute may have an invalid value.
        let Some(busy @ 1..) = Some(busy).filter(|percent| *percent <= 100) else { continue };
        match running.iter_mut().find(|known| known.pid == sample.pid) {
            Some(known) => known.busy = known.busy.max(busy),
            None => running.push(Running { pid: sample.pid, busy, ..Running::default() }),
        }
    }
    running.truncate(MOST_PROCESSES);
    running
}

/// Whether a process is NVIDIA's MPS server or its control daemon, whose names the kernel cuts to 15 letters.
fn is_of_mps(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("nvidia-cuda-mps"))
}

fn mode(mode: ComputeMode) -> Option<Mode> {
    match mode {
        ComputeMode::Default => Some(Mode::Default),
        ComputeMode::ExclusiveProcess => Some(Mode::ExclusiveProcess),
        ComputeMode::Prohibited => Some(Mode::Prohibited),
        // No current driver has it.
        ComputeMode::ExclusiveThread => None,
    }
}

/// Queries the values that NVML has as numbered fields. A field that the driver or the GPU lacks has its own error.
fn ask_fields(device: &Device, health: &mut Health) {
    let fields = [
        NVML_FI_DEV_RETIRED_PENDING_DBE,
        NVML_FI_DEV_REMAPPED_FAILURE,
        NVML_FI_DEV_RESET_STATUS,
        NVML_FI_DEV_DRAIN_AND_RESET_STATUS,
        NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
    ]
    .map(FieldId);
    let Some(answers) = health.answer(device.field_values_for(&fields)) else { return };
    let values = answers.into_iter().map(|answer| number(answer.ok()?.value.ok()?));
    let mut values = values.chain(std::iter::repeat(None));
    health.pages_pending = values.next().flatten();
    health.remap_failure = values.next().flatten();
    health.reset = values.next().flatten();
    health.drain_and_reset = values.next().flatten();
    health.recovery_action = values.next().flatten();
}

fn number(value: SampleValue) -> Option<u64> {
    match value {
        SampleValue::U32(number) => Some(number.into()),
        SampleValue::U64(number) => Some(number),
        SampleValue::I64(number) => u64::try_from(number).ok(),
        SampleValue::F64(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_no_current_driver_has_is_none() {
        for (found, expected) in [
            (ComputeMode::Default, Some(Mode::Default)),
            (ComputeMode::ExclusiveProcess, Some(Mode::ExclusiveProcess)),
            (ComputeMode::Prohibited, Some(Mode::Prohibited)),
            (ComputeMode::ExclusiveThread, None),
        ] {
            assert_eq!(mode(found), expected, "{found:?}");
        }
    }

    #[test]
    fn a_count_of_any_type_is_a_number_if_it_is_whole() {
        for (value, expected) in [
            (SampleValue::U32(1), Some(1)),
            (SampleValue::U64(1 << 40), Some(1 << 40)),
            (SampleValue::I64(2), Some(2)),
            (SampleValue::I64(-1), None),
            (SampleValue::F64(1.0), None),
        ] {
            assert_eq!(number(value.clone()), expected, "{value:?}");
        }
    }
}
