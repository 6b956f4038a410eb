//! What a SPANK plugin exports whose hooks slurmd runs around a job, without a step.

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
                        $crate::log::install(&$crate::log::Slurm("spank/gpushare: "));
                        $function();
                        0
                    })
                }
            )+
        }
    };
}
