//! The handle of a SPANK hook: which step this is, and its environment.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;

use slurm_sys::spank_t;

use crate::line::c_string;
use crate::text;

/// Longest value of a variable that is read.
const LONGEST: usize = 1024;

/// A step inside slurmstepd, valid during a hook.
#[derive(Clone, Copy, Debug)]
pub struct Step<'hook> {
    handle: spank_t,
    _hook: PhantomData<&'hook ()>,
}

/// Which kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Holds adopted processes; has no tasks.
    Extern,
    /// The batch script or the interactive shell: one task, with everything that the job has on this node.
    Script,
    /// Started by srun; may have less than its job.
    Tasks,
}

/// Runs `body` with the step of a hook. Outside of slurmstepd, returns `None` without running it: srun and sbatch load
/// the plugin too.
///
/// # Safety
/// `handle` is the one that Slurm passed to the running hook.
#[doc(alias = "spank_remote")]
pub unsafe fn with_step<T>(handle: spank_t, body: impl for<'hook> FnOnce(Step<'hook>) -> T) -> Option<T> {
    // SAFETY: checks the handle itself and returns -1 for a wrong one (src/common/spank.c).
    let in_slurmstepd = unsafe { slurm_sys::spank_remote(handle) } == 1;
    in_slurmstepd.then(|| body(Step { handle, _hook: PhantomData }))
}

impl Step<'_> {
    #[doc(alias = "spank_get_item")]
    fn number(self, item: slurm_sys::spank_item_t) -> Option<u32> {
        let mut value: u32 = 0;
        // SAFETY: the items requested below all take a `uint32_t *`, or a `uid_t *`, which is the same (spank.h).
        let code = unsafe { slurm_sys::spank_get_item(self.handle, item, &raw mut value) };
        (code == slurm_sys::SPANK_SUCCESS).then_some(value)
    }

    /// The job's number.
    pub fn job_id(self) -> Option<u32> {
        self.number(slurm_sys::S_JOB_ID)
    }

    /// The job's user.
    pub fn user_id(self) -> Option<u32> {
        self.number(slurm_sys::S_JOB_UID)
    }

    /// The main group of the job's user.
    pub fn group_id(self) -> Option<u32> {
        self.number(slurm_sys::S_JOB_GID)
    }

    /// The number of tasks of this step on this node.
    pub fn local_tasks(self) -> u32 {
        self.number(slurm_sys::S_JOB_LOCAL_TASK_COUNT).unwrap_or(1)
    }

    /// Whether it runs a batch script.
    pub fn is_batch(self) -> bool {
        self.number(slurm_sys::S_JOB_STEPID) == Some(slurm_sys::SLURM_BATCH_SCRIPT)
    }

    /// Which kind of step it is.
    pub fn kind(self) -> Kind {
        match self.number(slurm_sys::S_JOB_STEPID) {
            Some(slurm_sys::SLURM_EXTERN_CONT) => Kind::Extern,
            Some(slurm_sys::SLURM_BATCH_SCRIPT | slurm_sys::SLURM_INTERACTIVE_STEP) => Kind::Script,
            _ => Kind::Tasks,
        }
    }

    /// Slurm's name for the step's directory in each cgroup hierarchy (src/plugins/cgroup/common); a het job's
    /// component has a suffix.
    pub fn folder(self) -> Option<String> {
        Some(match self.number(slurm_sys::S_JOB_STEPID)? {
            slurm_sys::SLURM_EXTERN_CONT => "step_extern".to_owned(),
            slurm_sys::SLURM_BATCH_SCRIPT => "step_batch".to_owned(),
            slurm_sys::SLURM_INTERACTIVE_STEP => "step_interactive".to_owned(),
            number => format!("step_{number}"),
        })
    }

    /// A variable of the step's environment, if it is set and not too long.
    #[doc(alias = "spank_getenv")]
    pub fn variable(self, name: &str) -> Option<Vec<u8>> {
        let name = c_string(name);
        let mut buffer: [c_char; LONGEST] = [0; LONGEST];
        let length = c_int::try_from(LONGEST).unwrap_or(0);
        // SAFETY: writes at most `length` bytes, NUL included, or returns an error (src/common/spank.c).
        let code =
            unsafe { slurm_sys::spank_getenv(self.handle, name.as_ptr(), buffer.as_mut_ptr(), length) };
        if code != slurm_sys::SPANK_SUCCESS {
            return None;
        }
        // SAFETY: ends in NUL after success.
        unsafe { text::bytes(buffer.as_ptr()) }.map(<[u8]>::to_vec)
    }

    /// Whether a variable is set in the step's environment, however long it is.
    pub fn has_variable(self, name: &str) -> bool {
        let name = c_string(name);
        let mut buffer: [c_char; 1] = [0; 1];
        // SAFETY: writes at most one byte, or returns an error (src/common/spank.c).
        let code = unsafe { slurm_sys::spank_getenv(self.handle, name.as_ptr(), buffer.as_mut_ptr(), 1) };
        code == slurm_sys::SPANK_SUCCESS || code == slurm_sys::ESPANK_NOSPACE
    }

    /// Sets a variable of the step's environment; `false` if Slurm refuses.
    #[doc(alias = "spank_setenv")]
    pub fn set_variable(self, name: &str, value: &str) -> bool {
        let (name, value) = (c_string(name), c_string(value));
        // SAFETY: two C strings, which Slurm copies.
        let code = unsafe { slurm_sys::spank_setenv(self.handle, name.as_ptr(), value.as_ptr(), 1) };
        code == slurm_sys::SPANK_SUCCESS
    }

    /// Removes a variable from the step's environment; `false` if Slurm refuses.
    #[doc(alias = "spank_unsetenv")]
    pub fn unset_variable(self, name: &str) -> bool {
        let name = c_string(name);
        // SAFETY: a C string, which Slurm only compares with others.
        let code = unsafe { slurm_sys::spank_unsetenv(self.handle, name.as_ptr()) };
        code == slurm_sys::SPANK_SUCCESS
    }
}

