//! Raw bindings of the Slurm headers found at build time, with C's own names. The only crate that sees them is
//! `gpushare-slurm`, which makes them safe.
//!
//! Layouts differ between releases, so a build is only for the release of its headers; bindgen's layout assertions stop
//! the build if Rust and C disagree.

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    clippy::all,
    clippy::pedantic,
    reason = "generated from C: names are Slurm's own"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

// C macros have no type, so the values that mean "nothing" are defined here with the fields' types.

/// "Not set" in a 16-bit field (`NO_VAL16` of slurm.h).
pub const UNSET_U16: u16 = 0xfffe;
/// "Not set" in a 32-bit field (`NO_VAL` of slurm.h).
pub const UNSET_U32: u32 = 0xffff_fffe;
/// "All", or "no limit" in a 32-bit field (`INFINITE` of slurm.h).
pub const ALL_U32: u32 = 0xffff_ffff;
/// "Not set" in a 64-bit field (`NO_VAL64` of slurm.h).
pub const UNSET_U64: u64 = u64::MAX - 1;
/// "No limit" in a 64-bit field (`INFINITE64` of slurm.h).
pub const UNLIMITED_U64: u64 = u64::MAX;
/// The code of a successful SPANK call (`ESPANK_SUCCESS` of slurm_errno.h).
pub const SPANK_SUCCESS: spank_err_t = 0;

const _: () = assert!(ESPANK_SUCCESS == SPANK_SUCCESS, "slurm_errno.h gives ESPANK_SUCCESS another value");
const _: () = assert!(NO_VAL16 == UNSET_U16 as u32, "slurm.h gives NO_VAL16 another value");
const _: () = assert!(NO_VAL == UNSET_U32, "slurm.h gives NO_VAL another value");
const _: () = assert!(NO_VAL64 as i64 as u64 == UNSET_U64, "slurm.h gives NO_VAL64 another value");
const _: () = assert!(INFINITE == ALL_U32, "slurm.h gives INFINITE another value");
const _: () = assert!(INFINITE64 as i64 as u64 == UNLIMITED_U64, "slurm.h gives INFINITE64 another value");
