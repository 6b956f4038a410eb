//! One page of memory that slurmstepd shares with the tasks it forks: whether the fence is up, and if not, why.
//!
//! slurmstepd forks a task before its fence exists, and the task waits; ordinary memory would show it the state at the
//! fork. So slurmstepd maps the page shared before the first fork and writes it once, and each task reads it when it
//! continues.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// What slurmstepd tells its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceState {
    /// Nothing yet: the hook that should have set the state did not.
    None,
    /// The fence is up.
    Up,
    /// The fence is not up, for this reason.
    Failed(String),
}

const NONE: u8 = 0;
const UP: u8 = 1;
const FAILED: u8 = 2;
const LONGEST: usize = 1000;

#[repr(C)]
struct Page {
    state: AtomicU8,
    length: AtomicUsize,
    text: [AtomicU8; LONGEST],
}

/// The shared page; lives as long as the process.
#[derive(Debug)]
pub struct SharedPage(NonNull<Page>);

// SAFETY: the page is never unmapped and holds nothing but atomics.
unsafe impl Send for SharedPage {}

impl SharedPage {
    /// Maps a page that children of fork(2) share. It is never unmapped: slurmstepd ends with its step.
    ///
    /// # Errors
    /// There is no memory for it.
    #[doc(alias = "mmap")]
    pub fn new() -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping; touches no existing memory.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Page>(), protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast()).map(SharedPage).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
    }

    fn page(&self) -> &Page {
        // SAFETY: the mapping is large and aligned enough, zeroed (a valid Page), never unmapped, and all atomics.
        unsafe { self.0.as_ref() }
    }

    /// Sets the state for all tasks, already forked or not.
    pub fn set(&self, verdict: &FenceState) {
        let page = self.page();
        let state = match verdict {
            FenceState::None => NONE,
            FenceState::Up => UP,
            FenceState::Failed(reason) => {
                let reason = reason.as_bytes();
                for (place, byte) in page.text.iter().zip(reason) {
                    place.store(*byte, Ordering::Relaxed);
                }
                page.length.store(reason.len().min(LONGEST), Ordering::Relaxed);
                FAILED
            }
        };
        page.state.store(state, Ordering::Release);
    }

    /// The last state that was set.
    pub fn get(&self) -> FenceState {
        let page = self.page();
        match page.state.load(Ordering::Acquire) {
            UP => FenceState::Up,
            FAILED => {
                let length = page.length.load(Ordering::Relaxed);
                let bytes: Vec<u8> =
                    page.text.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)).collect();
                FenceState::Failed(String::from_utf8_lossy(&bytes).into_owned())
            }
            _ => FenceState::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read() {
        let page = SharedPage::new().unwrap();
        assert_eq!(page.get(), FenceState::None);
        page.set(&FenceState::Up);
        assert_eq!(page.get(), FenceState::Up);
        page.set(&FenceState::Failed("no such device".to_owned()));
        assert_eq!(page.get(), FenceState::Failed("no such device".to_owned()));
        page.set(&FenceState::Failed("x".repeat(5000)));
        assert_eq!(page.get(), FenceState::Failed("x".repeat(LONGEST)));
        page.set(&FenceState::None);
        assert_eq!(page.get(), FenceState::None);
    }
}
