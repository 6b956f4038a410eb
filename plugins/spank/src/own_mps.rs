//! `--gpu-mps`: an MPS daemon for the whole GPUs of a job. sbatch, salloc and srun know the option where they load this
//! plugin; elsewhere they refuse it.
//!
//! Slurm passes it to the job's prolog, which gives the job the daemon (`gpushare_node::mps::service`), and as
//! [`SENT`] to the programs of the job. sbatch, salloc and srun take it from there again, for jobs that are submitted
//! from within this one. So it is removed: such a job has the option only if it asks for it.
//!
//! A step that has the option without a daemon fails: it is a step of a job that didn't ask for one; the node doesn't
//! allow it, or has `Placement=off`; or another plugin with a prolog hook made slurmd withhold the option from
//! `Prolog=` (src/plugins/prep/script, `_run_spank_job_script`).

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use gpushare_node::fence::{Access, access};
use gpushare_node::gpu::Gpu;
use gpushare_node::ledger::Entry;
use gpushare_slurm::spank::{CommandOption, Step};

use crate::step::{Fenced, StepState};

/// The variable from which Slurm's commands take the option.
pub const SENT: &str = "SLURM_SPANK__SLURM_SPANK_OPTION_gpushare_gpu_mps";

/// salloc's command has this one, too; slurmstepd removes it.
const OF_SALLOC: &str = "_SLURM_SPANK_OPTION_gpushare_gpu_mps";

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

static ASKED: AtomicBool = AtomicBool::new(false);

/// The option.
pub const OPTION: CommandOption = CommandOption {
    name: c"gpu-mps",
    usage: c"run an MPS daemon for the whole GPUs of the job",
    sent: [SENT, OF_SALLOC],
    used,
};

extern "C" fn used(_: c_int, _: *const c_char, _: c_int) -> c_int {
    note();
    0
}

/// Notes that the step has the option. With `--export=NONE` 22.05 doesn't call `used` for a batch script.
pub fn note() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether the step has the option, and its job has no daemon. sbatch gives the option to each component of a het job;
/// one without GPUs needs none.
pub fn is_missing(step: Step, state: &StepState) -> bool {
    let recorded = if let StepState::Fenced(fenced) = state { fenced.recorded.as_ref() } else { None };
    let needs = recorded.is_some() || !step.has_variable("SLURM_HET_JOB_ID");
    let lacks = |entry: &Entry| entry.given.daemon.is_none() || entry.share_gpu().is_some();
    ASKED.load(Ordering::Relaxed) && needs && recorded.is_none_or(|(entry, _)| lacks(entry))
}

/// If a task can open only some of the job's GPUs, Slurm numbers those from 0. Clients of the daemon count all of its
/// GPUs (NVIDIA's MPS documentation), so this replaces numbers by UUIDs.
pub fn name_gpus(step: Step, fenced: &Fenced) {
    let Some((entry, _)) = &fenced.recorded else { return };
    if entry.share_gpu().is_some() || entry.given.daemon.is_none() {
        return;
    }
    let open: Vec<&Gpu> = entry.gpus.iter().filter(|gpu| access::of(&gpu.path) == Access::Open).collect();
    let Some(numbers) = step.variable(VISIBLE).filter(|_| open.len() < entry.gpus.len()) else { return };
    let numbers = String::from_utf8_lossy(&numbers).into_owned();
    let uuid = |number: &str| open.get(number.parse::<usize>().ok()?)?.uuid.clone();
    let uuids: Option<Vec<String>> = numbers.split(',').map(uuid).collect();
    if let Some(uuids) = uuids {
        step.set_variable(VISIBLE, &uuids.join(","));
    }
}
