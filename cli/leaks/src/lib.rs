//! `gpushare leaks`: from Slurm's accounting alone, when more GPUs of a type ran than a limit allows, through which
//! requests, and what gpushare would have replied to them. It needs no other part of gpushare, and changes nothing.
//!
//! Read → sum → print: it reads jobs as a stream, keeps a few numbers of each (`collect`), sums
//! these over time (`sweep`), checks and prints them (`report`, `text`, `plot`). If accounting lacks a fact, it says so
//! instead of guessing (`held`).
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, ValueEnum, ValueHint};
use gpushare::submit::policy::Policy;

mod collect;
mod error;
mod form;
mod held;
mod limits;
mod plot;
mod report;
mod sweep;
mod text;

use gpushare_history::nodes::Nodes;
use gpushare_history::source::Cluster;
use gpushare_history::{privacy, stream};
use gpushare_judge::past::{Judge, Tables};
use gpushare_period::Period;
use gpushare_period::span::Span;
use gpushare_slurm_text::sacct::{Row, Wanted};
use gpushare_terminal::{Answer, json, write_file};

use collect::Collector;
use error::LeaksError;
use gpushare_machine::local;
use limits::Limits;
use report::Report;

/// The command line of `gpushare leaks`.
#[derive(Args)]
#[command(
    after_help = "Reads sacct, sacctmgr and scontrol, and changes nothing. Times: 2026-10-31, 2026-10-31T12:00, now,\n\
                  now-30days; by default the last 30 days. Exit status: 0 no limit was exceeded, 1 one was, 2 it \
                  can't tell."
)]
pub struct Arguments {
    #[command(flatten)]
    span: Span,
    /// The rules to check requests by [default: those in use, or the defaults]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    conf: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a line for each user and form of request; with =times for each time in which a limit was exceeded
    #[arg(
        long,
        value_name = "requests|times",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "requests",
        hide_possible_values = true
    )]
    csv: Option<Csv>,
    /// Draw GPUs held against the limits as an SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// The length of the period by default.
const DAYS: u32 = 30;

#[derive(Clone, Copy, ValueEnum)]
enum Csv {
    Requests,
    Times,
}

/// The report.
///
/// # Errors
/// There is no report; why.
pub fn run(arguments: &Arguments) -> Result<Answer, LeaksError> {
    let period = arguments.span.period(gpushare_period::now(), DAYS)?;
    let policy = local::policy(arguments.conf.as_deref())?;
    let cluster = Cluster::ask(privacy::OF_JOBS)?;
    let mut tables = Tables::ask(None, &cluster.name)?;
    tables.partitions = cluster.partitions.clone().into_bytes();
    let report =
        summed(cluster, &tables, period, policy, |day, show| Ok(stream::rows(Wanted::Requests, day, show)?))?;
    if let Some(path) = &arguments.plot {
        write_file(path, &plot::svg(&report).map_err(LeaksError::Plot)?)?;
    }
    let text = match arguments.csv {
        Some(Csv::Requests) => text::requests_csv(&report),
        Some(Csv::Times) => text::times_csv(&report),
        None if arguments.json => json::text(&report),
        None => text::lines(&report),
    };
    Ok(Answer { text, status: u8::from(report.is_over()) })
}

fn summed(
    cluster: Cluster,
    tables: &Tables,
    period: Period,
    policy: Policy,
    mut ask: impl FnMut(Period, &mut dyn FnMut(&Row)) -> Result<u64, LeaksError>,
) -> Result<Report, LeaksError> {
    let known = Rc::new(tables.read());
    let limits = Limits::of(&known);
    let mut collector = Collector::new(&limits, Nodes::read(&cluster.nodes), period, cluster.release);
    let unread = stream::days(period, |day| {
        ask(day, &mut |row| {
            if row.start.is_some_and(|start| stream::is_first(start, day, period)) {
                collector.take(row);
            }
        })
    })?;
    // Without limits, none was exceeded. Otherwise, no jobs are no proof.
    match limits.all.is_empty() {
        false if collector.counts.read == 0 => return Err(LeaksError::NoJobs(period)),
        false if collector.counts.with_gpus == 0 && collector.counts.is_unrecorded => {
            return Err(LeaksError::NoGpus);
        }
        _ => {}
    }
    let judge = Judge::new(policy, cluster.release, known);
    let mut report = Report::of(cluster, period, &limits, collector, &judge);
    report.remarks.extend(unread);
    Ok(report)
}

#[cfg(test)]
mod tests;
