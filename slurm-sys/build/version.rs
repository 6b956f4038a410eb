//! The Slurm version of the headers and what came with it, as the C preprocessor sees them (version.c) and never typed
//! by hand: slurmctld refuses a job_submit plugin of another micro release, and slurmstepd a SPANK plugin of another
//! release (Slurm's src/common/plugin.c).

use std::fmt;
use std::path::Path;

/// The oldest release that the project knows.
pub const OLDEST: Version = Version(0x16_05_00);

/// What the headers are of.
pub struct Headers {
    /// Their version.
    pub version: Version,
    /// The cfgs that hold, such as `slurm_23_02`.
    pub has: Vec<String>,
    /// Those that don't.
    pub lacks: Vec<String>,
}

/// major << 16 | minor << 8 | micro, like `SLURM_VERSION_NUM` of slurm_version.h.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Version(u32);

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}.{:02}.{}", self.0 >> 16, (self.0 >> 8) & 0xff, self.0 & 0xff)
    }
}

/// What the preprocessor says of the headers in `include`.
///
/// # Errors
/// There is no C compiler, the header can't be read, or it has no version.
pub fn of(include: &Path) -> Result<Headers, String> {
    let header = include.join("slurm/slurm_version.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let expanded = cc::Build::new().file("build/version.c").include(include).warnings(false).try_expand();
    let text = expanded.map_err(|error| format!("the C preprocessor on {}: {error}", header.display()))?;
    let text = String::from_utf8_lossy(&text);
    let said = |word: &str| {
        let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
        lines.filter(|(first, _)| *first == word).map(|(_, rest)| rest.trim().to_owned()).collect::<Vec<_>>()
    };
    let digits = said("gpushare_version").join(" ");
    let number = digits.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let number = number
        .ok_or_else(|| format!("{}: SLURM_VERSION_NUMBER is '{digits}', not '0x…'", header.display()))?;
    Ok(Headers { version: Version(number), has: said("gpushare_has"), lacks: said("gpushare_lacks") })
}
