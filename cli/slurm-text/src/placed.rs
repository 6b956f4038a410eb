//! Where jobs are and under which name, from the records that [`crate::record`] also reads: for showing, so a name that
//! may imitate another job only costs both their names.
//!
//! In the one-line form (`-o`), the job's name, which is any text of its user, would come before fields that matter. A
//! name can also have line breaks (seen in three releases).

use std::collections::HashMap;

use crate::Gres;

/// A job, from `scontrol show job -d`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// 0 if the text has the number twice: one of the two is part of a name, and it is impossible to say which.
    pub id: u32,
    /// Its name, up to the first line break.
    pub name: String,
    /// Hostlists, and what the job has on each node in them.
    pub on: Vec<(String, Vec<Gres>)>,
}

/// The jobs in `scontrol show job -d` that have something on a node. Read line by line, because most jobs are pending
/// and have nothing.
#[derive(Debug, Default)]
pub struct Jobs {
    /// The jobs that have something.
    found: Vec<Placed>,
    /// The job to which the current lines belong.
    job: Option<Placed>,
    /// How often each number was read, including jobs that have nothing.
    times: HashMap<u32, u8>,
}

impl Jobs {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("JobId=") {
            self.end();
            // No text from a user comes before it.
            let name = rest.split_once(" JobName=").map_or("", |(_, name)| name).to_owned();
            let id = first_word(rest).parse().unwrap_or(0);
            let times = self.times.entry(id).or_default();
            *times = times.saturating_add(1);
            self.job = Some(Placed { id, name, on: Vec::new() });
        }
        let (Some(job), Some((key, value))) = (&mut self.job, line.trim_ascii().split_once('=')) else {
            return;
        };
        // A job that is over or pending has nothing there.
        if key == "Nodes" {
            let had = Gres::read(value.split_once(" GRES=").map_or("", |(_, had)| had));
            if !had.is_empty() {
                job.on.push((first_word(value).to_owned(), had));
            }
        }
    }

    fn end(&mut self) {
        self.found.extend(self.job.take().filter(|job| !job.on.is_empty()));
    }

    /// All jobs, after the last line was read.
    pub fn all(mut self) -> Vec<Placed> {
        self.end();
        for job in &mut self.found {
            if self.times.get(&job.id) != Some(&1) {
                job.id = 0;
                job.name = String::new();
            }
        }
        self.found
    }
}

/// The jobs of a short text.
pub fn jobs(text: &str) -> Vec<Placed> {
    let mut jobs = Jobs::default();
    text.lines().for_each(|line| jobs.line(line));
    jobs.all()
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}
