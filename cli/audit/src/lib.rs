//! `gpushare audit`: which requests Mode=audit and Mode=warn have let pass, which were refused or exempt, whose they
//! were, and what would have been accepted. It changes nothing.
//!
//! Read → sum → print: it reads the lines of slurmctld's plugin in slurmctld's log (`files`, `stamp`, `moment`), sums
//! them by user and form of request (`collect`), checks and prints them (`report`, `text`). If it can read no log, it
//! uses the counts of `RefusalCounts`, which say less. If there is no request, it says so only if gpushare would have
//! logged one (`evidence`).
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clap::{Args, ValueHint};
use gpushare::config::LoadError;
use gpushare::counter_file;
use gpushare::submit::counters;
use gpushare::submit::policy::LimitAdvice;
use jiff::tz::TimeZone;

mod collect;
mod evidence;
mod files;
mod line;
mod moment;
mod report;
mod stamp;
mod text;

use collect::Collector;
use evidence::{Doubt, Loaded};
use files::LogFile;
use gpushare_machine::local;
use gpushare_period::Period;
use gpushare_period::span::{PeriodError, Span};
use gpushare_slurm_run as slurm;
use gpushare_slurm_run::file::{ConfFile, NoSettings};
use gpushare_slurm_text::Settings;
use gpushare_slurm_text::settings::is_plugin;
use gpushare_terminal::format::Format;
use gpushare_terminal::{Answer, FileError};
use moment::Clock;
use report::Report;

/// The command line of `gpushare audit`.
#[derive(Args)]
#[command(
    after_help = "Reads slurmctld's log, so run it on the controller, as root or SlurmUser. Times: 2026-10-31, \
                  2026-10-31T12:00,\nnow, now-7days; by default the last 7 days. Exit status: 0 no accepted request \
                  breaks a rule, 1 some do, 2 it can't tell."
)]
pub struct Arguments {
    #[command(flatten)]
    span: Span,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    conf: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
    /// Logs to read; - is standard input [default: SlurmctldLogFile]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    logs: Vec<PathBuf>,
}

/// The length of the period by default.
const DAYS: u32 = 7;

gpushare::errors! {
    /// Why there is no report.
    #[derive(Debug)]
    pub enum AuditError {
        Syslog =>
            "SlurmctldLogFile is not set, so slurmctld's lines are in the journal or syslog: run 'journalctl -u \
             slurmctld -o short-iso | gpushare audit -'";
        NoLog(why: Box<AuditError>) =>
            "{why}. Run this on the controller as root or SlurmUser, or name a log that you can read";
        NoCounts(why: Box<AuditError>, path: PathBuf) =>
            "{why}; RefusalCounts={}: no such file. Run this on the controller", path.display();
        Counts(why: Box<AuditError>, path: PathBuf, error: io::Error) =>
            "{why}; RefusalCounts={}: {error}", path.display();
    } from {
        Period(PeriodError), Load(LoadError), File(FileError), Doubt(Doubt), Settings(NoSettings),
    }
}

/// The report.
///
/// # Errors
/// Neither a log nor the counts can be read, or they can't tell whether there was anything to report.
pub fn run(arguments: &Arguments) -> Result<Answer, AuditError> {
    let now = gpushare_period::now();
    let mut period = arguments.span.period(now, DAYS)?;
    if arguments.span.end.is_none() {
        // The period includes the current second.
        period.end = period.end.saturating_add(1);
    }
    let config = local::config(arguments.conf.as_deref())?.unwrap_or_default();
    let (settings, loaded) = match arguments.logs.is_empty() {
        true => settings(),
        false => (Ok(Settings::default()), Loaded::Unknown(String::new())),
    };
    let found = settings.and_then(|settings| {
        let mut collector = Collector::new(period);
        let (files, doubts) = logs(&arguments.logs, &settings)?;
        sum(&mut collector, &files)?;
        Ok((collector, files, doubts, settings.get("ClusterName").to_owned()))
    });
    let (mut report, doubts) = match found {
        Ok((collector, files, mut doubts, cluster)) => {
            let files = files.into_iter().map(|file| file.path.display().to_string()).collect();
            // What slurmctld says of itself now says nothing of a period that has ended.
            let unasked = Loaded::Unknown(String::new());
            let loaded = if arguments.span.end.is_none() { &loaded } else { &unasked };
            doubts.extend(collector.doubts(loaded));
            (Report::of_logs(collector, files, cluster, config.policy.limit_advice), doubts)
        }
        Err(why) => {
            let (reason, why) = (why.to_string(), Box::new(why));
            let Some(path) = config.refusal_counts.filter(|_| arguments.logs.is_empty()) else {
                return Err(AuditError::NoLog(why));
            };
            let counts = counts(&path, why)?;
            let report = Report::of_counts(counts, made(&path), &path, &reason, config.policy.limit_advice);
            (report, evidence::of_counts(&loaded).into_iter().collect())
        }
    };
    // A doubt leaves nothing of "none", but what was found was found.
    for doubt in doubts {
        if report.would_be_refused == 0 {
            return Err(doubt.into());
        }
        report.remarks.push(doubt.to_string());
    }
    let text = arguments.format.text(&report, text::lines, text::csv);
    Ok(Answer { text, status: u8::from(report.would_be_refused > 0) })
}

