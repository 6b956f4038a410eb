//! What a prolog does about foreign processes on its job's GPU: `ForeignProcesses`.

use gpushare::config::ForeignProcesses;
use gpushare_node::foreign::{Jobs, listed};
use gpushare_node::ledger::Entry;
use gpushare_node::nvml::answer::{GpuState, Measured};
use gpushare_node::place::Node;
use gpushare_node::{foreign, mps};

use super::LOCK_WAIT;

/// Takes out the processes and leaves the rest for the choice of a GPU, which doesn't need processes.
pub fn taken(measured: &mut Measured) -> Measured {
    let of = |gpu: &mut GpuState| GpuState {
        uuid: gpu.uuid.clone(),
        minor: gpu.minor,
        running: std::mem::take(&mut gpu.running),
        ..GpuState::default()
    };
    Measured { limits: false, gpus: measured.gpus.iter_mut().map(of).collect() }
}

/// Checks the GPUs that a job was just given. An error means that the job fails.
pub fn look(node: Node, entry: &Entry, measured: &Measured) -> Result<(), String> {
    let id = entry.key.id;
    // If the ledger can't be read now, it is unknown which jobs the processes belong to.
    let entries = node.ledger.list().map(|listing| listing.entries).unwrap_or_default();
    let sessions = mps::sessions(node.config);
    let jobs = Jobs { entries: &entries, mps: sessions.as_deref() };
    for gpu in &entry.gpus {
        let Some(state) = measured.of(gpu) else { continue };
        let found = jobs.foreign(gpu, state);
        if found.is_empty() {
            continue;
        }
        let mut said =
            format!("GPU {} has foreign processes, in none of its jobs: {}", gpu.index, listed(&found));
        match node.config.foreign_processes {
            ForeignProcesses::Ignore | ForeignProcesses::Warn => {}
            ForeignProcesses::Fail => {
                let marked = node.ledger.lock(LOCK_WAIT).and_then(|ledger| ledger.fail(entry.key, &said));
                marked.map_err(|error| format!("job {id}: {said}; {error}"))?;
                return Err(format!("job {id}: {said}"));
            }
            ForeignProcesses::End => match foreign::end(&node.roots.proc, &found).as_slice() {
                [] => said += "; they were ended",
                left => said += &format!("; can't be ended: {}", listed(left)),
            },
        }
        log::error!("job {id}: {said}");
    }
    Ok(())
}
