//! Which devices jobs have and what their requests name, from `scontrol show job -d`.
//!
//! A record begins with `JobId=` and the job's name, which is any text of its user, with line breaks too (seen on
//! 22.05 to 26.05). Then come lines that Slurm alone writes, from `UserId=` to the one before `Command=`, and then
//! again texts of the user. So only lines between these two count; and a record whose beginning some name may have
//! forged is [`Trust::Unclear`], as are those before it back to the last whole one of a job that exists, which
//! may be the forger's.

use std::collections::{BTreeSet, HashMap, HashSet};

use gpushare::text::hostlist;

use crate::{Gres, Question, Tres};

/// Asks for the records of all jobs.
pub const RECORDS: Question = ("scontrol", &["-a", "-d", "show", "job"]);

/// What a job's record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Whether what is in here can be relied on.
    pub trust: Trust,
    /// What it has on which nodes.
    pub on: Vec<On>,
    /// Whether it asked for whole nodes.
    pub whole_nodes: bool,
    /// The types of GPUs that its request names, as its texts spell them, and those that Slurm counts for it, in
    /// lowercase.
    pub types: BTreeSet<String>,
    /// Whether the request is told: up to 22.05 an update may clear its text, and then nothing shows what Slurm
    /// counted.
    pub is_told: bool,
    /// What it asked for, of a job that waits.
    pub asked: Asked,
}

/// What a job that waits asked for, as Slurm prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The texts by key, such as `TresPerNode` and `gres/gpu:4`.
    pub tres: Vec<(&'static str, String)>,
    /// `NumNodes`, `NumTasks` and `CPUs/Task`.
    pub counts: [Option<u32>; 3],
    /// `MinMemoryNode` or `MinMemoryCPU` and its value, unless it is 0.
    pub memory: Option<(&'static str, String)>,
    /// Whether scrontab made it.
    pub is_cron: bool,
}

/// Whether a record can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// There is no record, or it says nothing of devices.
    #[default]
    Unsaid,
    /// Slurm wrote it.
    Said,
    /// A user's text may be a part of it.
    Unclear,
}

/// What a job has on each of some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct On {
    /// The nodes.
    pub nodes: Vec<String>,
    /// What it has on each.
    pub gres: Vec<Gres>,
}

/// Where in a record a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Still the name.
    #[default]
    Name,
    /// Slurm's own lines.
    Own,
    /// From `Command=` on.
    Rest,
}

/// One record while it is read.
#[derive(Debug, Default)]
struct Open {
    id: u32,
    part: Part,
    record: Record,
}

/// Reads records line by line, because there may be many megabytes of them.
#[derive(Debug, Default)]
pub struct Records {
    found: HashMap<u32, Record>,
    open: Option<Open>,
    /// Numbers that came twice.
    twice: HashSet<u32>,
    /// The number of each record in turn, and whether it has lines of Slurm's own. One that Slurm wrote has.
    order: Vec<(u32, bool)>,
}

impl Records {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("JobId=") {
            self.end();
            let id = rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
            self.open = Some(Open { id, ..Open::default() });
            return;
        }
        let Some(open) = &mut self.open else { return };
        // Slurm's own lines begin with three blanks, those of devices with five.
        let Some(text) = line.strip_prefix("   ") else { return };
        match open.part {
            Part::Name if text.starts_with("UserId=") => open.part = Part::Own,
            Part::Name => {}
            Part::Own | Part::Rest if text.starts_with("UserId=") => open.record.trust = Trust::Unclear,
            Part::Own if text.starts_with("Command=") => open.part = Part::Rest,
            Part::Own => own(&mut open.record, text.trim_start()),
            Part::Rest => rest(&mut open.record, text),
        }
    }

    /// Puts the open record away.
    fn end(&mut self) {
        let Some(Open { id, record, part }) = self.open.take() else { return };
        self.order.push((id, part != Part::Name));
        if self.found.insert(id, record).is_some() {
            self.twice.insert(id);
        }
    }

    /// All records by number, after the last line. `jobs` are all jobs and how many nodes each has, asked for after the
    /// records: a record of a job that isn't among them, and has devices, is forged.
    pub fn of(mut self, jobs: &HashMap<u32, u32>) -> HashMap<u32, Record> {
        self.end();
        let has_devices = |id: &u32| self.found.get(id).is_some_and(|record| !record.on.is_empty());
        let forged = |id: &u32| self.twice.contains(id) || !jobs.contains_key(id) && has_devices(id);
        let (mut unclear, mut since_sure) = (HashSet::new(), Vec::new());
        for (id, is_whole) in &self.order {
            let is_forged = forged(id) || !is_whole;
            if is_forged {
                unclear.extend(since_sure.iter().copied().chain([*id]));
            } else if jobs.contains_key(id) {
                since_sure.clear();
            }
            since_sure.push(*id);
        }
        self.found.retain(|id, _| jobs.contains_key(id));
        for (id, record) in &mut self.found {
            let nodes: usize = record.on.iter().map(|on| on.nodes.len()).sum();
            if unclear.contains(id) {
                record.trust = Trust::Unclear;
            }
            // A job that gives nodes back, or has just begun, is said differently by the two questions.
            if record.trust == Trust::Said && u32::try_from(nodes).ok().as_ref() != jobs.get(id) {
                record.trust = Trust::Unsaid;
            }
        }
        self.found
    }
}

