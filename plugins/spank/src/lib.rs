//! spank_gpushare.so, which slurmstepd loads from plugstack.conf: fences each step of a job to the job's GPUs and tells
//! the programs of a share which GPU they have. In srun, sbatch and salloc, which load it too, it only adds the option
//! `--gpu-mps` ([`own_mps`]).
//!
//! The hooks, all in slurmstepd, in this order:
//!
//! | hook | process, user | here |
//! |---|---|---|
//! | `init` | slurmstepd, root | read gpushare.conf; keep users out of cgroups (22.05); close others' GPUs; [`heal`] |
//! | `user_init` | slurmstepd, effective user is the job's | read what the job has ([`step`]), set its environment |
//! | `task_post_fork` | slurmstepd, root; the task waits | after the last task: put the fence up, note the outcome |
//! | `task_init` | the task, as the job's user | read the outcome, check every GPU, set the environment |
//! | `exit` | slurmstepd, root | open the GPU again for the job's other steps |
//!
//! `init` reads gpushare.conf because the job's user may not. It also closes GPUs to programs that other plugins run as
//! the user before there are tasks. `task_init` comes before the task's program.
//!
//! The extern step has no tasks: only `init`, `task_post_fork` and `exit` run there. No hook before `task_init` returns
//! a failure, because for a batch job slurmd would drain the node. It is recorded instead, and `task_init` fails the
//! task with one line to the user. Such a step gets a fence without any GPU, because a failing task doesn't stop an ssh
//! session or the program of `srun --task-epilog`, which Slurm runs even then. If even that fence fails in `init`, a
//! step other than a batch job's or the extern step does not start.
#![forbid(unsafe_code)]

mod cgroup;
mod error;
mod heal;
mod own_mps;
mod step;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use gpushare_node::config::NodeConfig;
use gpushare_node::environment::PYTORCH;
use gpushare_node::environment::agree::{SHARD_MEMORY, agree};
use gpushare_node::environment::inherited::{inherited, misleading};
use gpushare_node::fence::Fault;
use gpushare_node::fence::access;
use gpushare_node::fence::mend::{Mender, Watch};
use gpushare_node::ledger::{Entry, Ledger, LedgerError, Locked, Witness, extern_step};
use gpushare_node::memory::{self, Limited};
use gpushare_node::mps::Reach;
use gpushare_node::proc::start_time;
use gpushare_slurm::export_spank;
use gpushare_slurm::shared_page::FenceState;
use gpushare_slurm::spank::{Kind, ReturnCode, Step};
use parking_lot::Mutex;

use error::TaskError;
use step::{Fenced, GPUS_OF_STEP, StepState};

export_spank! {
    name = "gpushare",
    option = own_mps::OPTION;
    slurm_spank_init = init, on panic = Success;
    slurm_spank_user_init = user_init, on panic = Success;
    slurm_spank_task_post_fork = task_post_fork, on panic = Success;
    slurm_spank_task_init = task_init, on panic = Failure;
    slurm_spank_exit = exit, on panic = Success;
}

/// Prologs hold the ledger's lock for milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// What this slurmstepd knows about its step; a forked task has a copy.
static STATE: Mutex<StepState> = Mutex::new(StepState::Unknown);

/// The slurmstepd of an extern step. A later hook may run in a child of it.
static WITNESS: Mutex<Option<Witness>> = Mutex::new(None);

/// Opens the job's GPU again if this step ends without its fence.
static MENDER: Mutex<Option<Mender>> = Mutex::new(None);

/// In the extern step: does it for steps that are killed.
static WATCH: Mutex<Option<Watch>> = Mutex::new(None);

fn witness() -> Option<Witness> {
    *WITNESS.lock()
}

fn with_state<T>(work: impl FnOnce(&mut StepState) -> T) -> T {
    // After a panic this is the state that was left; its page still tells the tasks that no fence is up.
    work(&mut STATE.lock())
}

