//! Asks Slurm for one moment of the cluster, in ten questions however large it is: two whether the daemons answer, two
//! about jobs, one each about nodes, partitions and settings, and two of slurmdbd about limits. Jobs, places and
//! limits are asked at the same time.
//!
//! The records of jobs come first: [`gpushare_slurm_text::record`] says why.

use std::collections::HashMap;
use std::thread;

use gpushare_slurm_text::limits::{self, Associations, is_whole};
use gpushare_slurm_text::record::{self, Records};
use gpushare_slurm_text::{Job, Node, Partition, Qos, Settings, Snapshot, job, node, partition, settings};

use super::GuardError;
use gpushare_slurm_run::run::{self, question};
use gpushare_slurm_run::{ProgramError, Reach};

/// # Errors
/// A daemon doesn't answer, or what a command prints can't be read.
pub(super) fn snapshot() -> Result<Snapshot, GuardError> {
    // Without them, Slurm's commands would keep trying.
    let Reach { slurmctld, slurmdbd } = Reach::ask();
    slurmctld?;
    slurmdbd?;
    thread::scope(|scope| {
        let places = scope.spawn(places);
        let limits = scope.spawn(limits);
        let jobs = jobs();
        let gone = |_| GuardError::Program(ProgramError::Unasked("scontrol"));
        let (nodes, partitions) = places.join().map_err(gone)??;
        let (settings, qoses, associations) = limits.join().map_err(gone)??;
        Ok(Snapshot { jobs: jobs?, nodes, partitions, qoses, associations, settings })
    })
}

type Places = (HashMap<String, Node>, HashMap<String, Partition>);

fn places() -> Result<Places, GuardError> {
    let nodes = node::read(&question(node::NODES, &[])?).into_iter().map(|node| (node.name.clone(), node));
    let partitions = partition::read(&question(partition::PARTITIONS, &[])?);
    let partitions = partitions.into_iter().map(|partition| (partition.name.clone(), partition));
    let (nodes, partitions): Places = (nodes.collect(), partitions.collect());
    if nodes.is_empty() || partitions.is_empty() {
        return Err(odd("scontrol", "no nodes or no partitions"));
    }
    Ok((nodes, partitions))
}

fn limits() -> Result<(Settings, HashMap<String, Qos>, Associations), GuardError> {
    let said = question(settings::SETTINGS, &[])?;
    let settings = Settings::parse(&said);
    if settings.cluster().is_empty() {
        return Err(odd("scontrol", &said));
    }
    let said = question(limits::QOSES, &[])?;
    if !is_whole(&said, limits::QOSES) {
        return Err(odd("sacctmgr", &said));
    }
    let qoses = limits::qoses(&said).into_iter().map(|qos| (qos.name.clone(), qos)).collect();
    let cluster = format!("cluster={}", settings.cluster());
    let said = question(limits::ASSOCIATIONS, &["where", &cluster])?;
    if !is_whole(&said, limits::ASSOCIATIONS) {
        return Err(odd("sacctmgr", &said));
    }
    Ok((settings, qoses, Associations::read(&said)))
}

fn jobs() -> Result<Vec<Job>, GuardError> {
    let mut records = Records::default();
    let (program, arguments) = record::RECORDS;
    run::lines(program, arguments, |line| records.line(line))?;
    let (mut jobs, mut wrong) = (Vec::new(), None);
    let (program, arguments) = job::JOBS;
    run::lines_with(&[job::TIMES], program, arguments, |line| match Job::read(line) {
        Some(job) => jobs.push(job),
        None if line.is_empty() => {}
        None => wrong = wrong.take().or_else(|| Some(line.to_owned())),
    })?;
    if let Some(line) = wrong {
        return Err(odd(program, &line));
    }
    job::join(&mut jobs, records);
    Ok(jobs)
}

fn odd(program: &'static str, said: &str) -> GuardError {
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    GuardError::Odd { program, said: first.chars().take(120).collect() }
}
