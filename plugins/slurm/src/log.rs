//! Slurm's log as a backend of the crate `log`: one line to the log of the daemon that loaded us; in srun and sbatch,
//! to the user's terminal.
//!
//! `error!` is for what an administrator must act on, `info!` for a verdict, `debug!` for a reason. The text is an
//! argument of `%s`, never the format. From a step's task, `error!` reaches the user's terminal too.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::line::{c_string, error, forget_errno};

/// A logger that begins each line with this.
pub struct Slurm(pub &'static str);

/// Sends the messages of `log`'s macros to Slurm. The logger belongs to this .so alone; if one is already set, it is
/// this one.
pub fn install(logger: &'static Slurm) {
    let _ = log::set_logger(logger);
    log::set_max_level(LevelFilter::Debug);
}

impl Log for Slurm {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    #[doc(alias = "slurm_info")]
    #[doc(alias = "slurm_debug")]
    fn log(&self, record: &Record) {
        let line = c_string(format!("{}{}", self.0, record.args()));
        forget_errno();
        match record.level() {
            Level::Error | Level::Warn => error(line.to_string_lossy()),
            // SAFETY: printf-like; one %s and one C string.
            Level::Info => unsafe { slurm_sys::slurm_info(c"%s".as_ptr(), line.as_ptr()) },
            // SAFETY: printf-like; one %s and one C string.
            Level::Debug | Level::Trace => unsafe { slurm_sys::slurm_debug(c"%s".as_ptr(), line.as_ptr()) },
        }
    }

    fn flush(&self) {}
}
