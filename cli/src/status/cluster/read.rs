//! Parses what scontrol(1) prints about nodes and jobs; judges nothing.
//!
//! It reads the multi-line form: in the one-line form (`-o`), the job's name, which is any text of its user, comes
//! before fields that matter. A name can also have line breaks (seen in three releases) and imitate other jobs.

use std::collections::HashMap;

use gpushare::text::gres;
use gpushare_slurm_text::record::indexes;

/// A node, from `scontrol show node -d`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeText {
    pub name: String,
    /// Such as `MIXED+DRAIN`.
    pub state: String,
    /// Why an administrator or Slurm has taken it out of service.
    pub reason: Option<String>,
    /// Its GRES.
    pub gres: Vec<Gres>,
    /// Its GRES in use by jobs.
    pub used: Vec<Gres>,
    /// Such as `cpu=1,gres/mps=40`.
    pub allocated: String,
    /// Its partitions.
    pub partitions: Vec<String>,
}

/// A job, from `scontrol show job -d`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobText {
    /// 0 if the text has the number twice: one of the two is part of a name, and it is impossible to say which.
    pub id: u32,
    /// Its name, up to the first line break.
    pub name: String,
    /// Hostlists, and what the job has on each node in them.
    pub on: Vec<(String, Vec<Gres>)>,
}

/// A GRES: how many there are and, if Slurm shows it, which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gres {
    pub name: String,
    /// Its type, if it has one.
    pub gres_type: Option<String>,
    pub count: u64,
    pub which: Which,
}

/// The text in the brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// Nothing useful.
    #[default]
    Unsaid,
    /// `IDX:0,2-3`: these GPUs. 22.05 also prints it for mps and shard; a node's `count` is then not a count of units.
    Index(Vec<u32>),
    /// `40/100,0/100,-/100`: the assigned units of each GPU, and how many it has. `-` is a GPU that a job has whole.
    /// Since 23.11.
    Units(Vec<(Option<u64>, u64)>),
}

/// Parses every node of `scontrol show node -d`.
pub fn nodes(text: &str) -> Vec<NodeText> {
    let mut nodes: Vec<NodeText> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("NodeName=") {
            nodes.push(NodeText { name: first_word(rest).to_owned(), ..NodeText::default() });
        }
        let (Some(node), Some((key, value))) = (nodes.last_mut(), line.trim().split_once('=')) else {
            continue;
        };
        match key {
            "State" if node.state.is_empty() => node.state = first_word(value).to_owned(),
            "Gres" if node.gres.is_empty() => node.gres = gres(value),
            "GresUsed" if node.used.is_empty() => node.used = gres(value),
            "Partitions" if node.partitions.is_empty() => {
                node.partitions = value.split(',').map(|name| name.trim().to_owned()).collect();
            }
            "AllocTRES" if node.allocated.is_empty() => node.allocated = value.to_owned(),
            "Reason" if node.reason.is_none() => {
                // The value is `TEXT [USER@TIME]`.
                let reason = value.rsplit_once(" [").filter(|(_, by)| by.ends_with(']'));
                node.reason = Some(reason.map_or(value, |(reason, _)| reason).to_owned());
            }
            _ => {}
        }
    }
    nodes
}

/// The jobs in `scontrol show job -d` that have something on a node. Read line by line, because most jobs are pending
/// and have nothing.
#[derive(Debug, Default)]
pub struct Jobs {
    /// The jobs that have something.
    found: Vec<JobText>,
    /// The job to which the current lines belong.
    job: Option<JobText>,
    /// How often each number was read, including jobs that have nothing.
    times: HashMap<u32, u8>,
}

impl Jobs {
    pub fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("JobId=") {
            self.end();
            // No text from a user comes before it.
            let name = rest.split_once(" JobName=").map_or("", |(_, name)| name).to_owned();
            let id = first_word(rest).parse().unwrap_or(0);
            let times = self.times.entry(id).or_default();
            *times = times.saturating_add(1);
            self.job = Some(JobText { id, name, on: Vec::new() });
        }
        let (Some(job), Some((key, value))) = (&mut self.job, line.trim_ascii().split_once('=')) else {
            return;
        };
        // A job that is over or pending has nothing there.
        if key == "Nodes" {
            let had = gres(value.split_once(" GRES=").map_or("", |(_, had)| had));
            if !had.is_empty() {
                job.on.push((first_word(value).to_owned(), had));
            }
        }
    }

    fn end(&mut self) {
        self.found.extend(self.job.take().filter(|job| !job.on.is_empty()));
    }

    /// All jobs, after the last line was read.
    pub fn all(mut self) -> Vec<JobText> {
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
pub fn jobs(text: &str) -> Vec<JobText> {
    let mut jobs = Jobs::default();
    text.lines().for_each(|line| jobs.line(line));
    jobs.all()
}

/// Parses `mps:a40:40(40/100,0/100),gpushare(CNT:3)`.
pub fn gres(text: &str) -> Vec<Gres> {
    gres::parts(text.trim()).filter_map(one).collect()
}

fn one(part: &str) -> Option<Gres> {
    let part = gres::without_null(part);
    let (name, gres_type, mut count) = gres::read(&part).pop()?;
    let inside = part.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    let which = if let Some(number) = inside.strip_prefix("CNT:") {
        count = number.parse().unwrap_or(0);
        Which::Unsaid
    } else if let Some(list) = inside.strip_prefix("IDX:") {
        Which::Index(indexes(list))
    } else if inside.contains('/') {
        let units = |word: &str| {
            let (used, of) = word.split_once('/')?;
            Some((used.parse().ok(), of.parse().ok()?))
        };
        Which::Units(inside.split(',').map_while(units).collect())
    } else {
        Which::Unsaid
    };
    Some(Gres { name, gres_type, count, which })
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}
