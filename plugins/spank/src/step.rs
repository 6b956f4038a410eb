//! The kind of step: of a job with GPUs, without GPUs, or unknown; and the resulting fence.
//!
//! A user may set any variable that Slurm doesn't set for the job. So a variable may make a step fail or close a GPU,
//! but only the ledger's entry opens one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gpushare_node::config::{self, NodeConfig, Placement};
use gpushare_node::environment;
use gpushare_node::fence::Fence;
use gpushare_node::fence::mend::{Mender, Watch, socket};
use gpushare_node::gpu::foreign::Foreign;
use gpushare_node::gpu::{Gpu, Roots, may_be_any};
use gpushare_node::ledger::{Entry, Holding, Ledger, LedgerError, Witness};
use gpushare_node::mps::Reach;
use gpushare_slurm::daemon;
use gpushare_slurm::shared_page::SharedPage;
use gpushare_slurm::spank::{Kind, Step};

use crate::cgroup::{Known, StepFence};
use crate::error::{Refused, RulesError, StepError};
use crate::heal;

/// Variables that Slurm sets in every step of a job with a share of that GRES, whatever the user has set.
const SHARE_VARIABLES: [(&str, &str); 2] =
    [("mps", environment::PERCENTAGE), ("shard", "SLURM_SHARDS_ON_NODE")];

/// Slurm sets this in a job's batch and interactive steps if it gave the job GPUs. Otherwise it removes the variable
/// that the user has set.
const GPUS_OF_JOB: &str = "SLURM_JOB_GPUS";

/// The same in srun's steps, for the step's GPUs.
pub const GPUS_OF_STEP: &str = "SLURM_STEP_GPUS";

/// What is known about the step.
#[allow(clippy::large_enum_variant, reason = "each slurmstepd has one")]
pub enum StepState {
    /// Nothing: no hook has read it yet, or the hook that should have read it failed.
    Unknown,
    /// The node's rules, or why they are missing; the job's GPUs are not known yet.
    Configured(Result<NodeConfig, RulesError>, Prepared),
    /// Slurm's own fence is enough; gpushare does nothing.
    NotOurs,
    /// Even the data for a fence is missing, for this reason.
    Failed(StepError),
    /// A step to be fenced.
    Fenced(Box<Fenced>),
}

/// What `init` has found out as root, before any of the user's programs run.
#[derive(Default)]
pub struct Prepared {
    /// The step's cgroup, and a temporary fence around it.
    known: Known,
    /// What the step's programs must find to reach the job's MPS daemon.
    reach: Option<Reach>,
    /// The daemon had ended, and was started again.
    is_healed: bool,
    /// The fence around these GPUs, so that /dev is searched only once.
    fence: Option<(Vec<Gpu>, Fence)>,
    /// Why the job can't run although nothing is recorded of it.
    missed: Option<String>,
    /// Opens the job's GPU again if this fence never comes.
    mender: Option<Mender>,
    /// In the extern step: does it for steps that are killed.
    watch: Option<Watch>,
}

/// A step with a fence.
pub struct Fenced {
    /// The job's number.
    pub job_id: u32,
    /// Why its tasks fail before their programs start. Other processes, such as an ssh session or a task epilog, can
    /// then open no GPU.
    pub refused: Option<Refused>,
    /// Its entry in the ledger, and the rules under which that was made.
    pub recorded: Option<(Entry, NodeConfig)>,
    /// The fence.
    pub fence: StepFence,
    /// What every task must be able to open. If Slurm may have given the step less, this is less than the fence leaves
    /// open.
    pub check: Fence,
    /// Variables for the job's programs.
    pub variables: Vec<(String, String)>,
    /// What its programs must find to reach their MPS daemon.
    pub reach: Option<Reach>,
    /// The daemon had ended, and was started again.
    pub is_healed: bool,
    /// Slurm's index of a share's GPU.
    pub share_gpu: Option<u32>,
    /// Tells the tasks whether the fence is up.
    pub page: SharedPage,
    /// Tasks forked so far.
    pub forked: u32,
    /// slurmstepd's root directory.
    pub root: Option<(u64, u64)>,
}

impl Fenced {
    /// The PCI address of a share's GPU, if the driver reports it.
    pub fn share_pci(&self) -> Option<&str> {
        self.recorded.as_ref()?.0.given.pci.as_deref()
    }
}

