//! What a job_submit plugin exports.

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
            use $crate::private::{job_desc_msg_t, job_record};
            use $crate::submission::{Record, ReturnCode, Submission};

            /// Called once, before the first call of the others, in slurmctld as SlurmUser.
            #[unsafe(no_mangle)]
            pub extern "C" fn init() -> c_int {
                $crate::guard::run("init", -1, || {
                    $crate::log::install(&$crate::log::Slurm(""));
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

            $crate::export_job_modify!($modify);
        }
    };
}

/// From 23.02 on, job_modify has a fourth argument, a place for a message. Up to 22.05 there is none.
#[cfg(slurm_23_02)]
#[doc(hidden)]
#[macro_export]
macro_rules! export_job_modify {
    ($modify:path) => {
        $crate::export_job_modify_with!($modify, (message: *mut *mut c_char), message);
    };
}

/// See the other definition.
#[cfg(not(slurm_23_02))]
#[doc(hidden)]
#[macro_export]
macro_rules! export_job_modify {
    ($modify:path) => {
        $crate::export_job_modify_with!($modify, (), std::ptr::null_mut::<*mut c_char>());
    };
}

/// Called for every update of a job, under slurmctld's write locks, so one at a time, and once for each record of an
/// array or het job. If gpushare itself fails, the update is refused.
#[doc(hidden)]
#[macro_export]
macro_rules! export_job_modify_with {
    ($modify:path, ($($argument:ident: $type:ty)?), $message:expr) => {
        /// # Safety
        /// Called by slurmctld, with an update, the job's record and, if there is one, the place of a message.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn job_modify(
            changes: *mut job_desc_msg_t,
            record: *mut job_record,
            submitter: u32,
            $($argument: $type,)?
        ) -> c_int {
            $crate::guard::run("job_modify", ReturnCode::Failure.code(), || {
                // SAFETY: slurmctld's arguments, valid during this call.
                let update = unsafe { Submission::new(changes, $message) };
                // SAFETY: the same; the record doesn't outlive this call.
                let record = unsafe { Record::new(record) };
                match (update, record) {
                    (Some(mut update), Some(record)) => $modify(&mut update, &record, submitter).code(),
                    _ => ReturnCode::Failure.code(),
                }
            })
        }
    };
}
