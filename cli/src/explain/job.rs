//! `gpushare explain JOBID`: why a job waits and what would start now, or which GPUs a running job has.
//!
//! Read (`records`, `place`) → decide (`limits`, `smaller`) → print (`write`). It changes nothing in Slurm.

use std::path::Path;

use gpushare_machine::local;
use gpushare_qos::config::ManagedQos;
use gpushare_slurm_text::partition::{least_time, takes_whole_nodes};
use gpushare_slurm_text::queue::{self, Row};
use gpushare_slurm_text::{State, past};
use serde::Serialize;

use super::ExplainError;
use gpushare_slurm_run::{ProgramError, Snapshot, ask, host, run};

mod id;
mod lending;
mod limits;
mod minutes;
mod place;
mod reason;
mod records;
mod smaller;
mod spent;
pub mod words;
mod write;

pub use id::JobId;
pub use lending::loans;
pub use limits::Limit;
use limits::Verdict;
use place::Place;
use smaller::Smaller;
pub use spent::of_qos_in_words;
pub use words::in_use;

/// More tasks of an array than a person would read.
const MOST: usize = 8;
const DENIES: &str = "the QOS has DenyOnLimit";
const FOREVER: &str = "the job waits forever";

/// The report about one job, or about the waiting tasks of an array.
#[derive(Debug, Serialize)]
struct Told {
    /// The name that squeue prints: `12`, `12_3`, `12_[4-9]`, `12+1`.
    job: String,
    user: String,
    state: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What {
    Waits {
        reason: String,
        /// The reason in plain words.
        because: String,
        /// When Slurm expects to start it.
        expected: Option<String>,
        asks: queue::Tres,
        limits: Vec<Limit>,
        smaller: Option<Smaller>,
        /// The longest time limit, in minutes, that limits on minutes would let start now.
        shorter: Option<u64>,
        /// What is unknown.
        notes: Vec<String>,
    },
    Runs {
        since: String,
        has: queue::Tres,
        places: Vec<Place>,
        notes: Vec<String>,
    },
    Over {
        end: String,
    },
    /// Accounting has the job, but slurmctld doesn't show it.
    Hidden {},
}

/// The form of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// One JSON object instead of lines.
    pub json: bool,
    /// The gpushare.conf with the nodes' rules.
    pub conf: Option<&'a Path>,
}

/// The report about a job; `Ok(None)` if Slurm shows no such job.
///
/// # Errors
/// Slurm can't be asked.
pub fn explain(id: &JobId, options: Options) -> Result<Option<String>, ExplainError> {
    // Limits count running jobs, and waiting ones may go first; of finished jobs, only the requested ones matter.
    let rows = queued(|row| id.names(row) || !row.is_over())?;
    let all: Vec<&Row> = rows.iter().filter(|row| id.names(row)).collect();
    if all.is_empty() {
        let mut over = over(id)?;
        if over.is_empty() {
            return Ok(None);
        }
        let more = over.len().saturating_sub(MOST);
        over.truncate(MOST);
        return Ok(Some(print(&over, more, options.json)));
    }
    Ok(Some(some(&all, &rows, options)?))
}

/// The report about the first jobs.
fn some(all: &[&Row], rows: &[Row], options: Options) -> Result<String, ExplainError> {
    let snapshot = Snapshot::default();
    // Without the file, jobs can be explained too.
    let qoses = local::config(options.conf).map_err(gpushare_terminal::complain).ok().flatten();
    let qoses = qoses.unwrap_or_default().qoses;
    let told = all.iter().take(MOST).map(|row| one(row, rows, options, (&snapshot, &qoses)));
    let told = told.collect::<Result<Vec<Told>, ProgramError>>()?;
    Ok(print(&told, all.len() - told.len(), options.json))
}

/// The report about a user's waiting jobs.
///
/// # Errors
/// Slurm can't be asked.
pub fn waiting(user_id: u32, options: Options) -> Result<String, ExplainError> {
    let waits = |row: &Row| row.user_id == user_id && !row.is_over() && !row.has_nodes();
    let rows = queued(|row| !row.is_over())?;
    let mut all: Vec<&Row> = rows.iter().filter(|row| waits(row)).collect();
    all.sort_by_key(|row| row.id); // the others may wait for the oldest
    if all.is_empty() && !options.json {
        let more = "gpushare explain JOB: any job; gpushare explain GS: all messages";
        return Ok(format!("you have no waiting jobs ({more})\n"));
    }
    some(&all, &rows, options)
}