impl StepState {
    /// Reads the node's rules as root, since users needn't be able to read the file.
    pub fn configured(arguments: &[Vec<u8>]) -> StepState {
        StepState::Configured(node_config(arguments), Prepared::default())
    }

    /// Whether gpushare may have to fence on this node; also `true` if its rules can't be read.
    pub fn may_fence(&self) -> bool {
        !matches!(self, StepState::Configured(Ok(config), ..) if config.placement == Placement::Off)
    }

    /// What opens the job's GPU again if this step, or another one of the job, never puts up its fence.
    pub fn take_menders(&mut self) -> (Option<Mender>, Option<Watch>) {
        let StepState::Configured(_, prepared) = self else { return (None, None) };
        (prepared.mender.take(), prepared.watch.take())
    }

    /// Whether Slurm gave the step GPUs, which it then names itself; only until the step is read.
    pub fn has_gpus(&self, step: Step) -> bool {
        let StepState::Configured(config, _) = self else { return false };
        has_gpus(config.as_ref().unwrap_or(&NodeConfig::default()), step)
    }

    /// The node's placement, if it is known; only until the step is read.
    pub fn placement(&self) -> Placement {
        match self {
            StepState::Configured(Ok(config), _) => config.placement,
            _ => Placement::Off,
        }
    }

    /// Closes what the step will not have, as far as that is known without its variables, and records what its programs
    /// must find to reach the job's MPS daemon. Both need root. If nothing is known, Slurm's own fence applies, except
    /// under `own`, where Slurm has none.
    ///
    /// `witness` is the process of an extern step.
    ///
    /// # Errors
    /// /dev or /proc can't be read, or the kernel refuses what closes a GPU.
    pub fn prepare(&mut self, step: Step, witness: Option<Witness>) -> Result<(), StepError> {
        let StepState::Configured(config, prepared) = self else { return Ok(()) };
        let none = NodeConfig::default();
        let (config, closes, is_silent) = match config {
            Ok(config) => (&*config, config.placement == Placement::Own, !config.shows_shares()),
            Err(_) => (&none, true, true),
        };
        if let Some(folder) = step.folder() {
            prepared.known = Known::find(&folder);
        }
        let job_id = step.job_id().unwrap_or(0);
        let is_ours = |entry: &Entry| is_of(entry, step, witness);
        let found = Ledger::system().find(job_id).ok().flatten();
        let is_known = found.as_ref().is_some_and(|entry| entry.failure.is_some() || is_ours(entry));
        if step.kind() != Kind::Extern {
            let asks = !is_known && is_silent && may_be_any(&config.gpu_files, &Roots::system());
            let marked = || found.as_ref()?.failure.clone();
            prepared.missed = if asks { heal::missed(step) } else { marked() };
        }
        let entry = found.filter(is_ours).filter(Entry::has_gpus).map(|entry| complete(config, entry));
        if let Some(entry) =
            entry.as_ref().filter(|entry| entry.failure.is_none() && step.kind() != Kind::Extern)
        {
            (prepared.reach, prepared.is_healed) = heal::daemon(config, entry, step);
        }
        let opens = entry.as_ref().filter(|entry| widens(config, entry));
        let closed = opens.and_then(|entry| prepared.known.closed_by_slurm(&entry.gpus));
        if step.kind() == Kind::Extern {
            // No program of the user's needs a GPU here before the final fence, and none gets one if that fails.
            if entry.is_some() || closes || config.closes_without_entry() {
                prepared.known.close(&fence_around(config, &[])?)?;
            }
            prepared.watch = closed.and_then(|closed| Watch::start(&closed, socket(job_id)).ok());
            return Ok(());
        }
        let own = match entry {
            Some(Entry { failure: None, gpus, .. }) => gpus,
            _ if closes => Vec::new(),
            _ => return Ok(()),
        };
        let fence = fence_around(config, &own)?;
        prepared.mender = closed.map(|closed| Mender::start(closed, &socket(job_id)));
        prepared.known.close(&fence)?;
        prepared.fence = Some((own, fence));
        Ok(())
    }

