//! What /proc shows of any process's own memory: [`Image`] of a user's process, which may never answer.

use std::path::Path;
use std::time::Instant;

use super::image::Image;
use super::{beginning, real_ids};
use crate::exec::{Asked, program};

/// Debian's and RHEL's.
const CAT: &str = "/bin/cat";

/// The file's beginning, whoever's the process is; `None` if it is gone, or can't be read until then.
pub(crate) fn read(image: Image, proc: &Path, pid: u32, most: u64, until: Instant) -> Option<Vec<u8>> {
    if real_ids(proc, pid).ok()??.0 == 0 {
        return beginning(&image.path(proc, pid), most).ok()?;
    }
    let left = until.saturating_duration_since(Instant::now());
    let asked = Asked::start(program(Path::new(CAT)).arg(image.path(proc, pid)), "").ok()?;
    let (status, mut bytes, _) =
        asked.at_most(usize::try_from(most).unwrap_or(usize::MAX)).bytes(left).ok()?;
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    status.success().then_some(bytes)
}
