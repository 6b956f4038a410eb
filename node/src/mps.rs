//! Starts NVIDIA's MPS daemons before the job of a share starts, or one that asks for MPS on its whole GPUs, and ends
//! each with the last job that used it.
//!
//! A prolog writes its job into the ledger, then calls [`prepare`]; an epilog removes its job, then calls [`leave`].
//! Each reads the ledger again while it holds the daemon's lock, so the second one sees what the first has done: no
//! daemon ends while a job uses it, and none is left over. The ledger's own lock is free in the meantime, so a hanging
//! daemon delays only its own jobs.
//!
//! A daemon that does not answer is worse than no daemon: every CUDA program of its user then fails or hangs. If no
//! other job uses it, it is replaced; otherwise the new job fails and the others continue. A daemon whose server had a
//! fatal error, or whose socket its user has removed, serves nobody any more: a new one takes its place while the
//! programs that were its clients live on. So does it if the daemon is just quitting.

use std::fs;
use std::time::Duration;

use crate::config::{ComputeMode, NodeConfig};
use crate::job::JobKey;
use crate::ledger::{Entry, Garbage, Ledger};
use crate::mps::service::{Daemon, Limits, On};

mod control;
mod daemon;
mod error;
mod folder;
pub mod inspect;
pub mod others;
mod process;
mod reach;
mod readback;
mod record;
mod remove;
pub mod service;
mod start;
mod startup;
mod unit;

pub use error::{MpsError, UNREAD};
pub use reach::{Reach, SocketError, Unreachable, reach};
pub use startup::How;

use crate::nvml::Trouble;
use daemon::{Found, LockedDaemon};
use record::DaemonRecord;

/// Prologs hold the ledger's lock for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for a process that is busy with the daemon of other jobs.
const SHORT: Duration = Duration::from_millis(50);

/// How long a daemon with a server may take to quit: NVIDIA's takes a second for `quit -t 1`, and a moment more.
const QUITTING: Duration = Duration::from_secs(2);
/// How many times `MpsTimeout` to wait for the daemon's lock. An epilog holds it while it ends a daemon that doesn't
/// answer: the daemon, its processes and NVML may each take `MpsTimeout`.
const LOCK_TIMES: u32 = 3;
/// The least: a daemon with a server needs two seconds to quit, and its files some to be removed.
const LEAST_LOCK_WAIT: Duration = Duration::from_secs(10);
/// How long after a failed try to set a compute mode back the next one is made, on the whole node: NVML may hang.
const RETRY: Duration = Duration::from_secs(60);

/// How long a prolog may wait because of this node's `NvmlTimeout` and `MpsTimeout`: for NVML, for the daemon's lock,
/// for a daemon that doesn't answer to end (as long as its lock is held for that), and for a new one to start and take
/// its limits.
pub fn longest_wait(config: &NodeConfig) -> Duration {
    if !config.runs_daemons() {
        return config.nvml_timeout;
    }
    let nvml = config.nvml_timeout.max(config.mps_timeout);
    nvml + lock_wait(config) + (LOCK_TIMES + 2) * config.mps_timeout
}

fn lock_wait(config: &NodeConfig) -> Duration {
    LEAST_LOCK_WAIT.max(LOCK_TIMES * config.mps_timeout)
}

/// A daemon that was just started.
#[derive(Debug)]
pub struct Started {
    /// Which daemon.
    pub daemon: Daemon,
    /// Its process number.
    pub pid: u32,
    /// How it was started.
    pub how: How,
    /// Why the previous daemon had to be replaced.
    pub healed: Option<String>,
    /// Why its GPU could not be put into the right compute mode.
    pub mode: Option<Trouble>,
}

