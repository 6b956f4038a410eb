//! One line to the log of the daemon that loaded us; in srun and sbatch, to the user's terminal.
//!
//! `error` is what an administrator must act on, `info` a verdict, `debug` a reason. The text is an argument of `%s`,
//! never the format. From a step's task, `error` reaches the user's terminal too.

use crate::text::c_string;

/// An administrator must act.
#[doc(alias = "slurm_error")]
pub fn error(line: impl AsRef<[u8]>) {
    let line = c_string(line);
    // SAFETY: printf-like; one %s and one C string.
    unsafe { slurm_sys::slurm_error(c"%s".as_ptr(), line.as_ptr()) }
}

/// What was decided.
#[doc(alias = "slurm_info")]
pub fn info(line: impl AsRef<[u8]>) {
    let line = c_string(line);
    // SAFETY: printf-like; one %s and one C string.
    unsafe { slurm_sys::slurm_info(c"%s".as_ptr(), line.as_ptr()) }
}

/// Why.
#[doc(alias = "slurm_debug")]
pub fn debug(line: impl AsRef<[u8]>) {
    let line = c_string(line);
    // SAFETY: printf-like; one %s and one C string.
    unsafe { slurm_sys::slurm_debug(c"%s".as_ptr(), line.as_ptr()) }
}
