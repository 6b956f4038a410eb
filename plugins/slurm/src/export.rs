//! The symbols that Slurm looks up in a plugin. They are defined here once, so that the plugins have no unsafe code and
//! every exported function has its guard and its fallback on one line.

pub mod job_submit;
mod spank;
mod spank_job;

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
