//! The work of gpushare-prolog and gpushare-epilog, which always exit with 0. `report` reports what they did, to its
//! caller's log.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpushare::config::LoadError;
use gpushare_node::config::{self, ForeignProcesses, NodeConfig, OnMpsFailure, Placement};
use gpushare_node::gpu::Roots;
use gpushare_node::job::{JobKey, NodeJob, Noted, id_and_restart};
use gpushare_node::ledger::{Entry, Ledger, LedgerError, Locked};
use gpushare_node::memory;
use gpushare_node::mps::service::Daemon;
use gpushare_node::mps::{self, MpsError};
use gpushare_node::nvml::Nvml;
use gpushare_node::nvml::answer::Measured;
use gpushare_node::place::{self, Node, Placed};
use gpushare_node::squeue;
use gpushare_node::supervise::{LONGEST, supervised};

mod error;
mod foreign;
mod report;

use error::WorkError;

/// slurmd's name for this node.
const NODE: &str = "SLURMD_NODENAME";
/// Other prologs hold the ledger's lock for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// The same after a worker that wasn't done: slurmd doesn't wait much longer.
const LAST_LOCK_WAIT: Duration = Duration::from_secs(2);

/// Gives a job its GPU. Needs the environment of slurmd's prolog.
pub fn prolog(program: &'static str) {
    // Of slurmd: the work's own parent is this process.
    let caller = std::os::unix::process::parent_id();
    run(false, || place(caller), |why| give_up(&format!("{program}: {why}")));
}

/// Starts the MPS daemon of a job again, which has ended although the job runs. Needs `SLURM_JOB_ID`.
pub fn heal() {
    run(false, restart_daemon, |_| Ok(()));
}

/// What a step of a job that the ledger doesn't know is told: that the job has no share, or why it can't run here.
/// Needs `SLURM_JOB_ID` and `SLURM_JOB_UID`.
pub fn missed() -> String {
    gpushare_node::keep_files_private();
    has_none().map_or_else(|why| why.to_string(), |()| "no share".to_owned())
}

/// Checks that a job has no share, and marks it otherwise.
fn has_none() -> Result<(), WorkError> {
    let job = NodeJob::read(variable)?;
    let (slurm_conf, caller) = (slurm_conf(), std::os::unix::process::parent_id());
    let proc = Roots::system().proc;
    let config = config(&slurm_conf);
    let asked = match squeue::asked(job.key.id, &slurm_conf, (&proc, caller)) {
        // A mistake in gpushare.conf must not end every job of a cluster.
        Err(_) if config.is_err() => return Ok(()),
        asked => asked.map_err(WorkError::Unknown)?,
    };
    let share = match &config {
        Ok(config) => config.share_gres.clone(),
        Err(_) => {
            let text = std::fs::read(config::find(&slurm_conf, Path::new(config::FALLBACK)));
            // Without the file, any GRES may be the share.
            text.map_or_else(|_| "gres".to_owned(), |text| share_gres(&String::from_utf8_lossy(&text)))
        }
    };
    if !asked.contains(&share) {
        return Ok(());
    }
    config?;
    let mark = |locked: Locked| locked.fail(job.key, job.user_id, &WorkError::Missed.to_string());
    // If it can't be marked, that is also why the prolog could not record it.
    Err(marked(Ledger::system().lock(LAST_LOCK_WAIT).and_then(mark), WorkError::Missed))
}

/// The share's GRES by a gpushare.conf in which something else is wrong.
fn share_gres(text: &str) -> String {
    let mut keys = text.lines().filter_map(|line| line.split('#').next()?.split_once('='));
    let said = keys.rfind(|(key, _)| key.trim().eq_ignore_ascii_case("ShareGRES"));
    said.map_or(NodeConfig::default().share_gres, |(_, name)| name.trim().to_owned())
}

/// Takes a job's GPU back. Needs the environment of slurmd's epilog.
pub fn epilog() {
    // A child would take as long as the work, which is then in files of root's in /run alone.
    run(Ledger::system().is_alone(), release, |_| Ok(()));
}

