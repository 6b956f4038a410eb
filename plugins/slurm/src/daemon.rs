//! What the daemon says about itself: the path of its configuration and what its release does.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::text;

/// Whether an update makes a job's request anew from its strings, as from 23.02 on; before, it changes entries of the
/// old one (src/slurmctld/job_mgr.c, `_update_job`: `gres_job_state_list_dup`).
pub const UPDATES_ARE_MADE_ANEW: bool = cfg!(slurm_23_02);

/// Whether the directories of a step on cgroup v1 belong to the job's user, as they did before 23.02
/// (src/plugins/cgroup/v1/xcgroup.c, `xcgroup_create_hierarchy`).
pub const USERS_OWN_CGROUPS: bool = cfg!(not(slurm_23_02));

/// Declares functions that copy a text of slurm.conf's settings; `None` if it isn't set.
macro_rules! settings {
    ($($(#[$about:meta])* $vis:vis $name:ident => $member:ident;)+) => { $(
        $(#[$about])*
        $vis fn $name() -> Option<Vec<u8>> {
            let configuration = &raw const slurm_sys::slurm_conf;
            // SAFETY: the daemon's own global, set before it loads plugins (src/common/read_config.c); callers of
            // job_submit and job_modify hold slurmctld's configuration lock.
            let value = unsafe { (*configuration).$member };
            // SAFETY: null or a C string that the configuration owns; copied before it can change. On 22.05 a
            // reconfiguration may replace it, but job_submit's init() runs inside that same reconfiguration.
            unsafe { text::bytes(value) }.filter(|text| !text.is_empty()).map(<[u8]>::to_vec)
        }
    )+ };
}

settings! {
    conf_path => slurm_conf;
    state_save_location => state_save_location;
    priority_type => priority_type;
    /// `JobSubmitPlugins` of slurm.conf, as written there.
    pub job_submit_plugins => job_submit_plugins;
}

/// The path of the slurm.conf that the daemon uses; `None` if it has none.
pub fn slurm_conf() -> Option<PathBuf> {
    conf_path().map(|path| OsString::from_vec(path).into())
}

/// `StateSaveLocation`, the directory for slurmctld's persistent state; `None` if it has none.
pub fn state_folder() -> Option<PathBuf> {
    state_save_location().map(|path| OsString::from_vec(path).into())
}

/// Whether a held job whose nice value changes is released: priority/basic then gives it a priority of 2 or more
/// (src/slurmctld/job_mgr.c, `_update_job`).
pub fn nice_releases() -> bool {
    priority_type().is_some_and(|name| name == b"priority/basic")
}

/// When this slurmctld took control, in seconds since 1970; 0 for a standby, and for a moment at the start
/// (src/slurmctld/controller.c, `main`; 24.11 and later: also after a reconfiguration that failed).
pub fn control_time() -> i64 {
    let time = &raw const slurm_sys::control_time;
    // SAFETY: slurmctld's own global, which its main thread writes; a time_t is read in one piece.
    unsafe { time.read_volatile() }
}
