//! What is in the ledger of a job before its prolog places it.

use std::fs;
use std::path::Path;

use super::{LOCK_WAIT, Node, release};
use crate::gpu::gres_conf::lines::{DEPTH, fields, include, included, logical_lines};
use crate::gpu::may_be_any;
use crate::job::NodeJob;
use crate::ledger::{Entry, LedgerError, extern_step_above};

/// A job without GPUs here needs no entry; that of its part on another slurmd of this machine stays. Where nothing of
/// Slurm's tells a step of a share, an entry says that there is none: without one the step would ask slurmctld.
///
/// # Errors
/// The ledger can't be changed.
pub(super) fn has_none(node: Node, job: &NodeJob, now: u64) -> Result<(), LedgerError> {
    let found = node.ledger.find(job.key.id).ok().flatten().filter(|entry| entry.key == job.key);
    let of = found.and_then(|entry| entry.node);
    if node.name.zip(of).is_none_or(|(own, of)| own == of) {
        release(node.ledger, job.key.id, None)?;
        let is_silent = !node.config.shows_shares() && may_be_any(&node.config.gpu_files, node.roots);
        if is_silent && notes_shares(node.slurm_conf, node.slurm_conf, DEPTH) == Some(true) {
            let entry = Entry { since: now, ..Entry::without_gpus(job.key, job.user_id) };
            node.ledger.lock(LOCK_WAIT)?.record(&entry)?;
        }
    }
    Ok(())
}

/// Whether slurm.conf has job_submit_gpushare.so, which notes shares for prologs; the last value counts. If not, or if
/// that is unknown, a job without a note may have a share, and its steps ask slurmctld.
fn notes_shares(top: &Path, path: &Path, depth: usize) -> Option<bool> {
    let text = fs::read(path).ok()?;
    let of = |(key, plugins): (&str, &str)| {
        key.eq_ignore_ascii_case("JobSubmitPlugins").then(|| plugins.contains("gpushare"))
    };
    logical_lines(&String::from_utf8_lossy(&text)).iter().rev().find_map(|(_, line)| match include(line) {
        Some(name) => notes_shares(top, &included(name, top, path), depth.checked_sub(1)?),
        None => fields(line)?.into_iter().rev().find_map(of),
    })
}

/// With `PrologFlags=RunInJob` the job's extern step comes before the prolog. If it could not be fenced, it has marked
/// the job, and the mark stays.
pub(super) fn failed(node: Node, job_id: u32) -> Option<Entry> {
    let entry = node.ledger.find(job_id).ok()??;
    let witness = entry.witness.filter(|_| entry.failure.is_some())?;
    let above = extern_step_above(&node.roots.proc, std::process::id(), job_id);
    (above == Some(witness)).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_conf_is_read_as_slurm_does_with_its_includes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        let top = path("slurm.conf");
        let found = |text: &str| {
            fs::write(&top, text).unwrap();
            notes_shares(&top, &top, DEPTH)
        };
        assert_eq!(found("ClusterName=x\n"), None);
        assert_eq!(found("jobsubmitplugins = lua,gpushare # x\n"), Some(true));
        assert_eq!(found("#JobSubmitPlugins=gpushare\n"), None);
        fs::write(&top, b"# caf\xe9\nJobSubmitPlugins=gpushare\n").unwrap();
        assert_eq!(notes_shares(&top, &top, DEPTH), Some(true));
        assert_eq!(found("JobSubmitPlugins=gpushare\nJobSubmitPlugins=lua\n"), Some(false));
        assert_eq!(found("ClusterName=x \\\n JobSubmitPlugins=\\\ngpushare\n"), Some(true));
        // An included file's own includes lie beside slurm.conf, with 22.05 beside that file.
        fs::write(path("sub/a.conf"), "Include b.conf\n").unwrap();
        for beside in ["sub/b.conf", "b.conf"] {
            fs::write(path(beside), "JobSubmitPlugins=gpushare\n").unwrap();
            assert_eq!(found("Include sub/a.conf\n"), Some(true), "{beside}");
            fs::write(path(beside), "JobSubmitPlugins=lua\n").unwrap();
            assert_eq!(found("Include sub/a.conf\n"), Some(false), "{beside}");
        }
        assert_eq!(found("Include slurm.conf\nInclude gone.conf\n"), None);
    }
}
