//! What a SPANK plugin exports.

/// Exports a SPANK plugin: each `hook = function, on panic = answer` becomes a symbol. A function takes the step and
/// the arguments of plugstack.conf. Outside of slurmstepd it is not called, and the hook succeeds. The option is
/// registered everywhere.
#[macro_export]
macro_rules! export_spank {
    (name = $name:literal, option = $option:path; $($hook:ident = $function:path, on panic = $answer:ident;)+) => {
        $crate::export_identity!($name, "spank");

        #[allow(missing_docs, reason = "Slurm looks the names up")]
        mod exports {
            use std::ffi::{c_char, c_int};
            use super::*;
            use $crate::private::spank_t;
            use $crate::spank::{ReturnCode, arguments, register, with_step};

            $(
                /// # Safety
                /// Called by slurmstepd, srun, sbatch or salloc as a SPANK hook.
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $hook(handle: spank_t, count: c_int, list: *mut *mut c_char) -> c_int {
                    $crate::guard::run(stringify!($hook), ReturnCode::$answer.code(), || {
                        $crate::log::install(&$crate::log::Slurm(""));
                        if stringify!($hook) == "slurm_spank_init" {
                            // SAFETY: the handle with which this hook was called.
                            unsafe { register(handle, &$option) };
                        }
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
