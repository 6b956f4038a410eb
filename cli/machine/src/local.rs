//! The content of this node's ledger, combined with what the node and NVML report. Prints nothing.
//!
//! Read → sum. It reads the rest while NVML is being queried. It shows the ledger even if it can't read anything else:
//! a missing or broken gpushare.conf and missing GPUs are complaints. Root sees every job, other users see their own
//! and the GPUs' totals. This only keeps the output short: all users can read the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::Config;
use gpushare::config::{self, LoadError};
use gpushare::submit::policy::Policy;
use gpushare::text::time;
use gpushare_node::config::{NodeConfig, Placement};
use gpushare_node::exec;
use gpushare_node::foreign::{Foreign, Jobs, usage};
use gpushare_node::gpu::{self, Detail, DeviceError, Drain, Gpu, Inventory, Roots};
use gpushare_node::ledger::{Entry, Garbage, Holding, Ledger, LedgerError, Listing, figures};
use gpushare_node::mps::service::{On, Serves};
use gpushare_node::mps::{self, inspect::Seen};
use gpushare_node::nvml::Nvml;
use gpushare_node::nvml::answer::{GpuState, Measured};

use gpushare_slurm_run as slurm;

/// glibc's program for the name service.
const GETENT: &str = "/usr/bin/getent";
/// Short, because names are optional.
const NAMES_WAIT: Duration = Duration::from_secs(3);
/// How often to look at a ledger that changes all the time.
const MOST_LOOKS: u32 = 10;

gpushare::errors! {
    /// Why the node's GPUs are unknown.
    #[derive(Debug)]
    pub enum LocalError {
    } from {
        Load(LoadError), Devices(DeviceError)
    }
}

/// What there is to show of this node.
pub struct Status {
    /// Slurm's name for the node.
    pub node: String,
    /// The GPUs.
    pub gpus: Vec<GpuTotal>,
    /// What jobs have.
    pub jobs: Vec<Entry>,
    /// Users' names by number, if known.
    pub users: BTreeMap<u32, String>,
    /// Jobs that can't run here, and why; only for root.
    pub failures: Vec<(u32, String)>,
    /// Entries that can't be read.
    pub garbage: Vec<Garbage>,
    /// MPS daemons.
    pub daemons: Vec<Seen>,
    /// When jobs used their GPUs, if `gpushare metrics` checks that.
    pub used: Vec<figures::Used>,
    /// Whether other users' jobs are omitted.
    pub own_only: bool,
    /// Seconds since 1970.
    pub now: u64,
    /// What could not be read, one line each.
    pub complaints: Vec<String>,
}

impl Status {
    /// For how many seconds a job was not seen to use one of its GPUs.
    pub fn idle(&self, entry: &Entry, gpu: &Gpu) -> Option<u64> {
        let is_it = |used: &&figures::Used| (used.key, used.minor) == (entry.key, gpu.number.minor);
        self.used.iter().find(is_it).map(figures::Used::idle)
    }

    /// How much of one of its GPUs a job's processes use, if NVML reports it.
    pub fn usage(&self, entry: &Entry, gpu: &Gpu) -> Option<&usage::Usage> {
        let total = self.gpus.iter().find(|total| total.gpu.number == gpu.number)?;
        total.usage.get(&entry.key.id)
    }

    /// Keeps only those jobs, told by their number and their user's name and number, and their GPUs.
    pub fn keep_jobs(&mut self, is_wanted: impl Fn(u32, Option<&str>, u32) -> bool) {
        let users = &self.users;
        self.jobs.retain(|entry| {
            let name = users.get(&entry.user_id).map(String::as_str);
            is_wanted(entry.key.id, name, entry.user_id)
        });
        let jobs = &self.jobs;
        self.gpus.retain(|total| jobs.iter().any(|entry| entry.is_on(&total.gpu)));
    }
}

/// A GPU and its assigned units.
pub struct GpuTotal {
    /// The GPU.
    pub gpu: Gpu,
    /// The units that fill it, if known.
    pub capacity: Option<u32>,
    /// The units that jobs have.
    pub units: u64,
    /// How many jobs have a share of it.
    pub shares: usize,
    /// Whether a job has it whole.
    pub whole: bool,
    /// What NVML reports about it.
    pub state: GpuState,
    /// Who took it out of service, if someone did.
    pub drain: Option<Drain>,
    /// Processes that should not be there; `None` if NVML doesn't list any processes.
    pub foreign: Option<Vec<Foreign>>,
    /// How much of it each job's processes use.
    pub usage: BTreeMap<u32, usage::Usage>,
}

impl GpuTotal {
    /// How many processes compute on it without MPS although its shares use MPS.
    pub fn without_mps(&self, daemons: &[Seen]) -> Option<u32> {
        let has = daemons.iter().any(|seen| seen.daemon.on == On::Gpu(self.gpu.number.minor));
        self.state.outside.filter(|_| has && self.shares > 0)
    }

