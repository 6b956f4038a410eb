//! What GPUs jobs held, how long they waited and what they used, as sacct prints it: a line for each run of a job, then
//! one for each of its steps. No user can write into these columns.
//!
//! jobacct_gather samples every task's processes, every 30 s by default, and asks NVML for the memory that they have
//! and for their utilization; it adds up GPUs (src/plugins/gpu/nvml/gpu_nvml.c, gpu_p_usage_read). slurmstepd keeps
//! each task's highest sample, and `TRESUsageInTot` is the sum of these over the step's tasks (mgr.c,
//! _local_jobacctinfo_aggregate, as of 23.02.3). So `gres/gpumem` is at least what the step had at once, in bytes, as
//! far as it was sampled, and `gres/gpuutil` a highest percentage, never an average over time. Both are recorded when a
//! step ends; a job's own line has neither. 22.05 has no such TRES.

use std::io::{self, BufRead};

use gpushare_slurm_text::Question;

/// Between two columns.
const DELIMITER: u8 = 0x1f;

/// Asks for every run of every job and its steps; the caller adds the times, and [`gpushare_slurm_text::job::TIMES`].
/// With [`NO_STEPS`], without the steps.
pub const USED: Question = (
    "sacct",
    &[
        "-a",
        "-n",
        "-P",
        "-D",
        "--noconvert",
        "--delimiter=\x1f",
        "--format=JobIDRaw,User,Account,QOS,AllocTRES,NodeList,Eligible,Start,End,State,TRESUsageInTot",
    ],
);

/// The option.
pub const NO_STEPS: &str = "-X";

gpushare::errors! {
    /// Why the lines can't be read.
    #[derive(Debug)]
    pub enum UsageError {
        NoRow(text: Vec<u8>) =>
            "sacct printed a line that is neither a job nor a step: '{}'", text.escape_ascii();
    } from {
        Read(io::Error)
    }
}

/// How much of a wrong line a message has.
const SHOWN: usize = 80;
/// Longer than a row, whatever its account's name.
const LONGEST: usize = 16 << 10;
/// The number of columns.
const FIELDS: usize = 11;

/// A line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row<'t> {
    /// The job's number.
    pub job: u64,
    /// The step, such as `batch` or `0`; `None` for the job itself.
    pub step: Option<&'t [u8]>,
    /// The job's user.
    pub user: &'t [u8],
    /// The account that was charged.
    pub account: &'t [u8],
    /// Its QOS.
    pub qos: &'t [u8],
    /// What it was given.
    pub given: &'t [u8],
    /// Its nodes, as a hostlist.
    pub nodes: &'t [u8],
    /// Since when it could have started, in seconds since 1970; `None` if it never could.
    pub eligible: Option<u32>,
    /// `None` if it never started.
    pub start: Option<u32>,
    /// `None` while it runs.
    pub end: Option<u32>,
    /// Such as `CANCELLED by 2001`.
    pub state: &'t [u8],
    /// What a step used, such as `cpu=9,gres/gpumem=36266M,gres/gpuutil=100`.
    pub used: &'t [u8],
}

