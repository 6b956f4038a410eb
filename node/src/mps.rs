//! The life of NVIDIA's MPS daemons: there before a share's job starts, gone with the last job that used it.
//!
//! A prolog writes its job into the ledger, then calls [`prepare`]; an epilog takes its job out, then calls [`leave`].
//! Each looks at the ledger again while it holds the daemon's lock, so whoever comes second sees what the first has left:
//! no daemon is ended under a job, and none stays behind. The ledger's own lock is not held meanwhile: a daemon that
//! hangs keeps only its own jobs waiting.
//!
//! A daemon that does not answer is worse than none, for every CUDA program of its user then fails or hangs. It is ended
//! and started anew if no other job uses it; otherwise the job that comes fails, and the others are left alone.

use std::fs;
use std::time::Duration;

use gpushare::config::{ComputeMode, NodeConfig};
use gpushare::device::Gpu;
use gpushare::job::JobKey;
use gpushare::ledger::{Entry, Garbage, Ledger};
use gpushare::load::Mode;
use gpushare::mps::{Daemon, Limits, Serves};

mod control;
mod error;
mod folder;
mod look;
mod process;
mod remove;
mod start;
mod state;
mod unit;

pub use error::MpsError;
pub use look::{Seen, seen, try_out};
pub use start::How;

use crate::nvml::{self, Trouble};
use control::Control;
use folder::Locked;
use state::{Process, State};

/// A daemon that has answered so lately is not asked again.
const FRESH: u64 = 10;
/// How long somebody is waited for who is at work on the daemon of other jobs.
const SHORT: Duration = Duration::from_millis(50);

/// What was done for a job.
#[derive(Debug)]
#[must_use]
pub enum Prepared {
    /// It needs no daemon.
    None,
    /// Its daemon was there.
    There,
    /// One was started.
    Started(Started),
}

/// A daemon that was started.
#[derive(Debug)]
pub struct Started {
    /// Which.
    pub daemon: Daemon,
    /// Its process.
    pub pid: u32,
    /// How it was started.
    pub how: How,
    /// Why the one before it had to go.
    pub healed: Option<String>,
    /// Why its GPU is not in the compute mode that it should be in.
    pub mode: Option<Trouble>,
}

/// Sees to it that the daemon of a job's share is there, answers and has the limits. `now` is in seconds since 1970.
pub fn prepare(config: &NodeConfig, ledger: &Ledger, entry: &Entry, now: u64) -> Result<Prepared, MpsError> {
    let (Some(daemon), Some(limits), Some(gpu)) =
        (Daemon::of(entry, config.mps), Limits::of(entry), entry.share_gpu())
    else {
        return Ok(Prepared::None);
    };
    let locked = folder::lock(&config.mps_dir, daemon, config.mps_timeout)?;
    let mut here = Here { config, daemon, state: locked.state(), locked };
    let mut healed = None;
    match here.find() {
        Found::Alive(process) if here.is_fresh(process, limits, now) => {
            here.admit(ledger)?;
            return Ok(Prepared::There);
        }
        Found::Alive(process) => match here.check(process, users(ledger, daemon, None)?, now) {
            Ok(()) => {
                here.admit(ledger)?;
                return Ok(Prepared::There);
            }
            Err(why) => {
                let others = keys(&users(ledger, daemon, Some(entry.key))?);
                if !others.is_empty() {
                    return Err(MpsError::InUse(others, Box::new(why)));
                }
                here.end()?;
                healed = Some(why.to_string());
            }
        },
        Found::Dead if users(ledger, daemon, Some(entry.key))?.is_empty() => here.end()?,
        // Its servers may be working for other jobs: they go when the new daemon does.
        Found::Dead => healed = Some("the daemon before it is dead".to_owned()),
        Found::Nothing => {}
    }
    let jobs = users(ledger, daemon, None)?;
    let started = here.start(gpu, limits_for(&jobs).unwrap_or(limits), now).and_then(|started| {
        here.admit(ledger)?;
        Ok(started)
    });
    if started.is_err() {
        // Programs are better off without MPS than with a daemon that is not one.
        let _ = here.locked.remove_pipes();
    }
    let (process, how) = started?;
    let mode = here.make_exclusive(gpu).err();
    Ok(Prepared::Started(Started { daemon, pid: process.pid, how, healed, mode }))
}

/// A daemon that was ended.
#[derive(Debug)]
pub struct Ended {
    /// Which.
    pub daemon: Daemon,
    /// Whether it could be.
    pub result: Result<(), MpsError>,
}

/// After a job is out of the ledger: takes what it left away from its daemon, if others use that; ends the daemons that no
/// job uses any more, whichever. Tells of those that it ended.
pub fn leave(config: &NodeConfig, ledger: &Ledger, entry: Option<&Entry>) -> Vec<Ended> {
    if let Some(entry) = entry {
        // Nothing of this is worth a report: the next prolog looks again.
        let _ = tidy(config, ledger, entry);
    }
    daemons(config).into_iter().filter_map(|daemon| sweep(config, ledger, daemon)).collect()
}