    /// Why it takes no shares: it is drained, or NVML reports a fault.
    pub fn fault(&self) -> Option<String> {
        let drained = self.drain.as_ref().map(|drain| drained(drain, now()));
        drained.or_else(|| self.state.fault.clone())
    }

    /// Free units; 0 if it is drained or a job has it whole.
    pub fn free(&self) -> Option<u64> {
        let capacity = u64::from(self.capacity?);
        Some(if self.whole || self.drain.is_some() { 0 } else { capacity.saturating_sub(self.units) })
    }
}

/// What is known about the node besides the ledger.
#[derive(Default)]
pub struct Node {
    /// The GPUs, including those that are missing or can't be shared.
    pub details: Vec<Detail>,
    /// The units that fill each GPU, by Slurm's index; empty if unknown.
    pub units: Vec<u32>,
    /// The query to NVML, which runs.
    pub nvml: Option<Nvml>,
    /// MPS daemons.
    pub daemons: Vec<Seen>,
    /// The sessions of the daemons, if known.
    pub sessions: Option<Vec<u32>>,
}

/// Collects all that is known about this node.
///
/// # Errors
/// The ledger can't be read.
pub fn gather(conf: Option<&Path>) -> Result<Status, LedgerError> {
    let ledger = Ledger::system();
    let Listing { entries, failures, garbage, .. } = list_of_one_moment(&ledger)?;
    let mut complaints = Vec::new();
    let node = node(conf, &ledger, &mut complaints).unwrap_or_else(|reason| {
        complaints.push(format!("{reason}; this shows what the ledger has"));
        Node::default()
    });
    let user_id = gpushare_node::user_id().unwrap_or(u32::MAX);
    let own_only = user_id != 0;
    let is_shown = |entry: &&Entry| !own_only || entry.user_id == user_id;
    let jobs: Vec<Entry> = entries.iter().filter(is_shown).cloned().collect();
    let failures = if own_only { Vec::new() } else { failures };
    let users = names(&jobs);
    let measured = measured(node.nvml, &mut complaints);
    // Read again, so that every job that has started since the first time has an entry.
    let now_there = ledger.list().map_or_else(|_| entries.clone(), |listing| listing.entries);
    let mut gpus = totals(&node.details, &node.units, &entries, &measured);
    find_foreign(&mut gpus, &Jobs { entries: &now_there, mps: node.sessions.as_deref() });
    let is_shown = |seen: &Seen| !own_only || seen.daemon.serves == Serves::User(user_id);
    let daemons = node.daemons.into_iter().filter(is_shown).collect();
    let (node, now) = (slurm::host(), now());
    let used = figures::used(&ledger);
    Ok(Status { node, gpus, jobs, users, failures, garbage, daemons, used, own_only, now, complaints })
}

/// The ledger as it was at one moment: jobs may come and go while its files are read one by one, so this looks until it
/// has seen the same twice.
///
/// # Errors
/// The ledger can't be read.
pub fn list_of_one_moment(ledger: &Ledger) -> Result<Listing, LedgerError> {
    let mut listing = ledger.list()?;
    for _ in 0..MOST_LOOKS {
        let before = std::mem::replace(&mut listing, ledger.list()?);
        if before == listing {
            break;
        }
    }
    Ok(listing)
}

/// The current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The path of gpushare.conf: the named one, or the one that is found.
pub fn conf_path(conf: Option<&Path>) -> PathBuf {
    conf.map_or_else(|| config::find(&slurm::conf(), Path::new(config::FALLBACK)), Path::to_owned)
}

/// Reads the named gpushare.conf, or the one that is found, if there is one.
///
/// # Errors
/// The named file doesn't exist, or the file can't be used.
pub fn config(conf: Option<&Path>) -> Result<Option<Config>, LoadError> {
    conf.map_or_else(|| Config::load(&conf_path(None)), |path| Config::load_named(path).map(Some))
}

/// The rules of submission: those of the named gpushare.conf, or of the one that is found; without one the defaults.
///
/// # Errors
/// As for [`config()`].
pub fn policy(conf: Option<&Path>) -> Result<Policy, LoadError> {
    Ok(config(conf)?.unwrap_or_default().policy)
}

/// The whole file, which must exist. Also returns its path.
///
/// # Errors
/// There is no file, or it can't be used.
pub fn config_there(conf: Option<&Path>) -> Result<(PathBuf, Config), LoadError> {
    let path = conf_path(conf);
    let config = Config::load_named(&path)?;
    Ok((path, config))
}

