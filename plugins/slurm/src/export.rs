//! The symbols that Slurm looks up in a plugin. They are defined here once, so that the plugins have no unsafe code and
//! every exported function has its guard and its fallback on one line.

use std::ffi::{c_char, c_int};

use slurm_sys::{job_desc_msg_t, job_record};

use crate::guard;
use crate::submission::{Record, ReturnCode, Submission};

/// The three data symbols that every plugin needs to be loaded (src/common/plugin.c). The version is that of the
/// headers.
#[doc(hidden)]
#[macro_export]
macro_rules! export_identity {
    ($name:literal, $type:literal) => {
        #[allow(non_upper_case_globals, missing_docs, reason = "Slurm looks the names up")]
        mod identity {
            /// C's `char[]`, including the NUL.
            const fn text<const N: usize>(text: &str) -> [u8; N] {
                let mut bytes = [0; N];
                let mut at = 0;
                while at < text.len() {
                    bytes[at] = text.as_bytes()[at];
                    at += 1;
                }
                bytes
            }
            #[unsafe(no_mangle)]
            pub static plugin_name: [u8; $name.len() + 1] = text($name);
            #[unsafe(no_mangle)]
            pub static plugin_type: [u8; $type.len() + 1] = text($type);
            #[unsafe(no_mangle)]
            pub static plugin_version: u32 = $crate::private::SLURM_VERSION_NUMBER;
        }
    };
}

/// Exports a job_submit plugin: `init`, `job_submit` and `job_modify`, for the release of the headers.
///
/// `init = f` takes `fn() -> bool`; `false` makes slurmctld refuse to load the plugin, which is fatal for it.
/// `submit = f` takes `fn(&mut Submission, u32) -> ReturnCode`: the description and the submitting user. `modify = f`
/// takes `fn(&mut Submission, &Record, u32) -> ReturnCode`: the changes, the current job, and the user who changes it.
#[macro_export]
macro_rules! export_job_submit {
    (
        name = $name:literal, type = $type:literal, init = $init:path, submit = $submit:path,
        modify = $modify:path $(,)?
    ) => {
        $crate::export_identity!($name, $type);

        #[allow(missing_docs, reason = "Slurm looks the names up")]
        mod exports {
            use super::*;
            use std::ffi::{c_char, c_int};
            use $crate::private::job_desc_msg_t;
            use $crate::submission::{ReturnCode, Submission};

            /// Called once, before the first call of the others, in slurmctld as SlurmUser.
            #[unsafe(no_mangle)]
            pub extern "C" fn init() -> c_int {
                $crate::guard::run("init", -1, || {
                    $crate::log::install();
                    if $init() { 0 } else { -1 }
                })
            }

            /// Called for every submission, in a thread of slurmctld, under its read locks; from 23.02 several at once.
            ///
            /// # Safety
            /// Called by slurmctld, with a job description and the place of a message.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn job_submit(
                description: *mut job_desc_msg_t,
                submitter: u32,
                message: *mut *mut c_char,
            ) -> c_int {
                $crate::guard::run("job_submit", ReturnCode::Failure.code(), || {
                    // SAFETY: slurmctld's arguments, valid during this call.
                    match unsafe { Submission::new(description, message) } {
                        Some(mut submission) => $submit(&mut submission, submitter).code(),
                        None => ReturnCode::Failure.code(),
                    }
                })
            }
        }

        $crate::export_job_modify!($modify);
    };
}

/// Called for every update of a job, under slurmctld's write locks, so one at a time, and once for each record of an
/// array or het job. From 23.02 on there is a fourth argument, a place for a message. Up to 22.05 there is none, and
/// its register is not read. If gpushare itself fails, the update is refused.
#[cfg(slurm_23_02)]
#[doc(hidden)]
#[macro_export]
macro_rules! export_job_modify {
    ($modify:path) => {
        #[allow(missing_docs, reason = "Slurm looks the name up")]
        mod modify {
            use super::*;
            use std::ffi::{c_char, c_int};
            use $crate::private::{job_desc_msg_t, job_record, run_modify};

            /// # Safety
            /// Called by slurmctld, with an update, the job's record and the place of a message.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn job_modify(
                changes: *mut job_desc_msg_t,
                record: *mut job_record,
                submitter: u32,
                message: *mut *mut c_char,
            ) -> c_int {
                // SAFETY: slurmctld's arguments, valid during this call.
                unsafe { run_modify(changes, record, message, |update, job| $modify(update, job, submitter)) }
            }
        }
    };
}