fn init(step: Step, arguments: &[Vec<u8>]) -> ReturnCode {
    panic_if_asked(step, "init");
    with_state(|state| {
        *state = StepState::configured(arguments);
        if state.may_fence()
            && let Err(reason) = cgroup::close_to_users()
        {
            log::error!("spank/gpushare: job {}: {reason}", step.job_id().unwrap_or(0));
        }
        if step.kind() == Kind::Extern {
            let pid = std::process::id();
            let start = start_time(Path::new("/proc"), pid).ok().flatten();
            *WITNESS.lock() = start.map(|start| Witness { pid, start });
        }
        if state.may_fence()
            && let Err(reason) = state.prepare(step, witness())
        {
            let id = step.job_id().unwrap_or(0);
            log::error!("spank/gpushare: job {id}: GPUs not closed from the start: {reason}");
            if step.kind() == Kind::Extern {
                tell_the_other_steps(step, &reason.to_string());
                return ReturnCode::Success;
            }
            // `srun --task-epilog` runs even for tasks that fail, so such a step must not begin. A batch step has no
            // task epilog, and its failure would drain the node.
            if !step.is_batch() {
                return ReturnCode::Failure;
            }
        }
        (*MENDER.lock(), *WATCH.lock()) = state.take_menders();
        ReturnCode::Success
    })
}

fn user_init(step: Step, _arguments: &[Vec<u8>]) -> ReturnCode {
    panic_if_asked(step, "user_init");
    with_state(|state| {
        let has_gpus = state.has_gpus(step);
        let value = |name: &str| step.variable(name).map(|text| String::from_utf8_lossy(&text).into_owned());
        let mut names = inherited(value, has_gpus, state.placement());
        misleading(&mut names, has_gpus).into_iter().for_each(|name| remove(step, name));
        state.read(step, None);
        let given = if let StepState::Fenced(fenced) = &*state { fenced.variables.as_slice() } else { &[] };
        // The user's own value for PyTorch stays, but this isn't theirs. What the step is given is replaced.
        let is_replaced = |name: &str| name != PYTORCH && given.iter().any(|(known, _)| known == name);
        names.into_iter().filter(|name| !is_replaced(name)).for_each(|name| remove(step, name));
        if let StepState::Fenced(fenced) = state {
            set_environment(step, fenced);
        }
        if step.has_variable(own_mps::SENT) {
            own_mps::note();
            remove(step, own_mps::SENT);
        }
    });
    ReturnCode::Success
}

fn task_post_fork(step: Step, _arguments: &[Vec<u8>]) -> ReturnCode {
    panic_if_asked(step, "task_post_fork");
    with_state(|state| {
        if step.kind() == Kind::Extern {
            state.read(step, witness());
        }
        match state {
            StepState::Fenced(fenced) => after_a_fork(step, fenced),
            StepState::Failed(error) if step.kind() == Kind::Extern => {
                tell_the_other_steps(step, &error.to_string());
            }
            StepState::Failed(_) | StepState::Unknown | StepState::Configured(..) | StepState::NotOurs => {}
        }
    });
    ReturnCode::Success
}

fn after_a_fork(step: Step, fenced: &mut Fenced) {
    fenced.forked += 1;
    // Slurm writes rules for each task; ours come after the last.
    if fenced.forked < step.local_tasks() && step.kind() == Kind::Tasks {
        return;
    }
    let put_up = |()| fenced.fence.put_up().map_err(|error| error.to_string());
    let verdict = match fail_if_asked(step).and_then(put_up) {
        Ok(()) => {
            if let Some(mender) = MENDER.lock().take() {
                mender.dismiss();
            }
            FenceState::Up
        }
        Err(reason) => {
            log::error!("spank/gpushare: job {}: no fence: {reason}", fenced.job_id);
            FenceState::Failed(reason)
        }
    };
    if fenced.is_healed && fenced.refused.is_none() {
        log::error!("gpushare: {}", heal::NOTICE);
    }
    match &verdict {
        FenceState::Failed(reason) if step.kind() == Kind::Extern => {
            tell_the_other_steps(step, reason);
        }
        FenceState::Up if step.kind() == Kind::Extern => {
            if let Some((entry, config)) = &fenced.recorded {
                stand_for(entry);
                limit_memory(fenced, entry, config);
            }
        }
        _ => {}
    }
    fenced.page.set(&verdict);
}

