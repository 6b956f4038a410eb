//! The units assigned on each GPU, summed by user, so that a choice costs the same with 1 entry and with 1,000.
//!
//! The file `balance` only caches the sum of the entries: it becomes invalid before an entry changes and is written
//! afterwards. If it is invalid, torn, or doesn't match the folder of entries, the ledger ignores it and sums the
//! entries again. So it needn't be human-readable: it has a head of [`Stamp`] and count, then rows of fixed size, all
//! with little-endian numbers.

use gpushare::root_file;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::{Entry, Garbage, Holding, JOBS, Ledger, LedgerError, Locked, Unread};
use crate::gpu::DeviceNumber;

const FILE: &str = "balance";
const MAGIC: &[u8; 8] = b"GSHARE-2";
/// The magic, the three numbers of the stamp, and the number of rows.
const HEAD: usize = 40;
const ROW: usize = 36;
/// A longer balance is not cached.
const LONGEST: u64 = 1 << 20;
/// Means that no GPU was allocated.
const NONE: u32 = u32::MAX;

/// The sum of what is assigned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    rows: Vec<Row>,
}

/// What one user has on one GPU, all with the same capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The GPU's device number.
    pub gpu: DeviceNumber,
    /// The user of the jobs.
    pub user_id: u32,
    /// Slurm's index of the GPU that it allocated for the shares, if it did.
    pub allocated_gpu: Option<u32>,
    /// The units that filled the GPU when these shares were given; 0 for a whole GPU.
    pub capacity: u32,
    /// How many shares.
    pub shares: u32,
    /// Their units in total.
    pub units: u64,
    /// How many jobs have the whole GPU: one, unless Slurm gave it twice.
    pub wholes: u32,
}

impl Row {
    fn is_empty(&self) -> bool {
        self.shares == 0 && self.wholes == 0
    }

    /// The units in terms of today's capacity, in case `UnitsPerGpu` was changed since they were given. Rounded up, so
    /// that nothing is given twice.
    pub fn units_of(&self, capacity: u32) -> u64 {
        on_scale(self.units, self.capacity, capacity)
    }
}

/// Converts units of a GPU with `was` units to one with `now` units.
pub fn on_scale(units: u64, was: u32, now: u32) -> u64 {
    if was == now || was == 0 {
        return units;
    }
    let scaled = (u128::from(units) * u128::from(now)).div_ceil(u128::from(was));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Balance {
    /// Sums entries.
    pub fn of(entries: &[Entry]) -> Balance {
        let mut balance = Balance::default();
        for entry in entries {
            balance.add(entry);
        }
        balance
    }

    /// One row for each GPU, user and allocated GPU that has any share or job.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn rows_of(entry: &Entry) -> impl Iterator<Item = Row> {
        entry.gpus.iter().map(|gpu| {
            let row = Row { gpu: gpu.number, user_id: entry.user_id, ..Row::default() };
            match entry.holding {
                Holding::Share { units, capacity, allocated_gpu, .. } => {
                    Row { allocated_gpu, capacity, shares: 1, units: units.into(), ..row }
                }
                Holding::Whole => Row { wholes: 1, ..row },
            }
        })
    }

    fn find(&mut self, row: &Row) -> Option<&mut Row> {
        let same = |other: &&mut Row| {
            (other.gpu, other.user_id, other.allocated_gpu, other.capacity)
                == (row.gpu, row.user_id, row.allocated_gpu, row.capacity)
        };
        self.rows.iter_mut().find(same)
    }

    fn add(&mut self, entry: &Entry) {
        for row in Balance::rows_of(entry) {
            match self.find(&row) {
                Some(found) => {
                    found.shares = found.shares.saturating_add(row.shares);
                    found.units = found.units.saturating_add(row.units);
                    found.wholes = found.wholes.saturating_add(row.wholes);
                }
                None => self.rows.push(row),
            }
        }
    }

    /// Subtracts an entry. `None` if the balance doesn't contain it, and so must be wrong.
    fn take(&mut self, entry: &Entry) -> Option<()> {
        for row in Balance::rows_of(entry) {
            let found = self.find(&row)?;
            found.shares = found.shares.checked_sub(row.shares)?;
            found.units = found.units.checked_sub(row.units)?;
            found.wholes = found.wholes.checked_sub(row.wholes)?;
        }
        self.rows.retain(|row| !row.is_empty());
        Some(())
    }

    fn parse(bytes: &[u8], stamp: Stamp) -> Option<Balance> {
        let (head, rows) = bytes.split_at_checked(HEAD)?;
        let (rows, rest) = rows.as_chunks::<ROW>();
        let is_current = head == stamp.head(rows.len()).as_slice() && rest.is_empty();
        is_current.then(|| rows.iter().map(Row::parse).collect()).map(|rows| Balance { rows })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.rows.len() * ROW);
        for row in &self.rows {
            row.write(&mut bytes);
        }
        bytes
    }
}

