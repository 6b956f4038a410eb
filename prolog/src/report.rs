//! How prolog and epilog report: one line an event, to syslog (facility daemon) and to stderr, where slurmd picks it up
//! or a person who runs them by hand reads it. syslog that doesn't listen is not waited for: with the usual blocking client
//! a stopped journald would stop every job that has a share.

use std::io::Write;
use std::os::unix::net::UnixDatagram;

use gpushare::ledger::{Entry, Holding};
use gpushare::node::{self, Placed, Remark};
use gpushare_node::mps::{Ended, How, Started, UNREAD};

/// syslog's numbers (syslog(3)): facility daemon, and the two severities used.
const DAEMON: u8 = 3 << 3;
const ERROR: u8 = 3;
const INFO: u8 = 6;

/// An administrator must act.
pub fn error(program: &str, line: &str) {
    report(ERROR, program, line);
}

/// What was done.
pub fn info(program: &str, line: &str) {
    report(INFO, program, line);
}

fn report(severity: u8, program: &str, line: &str) {
    // Neither may be there: no syslog in a small container, a closed stderr. There is no third place to say so.
    let _ = std::io::stderr().write_all(format!("{program}: {line}\n").as_bytes());
    let message = format!("<{}>{program}[{}]: {line}", DAEMON | severity, std::process::id());
    let _ = to_syslog(message.as_bytes());
}

fn to_syslog(message: &[u8]) -> std::io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(message, "/dev/log")
}

/// What became of a job.
pub fn placed(program: &str, placed: &Placed) {
    let Placed::Now(entry, remarks) = placed else { return };
    let id = entry.key.id;
    let gpus: Vec<String> =
        entry.gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.path.display())).collect();
    let gpus = gpus.join(", ");
    match entry.holding {
        Holding::Share { units, capacity, .. } => {
            info(program, &format!("job {id}: {units} of {capacity} units on GPU {gpus}"));
        }
        Holding::Whole => info(program, &format!("job {id}: whole GPU {gpus}")),
    }
    for remark in remarks {
        error(program, &line(entry, remark));
    }
}

/// A daemon was started for a job.
pub fn started(program: &str, id: u32, started: &Started) {
    let Started { daemon, pid, how, healed, mode } = started;
    let How { unit, remark, unread } = how;
    let unit = unit.as_ref().map_or_else(|| "without a unit".to_owned(), |unit| format!("unit {unit}"));
    info(program, &format!("job {id}: MPS daemon {daemon} started, process {pid}, {unit}"));
    if let Some(remark) = remark {
        error(program, &format!("job {id}: MPS daemon {daemon}: {remark}"));
    }
    if let Some(said) = unread {
        error(program, &format!("job {id}: MPS daemon {daemon} {UNREAD}: {said}"));
    }
    if let Some(why) = healed {
        error(program, &format!("job {id}: MPS daemon {daemon} had to be started anew: {why}"));
    }
    if let Some(why) = mode {
        error(program, &format!("job {id}: its GPU is not in compute mode exclusive-process: {why}"));
    }
}

/// A daemon was ended, or can't be.
pub fn ended(program: &str, ended: &Ended) {
    let Ended { daemon, result } = ended;
    match result {
        Ok(()) => info(program, &format!("MPS daemon {daemon} ended")),
        Err(why) => error(program, &format!("MPS daemon {daemon} can't be ended: {why}")),
    }
}

fn line(entry: &Entry, remark: &Remark) -> String {
    let (id, units) = (entry.key.id, entry.units());
    match remark {
        Remark::Overcommitted => {
            format!("job {id}: its GPU is overcommitted, none had {units} units free")
        }
        Remark::Contradicted(noted) => format!(
            "job {id}: asked for {noted} units, taken as {units}; Slurm counts otherwise: UnitsPerGpu must be what \
             fills one GPU"
        ),
        Remark::Garbage(file) => {
            format!("set aside '{}' of the ledger: {}", file.name.escape_debug(), file.damage)
        }
        Remark::Dropped(key) => {
            format!("job {}: is over and no epilog has come yet, its share is taken back", key.id)
        }
        Remark::Collision(keys) => {
            format!("job {id}: Slurm gave it a GPU that other jobs have shares of: {}", node::listed(keys))
        }
        Remark::LeftOut { index, path, why } => {
            format!("GPU {index} ({}) takes no share: {why}", path.display())
        }
        Remark::Faulty { index, fault } => format!("GPU {index} takes no share, NVML says: {fault}"),
        Remark::HeldWhole(key) => {
            format!("job {id}: Slurm put its share on the GPU that job {} has whole", key.id)
        }
        Remark::GpuStat(error) => {
            format!("job {id}: the files of GpuStat are not as they should be: {error}")
        }
        Remark::Unwitnessed(error) => {
            format!("job {id}: if no epilog comes, its share is not taken back: {error}")
        }
        Remark::SeveralCharged => format!(
            "job {id}: Slurm charges shares to several GPUs (Flags=all_sharing?); Placement=follow would fit"
        ),
    }
}
