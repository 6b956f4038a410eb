//! Slurm's log as a backend of the crate `log`: one line to the log of the daemon that loaded us; in srun and sbatch,
//! to the user's terminal.
//!
//! `error!` is for what an administrator must act on, `info!` for a verdict, `debug!` for a reason. The text is an
//! argument of `%s`, never the format. From a step's task, `error!` reaches the user's terminal too.

use std::fmt::Display;

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::c_string::c_string;

struct Slurm;

/// Sends the messages of `log`'s macros to Slurm. The logger belongs to this .so alone; if one is already set, it is
/// this one.
pub fn install() {
    let _ = log::set_logger(&Slurm);
    log::set_max_level(LevelFilter::Debug);
}

impl Log for Slurm {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    #[doc(alias = "slurm_info")]
    #[doc(alias = "slurm_debug")]
    fn log(&self, record: &Record) {
        let line = c_string(record.args().to_string());
        forget_errno();
        match record.level() {
            Level::Error | Level::Warn => error(record.args()),
            // SAFETY: printf-like; one %s and one C string.
            Level::Info => unsafe { slurm_sys::slurm_info(c"%s".as_ptr(), line.as_ptr()) },
            // SAFETY: printf-like; one %s and one C string.
            Level::Debug | Level::Trace => unsafe { slurm_sys::slurm_debug(c"%s".as_ptr(), line.as_ptr()) },
        }
    }

    fn flush(&self) {}
}

/// Slurm drops a line on its way to a standard error that is a socket, such as the journal's, if errno is still that of
/// any earlier call (src/common/log.c: `_fd_writeable`, where `rc` gets the result of a comparison; 22.05).
#[doc(alias = "__errno_location")]
fn forget_errno() {
    // SAFETY: the C library's pointer to this thread's errno; valid for as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else has this thread's.
    unsafe { *errno = 0 }
}

/// Logs an error with any logger: spank_gpushare_prolog.so has another one.
#[doc(alias = "slurm_error")]
pub(crate) fn error(line: impl Display) {
    let line = c_string(line.to_string());
    forget_errno();
    // SAFETY: printf-like; one %s and one C string.
    unsafe { slurm_sys::slurm_error(c"%s".as_ptr(), line.as_ptr()) }
}