impl<'t> Row<'t> {
    fn of(line: &'t [u8]) -> Option<Row<'t>> {
        let is_end = |byte: &u8| *byte == DELIMITER;
        let mut parts = line.splitn(3, is_end);
        let (id, user, rest) = (parts.next()?, parts.next()?, parts.next()?);
        // From the end: a coordinator may have named an account with any character.
        let fields: Vec<&[u8]> = rest.rsplitn(FIELDS - 2, is_end).collect();
        let [used, state, end, start, eligible, nodes, given, qos, account] = fields.try_into().ok()?;
        let (job, step) = match id.iter().position(|byte| *byte == b'.') {
            Some(at) => (id.get(..at)?, Some(id.get(at + 1..)?)),
            None => (id, None),
        };
        let job = number(job)?;
        // sacct prints `Unknown` or `None` if there is no time.
        let time = |text| number(text).and_then(|time| u32::try_from(time).ok()).filter(|time| *time > 0);
        let [eligible, start, end] = [eligible, start, end].map(time);
        Some(Row { job, step, user, account, qos, given, nodes, eligible, start, end, state, used })
    }

    /// Whether it is a federation's copy of a job that ran on another cluster.
    pub fn is_elsewhere(&self) -> bool {
        self.state.starts_with(b"REVOKED")
    }

    /// The most GPU memory that the step's tasks had, in bytes; `None` if it wasn't recorded.
    pub fn memory(&self) -> Option<u64> {
        self.amount(b"gres/gpumem=")
    }

    /// The highest utilization of a GPU by the step's tasks, in percent, added up; `None` if it wasn't recorded.
    pub fn utilization(&self) -> Option<u64> {
        self.amount(b"gres/gpuutil=")
    }

    fn amount(&self, name: &[u8]) -> Option<u64> {
        amount(self.used.split(|byte| *byte == b',').find_map(|part| part.strip_prefix(name))?)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads `38027657216`, and `36266M` or `35.42G`, as sacct prints numbers without `--noconvert`.
pub fn amount(text: &[u8]) -> Option<u64> {
    let (last, digits) = text.split_last()?;
    let shift = match last.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        b'P' => 50,
        _ => return number(text),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let (whole, rest) = (number(parts.next()?)?, parts.next().unwrap_or_default());
    // Two decimals, as sacct rounds.
    let cents = match rest {
        [] => 0,
        [tenths] => number(&[*tenths])? * 10,
        [tenths, cents, ..] => number(&[*tenths, *cents])?,
    };
    whole.checked_mul(1 << shift)?.checked_add((cents << shift) / 100)
}

/// Shows each row; the name of an account may have line breaks, so one may be several lines. Returns how many lines
/// can't be read.
///
/// # Errors
/// No line can be read.
pub fn read(from: &mut dyn BufRead, mut show: impl FnMut(&Row)) -> Result<u64, UsageError> {
    let mut shown = |text: &[u8]| Row::of(text).map(|row| show(&row)).is_some();
    let (mut line, mut parts, mut count) = (Vec::new(), Vec::new(), 0);
    let (mut is_any_read, mut wrong, mut unread) = (false, None, 0);
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line)?;
        let one = line.strip_suffix(b"\n").unwrap_or(&line);
        // A row by itself, or the end of one.
        let alone = !one.is_empty() && shown(one);
        if read == 0 || alone || parts.len() > LONGEST {
            unread += count;
            (parts, count) = (Vec::new(), 0);
        }
        is_any_read |= alone;
        if read == 0 {
            let nothing = wrong.filter(|_| !is_any_read).map(UsageError::NoRow);
            return nothing.map_or(Ok(unread), Err);
        }
        if alone || (one.is_empty() && count == 0) {
            continue;
        }
        wrong.get_or_insert_with(|| one.iter().take(SHOWN).copied().collect());
        parts.extend_from_slice(one);
        count += 1;
        if count > 1 && shown(&parts) {
            is_any_read = true;
            (parts, count) = (Vec::new(), 0);
        } else {
            parts.push(b'\n');
        }
    }
}

/// The remark on lines that can't be read, if there are such.
pub fn remark(unread: u64) -> Option<String> {
    let lines = if unread == 1 { "line" } else { "lines" };
    (unread > 0).then(|| format!("{unread} {lines} of sacct's can't be read: jobs may be missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Job, step, since when it could start, end, memory and utilization.
    type Shown = (u64, Option<String>, Option<u32>, Option<u32>, Option<u64>, Option<u64>);

    fn all(text: &str) -> Result<Vec<Shown>, UsageError> {
        let mut found = Vec::new();
        read(&mut text.replace('|', "\x1f").as_bytes(), |row| {
            let step = row.step.map(|step| String::from_utf8_lossy(step).into_owned());
            found.push((row.job, step, row.eligible, row.end, row.memory(), row.utilization()));
        })?;
        Ok(found)
    }

    #[test]
    fn a_job_has_steps_and_they_have_what_was_used() {
        let text = "7|u|a|q|gres/gpu=1|n1|90|100|200|COMPLETED|\n\
                    7.batch||a||gres/gpu=1|n1|90|100|200|COMPLETED|cpu=1,gres/gpumem=1048576,gres/gpuutil=98,mem=5\n\
                    7.extern||a||gres/gpu=1|n1|90|100|200|COMPLETED|gres/gpumem=NONE\n\n\
                    8|u|a|q||None assigned|Unknown|Unknown|Unknown|PENDING|\n";
        let (step, eligible, ended) = (|name: &str| Some(name.to_owned()), Some(90), Some(200));
        let expected = [
            (7, None, eligible, ended, None, None),
            (7, step("batch"), eligible, ended, Some(1 << 20), Some(98)),
            (7, step("extern"), eligible, ended, None, None),
            (8, None, None, None, None, None),
        ];
        assert_eq!(all(text).unwrap(), expected);
    }

    #[test]
    fn an_accounts_name_may_have_any_character() {
        let text = "7|u|a|b|q|gres/gpu=1|n1|90|100|200|COMPLETED|cpu=1\n".replace('|', "\x1f");
        let mut found = Vec::new();
        let show = |row: &Row| {
            found.push((row.account.to_vec(), row.qos.to_vec(), row.end));
        };
        read(&mut text.as_bytes(), show).unwrap();
        assert_eq!(found, [(b"a\x1fb".to_vec(), b"q".to_vec(), Some(200))]);
    }

    #[test]
    fn a_line_break_in_an_accounts_name_is_part_of_it_and_other_lines_are_counted() {
        let row = |account: &str| format!("7|u|{account}|q|gres/gpu=1|n1|90|100|200|COMPLETED|cpu=1\n");
        let text =
            [row("a"), row("b\n\nc"), "slurmdbd\nis down\n".to_owned(), row("d|e"), "7|u\n".to_owned()];
        let mut found = Vec::new();
        let show = |row: &Row| {
            found.push(String::from_utf8_lossy(row.account).into_owned());
        };
        let unread = read(&mut text.concat().replace('|', "\x1f").as_bytes(), show).unwrap();
        assert_eq!((found, unread), (["a", "b\n\nc", "d\x1fe"].map(str::to_owned).to_vec(), 3));
        assert_eq!(remark(3).as_deref(), Some("3 lines of sacct's can't be read: jobs may be missing"));
        assert_eq!(remark(0), None);
    }

    #[test]
    fn what_is_no_row_is_said() {
        for wrong in ["slurmdbd is down", "x|u|a|q||n|1|1|2|S|", "1|u|a|q||n|1|1|2|S"] {
            let said = all(&format!("{wrong}\n")).unwrap_err().to_string();
            assert!(said.starts_with("sacct printed a line that is neither"), "{said}");
        }
    }

    #[test]
    fn amounts_may_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("38027657216", Some(38_027_657_216)),
            ("36266M", Some(36_266 << 20)),
            ("1.5G", Some(3 << 29)),
            ("2.25k", Some(2304)),
            ("18446744073709551615P", None),
            ("NONE", None),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(amount(text.as_bytes()), expected, "{text}");
        }
    }
}