/// Runs a program's work, in a child process if it isn't `alone`: it may hang, panic or die, and `unfinished` gets the
/// reason. Any exit status other than 0, such as that of a panic, would make slurmd drain the node.
fn run(
    alone: bool,
    work: impl FnOnce() -> Result<(), WorkError> + std::panic::UnwindSafe,
    unfinished: impl Fn(&dyn Display) -> Result<(), WorkError>,
) {
    gpushare_node::keep_files_private();
    let work = || match std::panic::catch_unwind(work) {
        Ok(result) => report::failure(result),
        Err(_) => {
            log::error!("internal error, see the line before");
            report::failure(unfinished(&"internal error"));
        }
    };
    if alone {
        return work();
    }
    if let Err(why) = supervised(LONGEST, work) {
        report::failure(Err(&why));
        report::failure(unfinished(&why));
    }
}

/// Marks the job as failed if it has an entry: its MPS daemon may not be ready. Without an entry its steps fail.
fn give_up(why: &str) -> Result<(), WorkError> {
    let (id, restart) = id_and_restart(variable)?;
    let key = JobKey { id, restart: restart.unwrap_or(0) };
    Ledger::system().fail_recorded(key, why, LAST_LOCK_WAIT)?;
    Ok(())
}

/// The path of slurmd's slurm.conf, which slurmd passes to every prolog and epilog.
fn slurm_conf() -> std::path::PathBuf {
    std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into()).into()
}

/// A variable of this process, as text. Bytes that aren't text can't be a number either, and are reported as such.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn place(caller: u32) -> Result<(), WorkError> {
    let job = &NodeJob::read(variable)?;
    let slurm_conf = slurm_conf();
    let name = variable(NODE);
    let config = config(&slurm_conf)?;
    let ledger = Ledger::system();
    let roots = Roots::system();
    // NVML answers while gres.conf and the devices are read.
    let for_share = config.placement != Placement::Off && (job.percent.is_some() || job.noted.is_some());
    let looks = config.foreign_processes != ForeignProcesses::Ignore
        && config.placement != Placement::Off
        && !job.has_nothing();
    let for_mps = job.gpu_mps && config.mps_whole_gpus;
    let nvml = (for_share || looks || for_mps).then(|| Nvml::start(&config, &ledger, &roots, looks));
    let node = Node {
        config: &config,
        ledger: &ledger,
        roots: &roots,
        slurm_conf: &slurm_conf,
        name: name.as_deref(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut asked = Asked { node, nvml, caller, answer: None };
    let placed = place::place(node, job, &mut asked, now)?;
    report::placed(&placed);
    if let Placed::Now(entry, _) = &placed
        && entry.witness.is_some()
        && let Err(error) = memory::limit_from_inside(&config, entry)
    {
        log::error!("job {}: its GPU memory is not limited: {error}", entry.key.id);
    }
    if let (Placed::Now(entry, _), Some(seen), true) = (&placed, asked.answer, looks) {
        foreign::look(node, entry, &seen)?;
    }
    match &placed {
        Placed::Before(entry) => prepare_mps(node, entry, false),
        Placed::Now(entry, _) => prepare_mps(node, entry, true),
        Placed::NotOurs => {
            let noted = job.noted.as_ref().filter(|noted| for_share && noted.gres == config.share_gres);
            if let Some(Noted { gres, units }) = noted {
                // An update removed it, or slurmctld can't tell it yet, seconds after its own start.
                let id = job.key.id;
                log::info!("job {id}: it asked for {gres}:{units}, but Slurm gave it none on this node");
            }
            Ok(())
        }
    }
}

/// What the prolog asks others.
struct Asked<'a> {
    node: Node<'a>,
    nvml: Option<Nvml>,
    /// The process that started the prolog.
    caller: u32,
    /// NVML's answer.
    answer: Option<Measured>,
}

impl place::Ask for Asked<'_> {
    fn wait(&mut self) {
        let Some(nvml) = self.nvml.take() else { return };
        let (measured, trouble) = nvml.measured_for_job(self.node.ledger);
        if let Some(reason) = trouble {
            log::error!("no load from NVML, shares are placed by the ledger alone: {reason}");
        }
        self.answer = measured;
    }

    fn measured(&mut self) -> Option<Measured> {
        self.wait();
        self.answer.clone()
    }

    fn over(&mut self, jobs: &[JobKey]) -> Vec<JobKey> {
        let (over, unknown) =
            squeue::over(jobs, self.node.name, self.node.slurm_conf, (&self.node.roots.proc, self.caller));
        if let Some(reason) = unknown {
            log::error!("can't tell whether jobs whose epilog never ran have ended: {reason}");
        }
        over
    }
}

