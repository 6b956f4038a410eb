//! What a step is to us: of a job with GPUs or without, or one that can't be told; and the fence that follows from it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gpushare::config::{self, Config, NodeConfig, Placement};
use gpushare::device::{self, Gpu, GpuFiles, Roots};
use gpushare::environment;
use gpushare::fence::Fence;
use gpushare::job::JobKey;
use gpushare::ledger::{Entry, Holding, Ledger, LedgerError, RUN_DIR};
use gpushare_slurm::spank::{Kind, Step};
use gpushare_slurm::verdict_page::VerdictPage;
use gpushare_slurm::{daemon, log};

use crate::cgroup::StepFence;

/// What Slurm sets in every step of a job with a share of that GRES, over whatever the user has set.
const SHARE_VARIABLES: [(&str, &str); 2] =
    [("mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), ("shard", "SLURM_SHARDS_ON_NODE")];

/// What Slurm sets for a job with whole GPUs; elsewhere a user may.
const JOB_GPUS: &str = "SLURM_JOB_GPUS";

/// What is known of the step.
pub enum State {
    /// Nothing: no hook has read it yet, or the one that should have did not get through.
    Unknown,
    /// The node's rules, or why there are none; not yet what the job has.
    Configured(Result<NodeConfig, String>),
    /// Slurm's own fence holds, ours has no say.
    NotOurs,
    /// A job that can't have its GPU.
    Failed(Box<Failed>),
    /// A step to be fenced.
    Fenced(Box<Fenced>),
}

/// A step whose tasks fail before their programs start. What runs besides them, an ssh session or a task epilog, can open
/// no GPU.
pub struct Failed {
    /// Why.
    pub reason: String,
    /// Closes every GPU.
    pub fence: StepFence,
    /// Tasks forked so far.
    pub forked: u32,
}

/// A step that is fenced.
pub struct Fenced {
    /// Which start of which job.
    pub key: JobKey,
    /// The fence.
    pub fence: StepFence,
    /// What every task must be able to open: not all that the fence leaves open where Slurm may have given less.
    pub check: Fence,
    /// Variables for the job's programs.
    pub variables: Vec<(&'static str, String)>,
    /// The same for a shell.
    pub shell_lines: String,
    /// Slurm's index of a share's GPU.
    pub share_gpu: Option<u32>,
    /// Tells the tasks whether the fence is up.
    pub page: VerdictPage,
    /// Tasks forked so far.
    pub forked: u32,
}

impl State {
    /// Reads the node's rules; as root, since the file need not be readable by users.
    pub fn configured(arguments: &[Vec<u8>]) -> State {
        State::Configured(node_config(arguments))
    }

    fn failed(config: &NodeConfig, reason: String) -> State {
        // On cgroup v2 every GPU is closed, also where they can't be listed.
        let fence = fence_around(config, &[]).unwrap_or_default();
        State::Failed(Box::new(Failed { reason, fence: StepFence::of(fence), forked: 0 }))
    }

    /// Looks the job up in the ledger, which everybody may read. A job that Slurm gave a share, but the prolog no GPU,
    /// fails by itself. Without the node's rules the state stays as it is, and the job fails.
    pub fn read(&mut self, step: Step) {
        let State::Configured(config) = self else { return };
        *self = match config {
            Ok(config) => of_job(config, step).unwrap_or_else(|reason| State::failed(config, reason)),
            Err(reason) => without_rules(step, std::mem::take(reason)),
        };
    }
}

fn of_job(config: &NodeConfig, step: Step) -> Result<State, String> {
    if config.placement == Placement::Off {
        return Ok(State::NotOurs);
    }
    let job_id = step.job_id().ok_or("the step has no job number")?;
    let ledger = Ledger::at(RUN_DIR);
    match ledger.failure(job_id) {
        Ok(None) => {}
        Ok(Some(reason)) => return Err(reason),
        Err(error) => return unread(step, config, &error),
    }
    let entry = match ledger.find(job_id) {
        // An entry of somebody else's is of an old job with the same number.
        Ok(entry) => entry.filter(|entry| Some(entry.user_id) == step.user_id()),
        Err(error) => return unread(step, config, &error),
    };
    let key = entry.as_ref().map_or(JobKey { id: job_id, restart: step.restart() }, |entry| entry.key);
    match entry {
        Some(entry) => {
            let is_share = matches!(entry.holding, Holding::Share { .. });
            let widens = is_share && config.placement == Placement::Override;
            let fence = Fence { widens, ..fence_around(config, &entry.gpus)? };
            // What we open is open in every step. What Slurm opens it may close again for a step that asked for less.
            // A user may set a share's variable in a job with whole GPUs: there it says nothing.
            let certain = widens
                || config.placement == Placement::Own
                || step.kind() == Kind::Script
                || (is_share && has_share(config, step));
            fenced(key, fence, certain, Some((&entry, config)))
        }
        None if device::has_none(&Roots::system()) && config.gpu_files == GpuFiles::Auto => {
            Ok(State::NotOurs)
        }
        None if closes_all(config, step) => fenced(key, fence_around(config, &[])?, true, None),
        None => Ok(without_entry(step, config, "gpushare-prolog gave it no GPU on this node")),
    }
}

/// What the ledger has of the job can't be read. Under `own` nobody but us closes anything.
fn unread(step: Step, config: &NodeConfig, error: &LedgerError) -> Result<State, String> {
    match config.placement {
        Placement::Own => Err(error.to_string()),
        _ => Ok(without_entry(step, config, &error.to_string())),
    }
}

/// Under `own` Slurm closes nothing, so a job without a share is fenced by us. Under `override` Slurm opened the GPU that it
/// charged, and in the extern step nothing tells a job with a share whose prolog has not run.
/// DRM nodes Slurm leaves open to everybody; that a job has whole GPUs only its entry tells, since a user may set what Slurm
/// sets for one.
fn closes_all(config: &NodeConfig, step: Step) -> bool {
    match config.placement {
        Placement::Own => true,
        Placement::Override if step.kind() == Kind::Extern => true,
        Placement::Follow | Placement::Override => config.fence_drm && !has_share(config, step),
        Placement::Off => false,
    }
}

/// Every other GPU is closed, also one that no configuration lists, and what belongs to it.
fn fence_around(config: &NodeConfig, own: &[Gpu]) -> Result<Fence, String> {
    let roots = Roots::system();
    let gpus = device::inventory(&config.gpu_files, &roots).map_err(|error| error.to_string())?;
    let foreign = gpus.foreign(own, config.fence_drm, &roots);
    let closed = foreign.gpus.into_iter().chain(foreign.attached).collect();
    Ok(Fence { closed, ..Fence::around(own, &[]) })
}

fn fenced(
    key: JobKey,
    fence: Fence,
    certain: bool,
    entry: Option<(&Entry, &NodeConfig)>,
) -> Result<State, String> {
    let page = VerdictPage::new().map_err(|error| format!("shared memory: {error}"))?;
    let open = if certain { fence.open.clone() } else { Vec::new() };
    let check = Fence { open, ..fence.clone() };
    let variables = entry.map(|(entry, config)| environment::variables(entry, config)).unwrap_or_default();
    let shell_lines =
        entry.map(|(entry, config)| environment::shell_lines(entry, config)).unwrap_or_default();
    let share_gpu = entry.and_then(|(entry, _)| entry.share_gpu()).map(|gpu| gpu.index);
    let fence = StepFence::of(fence);
    Ok(State::Fenced(Box::new(Fenced {
        key,
        fence,
        check,
        variables,
        shell_lines,
        share_gpu,
        page,
        forked: 0,
    })))
}

/// Under `own` nobody but us closes anything, and whether this node is so isn't known: a step that may have GPUs fails, and
/// any other can open none.
fn without_rules(step: Step, reason: String) -> State {
    let unknown = NodeConfig::default();
    let is_share = SHARE_VARIABLES.iter().any(|(_, variable)| step.has_variable(variable));
    if device::has_none(&Roots::system()) {
        return State::NotOurs;
    }
    if is_share || step.has_variable(JOB_GPUS) || step.kind() == Kind::Extern {
        return State::failed(&unknown, reason);
    }
    let key = JobKey { id: step.job_id().unwrap_or_default(), restart: step.restart() };
    fence_around(&unknown, &[])
        .and_then(|fence| fenced(key, fence, true, None))
        .unwrap_or_else(|reason| State::failed(&unknown, reason))
}

/// Whether Slurm gave the step itself a share.
fn has_share(config: &NodeConfig, step: Step) -> bool {
    SHARE_VARIABLES.iter().any(|(gres, variable)| config.share_gres == *gres && step.has_variable(variable))
}

/// No entry is right for a job without GPUs, and a reason to fail for one with a share.
fn without_entry(step: Step, config: &NodeConfig, reason: &str) -> State {
    if step.kind() != Kind::Extern && has_share(config, step) {
        return State::failed(config, reason.to_owned());
    }
    log::debug(format!("spank/gpushare: job {:?} has no share here: {reason}", step.job_id()));
    State::NotOurs
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
