//! Finds, checks, starts and ends one daemon, in its locked directory.

use crate::config::{ComputeMode, NodeConfig};
use crate::gpu::Gpu;
use crate::ledger::{Entry, Ledger};
use crate::mps::service::{Daemon, Limits, On, Serves};
use crate::nvml::answer::Mode;

use super::control::Control;
use super::error::MpsError;
use super::folder::Locked;
use super::record::{DaemonRecord, Process};
use super::start;
use super::startup::How;
use super::{daemons, limits_for, process, reach, users};
use crate::nvml::{self, Trouble};

/// A daemon's locked directory, and what is known about the daemon.
pub struct LockedDaemon<'a> {
    pub config: &'a NodeConfig,
    pub daemon: Daemon,
    pub state: DaemonRecord,
    pub locked: Locked,
}

/// The state of a directory's daemon.
pub enum Found {
    /// No daemon is known.
    Nothing,
    /// The daemon's process is gone; its servers may still run.
    Dead,
    /// The daemon runs and holds its lock.
    Alive(Process),
}

impl LockedDaemon<'_> {
    fn user_id(&self) -> u32 {
        start::ids_of(self.daemon.serves).0
    }

    pub fn control(&self) -> Control {
        Control::of(&self.locked, self.config, start::ids_of(self.daemon.serves))
    }

    /// Finds the daemon. The process that started it may have been killed before it recorded that; then the holder of
    /// the daemon's lock is the daemon.
    pub fn find(&mut self) -> Found {
        let holder = process::holder(&self.locked.pipe(), self.user_id());
        match (holder, self.state.processes.last()) {
            (Some(holder), Some(known)) if holder == *known => Found::Alive(holder),
            (Some(holder), _) => {
                self.add(holder);
                self.state.limits = None;
                Found::Alive(holder)
            }
            (None, None) => Found::Nothing,
            (None, Some(_)) => Found::Dead,
        }
    }

    fn add(&mut self, process: Process) {
        self.state.shm = reach::shm_of(process, start::ids_of(self.daemon.serves));
        for old in self.state.add(process) {
            // A process that can't be killed hangs in the kernel.
            let _ = process::end(&old, self.config.mps_timeout);
        }
    }

    /// Checks that the daemon answers, and gives it exactly the limits of its jobs.
    ///
    /// # Errors
    /// It is stopped or dead, has no socket, does not answer, has a server with a fatal error, or refuses the limits;
    /// or its state can't be written.
    pub fn check(&mut self, process: Process, jobs: Vec<Entry>) -> Result<(), MpsError> {
        if let Some(state) = process::is_stuck(process.pid) {
            return Err(MpsError::NotRunning(process.pid, state));
        }
        // What the job's programs look for; this process asks through another. One that is starting has none yet.
        if !self.state.starting && reach::reach(&self.daemon.folder(&self.config.mps_dir), false).has_ended()
        {
            return Err(MpsError::NoSocket(process.pid));
        }
        let control = self.control();
        let servers = control.servers()?;
        if let Some(server) = control.tidy(&servers)? {
            return Err(MpsError::Faulty(server));
        }
        if let Some(wanted) = limits_for(&jobs, self.config)
            && self.state.limits != Some(wanted)
        {
            // A limit in an unknown form was already reported when the daemon started.
            let _ = control.limit(wanted, &servers)?;
            self.state.limits = Some(wanted);
        }
        self.state.shm = reach::shm_of(process, start::ids_of(self.daemon.serves));
        self.locked.keep(&self.state)
    }

    /// Lets the users that have a job into the directory of a daemon for all users.
    ///
    /// # Errors
    /// The ledger can't be read, or the pipe directory can't have an access control list.
    pub fn admit(&self, ledger: &Ledger) -> Result<(), MpsError> {
        if self.daemon.serves != Serves::All {
            return Ok(());
        }
        let users: Vec<u32> = users(ledger, self.daemon, None)?.iter().map(|entry| entry.user_id).collect();
        self.locked.admit(&users)
    }

    /// Starts a daemon with these limits. Ends it if it doesn't start or refuses them; an earlier one stays as it is.
    ///
    /// # Errors
    /// The node doesn't know the user, a directory or the state can't be written, or no daemon starts and accepts the
    /// limits; or processes of an earlier daemon or of this one can't be ended.
    pub fn start(&mut self, gpus: &[Gpu], limits: Limits) -> Result<(Process, How), MpsError> {
        let before = self.state.processes.last().copied();
        let ids = start::ids_of(self.daemon.serves);
        self.end_starting()?;
        self.state = DaemonRecord { limits: None, starting: true, ..std::mem::take(&mut self.state) };
        self.locked.make_pipes(ids.0, ids.1)?;
        self.locked.keep(&self.state)?;
        let control = self.control();
        let started = start::start(self.daemon, gpus, &self.locked, &control, self.config);
        // This also applies after a timeout: the daemon may have started anyway, and must be found again.
        if let Some(process) = process::holder(&self.locked.pipe(), ids.0) {
            self.add(process);
            self.locked.keep(&self.state)?;
        }
        let started = started.and_then(|(process, how)| {
            // A new daemon has no limits; how drivers show that is not known of all.
            let unread = match self.daemon.on {
                On::Job(_) => self.control().servers().map(|_| None)?,
                On::Gpu(_) => self.control().limit(limits, &[])?,
            };
            Ok((process, How { unread, ..how }))
        });
        match started {
            Ok(started) => {
                self.state.limits = Some(limits);
                self.state.starting = false;
                self.locked.keep(&self.state)?;
                Ok(started)
            }
            Err(error) => {
                // The servers of an earlier daemon may work for other jobs.
                if self.state.processes.last() != before.as_ref() {
                    self.end_latest()?;
                }
                self.end_starting()?;
                Err(error)
            }
        }
    }

    /// Ends every daemon of the directory, and any servers that are left of them.
    ///
    /// # Errors
    /// A process can't be ended, or the state can't be written.
    pub fn end(&mut self) -> Result<(), MpsError> {
        self.end_processes()?;
        self.locked.keep(&self.state)
    }

    fn end_processes(&mut self) -> Result<(), MpsError> {
        self.end_starting()?;
        // Recorded first: if this process is killed, the program that it started still tells the daemon to quit.
        self.state.ending = true;
        if self.locked.keep(&self.state).is_ok() {
            self.quit();
        }
        for process in &self.state.processes {
            process::end(process, self.config.mps_timeout)?;
        }
        self.state.ending = false;
        self.state.processes.clear();
        Ok(())
    }

    /// Ends a daemon that an earlier process was starting and that doesn't hold its lock yet, and a program that an
    /// earlier process sent to end the daemon.
    fn end_starting(&mut self) -> Result<(), MpsError> {
        if self.state.starting || self.state.ending {
            let ids = start::ids_of(self.daemon.serves);
            let known = &self.state.processes;
            process::end_starting(&self.locked.pipe(), ids, known, self.config.mps_timeout)?;
            self.state.starting = false;
            self.state.ending = false;
        }
        Ok(())
    }

    fn end_latest(&mut self) -> Result<(), MpsError> {
        match self.state.processes.last() {
            Some(process) => process::end(process, self.config.mps_timeout),
            None => Ok(()),
        }
    }

    /// Asks the daemon to quit. Skips a daemon that can't answer.
    fn quit(&self) {
        let Some(daemon) = process::holder(&self.locked.pipe(), self.user_id()) else { return };
        if process::is_stuck(daemon.pid).is_some() {
            return;
        }
        let control = self.control();
        // The answer doesn't matter: anything left afterwards is killed.
        let _ = control.servers().and_then(|servers| control.quit(&servers));
    }

    /// `ComputeMode=exclusive`: programs can compute on the GPU only through the daemon's server, which starts with the
    /// first program.
    ///
    /// # Errors
    /// NVML can't be asked, or refuses.
    pub fn make_exclusive(&mut self, gpu: &Gpu) -> Result<(), Trouble> {
        let (Some(uuid), ComputeMode::Exclusive) = (&gpu.uuid, self.config.compute_mode) else {
            return Ok(());
        };
        // Recorded first: the process that ends the daemon then restores the mode, even if this process ends here.
        let before = self.state.exclusive.replace(uuid.clone());
        let _ = self.locked.keep(&self.state);
        let set = nvml::set_compute_mode(self.config, uuid, Mode::ExclusiveProcess);
        if let Err(Trouble::Said(_) | Trouble::Off) = set {
            // It was refused, so there is nothing more to restore than before.
            self.state.exclusive = before;
            let _ = self.locked.keep(&self.state);
        }
        set
    }

    /// Ends the daemon and removes its directory. Returns whether there was a daemon. If NVML does not set the GPU's
    /// compute mode back, a directory with the record of it stays, and the next call, which then finds no daemon, tries
    /// again.
    ///
    /// # Errors
    /// A process can't be ended, the directory can't be removed, or NVML does not set the mode back after a daemon.
    pub fn finish(mut self, ledger: &Ledger) -> Result<bool, MpsError> {
        let there = !matches!(self.find(), Found::Nothing);
        // Nothing is recorded any more: a user may have filled the file system, and only the removal makes room.
        if there || self.state.starting || self.state.ending {
            self.end_processes()?;
        }
        let mode = self.state.exclusive.as_ref().map_or(Ok(()), |uuid| self.make_shared(ledger, uuid));
        let Err(why) = mode else {
            self.locked.remove()?;
            return Ok(there);
        };
        let kept = self.locked.clear().and_then(|()| self.locked.keep(&self.state));
        if there { kept.and(Err(MpsError::Mode(why))) } else { Ok(false) }
    }

    /// Undoes [`LockedDaemon::make_exclusive`], unless another daemon needs the mode. Another daemon may start while
    /// NVML is asked, so whoever set the mode last checks again.
    fn make_shared(&self, ledger: &Ledger, uuid: &str) -> Result<(), Trouble> {
        let mut mode = self.mode_for_others(ledger, uuid);
        // If daemons start and end this fast, their own processes set the mode.
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
                && DaemonRecord::of(&other.folder(&self.config.mps_dir)).exclusive.as_deref() == Some(uuid)
                && users(ledger, *other, None).is_ok_and(|jobs| !jobs.is_empty())
        };
        if daemons(self.config).iter().any(wants) { Mode::ExclusiveProcess } else { Mode::Default }
    }
}