/// An option without a value of sbatch, salloc and srun.
#[derive(Debug)]
pub struct CommandOption {
    /// `--name`
    pub name: &'static CStr,
    /// What `--help` says about it.
    pub usage: &'static CStr,
    /// The variables in which Slurm passes it to the programs of a job, and to the command of salloc.
    pub sent: [&'static str; 2],
    /// What Slurm calls where it is given: in the command, and in each slurmstepd of a step that has it, after the hook
    /// `init`.
    pub used: unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int,
}

/// Makes an option known in this process. A table of options, `spank_options`, would not do: sbatch and salloc don't
/// read it (src/common/plugstack.c, `_spank_plugin_create`).
///
/// # Safety
/// `handle` is the one that Slurm passed to the running hook, `init`.
#[doc(alias = "spank_option_register")]
pub unsafe fn register(handle: spank_t, option: &CommandOption) {
    let mut told = slurm_sys::spank_option {
        name: option.name.as_ptr().cast_mut(),
        arginfo: ptr::null_mut(),
        usage: option.usage.as_ptr().cast_mut(),
        has_arg: 0,
        val: 0,
        cb: Some(option.used),
    };
    // SAFETY: takes nothing.
    let submits = unsafe { slurm_sys::spank_context() } == slurm_sys::S_CTX_ALLOCATOR;
    if submits && std::env::var_os("SLURM_JOB_ID").is_some() {
        // A job submitted from within salloc has the option only if it asks for it. srun begins a step there.
        for name in option.sent {
            // SAFETY: sbatch and salloc load plugins before they have a second thread.
            unsafe { std::env::remove_var(name) };
        }
    }
    // If it refuses the option, it says so, and doesn't know it.
    // SAFETY: Slurm copies the structure and its texts (src/common/plugstack.c, `_spank_option_copy`).
    let _ = unsafe { slurm_sys::spank_option_register(handle, &raw mut told) };
}

/// A hook's result. Any failure is -1: releases up to 24.11 treat a positive code as success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReturnCode {
    /// Continue.
    Success,
    /// Fail the task; in hooks other than `task_init` this would drain the node.
    Failure,
}

impl ReturnCode {
    /// The hook's return value.
    pub const fn code(self) -> c_int {
        match self {
            ReturnCode::Success => 0,
            ReturnCode::Failure => -1,
        }
    }
}

/// The arguments of the plugin's line in plugstack.conf.
///
/// # Safety
/// `arguments` is what Slurm passed to the running hook: `count` C strings.
pub unsafe fn arguments(count: c_int, arguments: *mut *mut c_char) -> Vec<Vec<u8>> {
    let count = usize::try_from(count).unwrap_or(0);
    if arguments.is_null() {
        return Vec::new();
    }
    (0..count)
        .filter_map(|at| {
            // SAFETY: at < count.
            let place = unsafe { arguments.add(at) };
            // SAFETY: within the array.
            let argument: *const c_char = unsafe { *place };
            // SAFETY: null or a C string, valid during the hook; copied.
            unsafe { text::bytes(argument) }.map(<[u8]>::to_vec)
        })
        .collect()
}
