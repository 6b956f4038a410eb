//! Output of any length, for the command `gpushare`.

use std::process::ExitStatus;
use std::time::Duration;

use super::{AskError, Asked};

/// Passes on the output piece by piece, as long as the program is never silent for longer than `patience`. Returns how
/// the program ended, and its standard error.
///
/// # Errors
/// As [`Asked::answer`].
pub fn of(
    mut asked: Asked,
    patience: Duration,
    mut take: impl FnMut(&[u8]),
) -> Result<(ExitStatus, Vec<u8>), AskError> {
    asked.read(patience, true, &mut vec![0; 64 << 10], &mut |some| {
        take(some);
        true
    })
}