/// Makes sure that the daemon of a job runs, answers and has the limits. Returns the daemon that was started for that;
/// `None` if the job's daemon was already running, or if the job needs none or has ended. `is_new`: the job was placed
/// just now, so a daemon for its whole GPUs is left from an earlier start, which had others.
///
/// # Errors
/// The job can't have a daemon.
pub fn prepare(
    config: &NodeConfig,
    ledger: &Ledger,
    entry: &Entry,
    is_new: bool,
) -> Result<Option<Started>, MpsError> {
    let (Some(daemon), Some(limits)) = (Daemon::of(entry, config.mps), Limits::of(entry, config)) else {
        return Ok(None);
    };
    ledger.note_daemon_folder(&config.mps_dir, LOCK_WAIT)?;
    let locked = folder::lock(&config.mps_dir, daemon, lock_wait(config), config.mps_timeout)?;
    let mut locked_daemon = LockedDaemon { config, daemon, state: locked.state(), locked };
    if users(ledger, daemon, None)?.iter().all(|job| job.key != entry.key) {
        return Ok(None);
    }
    let mut healed = None;
    let found = locked_daemon.find();
    match found {
        _ if locked_daemon.state.ending => {
            locked_daemon.end()?;
            healed = Some("the process that was ending it was killed".to_owned());
        }
        Found::Alive(_) if is_new && matches!(daemon.on, On::Job(_)) => locked_daemon.end()?,
        Found::Alive(process) => match locked_daemon.check(process, users(ledger, daemon, None)?) {
            Ok(()) => {
                locked_daemon.admit(ledger)?;
                // The job's epilog doesn't wait for the lock.
                if users(ledger, daemon, None)?.is_empty() {
                    locked_daemon.finish(ledger)?;
                }
                return Ok(None);
            }
            Err(why) => {
                let others = keys(&users(ledger, daemon, Some(entry.key))?);
                match &why {
                    _ if others.is_empty() => locked_daemon.end()?,
                    // Programs that still have a context there lost it by the fault, but each may be a notebook that
                    // saves its results. In this mode the GPU has room for one server.
                    MpsError::Faulty(_) if config.compute_mode == ComputeMode::Exclusive => {
                        locked_daemon.end()?
                    }
                    MpsError::Faulty(_) => {}
                    // Its clients go on; nobody else can reach it.
                    MpsError::NoSocket(_) if config.compute_mode != ComputeMode::Exclusive => {}
                    // A program of its user has told it to quit.
                    _ if process::ends_by_itself(process, QUITTING) => {}
                    _ => return Err(MpsError::InUse(others, Box::new(why))),
                }
                healed = Some(why.to_string());
            }
        },
        Found::Dead if users(ledger, daemon, Some(entry.key))?.is_empty() => locked_daemon.end()?,
        // The dead daemon's servers may be working for other jobs: they end with the new daemon.
        Found::Dead => healed = Some("the earlier daemon is dead".to_owned()),
        Found::Nothing => {}
    }
    let jobs = users(ledger, daemon, None)?;
    let started =
        locked_daemon.start(&entry.gpus, limits_for(&jobs, config).unwrap_or(limits)).and_then(|started| {
            locked_daemon.admit(ledger)?;
            Ok(started)
        });
    if started.is_err() {
        // Programs are better off without MPS than with a broken daemon.
        let _ = locked_daemon.locked.remove_pipes();
    }
    let (process, how) = started?;
    // As above.
    if users(ledger, daemon, None)?.is_empty() {
        locked_daemon.finish(ledger)?;
        return Ok(None);
    }
    let mode = entry.share_gpu().and_then(|gpu| locked_daemon.make_exclusive(gpu).err());
    Ok(Some(Started { daemon, pid: process.pid, how, healed, mode }))
}

/// A daemon that was ended, or that should have been.
#[derive(Debug)]
pub struct Ended {
    /// Which daemon.
    pub daemon: Daemon,
    /// Whether it could be ended.
    pub result: Result<(), MpsError>,
}

