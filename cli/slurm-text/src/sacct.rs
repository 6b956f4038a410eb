//! Runs of jobs, and their steps, as sacct prints them: records with a delimiter that users can't have put into their
//! command lines or accounts' names, since it is chosen at random after all jobs were submitted. Both may have several
//! lines.
//!
//! jobacct_gather samples every task's processes, every 30 s by default, and asks NVML for the memory that they have
//! and for their utilization; it adds up GPUs (src/plugins/gpu/nvml/gpu_nvml.c, gpu_p_usage_read). slurmstepd keeps
//! each task's highest sample, and `TRESUsageInTot` is the sum of these over the step's tasks (mgr.c,
//! _local_jobacctinfo_aggregate, as of 23.02.3). So `gres/gpumem` is at least what the step had at once, in bytes, as
//! far as it was sampled, and `gres/gpuutil` a highest percentage, never an average over time. Both are recorded when a
//! step ends; a job's own line has neither. 22.05 has no such TRES.

use std::io::{self, BufRead};

use crate::{Question, tres};

/// What to ask about every run of every job; the caller adds the delimiter, the times, and [`crate::job::TIMES`]. All
/// releases from 22.05 to 26.05 know these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What it requested, and the command line, which comes last because it is the user's own text.
    Requests,
    /// Since when it could start.
    Jobs,
    /// The same, and what each of its steps used.
    Steps,
}

impl Wanted {
    /// The question.
    pub const fn question(self) -> Question {
        match self {
            Wanted::Requests => (
                "sacct",
                &[
                    "-anPDX",
                    "--format=JobIDRaw,User,Account,QOS,Partition,ReqTRES,AllocTRES,NodeList,Start,End,State,SubmitLine",
                ],
            ),
            Wanted::Jobs => ("sacct", &["-anPDX", USED]),
            Wanted::Steps => ("sacct", &["-anPD", "--noconvert", USED]),
        }
    }

    const fn fields(self) -> usize {
        if matches!(self, Wanted::Requests) { 12 } else { 11 }
    }
}

const USED: &str =
    "--format=JobIDRaw,User,Account,QOS,AllocTRES,NodeList,Eligible,Start,End,State,TRESUsageInTot";

gpushare::errors! {
    /// Why jobs can't be read.
    #[derive(Debug)]
    pub enum SacctError {
        NoRecord(text: Vec<u8>) =>
            "sacct printed a line that is neither a job nor a step: '{}'", text.escape_ascii();
    } from {
        Read(io::Error)
    }
}

/// The rest of a longer command line consists of the script's arguments.
const LONGEST: usize = 16 << 10;

/// One run of a job, since one that was requeued or resized has several; or a step of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row<'t> {
    /// The job's number.
    pub job: u64,
    /// The step, such as `batch` or `0`; `None` for the job itself.
    pub step: Option<&'t [u8]>,
    /// Its user's name; a step has none.
    pub user: &'t [u8],
    /// The account that was charged.
    pub account: &'t [u8],
    /// Its QOS.
    pub qos: &'t [u8],
    /// Where it ran; only of requests.
    pub partition: &'t [u8],
    /// Such as `cpu=2,gres/gpu=2`: what its limits were tested with; only of requests.
    pub asked: &'t [u8],
    /// What it was given.
    pub given: &'t [u8],
    /// Its nodes, as a hostlist.
    pub nodes: &'t [u8],
    /// Since when it could have started, in seconds since 1970; `None` if it never could, and of requests.
    pub eligible: Option<u32>,
    /// `None` if it never started.
    pub start: Option<u32>,
    /// `None` while it runs.
    pub end: Option<u32>,
    /// Its state, such as `CANCELLED by 2001`.
    pub state: &'t [u8],
    /// Of a request the command line, empty if unknown; otherwise what a step used, such as
    /// `cpu=9,gres/gpumem=36266M,gres/gpuutil=100`.
    pub line: &'t [u8],
}

impl<'t> Row<'t> {
    /// Whether the job had GPUs, in any GRES that counts them.
    pub fn has_gpus(&self) -> bool {
        gpus(self.given).next().is_some()
    }

    /// Whether it is a federation's copy of a job that ran on another cluster.
    pub fn is_elsewhere(&self) -> bool {
        self.state.starts_with(b"REVOKED")
    }

    /// The most GPU memory that the step's tasks had, in bytes; `None` if it wasn't recorded.
    pub fn memory(&self) -> Option<u64> {
        self.used(b"gres/gpumem=")
    }

    /// The highest utilization of a GPU by the step's tasks, in percent, added up; `None` if it wasn't recorded.
    pub fn utilization(&self) -> Option<u64> {
        self.used(b"gres/gpuutil=")
    }

    fn used(&self, name: &[u8]) -> Option<u64> {
        let number = self.line.split(|byte| *byte == b',').find_map(|part| part.strip_prefix(name))?;
        tres::bytes(std::str::from_utf8(number).ok()?)
    }