impl Row {
    fn parse(bytes: &[u8; ROW]) -> Row {
        let word = |at: usize| {
            let (words, _) = bytes.as_chunks::<4>();
            words.get(at).map_or(0, |word| u32::from_le_bytes(*word))
        };
        Row {
            gpu: DeviceNumber { major: word(0), minor: word(1) },
            user_id: word(2),
            allocated_gpu: Some(word(3)).filter(|allocated_gpu| *allocated_gpu != NONE),
            shares: word(4),
            wholes: word(5),
            capacity: word(6),
            units: u64::from(word(7)) | u64::from(word(8)) << 32,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let Row { gpu, user_id, allocated_gpu, capacity, shares, units, wholes } = *self;
        for word in [gpu.major, gpu.minor, user_id, allocated_gpu.unwrap_or(NONE), shares, wholes, capacity] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&units.to_le_bytes());
    }
}

/// The state of the folder of entries: any file that appears or disappears changes it, whoever did it. Two changes
/// within one tick of the kernel's clock may look the same, so our own changes also make the file invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    seconds: i64,
    nanoseconds: i64,
    size: u64,
}

impl Stamp {
    fn of(jobs: &Path) -> Option<Stamp> {
        let found = jobs.symlink_metadata().ok()?;
        Some(Stamp { seconds: found.mtime(), nanoseconds: found.mtime_nsec(), size: found.size() })
    }

    fn head(self, rows: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&self.seconds.to_le_bytes());
        head.extend_from_slice(&self.nanoseconds.to_le_bytes());
        head.extend_from_slice(&self.size.to_le_bytes());
        head.extend_from_slice(&(rows as u64).to_le_bytes());
        head
    }
}

/// What the holder of the lock already knows.
pub(super) type Known = RefCell<Option<Balance>>;

/// The file, which is invalid while entries change.
#[derive(Debug)]
pub(super) struct Draft {
    file: File,
    balance: Option<Balance>,
}

impl Draft {
    /// Leaves the file invalid.
    pub(super) fn forget(&mut self) {
        self.balance = None;
    }
}

impl Ledger {
    fn written_balance(&self) -> Option<Balance> {
        let bytes = root_file::read(&self.dir.join(FILE), LONGEST).ok()??;
        Balance::parse(&bytes, Stamp::of(&self.dir.join(JOBS))?)
    }
}

impl Locked<'_> {
    /// What is assigned, and which files in the folder of entries can't be read. The latter is known only if the
    /// entries had to be summed.
    ///
    /// # Errors
    /// The folder of entries can't be read.
    pub(crate) fn balance(&self) -> Result<(Balance, Unread), LedgerError> {
        if let Some(balance) = self.ledger.written_balance() {
            self.known.replace(Some(balance.clone()));
            return Ok((balance, Unread::default()));
        }
        let listing = self.list()?;
        let balance = Balance::of(&listing.entries);
        let (others, garbage): (Vec<Garbage>, Vec<Garbage>) =
            listing.garbage.into_iter().partition(Garbage::is_entry);
        // If some entries can't be read, the file stays invalid, so that every caller finds them.
        if others.is_empty()
            && let Ok(mut draft) = self.draft()
        {
            draft.balance = Some(balance.clone());
            self.settle(draft, |_| Some(()));
        }
        Ok((balance, Unread { garbage, others }))
    }

    /// Makes the file invalid while entries change.
    ///
    /// # Errors
    /// The file can't be opened or written.
    pub(super) fn draft(&self) -> Result<Draft, LedgerError> {
        let path = self.ledger.dir.join(FILE);
        let balance = self.known.take().or_else(|| self.ledger.written_balance());
        if balance.is_none() {
            self.clear(&path);
        }
        let failed = |error| LedgerError::Write(path.clone(), error);
        let file = root_file::open(&path).map_err(failed)?;
        // A full file system may have no room for a new file's content, but allows an empty file.
        file.write_all_at(&[0; MAGIC.len()], 0).or_else(|_| file.set_len(0)).map_err(failed)?;
        Ok(Draft { file, balance })
    }

    /// Writes the file again after `change`, which returns `None` if the new balance is unknown. If writing fails, the
    /// file stays invalid and the next caller sums the entries.
    pub(super) fn settle(&self, draft: Draft, change: impl FnOnce(&mut Balance) -> Option<()>) {
        let Some(mut balance) = draft.balance else { return };
        if let (Some(()), Some(stamp)) = (change(&mut balance), Stamp::of(&self.ledger.dir.join(JOBS))) {
            let rows = balance.bytes();
            let head = stamp.head(balance.rows.len());
            // The head is written last: without it the rows are ignored.
            let written = draft
                .file
                .set_len((HEAD + rows.len()) as u64)
                .and_then(|()| draft.file.write_all_at(&rows, HEAD as u64))
                .and_then(|()| draft.file.write_all_at(&head, 0));
            if written.is_ok() {
                self.known.replace(Some(balance));
            }
        }
    }

    /// Adds an entry, which may replace another.
    pub(super) fn settle_record(&self, draft: Draft, old: Option<&Entry>, new: &Entry) {
        self.settle(draft, |balance| {
            old.map_or(Some(()), |old| balance.take(old))?;
            balance.add(new);
            Some(())
        });
    }

    /// Subtracts a removed entry.
    pub(super) fn settle_removal(&self, draft: Draft, old: &Entry) {
        self.settle(draft, |balance| balance.take(old));
    }
}
