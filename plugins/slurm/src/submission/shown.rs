//! A job as slurmctld shows it to clients, for which it reads nothing from its disk: whether it is like another.
//!
//! slurmctld packs a job's record in the form of its release, and Slurm's library unpacks it. Two records of an array
//! are packed into nearly the same bytes, and unpacking costs five times as much. So a byte that differs is looked into
//! only once: if others there, alone, leave what a rule reads as it was, it is no part of that, nor of a length
//! on which that depends, and a record that differs only in such bytes is alike.

use std::ffi::c_int;
use std::ptr::NonNull;

use slurm_sys::{assoc_mgr_lock_t, job_info, packed_t};

use crate::packed;

/// Of records with more different bytes, lengths may differ. With another length alone, Slurm's library would complain
/// in the log.
const MOST_LOOKED_INTO: usize = 24;

/// A packed job.
#[derive(Debug)]
pub(super) struct Shown {
    packed: Vec<u8>,
    /// Which bytes were looked into, and whether another one may be there.
    looked: Vec<Option<bool>>,
}

impl Shown {
    /// The job; `None` if slurmctld shows none.
    ///
    /// # Safety
    /// The record is one of slurmctld's, under its job lock, and this thread holds none of assoc_mgr's locks.
    #[doc(alias = "pack_job")]
    pub unsafe fn of(record: *mut slurm_sys::job_record) -> Option<(Shown, Unpacked)> {
        // SAFETY: the caller's promise.
        let packed = unsafe { with_packed(record, |packed| packed.to_vec()) }?;
        let unpacked = Unpacked::of(&packed)?;
        Some((Shown { looked: vec![None; packed.len()], packed }, unpacked))
    }

    /// Whether the same is read of another record; `same` compares what a rule reads of it.
    ///
    /// # Safety
    /// As for [`Shown::of`].
    pub unsafe fn is_like(
        &mut self,
        record: *mut slurm_sys::job_record,
        same: impl Fn(Unpacked) -> bool,
    ) -> bool {
        let same = |packed: &[u8]| Unpacked::of(packed).is_some_and(&same);
        // SAFETY: the caller's promise.
        let reads_like = unsafe { with_packed(record, |other| self.reads_like(other, same)) };
        reads_like == Some(true)
    }

    fn reads_like(&mut self, other: &[u8], same: impl Fn(&[u8]) -> bool) -> bool {
        if self.packed.len() == other.len() {
            let differs = |at: &usize| self.packed.get(*at) != other.get(*at);
            let looked: Vec<(usize, Option<bool>)> = (0..other.len())
                .filter(differs)
                .map(|at| (at, self.looked.get(at).copied().flatten()))
                .collect();
            if looked.iter().all(|(_, may_differ)| *may_differ == Some(true)) {
                return true;
            }
            if looked.len() <= MOST_LOOKED_INTO && same(other) {
                let news = looked.iter().filter(|(_, known)| known.is_none());
                for (at, _) in news {
                    self.look_into(*at, other.get(*at).copied().unwrap_or_default(), &same);
                }
                return true;
            }
        }
        same(other)
    }

    fn look_into(&mut self, at: usize, byte: u8, same: impl Fn(&[u8]) -> bool) {
        let own = self.packed.get(at).copied().unwrap_or_default();
        let may_differ = may_differ(own, byte, |byte| {
            let mut changed = self.packed.clone();
            if let Some(place) = changed.get_mut(at) {
                *place = byte;
            }
            same(&changed)
        });
        if let Some(place) = self.looked.get_mut(at) {
            *place = Some(may_differ);
        }
    }
}

/// Whether any other byte may be in this one's place. A byte of flags may have some that a rule reads, so beside the
/// byte of another record the opposite of each bit is tried.
fn may_differ(own: u8, other: u8, reads_like: impl FnMut(u8) -> bool) -> bool {
    [other, !own].into_iter().all(reads_like)
}

/// Shows what slurmctld packs of the job.
///
/// # Safety
/// As for [`Shown::of`].
unsafe fn with_packed<T>(record: *mut slurm_sys::job_record, show: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let pack = |buffer: *mut packed_t| {
        // As `pack_one_job` of slurmctld does. `pack_job` would release a lock on QOSes that it doesn't always take.
        let mut held =
            assoc_mgr_lock_t { assoc: 0, file: 0, qos: READ, res: 0, tres: 0, user: READ, wckey: 0 };
        // SAFETY: seven levels, as assoc_mgr.h declares them; this thread holds no such lock (the caller's promise).
        unsafe { slurm_sys::assoc_mgr_lock(&raw mut held) };
        // SAFETY: the caller's promise; the newest form that this slurmctld has, without details.
        unsafe { slurm_sys::pack_job(record, 0, buffer, packed::NEWEST, 0, true) };
        // SAFETY: locked above.
        unsafe { slurm_sys::assoc_mgr_unlock(&raw mut held) };
    };
    packed::with_packed(pack, show)
}

const READ: c_int = 1;

/// A message with one job, in Slurm's memory.
#[derive(Debug)]
pub struct Unpacked(NonNull<slurm_sys::job_info_msg_t>);

impl Unpacked {
    fn of(packed: &[u8]) -> Option<Unpacked> {
        packed::unpacked(packed::JOB, packed).map(|message| Unpacked(message.cast()))
    }

    #[cfg(test)]
    pub(super) fn at(message: NonNull<slurm_sys::job_info_msg_t>) -> Unpacked {
        Unpacked(message)
    }

    pub(super) fn job(&self) -> Option<&job_info> {
        // SAFETY: what the library made of a message of this kind.
        let first = unsafe { (*self.0.as_ptr()).job_array };
        // SAFETY: null, or the only job.
        unsafe { first.as_ref() }
    }
}

impl Drop for Unpacked {
    #[doc(alias = "slurm_free_job_info_msg")]
    fn drop(&mut self) {
        // SAFETY: made by the library, not used afterwards.
        unsafe { slurm_sys::slurm_free_job_info_msg(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::may_differ;

    #[test]
    fn a_byte_with_a_flag_that_a_rule_reads_never_may_differ() {
        for own in 0..=u8::MAX {
            for (other, bit) in (0..=u8::MAX).flat_map(|other| (0..8).map(move |bit| (other, 1 << bit))) {
                let reads_like = |byte: u8| byte & bit == own & bit;
                assert!(!may_differ(own, other, reads_like), "{own:#x}, {other:#x}, flag {bit:#x}");
            }
            assert!(may_differ(own, !own, |_| true), "no rule reads it");
        }
    }
}