/// The clients of a killed job stay with the server until it is told.
fn tidy(config: &NodeConfig, ledger: &Ledger, entry: &Entry) -> Result<(), MpsError> {
    let Some(daemon) = Daemon::of(entry, config.mps) else { return Ok(()) };
    if users(ledger, daemon, None)?.is_empty() {
        return Ok(());
    }
    let Some(locked) = folder::lock_existing(&config.mps_dir, daemon, SHORT)? else { return Ok(()) };
    let mut here = Here { config, daemon, state: locked.state(), locked };
    if let Found::Alive(process) = here.find()
        && process::is_stuck(process.pid).is_none()
    {
        here.admit(ledger)?;
        let control = here.control();
        control.forget_dead_clients(&control.servers()?)?;
    }
    Ok(())
}

fn sweep(config: &NodeConfig, ledger: &Ledger, daemon: Daemon) -> Option<Ended> {
    // Where the ledger can't be read, jobs may be there; so may those of another version's entries.
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
        // Whoever is at work there looks at the ledger after this, or starts it for a job.
        Ok(None) | Err(MpsError::Busy(..)) => return None,
        Err(error) => Err(error),
        Ok(Some(_)) if is_used() => return None,
        Ok(Some(locked)) => match (Here { config, daemon, state: locked.state(), locked }).finish(ledger) {
            // What was left of one that never was.
            Ok(false) => return None,
            result => result.map(|_| ()),
        },
    };
    Some(Ended { daemon, result })
}

/// The jobs that a daemon serves, but for one.
fn users(ledger: &Ledger, daemon: Daemon, but: Option<JobKey>) -> Result<Vec<Entry>, MpsError> {
    let mut entries = ledger.list()?.entries;
    entries.retain(|entry| daemon.serves(entry) && Some(entry.key) != but);
    Ok(entries)
}

fn keys(entries: &[Entry]) -> Vec<JobKey> {
    entries.iter().map(|entry| entry.key).collect()
}

/// What a daemon of these jobs must allow.
fn limits_for(entries: &[Entry]) -> Option<Limits> {
    entries.iter().filter_map(Limits::of).reduce(Limits::with)
}

/// A daemon's folder, locked, and what is known of it.
struct Here<'a> {
    config: &'a NodeConfig,
    daemon: Daemon,
    state: State,
    locked: Locked,
}

/// What there is of a daemon.
enum Found {
    /// Nothing, or nothing that is known.
    Nothing,
    /// Its process is gone; servers of it may not be.
    Dead,
    /// It is there and has its lock.
    Alive(Process),
}

