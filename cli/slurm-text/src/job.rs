//! Jobs as squeue prints them, in columns that no user can write anything into.

use crate::record::{Asked, Records};
use crate::{Question, Record, Tres};

/// Asks for every job, its columns in the order of [`Job`]'s fields. A column is padded to its width.
pub const JOBS: Question = (
    "squeue",
    &[
        "-a",
        "-h",
        "-t",
        "all",
        "-O",
        "JobID:12|,JobArrayID:40|,UserID:12|,UserName:64|,Account:128|,QOS:128|,Partition:256|,\
         Reservation:256|,State:20|,StartTime:20|,NumNodes:12|,Reason:40|,tres-alloc:1000|",
    ],
);

/// The widths of these columns, without the bars.
const WIDTHS: [usize; 13] = [12, 40, 12, 64, 128, 128, 256, 256, 20, 20, 12, 40, 1000];

/// The columns of a line, which is padded: a coordinator may have named an account `a|b`.
fn split(line: &str) -> Option<[&str; 13]> {
    let mut at = 0;
    let mut found = [""; 13];
    for (column, width) in found.iter_mut().zip(WIDTHS) {
        let end = at + width;
        *column = line.get(at..end).filter(|_| line.get(end..=end) == Some("|"))?;
        at = end + 1;
    }
    Some(found)
}

/// For tests: a line as squeue pads it.
#[doc(hidden)]
pub fn padded(line: &str) -> String {
    let mut columns = crate::columns(line);
    let padded = WIDTHS.map(|width| format!("{:width$}|", columns.next().unwrap_or_default().trim_end()));
    columns.fold(padded.concat(), |line, more| line + more + "|")
}

/// With this variable squeue prints times as seconds since 1970.
pub const TIMES: (&str, &str) = ("SLURM_TIME_FORMAT", "%s");

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its own number.
    pub id: u32,
    /// As users name it: `12`, `12_3`, `12+1`; of an array's tasks that wait, `12_[1,3-9%2]`, or the list's beginning.
    pub name: String,
    /// The user's number.
    pub user_id: u32,
    /// The user's name.
    pub user: String,
    /// The account that is charged.
    pub account: String,
    /// Its QOS.
    pub qos: String,
    /// The partition where it runs; of a job that waits, all where it may start.
    pub partition: String,
    /// Its reservation; empty if it has none.
    pub reservation: String,
    /// Whether it holds anything.
    pub state: State,
    /// The word for the state, such as `REQUEUE_HOLD`.
    pub state_word: String,
    /// When it started, in seconds since 1970; 0 if it didn't.
    pub start: u64,
    /// How many nodes it has.
    pub nodes: u32,
    /// Why it waits.
    pub reason: String,
    /// AllocTRES; `None` if Slurm cut it.
    pub allocated: Option<Tres>,
    /// What scontrol adds.
    pub record: Record,
}

/// What a job's state means for what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It waits, whatever for.
    Waits,
    /// It holds what it was given.
    Runs,
    /// It ends: Slurm no longer counts it, and its processes may still hold their devices.
    Completing,
    /// It is over.
    #[default]
    Over,
}

impl State {
    /// Reads squeue's or sacct's word; sacct's may be `CANCELLED by 2001`.
    pub fn read(word: &str) -> State {
        match word.split(' ').next().unwrap_or_default() {
            // Those of a job that goes on after them, or waits again.
            "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
                State::Waits
            }
            "RUNNING" | "SUSPENDED" | "CONFIGURING" | "RESIZING" | "SIGNALING" | "STOPPED"
            | "POWER_UP_NODE" | "EXPEDITING" => State::Runs,
            "COMPLETING" | "STAGE_OUT" => State::Completing,
            _ => State::Over,
        }
    }
}

impl Job {
    /// Reads a line; `None` if it isn't one of a job.
    pub fn read(line: &str) -> Option<Job> {
        let mut columns = split(line)?.into_iter();
        let mut next = || columns.next().map(str::trim_end);
        let name = |text: &str| if text == "(null)" { String::new() } else { text.to_owned() };
        let mut job = Job {
            id: next()?.parse().ok()?,
            name: next()?.to_owned(),
            user_id: next()?.parse().ok()?,
            user: name(next()?),
            account: name(next()?),
            qos: name(next()?),
            partition: name(next()?),
            reservation: name(next()?),
            state_word: next()?.to_owned(),
            start: next()?.parse().unwrap_or(0),
            nodes: next()?.parse().unwrap_or(0),
            reason: next()?.to_owned(),
            // A list that fills its column was cut.
            allocated: columns.next().filter(|list| list.ends_with(' ')).map(Tres::read),
            ..Job::default()
        };
        job.state = State::read(&job.state_word);
        Some(job)
    }

