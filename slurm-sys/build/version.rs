//! The Slurm version of the headers, from slurm_version.h and never typed by hand: slurmctld refuses a job_submit
//! plugin of another micro release, and slurmstepd a SPANK plugin of another release (Slurm's src/common/plugin.c).

use std::fmt;
use std::path::Path;

/// The oldest release that the project knows.
pub const OLDEST: Version = Version(0x16_05_00);

/// major << 16 | minor << 8 | micro, like `SLURM_VERSION_NUM` of slurm_version.h.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Version(u32);

impl Version {
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}.{:02}.{}", self.0 >> 16, (self.0 >> 8) & 0xff, self.0 & 0xff)
    }
}

/// That of the headers in `include`.
///
/// # Errors
/// The header can't be read, or names no version.
pub fn of(include: &Path) -> Result<Version, String> {
    let path = include.join("slurm/slurm_version.h");
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("#define SLURM_VERSION_NUMBER 0x"))
        .and_then(|digits| u32::from_str_radix(digits.trim(), 16).ok())
        .map(Version)
        .ok_or_else(|| format!("{}: no line '#define SLURM_VERSION_NUMBER 0x…'", path.display()))
}
