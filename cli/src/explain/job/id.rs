//! A job's number as users write it: that of a job, an array task, or a component of a heterogeneous job.

use std::fmt;

use gpushare_slurm_text::queue::Row;

/// `12`, `12_3`, `12+1`; `12_[4-9]`, which squeue shows for waiting tasks, counts as `12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    /// The number of the job, the array or the heterogeneous job.
    number: u32,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Task(u32),
    Component(u32),
}

impl JobId {
    /// `None` if the word isn't a job's number.
    pub fn parse(word: &[u8]) -> Option<JobId> {
        let text = std::str::from_utf8(word).ok()?;
        let digits =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        let (number, part) = if let Some((number, task)) = text.split_once('_') {
            let is_list = task.starts_with('[') && task.ends_with(']');
            (number, if is_list { Part::All } else { Part::Task(digits(task)?) })
        } else if let Some((number, component)) = text.split_once('+') {
            (number, Part::Component(digits(component)?))
        } else {
            (text, Part::All)
        };
        Some(JobId { number: digits(number)?, part })
    }

    /// Whether a line of squeue's output is about this job.
    pub fn names(&self, row: &Row) -> bool {
        match self.part {
            Part::All => {
                [Some(row.id), Some(row.array), row.het.map(|(id, _)| id)].contains(&Some(self.number))
            }
            Part::Task(task) => row.array == self.number && has_task(&row.tasks, task),
            Part::Component(component) => row.het == Some((self.number, component)),
        }
    }
}

/// Whether a list such as `3`, `1-5,9%2` or `0-8:2` contains a task.
fn has_task(tasks: &str, wanted: u32) -> bool {
    let list = tasks.split('%').next().unwrap_or_default();
    list.split(',').any(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let numbers = first.parse::<u32>().ok().zip(last.parse::<u32>().ok()).zip(step.parse::<u32>().ok());
        numbers.is_some_and(|((first, last), step)| {
            (first..=last).contains(&wanted)
                && wanted.checked_sub(first).is_some_and(|at| at.checked_rem(step) == Some(0))
        })
    })
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.part {
            Part::All => write!(out, "{}", self.number),
            Part::Task(task) => write!(out, "{}_{task}", self.number),
            Part::Component(component) => write!(out, "{}+{component}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_as_slurm_names_them() {
        for (word, expected) in [
            ("12", Some("12")),
            ("12_3", Some("12_3")),
            ("12+1", Some("12+1")),
            ("12_[4-9%2]", Some("12")),
            ("12_", None),
            ("12_x", None),
            ("+1", None),
            ("GS101", None),
            ("job.sh", None),
            ("4294967296", None),
            ("", None),
        ] {
            let found = JobId::parse(word.as_bytes()).map(|id| id.to_string());
            assert_eq!(found.as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn a_waiting_task_is_found_in_its_array() {
        for (tasks, has, has_not) in [("3", 3, 4), ("1-5,9%2", 9, 6), ("0-8:2", 4, 5), ("N/A", 1, 0)] {
            assert_eq!(has_task(tasks, has), tasks != "N/A", "{tasks}");
            assert!(!has_task(tasks, has_not), "{tasks}");
        }
    }
}