fn config(slurm_conf: &Path) -> Result<NodeConfig, LoadError> {
    let path = config::find(slurm_conf, Path::new(config::FALLBACK));
    Ledger::system().rules(&path, variable(NODE).as_deref())
}

fn restart_daemon() -> Result<(), WorkError> {
    let (id, _) = id_and_restart(variable)?;
    let ledger = Ledger::system();
    let config = config(&slurm_conf())?;
    let Some(entry) = ledger.find(id)? else { return Ok(()) };
    // The job's steps look for the daemon in the entry: not for one of another `Mps` or `MpsDir`.
    let folder = Daemon::of(&entry, config.mps).map(|daemon| daemon.folder(&config.mps_dir));
    if folder == entry.given.daemon {
        let started = mps::prepare(&config, &ledger, &entry, false).map_err(WorkError::NoDaemon)?;
        report::started(id, started.as_ref());
    }
    Ok(())
}

/// Prepares the job's MPS daemon. Without one, the job fails or runs without MPS.
fn prepare_mps(node: Node, entry: &Entry, is_new: bool) -> Result<(), WorkError> {
    let error = match mps::prepare(node.config, node.ledger, entry, is_new) {
        Ok(started) => {
            report::started(entry.key.id, started.as_ref());
            return Ok(());
        }
        Err(error) => error,
    };
    // Its programs would use the broken daemon, which other jobs still use.
    let must_fail = matches!(error, MpsError::InUse(..));
    let fails = must_fail || node.config.on_mps_failure == OnMpsFailure::Fail;
    let why = WorkError::NoDaemon(error);
    Err(if fails { fail(node, entry, why) } else { why })
}

/// Marks a job that was placed as one that can't run here, unless its epilog has run meanwhile. Gives the reason back,
/// with that of a mark that can't be written.
fn fail(node: Node, entry: &Entry, why: WorkError) -> WorkError {
    marked(node.ledger.fail_recorded(entry.key, &why.to_string(), LOCK_WAIT), why)
}

fn marked<T>(result: Result<T, LedgerError>, why: WorkError) -> WorkError {
    match result {
        Ok(_) => why,
        Err(error) => WorkError::Unmarked(Box::new(why), error),
    }
}

fn release() -> Result<(), WorkError> {
    let (id, restart) = id_and_restart(variable)?;
    let ledger = Ledger::system();
    if let Some(own) = gpushare_node::user_id().filter(|own| *own != 0) {
        // A share that is left has to be told; what says that a job has none does not.
        let has_none = matches!(ledger.find(id), Ok(found) if !found.as_ref().is_some_and(Entry::has_gpus));
        return if has_none { Ok(()) } else { Err(WorkError::NotRoot(own)) };
    }
    // On most nodes, only the ledger is read.
    let has_daemons = !ledger.daemon_folders().is_empty();
    let entry = has_daemons.then(|| ledger.find(id).ok().flatten()).flatten();
    let released = place::release(&ledger, id, restart)?;
    if let Some(key) = released {
        log::info!("job {}: share released", key.id);
    }
    if !has_daemons {
        return Ok(());
    }
    // Even if the file can no longer be read, daemons that were started earlier must end.
    let config = config(&slurm_conf()).unwrap_or_default();
    for ended in mps::leave(&config, &ledger, entry.filter(|_| released.is_some()).as_ref()) {
        report::ended(&ended);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_shares_gres_is_found_beside_a_mistake() {
        for (text, expected) in [
            ("Nonsense=1\nShareGRES=gpushare\n", "gpushare"),
            ("no line\n sharegres = gpushare # ours", "gpushare"),
            ("#ShareGRES=gpushare\nNonsense=1", "mps"),
        ] {
            assert_eq!(share_gres(text), expected, "{text}");
        }
    }

    /// What a step takes as done must be done: the job has an entry by then, perhaps.
    #[test]
    fn work_that_panics_is_unfinished() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let told = |why: &dyn Display| {
            TOLD.lock().unwrap().push(why.to_string());
            Ok(())
        };
        run(true, || Ok(()), told);
        assert!(TOLD.lock().unwrap().is_empty());
        run(true, || panic!("asked to"), told);
        assert_eq!(*TOLD.lock().unwrap(), ["internal error"]);
    }
}