/// The jobs that Slurm shows, as far as they matter.
///
/// # Errors
/// Slurm can't be asked.
pub fn queued(matters: impl Fn(&Row) -> bool) -> Result<Vec<Row>, ProgramError> {
    let mut rows = Vec::new();
    run::lines(queue::QUEUE.0, queue::QUEUE.1, |line| rows.extend(queue::row(line).filter(&matters)))?;
    Ok(rows)
}

fn one(row: &Row, rows: &[Row], options: Options, site: Site) -> Result<Told, ProgramError> {
    let what = match row {
        row if row.is_over() => What::Over { end: row.end.clone() },
        row if row.has_nodes() => runs(row, options),
        row => waits(row, rows, site)?,
    };
    Ok(Told { job: row.name(), user: row.user.clone(), state: row.state.clone(), what })
}

/// What Slurm says, and the QOSes of gpushare.conf.
type Site<'a> = (&'a Snapshot, &'a [ManagedQos]);

fn waits(row: &Row, rows: &[Row], (snapshot, qoses): Site) -> Result<What, ProgramError> {
    let record = ask("scontrol", &["-o", "show", "job", &row.id.to_string()]).unwrap_or_default();
    let (is_whole, mut whole) = (takes_whole_nodes(&record), row.clone());
    if let (true, Ok(nodes)) = (is_whole, snapshot.nodes()) {
        records::whole_nodes(&mut whole, nodes);
    }
    // Backfill starts it with as little, unless a MaxWall is lower than its time limit.
    let least = least_time(&record).filter(|least| row.time_limit.is_none_or(|time| *least < time));
    whole.time_limit = least.or(row.time_limit);
    let row = &whole;
    let (mut known, mut notes) = records::read(row, snapshot)?;
    if let Some(least) = least.filter(|_| !row.reason.contains("MaxWall")) {
        notes.push(format!("backfill may start it with as little as {least} minutes (TimeMin)"));
    }
    match snapshot.nodes() {
        Ok(nodes) => known.nodes = Some(records::of_nodes(row, nodes)),
        Err(reason) => notes.push(format!("can't tell what its nodes have free: {reason}")),
    }
    let mut limits = limits::concerning(row, &known, rows);
    if let Err(reason) = spent::add_users(&mut limits, Limit::stops, &known, snapshot) {
        notes.push(format!("can't tell who used the minutes: {reason}"));
    }
    let before = rows.iter().filter(|other| row.priority > 0 && other.goes_before(row)).count();
    let is_part = rows.iter().any(|other| other.starts_with(row));
    if is_part {
        notes.push("what it asks for includes the job's other components, which start with it".to_owned());
    }
    if before > 0 {
        let (jobs, have) = if before == 1 { ("job", "has") } else { ("jobs", "have") };
        let first = "a higher priority, and may take what is free first";
        notes.push(format!("{before} waiting {jobs} in its partition {have} {first}"));
    }
    if row.partition.contains(',') {
        let all = &row.partition;
        notes.push(format!("it may start in any of the partitions {all}; the limits are those in the first"));
    }
    notes.extend(lending::offer(row, &limits, rows, (snapshot, qoses)));
    let never = limits.iter().any(Limit::is_never);
    Ok(What::Waits {
        reason: row.reason.clone(),
        because: reason::plain(&row.reason),
        expected: row.expected_start().filter(|_| !never && !reason::is_held(&row.reason)),
        asks: row.tres.clone(),
        // Options alone don't make these smaller.
        smaller: smaller::of(row, &limits).filter(|_| !is_whole && !is_part),
        shorter: smaller::longest(&limits),
        limits,
        notes,
    })
}

fn runs(row: &Row, options: Options) -> What {
    let (places, notes) = place::find(row, options.conf);
    What::Runs { since: row.start.clone(), has: row.tres.clone(), places, notes }
}

/// The limits on GRES that concern a job.
///
/// # Errors
/// slurmctld can't be asked.
pub fn on_gres(job: &Row, rows: &[Row], snapshot: &Snapshot) -> Result<Vec<Limit>, ProgramError> {
    let (known, _) = records::read(job, snapshot)?;
    let mut limits = limits::concerning(job, &known, rows);
    limits.retain(|limit| limit.tres.starts_with("gres/"));
    // The limits count even if accounting doesn't say who used the minutes.
    let _ = spent::add_users(&mut limits, |limit| limit.used > Some(0), &known, snapshot);
    Ok(limits)
}