/// Call it after a job is removed from the ledger. Clears what the job left in its daemon, if other jobs use that, and
/// ends every daemon that no job uses any more. Returns the daemons that it ended.
pub fn leave(config: &NodeConfig, ledger: &Ledger, entry: Option<&Entry>) -> Vec<Ended> {
    if let Some(entry) = entry {
        // Errors are not reported: the next prolog checks again.
        let _ = tidy(config, ledger, entry);
    }
    let mut ended = Vec::new();
    // Includes former directories, in case `MpsDir` was changed.
    for folder in ledger.daemon_folders() {
        let config = NodeConfig { mps_dir: folder, ..config.clone() };
        let since = |daemon: &Daemon| folder::left_with_mode(&daemon.folder(&config.mps_dir));
        let (left, others): (Vec<Daemon>, Vec<Daemon>) =
            daemons(&config).into_iter().partition(|daemon| since(daemon).is_some());
        ended.extend(others.into_iter().filter_map(|daemon| sweep(&config, ledger, daemon)));
        if left.iter().filter_map(since).all(|age| age >= RETRY) {
            for daemon in left {
                ended.extend(sweep(&config, ledger, daemon));
                if since(&daemon).is_some() {
                    break;
                }
            }
        }
    }
    ended
}

/// The clients of a killed job stay with the server until the daemon is told to end them.
fn tidy(config: &NodeConfig, ledger: &Ledger, entry: &Entry) -> Result<(), MpsError> {
    let Some(daemon) = Daemon::of(entry, config.mps) else { return Ok(()) };
    if users(ledger, daemon, None)?.is_empty() {
        return Ok(());
    }
    let Some(locked) = folder::lock_existing(&config.mps_dir, daemon, SHORT)? else { return Ok(()) };
    let mut locked_daemon = LockedDaemon { config, daemon, state: locked.state(), locked };
    if let Found::Alive(process) = locked_daemon.find()
        && process::is_stuck(process.pid).is_none()
    {
        locked_daemon.admit(ledger)?;
        let control = locked_daemon.control();
        control.tidy(&control.servers()?)?;
    }
    Ok(())
}

fn sweep(config: &NodeConfig, ledger: &Ledger, daemon: Daemon) -> Option<Ended> {
    // If the ledger can't be read, jobs may use the daemon; so may jobs with entries of another version.
    let is_used = || {
        ledger.list().map_or(true, |listing| {
            listing.entries.iter().any(|entry| daemon.serves(entry))
                || listing.garbage.iter().any(Garbage::is_entry)
        })
    };
    if is_used() {
        return None;
    }
    let result = match folder::lock_existing(&config.mps_dir, daemon, SHORT) {
        // The process that holds the lock reads the ledger later, or is starting the daemon for a job.
        Ok(None) | Err(MpsError::Busy(..)) => return None,
        Err(error) => Err(error),
        Ok(Some(_)) if is_used() => return None,
        Ok(Some(locked)) => {
            match (LockedDaemon { config, daemon, state: locked.state(), locked }).finish(ledger) {
                // There were only the leftovers of a daemon that never ran.
                Ok(false) => return None,
                result => result.map(|_| ()),
            }
        }
    };
    Some(Ended { daemon, result })
}

/// The jobs that a daemon serves, except one.
fn users(ledger: &Ledger, daemon: Daemon, but: Option<JobKey>) -> Result<Vec<Entry>, MpsError> {
    let mut entries = ledger.list()?.entries;
    entries.retain(|entry| daemon.serves(entry) && Some(entry.key) != but);
    Ok(entries)
}

fn keys(entries: &[Entry]) -> Vec<JobKey> {
    entries.iter().map(|entry| entry.key).collect()
}

/// The limits of a daemon that serves these jobs.
fn limits_for(entries: &[Entry], config: &NodeConfig) -> Option<Limits> {
    entries.iter().filter_map(|entry| Limits::of(entry, config)).reduce(Limits::with)
}

/// The sessions of all daemons that were started and may still have servers. `None` if gpushare starts none, and for
/// users other than root, who can't see all.
pub fn sessions(config: &NodeConfig) -> Option<Vec<u32>> {
    if !config.runs_daemons() || crate::user_id() != Some(0) {
        return None;
    }
    let records = daemons(config).into_iter().map(|daemon| DaemonRecord::of(&daemon.folder(&config.mps_dir)));
    Some(records.flat_map(|record| record.processes).map(|process| process.pid).collect())
}

/// Every daemon that has a directory.
fn daemons(config: &NodeConfig) -> Vec<Daemon> {
    let names = fs::read_dir(&config.mps_dir).into_iter().flatten().flatten();
    names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect()
}