    fn of(record: &'t [u8], delimiter: &[u8], wanted: Wanted) -> Option<Row<'t>> {
        let mut rest = record;
        let mut next = || {
            let at = find(rest, delimiter)?;
            let field = rest.get(..at)?;
            rest = rest.get(at + delimiter.len()..)?;
            Some(field)
        };
        let is_request = wanted == Wanted::Requests;
        let id = next()?;
        let [user, account, qos] = [next()?, next()?, next()?];
        let [partition, asked] = if is_request { [next()?, next()?] } else { Default::default() };
        let [given, nodes] = [next()?, next()?];
        let eligible = if is_request { None } else { time(next()?) };
        let [start, end] = [time(next()?), time(next()?)];
        let (state, line) = (next()?, rest);
        let (job, step) = match id.iter().position(|byte| *byte == b'.') {
            Some(at) => (id.get(..at)?, id.get(at + 1..)),
            None => (id, None),
        };
        let job = number(job)?;
        Some(Row {
            job,
            step,
            user,
            account,
            qos,
            partition,
            asked,
            given,
            nodes,
            eligible,
            start,
            end,
            state,
            line,
        })
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

fn number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// sacct prints `Unknown` or `None` if there is no time.
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

/// How many fields a text has.
fn fields(mut text: &[u8], delimiter: &[u8]) -> usize {
    let mut count = 1;
    while let Some(at) = find(text, delimiter) {
        text = text.get(at + delimiter.len()..).unwrap_or_default();
        count += 1;
    }
    count
}

/// Shows each row. Returns how many records can't be read.
///
/// # Errors
/// No record can be read.
pub fn read(
    from: &mut dyn BufRead,
    delimiter: &[u8],
    wanted: Wanted,
    mut show: impl FnMut(&Row),
) -> Result<u64, SacctError> {
    let (mut record, mut line) = (Vec::new(), Vec::new());
    let (mut is_any_read, mut wrong, mut unread) = (false, None, 0);
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let over = read == 0;
        let is_whole = |text: &[u8]| fields(text, delimiter) >= wanted.fields();
        let begins = match fields(&line, delimiter) {
            1 => false,
            count => count >= wanted.fields() || record.is_empty() || is_whole(&record),
        };
        if (over || begins) && !record.is_empty() {
            if let Some(row) = Row::of(&record, delimiter, wanted) {
                show(&row);
                is_any_read = true;
            } else {
                unread += 1;
                wrong.get_or_insert_with(|| record.iter().take(80).copied().collect());
            }
            record.clear();
        }
        if over {
            let nothing = wrong.filter(|_| !is_any_read).map(SacctError::NoRecord);
            return nothing.map_or(Ok(unread), Err);
        }
        if begins || record.is_empty() {
            std::mem::swap(&mut record, &mut line);
        } else if record.len() < LONGEST {
            // A further line of a command line, or of an account's name.
            record.push(b'\n');
            record.extend_from_slice(&line);
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
        read(&mut text.as_bytes(), b"@", Wanted::Requests, |job| {
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
        let show = |job: &Row| found.push(String::from_utf8_lossy(job.account).into_owned());
        let text = format!("{two}{ONE}{broken}{ONE}{two}{broken}");
        assert_eq!(read(&mut text.as_bytes(), b"@", Wanted::Requests, show).unwrap(), 2);
        assert_eq!(found, ["a\nb", "acct", "acct", "a\nb"]);
    }

    #[test]
    fn what_is_no_record_is_said() {
        for wrong in
            ["slurmdbd@down", "slurmdbd is down", &ONE.replacen('1', "x", 1), &TWO.replacen('@', "", 1)]
        {
            let said = all(wrong).unwrap_err().to_string();
            assert!(said.starts_with("sacct printed a line that is neither a job nor a step: '"), "{said}");
        }
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
    #[test]
    fn a_job_has_steps_and_they_have_what_was_used() {
        let text = "7@u@a@q@gres/gpu=1@n1@90@100@200@COMPLETED@\n\
                    7.batch@@a@@gres/gpu=1@n1@90@100@200@COMPLETED@cpu=1,gres/gpumem=1048576,gres/gpuutil=98,mem=5\n\
                    7.extern@@a@@gres/gpu=1@n1@90@100@200@COMPLETED@gres/gpumem=NONE\n\n\
                    8@u@a\n\nb@q@@None assigned@Unknown@Unknown@Unknown@PENDING@\n";
        let mut found = Vec::new();
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let unread = read(&mut text.as_bytes(), b"@", Wanted::Steps, |row| {
            let shown = (row.job, row.step.map(text_of), text_of(row.account), row.eligible, row.end);
            found.push((shown, row.memory(), row.utilization()));
        });
        assert_eq!(unread.unwrap(), 0);
        let shown = |job, step: Option<&str>, account: &str, eligible, end| {
            (job, step.map(str::to_owned), account.to_owned(), eligible, end)
        };
        let expected = [
            (shown(7, None, "a", Some(90), Some(200)), None, None),
            (shown(7, Some("batch"), "a", Some(90), Some(200)), Some(1 << 20), Some(98)),
            (shown(7, Some("extern"), "a", Some(90), Some(200)), None, None),
            (shown(8, None, "a\n\nb", None, None), None, None),
        ];
        assert_eq!(found, expected);
    }
}
