//! The safe layer between gpushare's plugins and the Slurm daemon that loads them. The plugins themselves forbid unsafe
//! code; this crate has what C needs, each piece with its contract.
//!
//! - [`export_job_submit!`] and [`export_spank!`]: the symbols that Slurm looks up, each behind [`guard`].
//! - [`submission`]: a job description, read into a plain [`gpushare::submit::request::Request`] and written back; the
//!   job that an update changes.
//! - [`accounting`]: the daemon's cache of the accounting database, under its locks.
//! - [`spank`]: the handle of a SPANK hook. [`shared_page`]: memory that a step shares with its tasks.
//! - [`log`]: connects the crate of that name to the daemon's log. [`text`]: C strings.
//!
//! Nothing here starts a thread, changes the process, prints, resolves a name or sends an RPC.

pub mod accounting;
pub mod daemon;
#[doc(hidden)]
pub mod export;
#[cfg(test)]
mod fake;
pub mod guard;
mod line;
pub mod log;
mod packed;
pub mod shared_page;
pub mod spank;
pub mod submission;
pub mod text;

/// For the export macros only.
#[doc(hidden)]
pub mod private {
    pub use slurm_sys::{SLURM_VERSION_NUMBER, job_desc_msg_t, job_record, spank_t};
}
