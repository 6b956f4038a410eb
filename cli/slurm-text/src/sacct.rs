//! Jobs as sacct prints them: records with a delimiter that users can't have put into their command lines, since it is
//! chosen at random after all jobs were submitted. A command line may have several lines.

use std::io::{self, BufRead};

use crate::Question;

/// Asks for every run of every job; the caller adds the delimiter, the times, and [`crate::job::TIMES`]. All releases
/// from 22.05 to 26.05 know these fields. The command line comes last because it is the user's own text.
pub const RUNS: Question = (
    "sacct",
    &[
        "-a",
        "-X",
        "-n",
        "-P",
        "-D",
        "--format=JobIDRaw,User,Account,QOS,Partition,ReqTRES,AllocTRES,NodeList,Start,End,State,SubmitLine",
    ],
);

gpushare::errors! {
    /// Why jobs can't be read.
    #[derive(Debug)]
    pub enum SacctError {
        NoRecord(text: Vec<u8>) =>
            "sacct printed a line that is not a job record: '{}'", text.escape_ascii();
    } from {
        Read(io::Error)
    }
}

/// The number of fields.
const FIELDS: usize = 12;
/// The rest of a longer command line consists of the script's arguments.
const LONGEST: usize = 16 << 10;

/// One run of a job: a job that was requeued or resized has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job<'t> {
    /// Its user's name.
    pub user: &'t [u8],
    /// The account that was charged.
    pub account: &'t [u8],
    /// Its QOS.
    pub qos: &'t [u8],
    /// Where it ran.
    pub partition: &'t [u8],
    /// Such as `cpu=2,gres/gpu=2`: what its limits were tested with.
    pub asked: &'t [u8],
    /// What the job was given.
    pub given: &'t [u8],
    /// Its nodes, as a hostlist.
    pub nodes: &'t [u8],
    /// Seconds since 1970; `None` if it never started.
    pub start: Option<u32>,
    /// `None` while it runs.
    pub end: Option<u32>,
    /// Its state, such as `CANCELLED by 2001`.
    pub state: &'t [u8],
    /// The command line; empty if unknown.
    pub line: &'t [u8],
}

impl<'t> Job<'t> {
    /// Whether the job had GPUs, in any GRES that counts them.
    pub fn has_gpus(&self) -> bool {
        gpus(self.given).next().is_some()
    }

    /// Whether it is a federation's copy of a job that ran on another cluster.
    pub fn is_elsewhere(&self) -> bool {
        self.state.starts_with(b"REVOKED")
    }

