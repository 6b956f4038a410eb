//! What GPUs jobs held and how long they waited, as sacct prints it: a line for each run of a job. No user can write
//! into these columns.

use std::io::BufRead;

use gpushare_slurm_text::Question;

use crate::usage::{DELIMITER, UsageError, each};

/// Asks for every run of every job; the caller adds the times, and [`gpushare_slurm_text::job::TIMES`].
pub const HELD: Question = (
    "sacct",
    &[
        "-a",
        "-X",
        "-n",
        "-P",
        "-D",
        "--delimiter=\x1f",
        "--format=User,Account,QOS,AllocTRES,Eligible,Start,End,State",
    ],
);

/// The number of columns.
const FIELDS: usize = 8;

/// A run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'t> {
    /// The job's user.
    pub user: &'t [u8],
    /// The account that was charged.
    pub account: &'t [u8],
    /// Its QOS.
    pub qos: &'t [u8],
    /// What it was given.
    pub given: &'t [u8],
    /// Since when it could have started, in seconds since 1970; `None` if it never could.
    pub eligible: Option<u32>,
    /// `None` if it never started.
    pub start: Option<u32>,
    /// `None` while it runs.
    pub end: Option<u32>,
    /// Whether it is a federation's copy of a job that ran on another cluster.
    pub is_elsewhere: bool,
}

impl<'t> Held<'t> {
    fn of(line: &'t [u8]) -> Option<Held<'t>> {
        let is_end = |byte: &u8| *byte == DELIMITER;
        let user = line.get(..line.iter().position(is_end)?)?;
        let rest = line.get(user.len() + 1..)?;
        // From the end: a coordinator may have named an account with any character.
        let fields: Vec<&[u8]> = rest.rsplitn(FIELDS - 1, is_end).collect();
        let [state, end, start, eligible, given, qos, account] = fields.try_into().ok()?;
        let [eligible, start, end] = [eligible, start, end].map(time);
        let is_elsewhere = state.starts_with(b"REVOKED");
        Some(Held { user, account, qos, given, eligible, start, end, is_elsewhere })
    }
}

/// sacct prints `Unknown` or `None` if there is no time.
fn time(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|time| *time > 0)
}

/// Shows each line. Returns how many can't be read.
///
/// # Errors
/// No line can be read, or `show` fails.
pub fn read<E: From<UsageError>>(
    from: &mut dyn BufRead,
    mut show: impl FnMut(&Held) -> Result<(), E>,
) -> Result<u64, E> {
    each(from, |line| Held::of(line).map(|held| show(&held)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_and_what_is_none_is_said() {
        let mut found = Vec::new();
        let text = "u|a|q|gres/gpu=1|90|100|200|COMPLETED\nu|a|b|q||None|Unknown|Unknown|REVOKED\n\n";
        read(&mut text.replace('|', "\x1f").as_bytes(), |held| {
            assert_eq!((held.user, held.qos), (&b"u"[..], &b"q"[..]));
            found.push((held.eligible, held.start, held.end, held.is_elsewhere));
            Ok::<(), UsageError>(())
        })
        .unwrap();
        assert_eq!(found, [(Some(90), Some(100), Some(200), false), (None, None, None, true)]);
        let nothing = |_: &Held| Ok::<(), UsageError>(());
        let said = read(&mut &b"slurmdbd is down\n"[..], nothing).unwrap_err().to_string();
        assert!(said.starts_with("sacct printed a line"), "{said}");
    }
}