impl Here<'_> {
    fn user_id(&self) -> u32 {
        start::ids_of(self.daemon.serves).0
    }

    fn control(&self) -> Control {
        Control::of(&self.locked, self.config, start::ids_of(self.daemon.serves))
    }

    /// Whoever started the daemon may have been killed before it wrote that down: then the lock's holder is the daemon.
    fn find(&mut self) -> Found {
        let holder = process::holder(&self.locked.pipe(), self.user_id());
        match (holder, self.state.processes.last()) {
            (Some(holder), Some(known)) if holder == *known => Found::Alive(holder),
            (Some(holder), _) => {
                self.add(holder);
                self.state.limits = None;
                self.state.checked = 0;
                Found::Alive(holder)
            }
            (None, None) => Found::Nothing,
            (None, Some(_)) => Found::Dead,
        }
    }

    fn add(&mut self, process: Process) {
        for old in self.state.add(process) {
            // What can't be ended is in the kernel's hands.
            let _ = process::end(&old, self.config.mps_timeout);
        }
    }

    /// It has answered lately, and allows what the job needs.
    fn is_fresh(&self, process: Process, limits: Limits, now: u64) -> bool {
        let fresh = now.checked_sub(self.state.checked).is_some_and(|age| age < FRESH);
        let enough = self.state.limits.is_some_and(|known| known.with(limits) == known);
        fresh && enough && process::is_stuck(process.pid).is_none()
    }

    /// Whether it answers; and that it has the limits of its jobs, no more and no less.
    fn check(&mut self, process: Process, jobs: Vec<Entry>, now: u64) -> Result<(), MpsError> {
        if let Some(state) = process::is_stuck(process.pid) {
            return Err(MpsError::NotRunning(process.pid, state));
        }
        let control = self.control();
        let servers = control.servers()?;
        for server in &servers {
            if control.is_faulty(*server)? {
                return Err(MpsError::Faulty(*server));
            }
        }
        control.forget_dead_clients(&servers)?;
        if let Some(wanted) = limits_for(&jobs)
            && self.state.limits != Some(wanted)
        {
            control.limit(wanted, &servers)?;
            self.state.limits = Some(wanted);
        }
        self.state.checked = now;
        self.locked.keep(&self.state)
    }

    /// A daemon of all users lets in those that have a job.
    fn admit(&self, ledger: &Ledger) -> Result<(), MpsError> {
        if self.daemon.serves != Serves::All {
            return Ok(());
        }
        let users: Vec<u32> = users(ledger, self.daemon, None)?.iter().map(|entry| entry.user_id).collect();
        self.locked.admit(&users)
    }

    fn start(&mut self, gpu: &Gpu, limits: Limits, now: u64) -> Result<(Process, How), MpsError> {
        start::check_user(self.daemon.serves, self.config)?;
        let ids = start::ids_of(self.daemon.serves);
        self.end_starting()?;
        self.state = State { limits: None, checked: 0, starting: true, ..std::mem::take(&mut self.state) };
        self.locked.make_pipes(ids.0, ids.1)?;
        self.locked.keep(&self.state)?;
        let control = self.control();
        let started = start::start(self.daemon, gpu, &self.locked, &control, self.config);
        // Also where it took too long: it may have come up all the same, and is to be found again.
        if let Some(process) = process::holder(&self.locked.pipe(), ids.0) {
            self.add(process);
            self.locked.keep(&self.state)?;
        }
        let started = started.and_then(|started| self.control().limit(limits, &[]).map(|()| started));
        match started {
            Ok(started) => {
                self.state.limits = Some(limits);
                self.state.checked = now;
                self.state.starting = false;
                self.locked.keep(&self.state)?;
                Ok(started)
            }
            Err(error) => {
                self.end_latest()?;
                self.end_starting()?;
                Err(error)
            }
        }
    }

    /// Ends every daemon of the folder, and what is left of their servers.
    fn end(&mut self) -> Result<(), MpsError> {
        self.quit();
        self.end_starting()?;
        for process in &self.state.processes {
            process::end(process, self.config.mps_timeout)?;
        }
        self.state.processes.clear();
        self.locked.keep(&self.state)
    }

    /// Ends a daemon that somebody before us was about to start and that has no lock yet.
    fn end_starting(&mut self) -> Result<(), MpsError> {
        if self.state.starting {
            process::end_starting(&self.locked.pipe(), self.user_id(), self.config.mps_timeout)?;
            self.state.starting = false;
        }
        Ok(())
    }

    fn end_latest(&mut self) -> Result<(), MpsError> {
        match self.state.processes.last() {
            Some(process) => process::end(process, self.config.mps_timeout),
            None => Ok(()),
        }
    }

    /// Asks the daemon to go. One that can't answer isn't asked.
    fn quit(&self) {
        let Some(daemon) = process::holder(&self.locked.pipe(), self.user_id()) else { return };
        if process::is_stuck(daemon.pid).is_some() {
            return;
        }
        let control = self.control();
        // Whatever it says: what is left afterwards is ended.
        let _ = control.servers().and_then(|servers| control.quit(&servers));
    }

    /// `ComputeMode=exclusive`: nobody computes on the GPU but by way of the daemon's server, which is started with the
    /// first program.
    fn make_exclusive(&mut self, gpu: &Gpu) -> Result<(), Trouble> {
        let (Some(uuid), ComputeMode::Exclusive) = (&gpu.uuid, self.config.compute_mode) else {
            return Ok(());
        };
        // Written down first: whoever ends the daemon undoes it, also if this process ends here.
        self.state.exclusive = Some(uuid.clone());
        let _ = self.locked.keep(&self.state);
        nvml::set_compute_mode(self.config, uuid, Mode::ExclusiveProcess)
    }

    /// Ends it for good; whether there was one.
    fn finish(mut self, ledger: &Ledger) -> Result<bool, MpsError> {
        let there = !matches!(self.find(), Found::Nothing);
        self.end()?;
        let mode = self.state.exclusive.as_ref().map(|uuid| self.make_shared(ledger, uuid));
        self.locked.remove()?;
        mode.transpose().map_err(MpsError::Mode)?;
        Ok(there)
    }

    /// Undoes [`Here::make_exclusive`], but not under another daemon, which may come while NVML is asked: whoever set the
    /// mode last looks again.
    fn make_shared(&self, ledger: &Ledger, uuid: &str) -> Result<(), Trouble> {
        let mut mode = self.mode_for_others(ledger, uuid);
        // Daemons that come and go this fast are others' to look after.
        for _ in 0..3 {
            nvml::set_compute_mode(self.config, uuid, mode)?;
            let now = self.mode_for_others(ledger, uuid);
            if now == mode {
                break;
            }
            mode = now;
        }
        Ok(())
    }

    fn mode_for_others(&self, ledger: &Ledger, uuid: &str) -> Mode {
        let wants = |other: &Daemon| {
            *other != self.daemon
                && folder::state(&other.folder(&self.config.mps_dir)).exclusive.as_deref() == Some(uuid)
                && users(ledger, *other, None).is_ok_and(|jobs| !jobs.is_empty())
        };
        if daemons(self.config).iter().any(wants) { Mode::ExclusiveProcess } else { Mode::Default }
    }
}

/// Every daemon that has a folder.
fn daemons(config: &NodeConfig) -> Vec<Daemon> {
    let names = fs::read_dir(&config.mps_dir).into_iter().flatten().flatten();
    names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect()
}