    fn of(record: &'t [u8], delimiter: &[u8]) -> Option<Job<'t>> {
        let mut fields: [&[u8]; FIELDS] = [&[]; FIELDS];
        let mut rest = record;
        let (last, others) = fields.split_last_mut()?;
        for field in others {
            let at = find(rest, delimiter)?;
            *field = rest.get(..at)?;
            rest = rest.get(at + delimiter.len()..)?;
        }
        *last = rest;
        let [_, user, account, qos, partition, asked, given, nodes, start, end, state, line] = fields;
        let (start, end) = (time(start), time(end));
        Some(Job { user, account, qos, partition, asked, given, nodes, start, end, state, line })
    }
}

/// The counts of GPUs in a list of TRES: `gres/gpu:a40=2` → `(Some("a40"), 2)`.
pub fn gpus(tres: &[u8]) -> impl Iterator<Item = (Option<&[u8]>, u32)> {
    tres.split(|byte| *byte == b',').filter_map(|part| {
        let rest = part.strip_prefix(b"gres/gpu")?;
        let at = rest.iter().rposition(|byte| *byte == b'=')?;
        let (gres_type, count) = (rest.get(..at)?, rest.get(at + 1..)?);
        let gres_type = match gres_type {
            [] => None,
            [b':', gres_type @ ..] => Some(gres_type),
            _ => return None, // such as gres/gpumem
        };
        Some((gres_type, number(count)?)).filter(|(_, count)| *count > 0)
    })
}

/// A number in a list of TRES, such as `node`.
pub fn count(tres: &[u8], name: &[u8]) -> Option<u32> {
    let mut parts = tres.split(|byte| *byte == b',');
    parts.find_map(|part| number(part.strip_prefix(name)?.strip_prefix(b"=")?))
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// sacct prints `Unknown` if there is no time.
fn time(text: &[u8]) -> Option<u32> {
    number(text).filter(|time| *time > 0)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let at = from + rest.iter().position(|byte| *byte == first)?;
        if text.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// How often the delimiter is in the text.
fn times(text: &[u8], delimiter: &[u8]) -> usize {
    text.windows(delimiter.len().max(1)).filter(|found| *found == delimiter).count()
}

/// Shows each record. An account's name may have several lines, too. Returns how many records can't be read.
///
/// # Errors
/// No record can be read.
pub fn read(from: &mut dyn BufRead, delimiter: &[u8], mut show: impl FnMut(&Job)) -> Result<u64, SacctError> {
    let (mut record, mut line) = (Vec::new(), Vec::new());
    let (mut is_any_read, mut wrong, mut unread) = (false, None, 0);
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let over = read == 0;
        let begins = match times(&line, delimiter) {
            0 => false,
            count => count + 1 >= FIELDS || record.is_empty() || times(&record, delimiter) + 1 >= FIELDS,
        };
        if (over || begins) && !record.is_empty() {
            if let Some(job) = Job::of(&record, delimiter) {
                show(&job);
                is_any_read = true;
            } else {
                unread += 1;
                wrong.get_or_insert_with(|| record.iter().take(80).copied().collect());
            }
            record.clear();
        }
        match over {
            true => {
                let nothing = wrong.filter(|_| !is_any_read).map(SacctError::NoRecord);
                return nothing.map_or(Ok(unread), Err);
            }
            false if begins => std::mem::swap(&mut record, &mut line),
            // A further line of a command line. A line before the first record belongs to no job.
            false if record.is_empty() => {}
            false if record.len() < LONGEST => {
                record.push(b'\n');
                record.extend_from_slice(&line);
            }
            false => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1@alice@acct@q1@p@billing=1,cpu=1,gres/gpu=2,node=1@cpu=1,gres/gpu:a40=2,\
                       gres/gpu=2,node=1@n1@1000@1060@COMPLETED@sbatch --gres=gpu:2 --wrap a\nb|c\n\nd\n";
    const TWO: &str = "2@bob@acct@q1@p@cpu=1,node=1@@None assigned@Unknown@Unknown@PENDING@\n";

    /// User, start, end, command line.
    type Shown = (String, Option<u32>, Option<u32>, String);

    fn all(text: &str) -> Result<Vec<Shown>, SacctError> {
        let mut found = Vec::new();
        read(&mut text.as_bytes(), b"@", |job| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.push((text(job.user), job.start, job.end, text(job.line)));
        })?;
        Ok(found)
    }

    #[test]
    fn records_are_read_with_command_lines_of_several_lines() {
        let found = all(&format!("{ONE}{TWO}{ONE}")).unwrap();
        let first =
            ("alice".to_owned(), Some(1000), Some(1060), "sbatch --gres=gpu:2 --wrap a\nb|c\n\nd".to_owned());
        assert_eq!(found, [first.clone(), ("bob".to_owned(), None, None, String::new()), first]);
        assert_eq!(all("").unwrap(), []);
    }

    #[test]
    fn a_line_break_in_an_accounts_name_is_part_of_it_and_other_lines_are_counted() {
        let (two, broken) = (TWO.replace("acct", "a\nb"), "3@carol@a\n");
        let mut found = Vec::new();
        let show = |job: &Job| found.push(String::from_utf8_lossy(job.account).into_owned());
        let text = format!("{two}{ONE}{broken}{ONE}{two}{broken}");
        assert_eq!(read(&mut text.as_bytes(), b"@", show).unwrap(), 2);
        assert_eq!(found, ["a\nb", "acct", "acct", "a\nb"]);
    }

    #[test]
    fn what_is_no_record_is_said() {
        assert!(all("slurmdbd@down\n").unwrap_err().to_string().contains("'slurmdbd@down'"));
    }

    #[test]
    fn gpus_are_counted_by_type() {
        let list = |text: &'static str| gpus(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            list("cpu=4,gres/gpu:a40=2,gres/gpu=3,gres/gpumem=4,gres/gpuutil=0,mem=4G"),
            [(Some(&b"a40"[..]), 2), (None, 3)]
        );
        assert_eq!(list("gres/gpu=0,gres/gpu:=x,gres/mps=100"), []);
        assert_eq!((count(b"cpu=4,node=12", b"node"), count(b"cpu=4", b"node")), (Some(12), None));
    }
}