/// A line that Slurm alone writes.
fn own(record: &mut Record, line: &str) {
    if line.starts_with("Nodes=") {
        let mut left = hostlist::names::MOST;
        let nodes = hostlist::names::of(crate::word(line, "Nodes").unwrap_or_default(), &mut left);
        let gres = Gres::read(line.split_once(" GRES=").map_or("", |(_, gres)| gres));
        record.on.push(On { nodes, gres });
        if record.trust == Trust::Unsaid {
            record.trust = Trust::Said;
        }
    } else if line.starts_with("OverSubscribe=") {
        // Up to 25.11 a whole node is `OverSubscribe=NO`; from 26.05 on it is `Exclusive=NODE`. The
        // other words say whose jobs may be beside it, and it gets what it asks for (job_mgr.c: `whole_node`).
        let exclusive = crate::word(line, "Exclusive");
        let is_old = exclusive.is_none() && crate::word(line, "OverSubscribe") == Some("NO");
        record.whole_nodes |= is_old || exclusive == Some("NODE");
    } else if line.starts_with("Socks/Node=") {
        record.whole_nodes |= crate::word(line, "CoreSpec").is_some_and(|count| count != "*");
    } else if line.starts_with("NumNodes=") {
        let count = |key| crate::word(line, key).and_then(|text| text.split('-').next()?.parse().ok());
        record.asked.counts = ["NumNodes", "NumTasks", "CPUs/Task"].map(count);
    } else if let Some(list) = line.strip_prefix("ReqTRES=").or_else(|| line.strip_prefix("TRES=")) {
        // Up to 22.05 there is only `TRES=`, which is what a running job has: it says nothing about its request.
        if line.starts_with("ReqTRES=") {
            record.is_told = true;
            let types = Tres::read(list);
            let counted = types.iter().filter(|(_, count)| *count > 0);
            record
                .types
                .extend(counted.filter_map(|(name, _)| Some(name.strip_prefix("gres/gpu:")?.to_owned())));
        }
    } else if line.starts_with("MinCPUsNode=") {
        let memory = |key| Some((key, crate::word(line, key).filter(|value| *value != "0")?.to_owned()));
        record.asked.memory = ["MinMemoryNode", "MinMemoryCPU"].into_iter().find_map(memory);
    } else if line.contains("CronJob=Yes") {
        record.asked.is_cron = true;
    }
}

/// The keys of texts that ask for GRES.
const ASKS: [&str; 6] =
    ["TresPerJob", "TresPerNode", "TresPerSocket", "TresPerTask", "CpusPerTres", "MemPerTres"];

/// A line after `Command=`.
fn rest(record: &mut Record, line: &str) {
    // `--ntasks-per-gpu`: Slurm adds GPUs of no type.
    record.is_told |= line.starts_with("NtasksPerTRES=");
    for key in ASKS {
        let Some(text) = line.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) else { continue };
        if key.starts_with("TresPer") {
            record.is_told |= text.contains("gpu");
            record.types.extend(text.split([',', ';']).filter_map(type_in));
        }
        record.asked.tres.push((key, text.to_owned()));
    }
}

/// The type in `gres/gpu:a40:2`, `gres:gpu:a40` or `gres/gpu:a40=2`.
fn type_in(part: &str) -> Option<String> {
    let text =
        part.trim().strip_prefix("gres").map_or(part.trim(), |rest| rest.trim_start_matches([':', '/']));
    let rest = text.strip_prefix("gpu")?.strip_prefix([':', '/', '='])?;
    let name = rest.split([':', '=', '(']).next()?;
    (!name.is_empty() && !name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