/// How many requests of each account and QOS were refused; and what the logs may leave out.
pub type Refused = (Vec<(String, String, u64)>, Vec<String>);

/// For `gpushare report`: what these logs say of refused requests.
///
/// # Errors
/// A log can't be read, or can't tell that none was refused.
pub fn refused(paths: &[PathBuf], period: Period) -> Result<Refused, AuditError> {
    let mut collector = Collector::new(period);
    let (files, _) = logs(paths, &Settings::default())?;
    sum(&mut collector, &files)?;
    let doubt = collector.doubts(&Loaded::Unknown(String::new())).into_iter().next();
    let report = Report::of_logs(collector, Vec::new(), String::new(), LimitAdvice::default());
    match doubt {
        Some(doubt) if report.refused == 0 => Err(doubt.into()),
        _ => {
            let remarks = if report.is_partial { report.remarks } else { Vec::new() };
            let all = report.requests.into_iter().filter(|one| one.sum.refused > 0);
            Ok((all.map(|one| (one.form.account, one.form.qos, one.sum.refused)).collect(), remarks))
        }
    }
}

/// Adds up the lines of files.
fn sum(collector: &mut Collector, files: &[LogFile]) -> Result<(), FileError> {
    for file in files {
        let clock = Clock { zone: TimeZone::system(), latest: file.written.saturating_add(86_400) };
        files::lines(&file.path, |line| collector.take(line, &clock))?;
    }
    Ok(())
}

/// slurmctld's own settings, or those of slurm.conf if it doesn't answer; and whether it says that it runs with
/// gpushare.
fn settings() -> (Result<Settings, AuditError>, Loaded) {
    match slurm::ask("scontrol", &["show", "config"]).map(|text| Settings::parse(&text)) {
        Ok(settings) => {
            let plugins = settings.list("JobSubmitPlugins");
            let loaded = match plugins.iter().any(|word| is_plugin(word, "gpushare")) {
                true => Loaded::Yes,
                false => Loaded::No(plugins.join(",")),
            };
            (Ok(settings), loaded)
        }
        Err(asked) => {
            let loaded = Loaded::Unknown(asked.to_string());
            let conf = ConfFile::instead(&slurm::conf(), asked);
            (conf.map(|conf| conf.settings()).map_err(AuditError::Settings), loaded)
        }
    }
}

/// The files to read, the oldest first, and what they leave out.
fn logs(named: &[PathBuf], settings: &Settings) -> Result<(Vec<LogFile>, Vec<Doubt>), AuditError> {
    let standard_input = |path: &PathBuf| LogFile { written: gpushare_period::now(), path: path.clone() };
    if named.is_empty() {
        let log = settings.get("SlurmctldLogFile");
        if !log.starts_with('/') {
            return Err(AuditError::Syslog);
        }
        let files = vec![LogFile::at(Path::new(log))?];
        let mut doubts = Vec::new();
        let hosts = settings.list("SlurmctldHost");
        if hosts.len() > 1 {
            doubts.push(Doubt::Controllers(hosts.join(", ")));
        }
        let level = settings.get("SlurmctldDebug");
        if ["quiet", "fatal", "error"].iter().any(|word| level.eq_ignore_ascii_case(word)) {
            doubts.push(Doubt::Level(level.to_owned()));
        }
        return Ok((files, doubts));
    }
    let mut files = named
        .iter()
        .map(|path| if path == Path::new("-") { Ok(standard_input(path)) } else { LogFile::at(path) })
        .collect::<Result<Vec<_>, _>>()?;
    files.sort();
    files.dedup();
    Ok((files, Vec::new()))
}

/// The counts of slurmctld's plugin. The error says why there is nothing to read at all.
fn counts(path: &Path, why: Box<AuditError>) -> Result<Vec<u64>, AuditError> {
    counter_file::read(path, &counters::names()).map_err(|error| match error.kind() {
        ErrorKind::NotFound => AuditError::NoCounts(why, path.to_owned()),
        _ => AuditError::Counts(why, path.to_owned(), error),
    })
}

/// When a file was made, if its file system knows.
fn made(path: &Path) -> Option<u32> {
    let made = path.metadata().and_then(|data| data.created()).ok()?;
    u32::try_from(made.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests;