    /// The name by which scancel and scontrol act on this job alone: a task by its array, a component of a
    /// heterogeneous job by the whole job, which has no life without it.
    pub fn handle(&self) -> &str {
        self.name.split('+').next().unwrap_or_default()
    }

    /// The number of an array, if this job is those of its tasks that wait. Slurm's commands take its list of tasks
    /// neither with a throttle nor cut.
    pub fn waiting_array(&self) -> Option<&str> {
        self.name.split_once("_[").map(|(array, _)| array)
    }

    /// The name by which scontrol changes it: a component of a heterogeneous job has its own.
    pub fn update_handle(&self) -> &str {
        self.waiting_array().unwrap_or(&self.name)
    }
}

/// Adds to each job its record.
pub fn join(jobs: &mut [Job], records: Records) {
    let mut found = records.of(&jobs.iter().map(|job| (job.id, job.nodes)).collect());
    for job in jobs {
        job.record = found.remove(&job.id).unwrap_or_default();
        if job.state != State::Waits {
            job.record.asked = Asked::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4           |2_0                             |2001        |alice       |acct        |normal \
                        |p   |(null)      |RUNNING     |1795763919          |2           |None   \
                        |cpu=2,gres/gpu=4,gres/gpu:a40=2 |";

    #[test]
    fn a_job_is_what_squeue_says() {
        let job = Job::read(&padded(LINE)).unwrap();
        assert_eq!((job.id, job.name.as_str(), job.user_id, job.user.as_str()), (4, "2_0", 2001, "alice"));
        assert_eq!((job.account.as_str(), job.qos.as_str(), job.partition.as_str()), ("acct", "normal", "p"));
        assert_eq!(
            (job.reservation.as_str(), job.state, job.start, job.nodes),
            ("", State::Runs, 1_795_763_919, 2)
        );
        assert_eq!(job.allocated.unwrap().of("gres/gpu:a40"), Some(2));
    }

    #[test]
    fn what_is_not_a_job_or_was_cut_is_no_job_and_no_number() {
        for line in ["", "slurm_load_jobs error: Unable to contact slurm controller", "x|y", "4|2|3|a"] {
            assert_eq!(Job::read(line), None, "{line}");
        }
        let cut = padded(&LINE.replace("cpu=2", &"x".repeat(2000)));
        assert_eq!(Job::read(&cut), None, "squeue would have cut it");
        let all = "c".repeat(1000);
        let cut = padded(&LINE.replace("cpu=2,gres/gpu=4,gres/gpu:a40=2 ", &all));
        assert_eq!(Job::read(&cut).unwrap().allocated, None);
    }

    #[test]
    fn an_account_with_a_bar_in_its_name_hides_no_job() {
        let format = JOBS.1.last().unwrap();
        let widths: Vec<usize> = format
            .split(',')
            .map(|column| column.split_once(':').unwrap().1.trim_end_matches('|').parse().unwrap())
            .collect();
        assert_eq!(widths, WIDTHS);
        let mut expected = Job::read(&padded(LINE)).unwrap();
        let with = |name: &str| padded(LINE).replace(&format!("{:128}", "acct"), &format!("{name:128}"));
        for name in ["a|b", "x|q|p|(null)|COMPLETED|", "|"] {
            name.clone_into(&mut expected.account);
            assert_eq!(Job::read(&with(name)).unwrap(), expected);
        }
    }

    #[test]
    fn a_handle_reaches_this_job_or_the_whole_heterogeneous_one() {
        for (name, handle) in [("12", "12"), ("12_3", "12_3"), ("12+1", "12")] {
            assert_eq!(Job { name: name.to_owned(), ..Job::default() }.handle(), handle);
        }
    }

    #[test]
    fn an_update_names_an_array_without_its_list_and_a_component_by_itself() {
        for (name, handle, array) in [
            ("12", "12", None),
            ("12_3", "12_3", None),
            ("12+1", "12+1", None),
            ("12_[0-9%2]", "12", Some("12")),
            ("12_[0,2,5-7]", "12", Some("12")),
            ("12_[100,102,104,106,108,110,112,114,116,", "12", Some("12")),
        ] {
            let job = Job { name: name.to_owned(), ..Job::default() };
            assert_eq!((job.update_handle(), job.waiting_array()), (handle, array));
        }
    }

    #[test]
    fn states_are_told_apart_by_what_a_job_holds() {
        for (word, state) in [
            ("PENDING", State::Waits),
            ("REQUEUE_HOLD", State::Waits),
            ("SUSPENDED", State::Runs),
            ("CONFIGURING", State::Runs),
            ("COMPLETING", State::Completing),
            ("CANCELLED", State::Over),
            ("", State::Over),
        ] {
            assert_eq!(State::read(word), state, "{word}");
        }
    }
}
