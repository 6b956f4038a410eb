//! What is assigned on each GPU, summed by user, so that a choice costs the same beside 1 entry and beside 1,000.
//!
//! The file `balance` is never the truth, only its sum: it is emptied before an entry changes and written after. One that
//! is empty, torn, or not of the folder of entries as that is now, counts for nothing, and the entries are summed anew.

use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Entry, Garbage, Holding, Ledger, LedgerError, Locked, Unread, file};
use crate::device::DeviceNumber;

const FIRST_WORD: &str = "gpushare-balance-1";
const LAST_LINE: &str = "end\n";
/// A balance that needs more is summed every time.
const LONGEST: u64 = 1 << 20;

/// What is assigned, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    rows: Vec<Row>,
}

/// What one user has of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which GPU.
    pub gpu: DeviceNumber,
    /// Whose jobs.
    pub user_id: u32,
    /// The GPU that Slurm charged for the shares, by its index, where it did.
    pub charged: Option<u32>,
    /// How many shares.
    pub shares: u32,
    /// Their units.
    pub units: u64,
    /// How many jobs have the GPU whole: one, or Slurm gave it twice.
    pub wholes: u32,
}

impl Row {
    fn is_empty(&self) -> bool {
        self.shares == 0 && self.wholes == 0
    }
}

impl Balance {
    /// Sums entries.
    #[must_use]
    pub fn of(entries: &[Entry]) -> Balance {
        let mut balance = Balance::default();
        for entry in entries {
            balance.add(entry);
        }
        balance
    }

    /// A row for each GPU, user and charged GPU that there is anything of.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn rows_of(entry: &Entry) -> impl Iterator<Item = Row> {
        entry.gpus.iter().map(|gpu| {
            let row = Row {
                gpu: gpu.number,
                user_id: entry.user_id,
                charged: None,
                shares: 0,
                units: 0,
                wholes: 0,
            };
            match entry.holding {
                Holding::Share { units, charged, .. } => {
                    Row { charged, shares: 1, units: units.into(), ..row }
                }
                Holding::Whole => Row { wholes: 1, ..row },
            }
        })
    }

    fn find(&mut self, row: &Row) -> Option<&mut Row> {
        let same = |other: &&mut Row| {
            (other.gpu, other.user_id, other.charged) == (row.gpu, row.user_id, row.charged)
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

    /// `None` where the balance never had the entry, and so can't be right.
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

    fn parse(text: &str, stamp: &str) -> Option<Balance> {
        let mut lines = text.strip_suffix(LAST_LINE)?.lines();
        let current = lines.next()?.strip_prefix(FIRST_WORD)?.strip_prefix(' ')? == stamp;
        let row = |line: &str| {
            let mut words = line.split(' ');
            let mut number = || words.next()?.parse::<u32>().ok();
            Some(Row {
                gpu: DeviceNumber { major: number()?, minor: number()? },
                user_id: number()?,
                shares: number()?,
                wholes: number()?,
                units: words.next()?.parse().ok()?,
                charged: match words.next()? {
                    "-" => None,
                    index => Some(index.parse().ok()?),
                },
            })
        };
        let rows = lines.map(row).collect::<Option<_>>()?;
        current.then_some(Balance { rows })
    }

    fn text(&self, stamp: &str) -> String {
        let mut text = format!("{FIRST_WORD} {stamp}\n");
        for Row { gpu, user_id, charged, shares, units, wholes } in &self.rows {
            let charged = charged.map_or_else(|| "-".to_owned(), |index| index.to_string());
            let _ =
                writeln!(text, "{} {} {user_id} {shares} {wholes} {units} {charged}", gpu.major, gpu.minor);
        }
        text + LAST_LINE
    }
}

/// The file, emptied while entries change.
#[derive(Debug)]
pub(super) struct Draft {
    file: File,
    balance: Option<Balance>,
}

impl Draft {
    /// The file stays empty.
    pub(super) fn forget(&mut self) {
        self.balance = None;
    }
}

impl Ledger {
    fn balance_path(&self) -> std::path::PathBuf {
        self.dir.join("balance")
    }

    fn written_balance(&self) -> Option<Balance> {
        let bytes = file::read(&self.balance_path(), LONGEST).ok()??;
        Balance::parse(std::str::from_utf8(&bytes).ok()?, &stamp(&self.jobs())?)
    }
}

impl Locked<'_> {
    /// What is assigned, and what is in the entries' place and can't be read; that is looked for only where the entries
    /// had to be summed.
    pub fn balance(&self) -> Result<(Balance, Unread), LedgerError> {
        if let Some(balance) = self.ledger.written_balance() {
            return Ok((balance, Unread::default()));
        }
        let listing = self.list()?;
        let balance = Balance::of(&listing.entries);
        let (others, garbage): (Vec<Garbage>, Vec<Garbage>) =
            listing.garbage.into_iter().partition(Garbage::is_entry);
        // While there are entries that nobody here can read, everybody shall meet them.
        if others.is_empty()
            && let Ok(mut draft) = self.draft()
        {
            draft.balance = Some(balance.clone());
            self.settle(draft, |_| Some(()));
        }
        Ok((balance, Unread { garbage, others }))
    }

    /// Empties the file, for as long as entries change.
    pub(super) fn draft(&self) -> Result<Draft, LedgerError> {
        let path = self.ledger.balance_path();
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            self.set_aside("balance", &path);
        }
        let failed = |error| LedgerError::Write(path.clone(), error);
        let mut file = file::open(&path).map_err(failed)?;
        let mut bytes = Vec::with_capacity(1024);
        Read::by_ref(&mut file).take(LONGEST).read_to_end(&mut bytes).map_err(failed)?;
        let current = |text| Balance::parse(text, &stamp(&self.ledger.jobs())?);
        let balance = std::str::from_utf8(&bytes).ok().and_then(current);
        file.set_len(0).map_err(failed)?;
        Ok(Draft { file, balance })
    }

    /// Writes the file again, with a change that gives `None` where it can't be told. Failing to leaves it empty or torn,
    /// and the next one sums.
    pub(super) fn settle(&self, mut draft: Draft, change: impl FnOnce(&mut Balance) -> Option<()>) {
        let Some(mut balance) = draft.balance else { return };
        if let (Some(()), Some(stamp)) = (change(&mut balance), stamp(&self.ledger.jobs()))
            && draft.file.seek(SeekFrom::Start(0)).is_ok()
        {
            let _ = draft.file.write_all(balance.text(&stamp).as_bytes());
        }
    }

    /// An entry comes, perhaps in the place of another.
    pub(super) fn settle_record(&self, draft: Draft, old: Option<&Entry>, new: &Entry) {
        self.settle(draft, |balance| {
            old.map_or(Some(()), |old| balance.take(old))?;
            balance.add(new);
            Some(())
        });
    }

    /// An entry has gone.
    pub(super) fn settle_removal(&self, draft: Draft, old: &Entry) {
        self.settle(draft, |balance| balance.take(old));
    }
}

/// The folder as it is: any file that comes or goes, by whomever, changes it. Two changes within one tick of the kernel's
/// clock may look alike, so our own empty the file too.
fn stamp(jobs: &Path) -> Option<String> {
    let of = |found: Metadata| format!("{}.{} {}", found.mtime(), found.mtime_nsec(), found.size());
    jobs.symlink_metadata().ok().map(of)
}