/// See the other definition.
#[cfg(not(slurm_23_02))]
#[doc(hidden)]
#[macro_export]
macro_rules! export_job_modify {
    ($modify:path) => {
        #[allow(missing_docs, reason = "Slurm looks the name up")]
        mod modify {
            use super::*;
            use std::ffi::c_int;
            use $crate::private::{job_desc_msg_t, job_record, run_modify};

            /// # Safety
            /// Called by slurmctld, with an update and the job's record.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn job_modify(
                changes: *mut job_desc_msg_t,
                record: *mut job_record,
                submitter: u32,
            ) -> c_int {
                let none = std::ptr::null_mut();
                // SAFETY: slurmctld's arguments, valid during this call.
                unsafe { run_modify(changes, record, none, |update, job| $modify(update, job, submitter)) }
            }
        }
    };
}

/// The body of both forms of job_modify.
///
/// # Safety
/// The arguments are those of slurmctld's call of job_modify(); `message` may be null.
#[doc(hidden)]
pub unsafe fn run_modify(
    changes: *mut job_desc_msg_t,
    record: *mut job_record,
    message: *mut *mut c_char,
    modify: impl FnOnce(&mut Submission, &Record) -> ReturnCode,
) -> c_int {
    guard::run("job_modify", ReturnCode::Failure.code(), || {
        // SAFETY: the caller's promise.
        let update = unsafe { Submission::new(changes, message) };
        // SAFETY: the same; the record doesn't outlive this call.
        let record = unsafe { Record::new(record) };
        match (update, record) {
            (Some(mut update), Some(record)) => modify(&mut update, &record).code(),
            _ => ReturnCode::Failure.code(),
        }
    })
}

/// Exports a SPANK plugin: each `hook = function, on panic = answer` becomes a symbol. A function takes the step and
/// the arguments of plugstack.conf. Outside of slurmstepd it is not called, and the hook succeeds.
#[macro_export]
macro_rules! export_spank {
    (name = $name:literal, $($hook:ident = $function:path, on panic = $answer:ident;)+) => {
        $crate::export_identity!($name, "spank");

        #[allow(missing_docs, reason = "Slurm looks the names up")]
        mod exports {
            use std::ffi::{c_char, c_int};
            use super::*;
            use $crate::private::spank_t;
            use $crate::spank::{ReturnCode, arguments, with_step};

            $(
                /// # Safety
                /// Called by slurmstepd, srun, sbatch or salloc as a SPANK hook.
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $hook(handle: spank_t, count: c_int, list: *mut *mut c_char) -> c_int {
                    $crate::guard::run(stringify!($hook), ReturnCode::$answer.code(), || {
                        $crate::log::install();
                        // SAFETY: the arguments with which this hook was called.
                        let arguments = unsafe { arguments(count, list) };
                        // SAFETY: the handle with which this hook was called.
                        let answer = unsafe { with_step(handle, |step| $function(step, &arguments)) };
                        answer.unwrap_or(ReturnCode::Success).code()
                    })
                }
            )+
        }
    };
}

/// Exports the SPANK hooks that slurmd runs around a job, in a separate process, with a prolog's environment: each
/// `hook = function` becomes a symbol. They always return 0; anything else drains the node.
#[macro_export]
macro_rules! export_spank_job {
    (name = $name:literal, $($hook:ident = $function:path;)+) => {
        $crate::export_identity!($name, "spank");

        #[allow(missing_docs, reason = "Slurm looks the names up")]
        mod exports {
            use std::ffi::{c_char, c_int};
            use super::*;
            use $crate::private::spank_t;

            $(
                #[unsafe(no_mangle)]
                pub extern "C" fn $hook(_: spank_t, _: c_int, _: *mut *mut c_char) -> c_int {
                    $crate::guard::run(stringify!($hook), 0, || {
                        $function();
                        0
                    })
                }
            )+
        }
    };
}
