//! `gpushare fit`: from Slurm's accounting alone, which jobs with a whole GPU would have fitted a share, what to
//! request instead, and how many GPU-hours that would have freed. It needs no other part of gpushare, and changes
//! nothing.
//!
//! Read → judge → replay → print: it reads jobs and their steps as a stream (`job`), judges each by its GPU memory and
//! keeps a few numbers (`share`, `collect`), replays the period with shares through the prolog's choice (`replay`), and
//! prints the sums (`report`, `text`). What accounting can't tell is said, not guessed.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, ValueHint};
use gpushare_history::nodes::Nodes;
use gpushare_history::source::Cluster;
use gpushare_history::{privacy, stream};
use gpushare_machine::local;
use gpushare_period::Period;
use gpushare_period::span::Span;
use gpushare_slurm_text::sacct::{Row, Wanted};
use gpushare_terminal::Answer;
use gpushare_terminal::format::Format;

mod collect;
mod error;
mod job;
mod replay;
mod report;
mod share;
mod text;

use collect::Collector;
use error::FitError;
use report::Report;
use share::Shares;

/// The command line of `gpushare fit`.
#[derive(Args)]
#[command(
    after_help = "Reads sacct, sacctmgr and scontrol, and changes nothing. Times: 2026-10-31, 2026-10-31T12:00, now,\n\
                  now-30days; by default the last 30 days. Exit status: 0, or 2 if it can't tell."
)]
pub struct Arguments {
    #[command(flatten)]
    span: Span,
    /// The memory of GPUs by type, such as a40:46068M,h100:80G [default: gpushare.conf's, or that of the type's name]
    #[arg(long, value_name = "LIST")]
    gpu_memory: Option<String>,
    /// How much more memory a share must have than its job used
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    margin: u32,
    /// Units and sizes of shares [default: those of the gpushare.conf in use, or halves, quarters and eighths]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    conf: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// The length of the period by default.
const DAYS: u32 = 30;

/// The report.
///
/// # Errors
/// There is no report; why.
pub fn run(arguments: &Arguments) -> Result<Answer, FitError> {
    let memory = arguments.gpu_memory.as_deref().map_or(Ok(Vec::new()), share::memory)?;
    let config = local::config(arguments.conf.as_deref())?;
    let shares = Shares { config, memory, margin: arguments.margin };
    let period = arguments.span.period(gpushare_period::now(), DAYS)?;
    let mut cluster = Cluster::ask(privacy::OF_JOBS)?;
    cluster.remarks.extend(remarks(&shares));
    let report =
        summed(cluster, period, Rc::new(shares), |day, show| Ok(stream::rows(Wanted::Steps, day, show)?))?;
    Ok(Answer::from(arguments.format.text(&report, text::lines, text::csv)))
}

/// Sums what `ask` shows of each day.
fn summed(
    cluster: Cluster,
    period: Period,
    shares: Rc<Shares>,
    mut ask: impl FnMut(Period, &mut dyn FnMut(&Row)) -> Result<u64, FitError>,
) -> Result<Report, FitError> {
    let Cluster { name, nodes, mut remarks, .. } = cluster;
    let mut collector = Collector::new(shares, Nodes::read(&nodes), period);
    remarks.extend(stream::days(period, |day| {
        collector.day(day);
        ask(day, &mut |row| collector.take(row))
    })?);
    collector.end();
    match (collector.with_gpus, collector.recorded) {
        (0, _) => Err(FitError::NoJobs(period)),
        (jobs, 0) => Err(FitError::NoMemory(jobs)),
        _ => Ok(report::of(name, period, collector, remarks)),
    }
}

/// What the numbers rest on, and what accounting can't tell.
fn remarks(shares: &Shares) -> Vec<String> {
    let mut said = Vec::new();
    let is_set = |config: &gpushare_machine::config::Config| {
        config.every_node().any(|one| one.units_per_gpu.is_some())
    };
    if !shares.config.as_ref().is_some_and(is_set) {
        said.push("no gpushare.conf has UnitsPerGpu: a GPU is taken to have 100 units".to_owned());
    }
    said.push(format!(
        "a share is enough if it has {} % more memory than the job's steps used at once. Slurm samples that \
         (JobAcctGatherFrequency, by default every 30 s), so a short peak may be missing. CUDA and frameworks may \
         reserve more than they need. What MPS itself needs isn't in it",
        shares.margin
    ));
    said.push(
        "accounting has the highest utilization of a job, not its average. LOW UTIL counts jobs whose highest is \
         within their part of the GPU; others may run slower beside other shares"
            .to_owned(),
    );
    said.push(
        "freed: all starts, ends and nodes stay, and Packing=pack places the shares (spread takes empty GPUs first). \
         Jobs that weren't checked keep whole GPUs. Shares that ran (mps, shard) aren't counted"
            .to_owned(),
    );
    said
}

#[cfg(test)]
mod tests;