/// The extern step has no task that could fail. So the job's other steps must fail; otherwise an ssh session could
/// bypass the fence.
fn tell_the_other_steps(step: Step, reason: &str) {
    let reason = format!("ssh sessions can't be fenced: {reason}");
    let job = (step.job_id().unwrap_or(0), step.user_id().unwrap_or(0));
    in_ledger(job.0, |locked| extern_step::fail(&locked, witness(), job, &reason));
}

/// Notes this slurmstepd, which lives as long as the job: if it is gone but the entry is still there, the epilog never
/// ran.
fn stand_for(entry: &Entry) {
    let Some(witness) = witness() else { return };
    in_ledger(entry.key.id, |locked| extern_step::note(&locked, entry.key, witness));
}

fn in_ledger(job_id: u32, work: impl FnOnce(Locked) -> Result<(), LedgerError>) {
    if let Err(error) = Ledger::system().lock(LOCK_WAIT).and_then(work) {
        log::error!("spank/gpushare: job {job_id}: {error}");
    }
}

/// Limits the GPU memory of everything in the job, if the machine offers that. Otherwise the job runs as usual: MPS
/// limits each of its programs.
fn limit_memory(fenced: &Fenced, entry: &Entry, config: &NodeConfig) {
    let Some(cgroup) = fenced.fence.job() else { return };
    let id = entry.key.id;
    match memory::limit(config, entry, cgroup) {
        Ok(Limited::Not) => {}
        Ok(by) => log::debug!("spank/gpushare: job {id}: GPU memory limited, {by:?}"),
        Err(error) => log::error!("spank/gpushare: job {id}: its GPU memory is not limited: {error}"),
    }
}

fn task_init(step: Step, _arguments: &[Vec<u8>]) -> ReturnCode {
    panic_if_asked(step, "task_init");
    let lacks_mps = with_state(|state| own_mps::is_missing(step, state));
    let outcome = with_state(|state| match state {
        StepState::NotOurs if lacks_mps => Err(TaskError::NoOwnMps),
        StepState::NotOurs => Ok(()),
        StepState::Unknown | StepState::Configured(..) => Err(TaskError::NoHook),
        StepState::Failed(error) => Err(TaskError::Told(error.to_string())),
        StepState::Fenced(fenced) => {
            set_environment(step, fenced);
            match (&fenced.refused, fenced.page.get()) {
                (Some(refused), _) => Err(TaskError::Told(refused.to_string())),
                (None, FenceState::Up) if lacks_mps => Err(TaskError::NoOwnMps),
                (None, FenceState::Up) => check(fenced).map(|()| own_mps::name_gpus(step, fenced)),
                (None, FenceState::None) => Err(TaskError::NoFence),
                (None, FenceState::Failed(reason)) => Err(TaskError::Told(reason)),
            }
        }
    });
    match outcome {
        Ok(()) => ReturnCode::Success,
        Err(error) => {
            log::error!("gpushare: this job can't have its GPU here: {error}");
            ReturnCode::Failure
        }
    }
}

/// Checks the fence, and that the task reaches its MPS daemon: without the daemon it would run without limits.
fn check(fenced: &Fenced) -> Result<(), TaskError> {
    // The extern step may have failed after this step was read. An error here would have occurred then, too.
    if let Ok(Some(Entry { failure: Some(reason), .. })) = Ledger::system().find(fenced.job_id) {
        return Err(TaskError::Told(reason));
    }
    check_fence(fenced)?;
    fenced.reach.as_ref().and_then(Reach::fault).map_or(Ok(()), |why| Err(why.into()))
}

