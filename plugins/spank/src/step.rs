//! What a step is to us: one of a job with a share, of another job, or one that can't be told.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gpushare::config::{self, Config, NodeConfig, Placement};
use gpushare::device::{self, Roots};
use gpushare::fence::Fence;
use gpushare::fence::locate::{StepCgroup, step_cgroup};
use gpushare::ledger::{Entry, Ledger, RUN_DIR};
use gpushare_slurm::spank::{Kind, Step};
use gpushare_slurm::verdict_page::VerdictPage;
use gpushare_slurm::{daemon, log};

/// Slurm sets it in every step of a job with an mps share, over whatever the user has set.
const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// What is known of the step.
pub enum State {
    /// Nothing: no hook has read it yet, or the one that should have did not get through.
    Unknown,
    /// The node's rules, or why there are none; not yet what the job has.
    Configured(Result<NodeConfig, String>),
    /// A job without a share, or a node without a placement: Slurm's own fence holds, ours has no say.
    NoShare,
    /// A share that can't be given; why.
    Failed(String),
    /// A share.
    Share(Box<Share>),
}

/// A step of a job with a share.
pub struct Share {
    /// The job's entry in the ledger.
    pub entry: Entry,
    /// What the step may open.
    pub fence: Fence,
    /// Tells the tasks whether the fence is up.
    pub page: VerdictPage,
    /// Tasks forked so far.
    pub forked: u32,
    /// The step's cgroup. slurmstepd leaves it before the `exit` hook, so it is looked up early.
    pub cgroup: Result<PathBuf, String>,
}

impl State {
    /// Reads the node's rules; as root, since the file need not be readable by users.
    pub fn configured(arguments: &[Vec<u8>]) -> State {
        State::Configured(node_config(arguments))
    }

    /// Looks the job up in the ledger, which everybody may read. A job that Slurm gave a share, but the prolog no GPU,
    /// fails by itself. Without the node's rules the state stays as it is, and the job fails.
    pub fn read(&mut self, step: Step) {
        let State::Configured(config) = self else { return };
        *self = match config {
            Ok(config) => of_job(config, step),
            Err(reason) => without_entry(step, std::mem::take(reason)),
        };
    }
}

fn of_job(config: &NodeConfig, step: Step) -> State {
    if config.placement == Placement::Off {
        return State::NoShare;
    }
    let Some(job_id) = step.job_id() else { return State::Failed("the step has no job number".to_owned()) };
    match Ledger::at(RUN_DIR).find(job_id) {
        // An entry of somebody else's is of an old job with the same number.
        Ok(Some(entry)) if Some(entry.user_id) == step.user_id() => {
            share(config, entry).unwrap_or_else(State::Failed)
        }
        Ok(_) => without_entry(step, "gpushare-prolog gave it no GPU on this node".to_owned()),
        Err(error) => without_entry(step, error.to_string()),
    }
}

fn share(config: &NodeConfig, entry: Entry) -> Result<State, String> {
    let roots = Roots::system();
    let gpus = device::inventory(&config.gpu_files, &roots).map_err(|error| error.to_string())?;
    let closed = gpus.foreign(&entry.gpus, config.fence_drm, &roots).gpus;
    let fence = Fence { widens: true, closed, ..Fence::around(&entry.gpus, &[]) };
    let page = VerdictPage::new().map_err(|error| format!("shared memory: {error}"))?;
    Ok(State::Share(Box::new(Share { entry, fence, page, forked: 0, cgroup: v1_cgroup() })))
}

/// No entry is right for a job without a share, and a reason to fail for one with a share.
fn without_entry(step: Step, reason: String) -> State {
    if step.kind() == Kind::Tasks && step.has_variable(PERCENTAGE) {
        return State::Failed(reason);
    }
    log::debug(format!("spank/gpushare: job {:?} has no share here: {reason}", step.job_id()));
    State::NoShare
}

/// gpushare.conf: `conf=PATH` in plugstack.conf, else beside the slurm.conf that slurmd runs on or in /etc/slurm. Of
/// slurm.conf, slurmstepd of 22.05 knows the path itself; later ones have it in the environment that slurmd gave them.
fn node_config(arguments: &[Vec<u8>]) -> Result<NodeConfig, String> {
    let mut named = None;
    for argument in arguments {
        match argument.strip_prefix(b"conf=") {
            Some(path) if path.starts_with(b"/") => named = Some(PathBuf::from(OsStr::from_bytes(path))),
            _ => {
                let argument = argument.escape_ascii();
                return Err(format!("plugstack.conf: '{argument}' is not allowed; conf=/PATH is"));
            }
        }
    }
    let slurm_conf = || std::env::var_os("SLURM_CONF").map(PathBuf::from).or_else(daemon::slurm_conf);
    let path = named
        .or_else(|| slurm_conf().map(|path| config::find(&path, Path::new(config::FALLBACK))))
        .ok_or("slurmstepd has no path of slurm.conf; plugstack.conf needs conf=/PATH")?;
    Ok(Config::load(&path).map_err(|error| error.to_string())?.unwrap_or_default().node)
}

/// The step's cgroup, which slurmstepd has joined by the time of `user_init`, in the extern step `task_post_fork`.
fn v1_cgroup() -> Result<PathBuf, String> {
    let text = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    match step_cgroup(&text("/proc/self/cgroup")?, &text("/proc/self/mountinfo")?) {
        Ok(StepCgroup::V1(path)) => Ok(path),
        Ok(StepCgroup::V2(_)) => Err("Placement=override is not supported on cgroup v2 yet".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
