//! Mends that tests take out, one at a time: each closes one way past a limit, and the siege must find the way again.
//!
//! In a build that is installed, [`mended`] is always `true`, and the compiler removes the question. With the feature
//! `mends-out`, `GPUSHARE_WITHOUT` of the process names the mends that are out, separated by commas.

/// Whether this mend is in.
#[cfg(not(feature = "mends-out"))]
#[inline]
#[must_use]
pub const fn mended(_name: &str) -> bool {
    true
}

/// Whether this mend is in.
#[cfg(feature = "mends-out")]
#[must_use]
pub fn mended(name: &str) -> bool {
    use std::sync::LazyLock;
    static OUT: LazyLock<String> = LazyLock::new(|| std::env::var("GPUSHARE_WITHOUT").unwrap_or_default());
    !OUT.split(',').any(|out| out == name)
}
