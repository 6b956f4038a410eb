//! Slurm's log as a backend of the crate `log`: one line to the log of the daemon that loaded us; in srun and sbatch,
//! to the user's terminal.
//!
//! `error!` is for what an administrator must act on, `info!` for a verdict, `debug!` for a reason. The text is an
//! argument of `%s`, never the format. From a step's task, `error!` reaches the user's terminal too.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::line::{c_string, error, forget_errno};

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