/// A GPU that is not the job's must be closed now. The start of another step may close the job's own GPU for a moment
/// (Slurm rewrites the job's rules), so this waits for it. If another plugin has put the task into a container, the
/// GPU's device node may be missing there.
fn check_fence(fenced: &Fenced) -> Result<(), TaskError> {
    let elsewhere = root() != fenced.root;
    let fence = if elsewhere { &fenced.check.of_what_is_there(access::of) } else { &fenced.check };
    let held = access::held().map_err(TaskError::Status)?;
    if let Some(fault) = fence.held(&held) {
        return Err(fault.into());
    }
    let mut patience = 2000;
    loop {
        match fence.fault(access::of) {
            None => return Ok(()),
            Some(Fault::Closed(_)) if patience > 0 => {
                patience -= 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Some(fault) => return Err(fault.into()),
        }
    }
}

/// The root directory of this process, by device and inode number.
fn root() -> Option<(u64, u64)> {
    Path::new("/").metadata().ok().map(|root| (root.dev(), root.ino()))
}

/// Allows the job's other steps to open the GPU again, if this step started and ended without its fence, wherever it
/// stopped: its output may be a file that can't be opened, or another plugin may have failed.
fn exit(step: Step, _arguments: &[Vec<u8>]) -> ReturnCode {
    panic_if_asked(step, "exit");
    if let Some(Err(error)) = MENDER.lock().take().map(Mender::mend) {
        log::error!("spank/gpushare: job {}: {error}", step.job_id().unwrap_or(0));
    }
    if let Some(watch) = WATCH.lock().take() {
        watch.end();
    }
    ReturnCode::Success
}

/// Removes a variable that the job has only because it was sent from within another share.
fn remove(step: Step, name: &str) {
    if !step.unset_variable(name) {
        log::error!("spank/gpushare: job {}: {name} could not be removed", step.job_id().unwrap_or(0));
    }
}

fn set_environment(step: Step, fenced: &Fenced) {
    let index = fenced.share_gpu.map(|index| index.to_string());
    // Slurm sets this variable only in some steps; there it names the GPU that was allocated.
    let of_step =
        index.filter(|_| step.has_variable(GPUS_OF_STEP)).map(|index| (GPUS_OF_STEP.to_owned(), index));
    let mut variables = fenced.variables.clone();
    if let Some(slurms) = step.variable(SHARD_MEMORY)
        && let Some(pci) = fenced.share_pci()
    {
        agree(&mut variables, &String::from_utf8_lossy(&slurms), pci);
    }
    for (name, value) in variables.into_iter().chain(of_step) {
        if name == PYTORCH && step.has_variable(&name) {
            continue;
        }
        // A task has most of them from user_init, and Slurm clears 256 KiB for each variable that it sets.
        if step.variable(&name).is_some_and(|now| now == value.as_bytes()) {
            continue;
        }
        if !step.set_variable(&name, &value) {
            log::error!("spank/gpushare: job {}: {name} could not be set", fenced.job_id);
        }
    }
}

#[cfg(feature = "panic-for-test")]
#[allow(clippy::panic, reason = "this build is for the test that a panic is harmless")]
fn panic_if_asked(step: Step, hook: &str) {
    let asked = step.variable("GPUSHARE_TEST_PANIC");
    assert!(asked.as_deref() != Some(hook.as_bytes()), "asked to by the job's environment");
}

#[cfg(not(feature = "panic-for-test"))]
fn panic_if_asked(_: Step, _: &str) {}

/// For tests that a failing fence fails the job: the file names the kind of step.
#[cfg(feature = "panic-for-test")]
fn fail_if_asked(step: Step) -> Result<(), String> {
    let asked = std::fs::read_to_string("/lab/out/no-fence").unwrap_or_default();
    let kind = match step.kind() {
        Kind::Extern => "extern",
        Kind::Script => "batch interactive",
        Kind::Tasks => "srun",
    };
    let fails = kind.split(' ').any(|kind| kind == asked.trim());
    if fails { Err("no fence, on purpose".to_owned()) } else { Ok(()) }
}

#[cfg(not(feature = "panic-for-test"))]
fn fail_if_asked(_: Step) -> Result<(), String> {
    Ok(())
}
