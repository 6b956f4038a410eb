//! A job that runs, from squeue: [`Job`], which of its starts that is, where, and whether it is a batch job.

use crate::{Job, job};

/// The starts before this one; its nodes, uncut; and 0 for salloc's and srun's.
const MORE: &str = "RestartCnt:12|,NodeList:|,BatchFlag:8|";

/// A job that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The job.
    pub job: Job,
    /// How often it was requeued.
    pub restarts: u32,
    /// Its nodes, as a hostlist.
    pub nodes: String,
    /// Whether it has a batch script; otherwise salloc or srun started it.
    pub is_batch: bool,
}

/// The program that is asked, and its arguments for one job.
pub fn question(id: u32) -> (&'static str, Vec<String>) {
    let (program, arguments) = job::JOBS;
    let mut arguments: Vec<String> = arguments.iter().copied().map(str::to_owned).collect();
    if let Some(columns) = arguments.last_mut() {
        columns.push(',');
        columns.push_str(MORE);
    }
    arguments.extend(["-j".to_owned(), id.to_string()]);
    (program, arguments)
}

/// What squeue calls a job that runs. Its user brings about the last two by signals: `scancel --signal=STOP`.
const RUNS: [&str; 3] = ["RUNNING", "SIGNALING", "STOPPED"];

/// Reads the answer; `None` if the job is suspended, or does anything else than run. There may be several lines: the
/// number of an array is also that of one of its tasks.
pub fn read(output: &str, id: u32) -> Option<Running> {
    let running = |line: &str| {
        let job = Job::read(line).filter(|job| job.id == id && RUNS.contains(&job.state_word.as_str()))?;
        let mut last = line.trim_end().strip_suffix('|')?.rsplit('|').map(str::trim);
        let (is_batch, nodes) = (last.next()? != "0", last.next()?.to_owned());
        Some(Running { job, restarts: last.next()?.parse().ok()?, nodes, is_batch })
    };
    output.lines().find_map(running)
}

impl Running {
    /// Whether one node has all of it: it has no other nodes, and isn't a component of a heterogeneous job.
    pub fn is_on_one_node(&self) -> bool {
        self.job.nodes == 1 && !self.job.name.contains('+')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, name: &str, state: &str, batch: &str) -> String {
        let line =
            format!("{id}|{name}|2001|alice|acct|q|p|(null)|{state}|7|1|None|cpu=1|3     |n1|{batch}     ");
        job::padded(&line) + "\n"
    }

    #[test]
    fn a_job_that_does_anything_else_is_none() {
        let waiting = line(12, "12_[4-9]", "PENDING", "1");
        for (text, runs) in [
            (line(12, "12", "RUNNING", "1"), true),
            (waiting.clone() + &line(12, "12_3", "RUNNING", "1"), true),
            (line(13, "12_3", "RUNNING", "1"), false),
            (line(12, "12", "SIGNALING", "1"), true),
            (line(12, "12", "STOPPED", "1"), true),
            (line(12, "12", "SUSPENDED", "1"), false),
            (line(12, "12", "COMPLETING", "1"), false),
            (waiting, false),
            (String::new(), false),
        ] {
            assert_eq!(read(&text, 12).is_some(), runs, "{text}");
        }
    }

    #[test]
    fn a_job_with_a_script_is_a_batch_job() {
        for (flag, expected) in [("1", true), ("2", true), ("0", false)] {
            let running = read(&line(12, "12", "RUNNING", flag), 12).unwrap();
            assert_eq!((running.is_batch, running.job.start, running.is_on_one_node()), (expected, 7, true));
            assert_eq!((running.restarts, running.nodes.as_str()), (3, "n1"));
        }
        let (program, arguments) = question(12);
        assert_eq!((program, arguments.last().unwrap().as_str()), ("squeue", "12"));
        assert!(
            arguments
                .iter()
                .any(|word| word.ends_with("tres-alloc:1000|,RestartCnt:12|,NodeList:|,BatchFlag:8|"))
        );
    }
}