    /// Looks the job up in the ledger, which all users can read. `witness` is the process of an extern step.
    pub fn read(&mut self, step: Step, witness: Option<Witness>) {
        let (config, prepared) = match std::mem::replace(self, StepState::Unknown) {
            StepState::Configured(config, prepared) => (config, prepared),
            read => return *self = read,
        };
        let read = match (config, prepared.missed) {
            (Ok(config), _) if config.placement == Placement::Off => Ok(StepState::NotOurs),
            (config, Some(why)) => all_closed(&config.unwrap_or_default(), step, Some(Refused::Marked(why))),
            (Ok(config), None) => of_job(&config, (step, witness), prepared.fence),
            (Err(error), None) => without_rules(step, error, has_gpu(prepared.fence.as_ref())),
        };
        *self = read.unwrap_or_else(StepState::Failed);
        if let StepState::Fenced(fenced) = self {
            fenced.fence.knows(prepared.known);
            fenced.reach = prepared.reach;
            fenced.is_healed = prepared.is_healed;
        }
    }
}

/// Whether the entry is of the step's job: not of another user's old job with the same number, and, for an extern step,
/// not of an earlier start of the job. Before any other step the prolog has replaced such an entry, but with
/// `PrologFlags=RunInJob` it comes after the extern step.
fn is_of(entry: &Entry, step: Step, witness: Option<Witness>) -> bool {
    Some(entry.user_id) == step.user_id() && (step.kind() != Kind::Extern || entry.may_be_of(witness))
}

fn of_job(
    config: &NodeConfig,
    (step, witness): (Step, Option<Witness>),
    fence: Option<(Vec<Gpu>, Fence)>,
) -> Result<StepState, StepError> {
    let job_id = step.job_id().ok_or(StepError::NoJob)?;
    match Ledger::system().find(job_id) {
        Err(error) => in_doubt(config, step, error, has_gpu(fence.as_ref())),
        Ok(Some(Entry { failure: Some(reason), .. })) => {
            all_closed(config, step, Some(Refused::Marked(reason)))
        }
        Ok(Some(entry)) if is_of(&entry, step, witness) && entry.has_gpus() => {
            let fence = match fence {
                Some((own, fence)) if own == entry.gpus => fence,
                _ => fence_around(config, &entry.gpus)?,
            };
            of_entry(config, complete(config, entry), step, fence)
        }
        Ok(_) if has_share(config, step) => all_closed(config, step, Some(Refused::NoShare)),
        Ok(_) => without_entry(config, step, Refused::NoEntry),
    }
}

/// An entry of a share that an older gpushare has placed lacks what the steps need.
fn complete(config: &NodeConfig, mut entry: Entry) -> Entry {
    if entry.given.variables.is_empty() {
        entry.given = environment::given(&entry, config);
    }
    entry
}

fn of_entry(config: &NodeConfig, entry: Entry, step: Step, fence: Fence) -> Result<StepState, StepError> {
    let is_share = matches!(entry.holding, Holding::Share { .. });
    let widens = widens(config, &entry);
    let fence = Fence { widens, ..fence };
    // What we open is open in every step. What Slurm opens, it may close again for a step that requested less.
    let certain = widens
        || config.placement == Placement::Own
        || step.kind() == Kind::Script
        || (is_share && has_share(config, step));
    let check = Fence { open: if certain { fence.open.clone() } else { Vec::new() }, ..fence.clone() };
    Ok(StepState::Fenced(Box::new(Fenced {
        check,
        variables: entry.given.variables.clone(),
        share_gpu: entry.share_gpu().map(|gpu| gpu.index),
        recorded: Some((entry, config.clone())),
        ..fenced(step, fence)?
    })))
}

/// Whether the job's GPU may be another than the one that Slurm opens.
fn widens(config: &NodeConfig, entry: &Entry) -> bool {
    matches!(entry.holding, Holding::Share { .. }) && config.placement == Placement::Override
}

/// The state for a job without GPUs, or one that can't have its own.
fn all_closed(config: &NodeConfig, step: Step, refused: Option<Refused>) -> Result<StepState, StepError> {
    let fence = fence_around(config, &[])?;
    Ok(StepState::Fenced(Box::new(Fenced { refused, ..fenced(step, fence)? })))
}

/// Whether root has seen in the ledger that the job has a GPU.
fn has_gpu(fence: Option<&(Vec<Gpu>, Fence)>) -> bool {
    fence.is_some_and(|(own, _)| !own.is_empty())
}

/// The state if the ledger can't be read as the user.
fn in_doubt(
    config: &NodeConfig,
    step: Step,
    error: LedgerError,
    has_gpu: bool,
) -> Result<StepState, StepError> {
    log::info!("spank/gpushare: job {}: {error}", step.job_id().unwrap_or(0));
    if has_gpu || has_share(config, step) {
        all_closed(config, step, Some(error.into()))
    } else {
        without_entry(config, step, error.into())
    }
}

