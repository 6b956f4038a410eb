//! What a prolog does about foreign processes on its job's GPU: `ForeignProcesses`.

use gpushare_node::config::ForeignProcesses;
use gpushare_node::foreign::{Jobs, listed};
use gpushare_node::ledger::Entry;
use gpushare_node::nvml::answer::Measured;
use gpushare_node::place::Node;
use gpushare_node::{foreign, mps};

use super::error::WorkError;
use super::fail;

/// Checks the GPUs that a job was just given. An error means that the job fails.
///
/// # Errors
/// There are such processes, and `ForeignProcesses=fail`.
pub fn look(node: Node, entry: &Entry, measured: &Measured) -> Result<(), WorkError> {
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
        let said = WorkError::Foreign { gpu: gpu.index, processes: listed(&found) };
        match node.config.foreign_processes {
            ForeignProcesses::Ignore | ForeignProcesses::Warn => log::error!("job {id}: {said}"),
            ForeignProcesses::Fail => return Err(fail(node, entry, said)),
            ForeignProcesses::End => match foreign::end(&node.roots.proc, &found).as_slice() {
                [] => log::error!("job {id}: {said}; they were ended"),
                left => log::error!("job {id}: {said}; can't be ended: {}", listed(left)),
            },
        }
    }
    Ok(())
}