/// The node's GPUs, and the query to NVML.
///
/// # Errors
/// No gpushare.conf can be read, or its GPUs don't exist.
pub fn node(conf: Option<&Path>, ledger: &Ledger, complaints: &mut Vec<String>) -> Result<Node, LocalError> {
    let (_, config) = config_there(conf)?;
    let host = slurm::host();
    let config = config.of_node(&host);
    let nvml = Some(Nvml::start(config, ledger, &Roots::system(), true));
    let (daemons, sessions) = (mps::inspect::seen(config), mps::sessions(config));
    let gpus = inventory(config, &host)?;
    let units =
        gpu::units_of(config, &gpus).filter(|_| config.placement != Placement::Off).unwrap_or_default();
    // Of a drained one that is there, others say more.
    for detail in gpus.details.iter().filter(|it| it.drain().is_none() || it.number.is_none()) {
        if let Some(why) = &detail.unfit {
            let (index, path) = (detail.index, detail.path.display());
            complaints.push(format!("GPU {index} ({path}) takes no shares: {why}"));
        }
    }
    Ok(Node { details: gpus.details, units, nvml, daemons, sessions })
}

/// The node's GPUs as the prolog finds them, which is told the node's name.
///
/// # Errors
/// They don't exist, or their order is unknown.
pub fn inventory(config: &NodeConfig, host: &str) -> Result<Inventory, DeviceError> {
    let gres_conf = slurm::conf().with_file_name("gres.conf");
    let gres_conf = (config.placement != Placement::Own).then_some(gres_conf.as_path());
    gpu::inventory(&gpu::Files::of(&config.gpu_files, gres_conf, Some(host))?, &Roots::system())
}

/// `drained for 12-03:04:05 by root: the fan is broken`
pub fn drained(drain: &Drain, now: u64) -> String {
    let age = time::text(now.saturating_sub(drain.since));
    format!("drained for {age} by {}: {}", drain.user, drain.reason)
}

/// NVML's answer; empty on a node without NVML.
fn measured(nvml: Option<Nvml>, complaints: &mut Vec<String>) -> Measured {
    match nvml.map(Nvml::measured) {
        Some(Ok(measured)) => return measured,
        Some(Err(trouble)) if !trouble.is_absence() => {
            complaints.push(format!("nothing from NVML: {trouble}"));
        }
        Some(Err(_)) | None => {}
    }
    Measured::default()
}

/// The node's GPUs, then those that only the ledger knows.
pub fn totals(details: &[Detail], units: &[u32], entries: &[Entry], measured: &Measured) -> Vec<GpuTotal> {
    let mut gpus: Vec<Gpu> = details.iter().filter_map(Detail::gpu).collect();
    for gpu in entries.iter().flat_map(|entry| &entry.gpus) {
        if gpus.iter().all(|known| known.number != gpu.number) {
            gpus.push(gpu.clone());
        }
    }
    gpus.sort_by_key(|gpu| gpu.index);
    let total = |gpu: Gpu| {
        let here = || entries.iter().filter(|entry| entry.is_on(&gpu));
        let said = |entry: &Entry| match entry.holding {
            Holding::Share { capacity, .. } => Some(capacity),
            Holding::Whole | Holding::Nothing => None,
        };
        let known = usize::try_from(gpu.index).ok().and_then(|at| units.get(at)).copied();
        let capacity = known.or_else(|| here().find_map(said));
        let now = |entry: &Entry| capacity.map_or(entry.units().into(), |now| entry.units_of(now));
        GpuTotal {
            capacity,
            units: here().map(now).sum(),
            shares: here().filter(|entry| entry.holding != Holding::Whole).count(),
            whole: here().any(|entry| entry.holding == Holding::Whole),
            state: measured.of(&gpu).cloned().unwrap_or_default(),
            drain: details.iter().find(|it| it.number == Some(gpu.number)).and_then(Detail::drain).cloned(),
            foreign: None,
            usage: BTreeMap::new(),
            gpu,
        }
    };
    gpus.into_iter().map(total).collect()
}

/// Finds foreign processes on the GPUs, and how much jobs' own processes use.
pub fn find_foreign(gpus: &mut [GpuTotal], jobs: &Jobs) {
    for total in gpus {
        total.foreign = total.state.processes.map(|_| jobs.foreign(&total.gpu, &total.state));
        total.usage = usage::of_jobs(jobs, &total.gpu, &total.state);
    }
}

/// The users' names, from getent(1), because Slurm and the site configure the name service. If it fails, numbers are
/// shown.
fn names(jobs: &[Entry]) -> BTreeMap<u32, String> {
    let numbers: BTreeSet<u32> = jobs.iter().map(|entry| entry.user_id).collect();
    if numbers.is_empty() {
        return BTreeMap::new();
    }
    let mut getent = exec::program(Path::new(GETENT));
    getent.arg("passwd").args(numbers.iter().map(u32::to_string));
    // getent prints the names that it knows, and exits with 2 if it doesn't know one.
    let known = exec::ask(&mut getent, "", NAMES_WAIT).map_or(String::new(), |answer| answer.output);
    let name = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        let plain = !name.is_empty() && !name.contains(|c: char| c.is_control() || c == '|');
        plain.then(|| (number, name.to_owned()))
    };
    // The first entry for a number has its name.
    let mut names = BTreeMap::new();
    for (number, name) in known.lines().filter_map(name) {
        names.entry(number).or_insert(name);
    }
    names
}
