//! How prolog and epilog report: one line per event. `error!` is what an administrator must act on, `info!` what was
//! done.

use std::fmt::Display;

use gpushare_node::job::listed;
use gpushare_node::ledger::{Entry, Holding};
use gpushare_node::mps::{Ended, How, MpsError, Started, UNREAD};
use gpushare_node::place::{Notice, Placed};

/// Reports why the work for a job is not done, if so; in one line that names the job.
pub fn failure(result: Result<(), impl Display>) {
    let Err(why) = result else { return };
    let job = super::variable("SLURM_JOB_ID").map(|id| format!("job {}: ", id.escape_debug()));
    log::error!("{}{why}", job.unwrap_or_default());
}

/// Reports the result for a job.
pub fn placed(placed: &Placed) {
    let Placed::Now(entry, notices) = placed else { return };
    let id = entry.key.id;
    let gpus: Vec<String> =
        entry.gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.path.display())).collect();
    let gpus = gpus.join(", ");
    match entry.holding {
        Holding::Share { units, capacity, .. } => {
            log::info!("job {id}: {units} of {capacity} units on GPU {gpus}");
        }
        Holding::Whole => log::info!("job {id}: whole GPU {gpus}"),
        Holding::Nothing => {}
    }
    for notice in notices {
        let is_usual = matches!(notice, Notice::Completing(_));
        log::log!(if is_usual { log::Level::Info } else { log::Level::Error }, "{}", line(entry, notice));
    }
}

/// Reports a daemon that was started for a job, if one was.
pub fn started(id: u32, started: Option<&Started>) {
    let Some(Started { daemon, pid, how, healed, mode }) = started else { return };
    let How { unit, notice, unread } = how;
    let unit = unit.as_ref().map_or_else(|| "without a unit".to_owned(), |unit| format!("unit {unit}"));
    log::info!("job {id}: MPS daemon {daemon} started, process {pid}, {unit}");
    let notice = notice.as_ref().map(|notice| format!(": {notice}"));
    let unread = unread.as_ref().map(|said| format!(" {UNREAD}: {said}"));
    let healed = healed.as_ref().map(|why| format!(" had to be restarted: {why}"));
    for what in [notice, unread, healed].into_iter().flatten() {
        log::error!("job {id}: MPS daemon {daemon}{what}");
    }
    if let Some(why) = mode {
        log::error!("job {id}: its GPU is not in compute mode exclusive-process: {why}");
    }
}

/// Reports a daemon that was ended, or that can't be.
pub fn ended(ended: &Ended) {
    let Ended { daemon, result } = ended;
    match result {
        Ok(()) => log::info!("MPS daemon {daemon} ended"),
        Err(why @ MpsError::Mode(_)) => log::error!("MPS daemon {daemon} ended, but {why}"),
        Err(why) => log::error!("MPS daemon {daemon} can't be ended: {why}"),
    }
}

fn line(entry: &Entry, notice: &Notice) -> String {
    let (id, units) = (entry.key.id, entry.units());
    match notice {
        Notice::Overcommitted => {
            format!("job {id}: its GPU is overcommitted, no GPU had {units} units free")
        }
        Notice::Contradicted(noted) => format!(
            "job {id}: asked for {noted} units, recorded as {units}; Slurm counts differently: UnitsPerGpu must be \
             the number that fills one GPU"
        ),
        Notice::Garbage(file) => {
            format!("set aside '{}' of the ledger: {}", file.name.escape_debug(), file.damage)
        }
        Notice::Dropped(key) => {
            format!("job {}: it has ended, but its epilog did not run; its share is released", key.id)
        }
        Notice::Completing(key) => {
            format!("job {}: it has ended; its share is released before its epilog, for job {id}", key.id)
        }
        Notice::Collision(keys) => {
            format!("job {id}: Slurm gave it a GPU that other jobs have shares of: {}", listed(keys))
        }
        Notice::LeftOut { index, path, why } => {
            format!("GPU {index} ({}) takes no shares: {why}", path.display())
        }
        Notice::OnFaulty { index, fault } => {
            format!("job {id}: Slurm put the share on GPU {index}, NVML says: {fault}")
        }
        Notice::Faulty { index, fault } => format!("GPU {index} takes no shares, NVML says: {fault}"),
        Notice::HeldWhole(key) => {
            format!("job {id}: Slurm put its share on the GPU that job {} has whole", key.id)
        }
        Notice::Exporter(key, error) => {
            format!("job {id}: the files for {key} could not be updated: {error}")
        }
        Notice::SeveralCharged => format!(
            "job {id}: Slurm charges shares to several GPUs (Flags=all_sharing?); use Placement=follow"
        ),
    }
}

#[cfg(test)]
mod tests {
    use gpushare_node::job::JobKey;

    use super::*;

    #[test]
    fn a_notice_names_the_job_and_what_is_odd() {
        let key = JobKey { id: 7, restart: 0 };
        let entry = Entry {
            holding: Holding::Share { units: 40, capacity: 80, allocated_gpu: Some(0), memory: None },
            ..Entry::without_gpus(key, 2001)
        };
        let fault = || "it is lost".to_owned();
        for (notice, expected) in [
            (Notice::Overcommitted, "job 7: its GPU is overcommitted, no GPU had 40 units free"),
            (
                Notice::Contradicted(20),
                "job 7: asked for 20 units, recorded as 40; Slurm counts differently: UnitsPerGpu must be the number \
                 that fills one GPU",
            ),
            (
                Notice::OnFaulty { index: 2, fault: fault() },
                "job 7: Slurm put the share on GPU 2, NVML says: it is lost",
            ),
            (
                Notice::HeldWhole(JobKey { id: 9, restart: 0 }),
                "job 7: Slurm put its share on the GPU that job 9 has whole",
            ),
            (
                Notice::SeveralCharged,
                "job 7: Slurm charges shares to several GPUs (Flags=all_sharing?); use Placement=follow",
            ),
        ] {
            assert_eq!(line(&entry, &notice), expected);
        }
    }
}