/// A report from accounting about a job, or the tasks of an array, that slurmctld has forgotten or doesn't show.
fn over(id: &JobId) -> Result<Vec<Told>, ProgramError> {
    let name = id.to_string();
    let said = ask(past::ENDED.0, &[past::ENDED.1, &["-j", &name]].concat());
    // Without accounting there is nothing to report.
    let text = match said {
        Err(ProgramError::Failed { said, .. }) if said.contains("accounting storage is disabled") => {
            String::new()
        }
        other => other?,
    };
    let told = text.lines().filter_map(|line| {
        let [job, user, state, end] = past::ended(line)?;
        let is_over = State::read(state) == State::Over;
        let what = if is_over { What::Over { end: end.to_owned() } } else { What::Hidden {} };
        Some(Told { job: job.to_owned(), user: user.to_owned(), state: state.to_owned(), what })
    });
    Ok(told.collect())
}

fn print(told: &[Told], more: usize, json: bool) -> String {
    if json {
        gpushare_terminal::json::text(&serde_json::json!({"jobs": told, "more": more}))
    } else {
        write::text(told, more)
    }
}

/// What a limit that is lower than a request means for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Beyond {
    Waits(String),
    /// Slurm refuses it when it is submitted.
    Refused(String),
}

/// The limits that are lower than what a job that doesn't exist yet would request, one line each. `row` has the minimum
/// that it requests, also of time if it says that; `asked` is its `--time`, which alone counts for MaxWall. If
/// `is_warned`, gpushare itself already warns about the GPUs (GS114).
///
/// # Errors
/// slurmctld can't be asked.
pub fn above(
    mut row: Row,
    asked: Option<u64>,
    (whole_nodes, is_warned): (bool, bool),
    (snapshot, qoses): Site,
) -> Result<Vec<Beyond>, ProgramError> {
    let place = snapshot.partitions()?.iter().find(|one| one.name == row.partition);
    let time = row.time_limit;
    row.time_limit = time.or(place.and_then(|place| place.default_time.or(place.max_time)));
    if whole_nodes || place.is_some_and(|place| place.whole_nodes) {
        records::whole_nodes(&mut row, snapshot.nodes()?);
    }
    let (known, notes) = records::read(&row, snapshot)?;
    let mut limits = limits::concerning(&row, &known, &[]);
    // The limits count even if accounting doesn't say who used the minutes.
    let _ = spent::add_users(&mut limits, Limit::stops, &known, snapshot);
    let is_said = |limit: &&Limit| is_warned && limit.is_of_qos && limit.tres.starts_with("gres/");
    // The flag of either QOS makes Slurm test all limits for the job alone (Slurm: `acct_policy_validate`).
    let denies = known.qoses.iter().any(|record| record.denies(snapshot.qoses().unwrap_or_default()));
    let one = |limit: &Limit| {
        // A job without --time gets one that limits on minutes allow.
        let is_beyond = match limit.minutes {
            Some(_) => time.is_some() && limit.asks > limit.limit,
            None => limit.is_never(),
        };
        match limit.verdict {
            _ if denies && is_beyond && limit.tres != "jobs" => {
                Some(Beyond::Refused(words::above(limit, DENIES)))
            }
            Verdict::Never if is_said(&limit) => None,
            Verdict::Never => Some(Beyond::Waits(words::above(limit, FOREVER))),
            Verdict::Waits { .. } if limit.minutes.is_some() => words::answer(limit).map(Beyond::Waits),
            _ => None,
        }
    };
    // Without a time of the partition's, Slurm gives the job the longest that it may have.
    let asked = asked.or(place.and_then(|place| place.default_time));
    let wall = asked.zip(known.wall()).and_then(|(asked, (holder, limit))| {
        let above = |asks, then| {
            let (field, tres, scope) = (minutes::WALL, "minutes".to_owned(), limits::Scope::Job);
            let holder = limits::name(holder);
            words::above(&Limit { holder, field, scope, tres, limit, asks, ..Limit::default() }, then)
        };
        let counted = known.minutes.scaled_of(asked);
        if denies && asked > limit {
            return Some(Beyond::Refused(above(asked, DENIES)));
        }
        (counted > limit).then(|| Beyond::Waits(above(counted, FOREVER)))
    });
    let offer = lending::offer(&row, &limits, &[], (snapshot, qoses));
    let said = limits.iter().filter_map(one).chain(wall);
    Ok(said.chain(offer.into_iter().chain(notes).map(Beyond::Waits)).collect())
}