/// The state for a step without a share, of a job without an entry. If Slurm gave it GPUs, `refused` says why there is
/// no entry.
fn without_entry(config: &NodeConfig, step: Step, refused: Refused) -> Result<StepState, StepError> {
    if !config.closes_without_entry() {
        Ok(StepState::NotOurs)
    } else if !has_gpus(config, step) {
        all_closed(config, step, None)
    } else if foreign(config, &[])?.gpus.is_empty() {
        // GPUs of other makers: there is nothing to close, and no share could be placed on them.
        Ok(StepState::NotOurs)
    } else {
        all_closed(config, step, Some(refused))
    }
}

/// The state without rules: it is unknown whether another fence exists on this node. A step that may have GPUs fails,
/// and any other can open none.
fn without_rules(step: Step, error: RulesError, has_gpu: bool) -> Result<StepState, StepError> {
    log::info!("spank/gpushare: job {}: {error}", step.job_id().unwrap_or(0));
    let variables = SHARE_VARIABLES.iter().map(|(_, variable)| *variable);
    let may_have_gpus = has_gpu || variables.chain([GPUS_OF_JOB]).any(|variable| step.has_variable(variable));
    all_closed(&NodeConfig::default(), step, may_have_gpus.then(|| error.into()))
}

/// Whether Slurm gave the step GPUs; under `own` Slurm has none.
fn has_gpus(config: &NodeConfig, step: Step) -> bool {
    config.placement != Placement::Own
        && match step.kind() {
            Kind::Script => step.has_variable(GPUS_OF_JOB),
            Kind::Tasks => step.has_variable(GPUS_OF_STEP),
            Kind::Extern => false,
        }
}

/// Every other GPU, even one that no configuration lists, and its other device nodes.
fn foreign(config: &NodeConfig, own: &[Gpu]) -> Result<Foreign, StepError> {
    Foreign::to(own, &config.gpu_files, config.fence_drm, &Roots::system()).map_err(StepError::Devices)
}

fn fence_around(config: &NodeConfig, own: &[Gpu]) -> Result<Fence, StepError> {
    let foreign = foreign(config, own)?;
    let closed = foreign.gpus.into_iter().chain(foreign.attached).collect();
    Ok(Fence::around(own, closed))
}

fn fenced(step: Step, fence: Fence) -> Result<Fenced, StepError> {
    let page = SharedPage::new().map_err(StepError::Page)?;
    Ok(Fenced {
        job_id: step.job_id().unwrap_or(0),
        refused: None,
        recorded: None,
        check: fence.clone(),
        fence: StepFence::of(fence),
        variables: Vec::new(),
        reach: None,
        is_healed: false,
        share_gpu: None,
        page,
        forked: 0,
        root: crate::root(),
    })
}

/// Whether Slurm gave the step itself a share.
fn has_share(config: &NodeConfig, step: Step) -> bool {
    SHARE_VARIABLES.iter().any(|(gres, variable)| config.share_gres == *gres && step.has_variable(variable))
}

/// gpushare.conf: `conf=PATH` in plugstack.conf, otherwise in the directory of slurmd's slurm.conf or in /etc/slurm.
/// slurmstepd of 22.05 knows the path of slurm.conf itself; later ones have it in the environment that slurmd gave
/// them.
fn node_config(arguments: &[Vec<u8>]) -> Result<NodeConfig, RulesError> {
    let mut named = None;
    for argument in arguments {
        match argument.strip_prefix(b"conf=") {
            Some(path) if path.starts_with(b"/") => named = Some(PathBuf::from(OsStr::from_bytes(path))),
            _ => return Err(RulesError::Argument(argument.clone())),
        }
    }
    let slurm_conf = || std::env::var_os("SLURM_CONF").map(PathBuf::from).or_else(daemon::slurm_conf);
    let path = named
        .or_else(|| slurm_conf().map(|path| config::find(&path, Path::new(config::FALLBACK))))
        .ok_or(RulesError::NoPath)?;
    // slurmd passes this to slurmstepd (src/slurmd/slurmstepd/slurmstepd.c, `_init_from_slurmd`).
    let node = std::env::var("SLURMD_NODENAME").ok();
    Ok(Ledger::system().rules(&path, node.as_deref())?)
}
