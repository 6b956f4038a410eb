//! `gpushare audit`: which requests Mode=audit and Mode=warn have let pass, which were refused or exempt, whose they
//! were, and what would have been accepted. It changes nothing.
//!
//! Read → sum → print: it reads the lines of slurmctld's plugin in slurmctld's log (`files`, `stamp`), sums them by
//! user and form of request (`collect`), judges and prints them (`report`, `text`). If it can read no log, it uses the
//! counts of `RefusalCounts`, which say less.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use gpushare::config::LoadError;
use gpushare::counter_file;
use gpushare::submit::counters;
use jiff::tz::TimeZone;

mod collect;
mod files;
mod report;
mod stamp;
mod text;

use crate::error::FileError;
use crate::period::{self, Period, PeriodError};
use crate::slurm::file::ConfFile;
use crate::slurm::{self, ProgramError, Settings};
use crate::status::local;
use crate::{Answer, json};
use collect::Collector;
use files::LogFile;
use report::Report;
use stamp::Clock;

/// The command line of `gpushare audit`.
#[derive(Args)]
#[command(
    after_help = "Reads slurmctld's log, so run it on the controller, as root or SlurmUser. Times: 2026-10-31, \
                  2026-10-31T12:00,\nnow, now-7days. Exit status: 0 no accepted request breaks a rule, 1 some do, 2 it \
                  can't tell."
)]
pub struct Arguments {
    /// From when [default: 7 days before the end]
    #[arg(long, short = 'S', value_name = "TIME")]
    start: Option<String>,
    /// Until when [default: now]
    #[arg(long, short = 'E', value_name = "TIME")]
    end: Option<String>,
    /// Logs to read, also gzipped ones; - is standard input [default: SlurmctldLogFile and its rotated files]
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    log: Vec<PathBuf>,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    conf: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a line for each user, form of request and message
    #[arg(long)]
    csv: bool,
}

/// The length of the period by default.
const DAYS: u32 = 7;

gpushare::errors! {
    /// Why there is no report.
    #[derive(Debug)]
    pub enum AuditError {
        Syslog =>
            "SlurmctldLogFile is not set, so slurmctld writes to syslog: run 'journalctl -u slurmctld -o short-iso | \
             gpushare audit --log -'";
        /// Neither slurmctld nor slurm.conf provides the settings.
        NoSettings(asked: ProgramError, read: FileError) => "{asked}; {read}";
        NoLog(why: Box<AuditError>) =>
            "{why}. Run this on the controller as root or SlurmUser, or name a log with --log";
        NoCounts(why: Box<AuditError>, path: PathBuf) =>
            "{why}; RefusalCounts={}: no such file. Run this on the controller", path.display();
        Counts(why: Box<AuditError>, path: PathBuf, error: io::Error) =>
            "{why}; RefusalCounts={}: {error}", path.display();
    } from { Period(PeriodError), Load(LoadError), File(FileError), Json(serde_json::Error) }
}

/// The report.
///
/// # Errors
/// Neither a log nor the counts can be read.
pub fn run(arguments: &Arguments) -> Result<Answer, AuditError> {
    let now = period::now();
    let mut period = Period::parse(arguments.start.as_deref(), arguments.end.as_deref(), now, DAYS)?;
    if arguments.end.is_none() {
        // The period includes the current second.
        period.end = period.end.saturating_add(1);
    }
    let config = local::config(arguments.conf.as_deref())?.unwrap_or_default();
    let settings = if arguments.log.is_empty() { settings() } else { Ok(Settings::default()) };
    let found = settings.and_then(|settings| {
        let mut collector = Collector::new(period);
        let (files, notes) = logs(&arguments.log, &settings, period)?;
        for file in &files {
            let clock = Clock { zone: TimeZone::system(), latest: file.written.saturating_add(86_400) };
            files::lines(&file.path, |line| collector.take(line, &clock))?;
        }
        Ok((collector, files, notes, settings.get("ClusterName").to_owned()))
    });
    let report = match found {
        Ok((collector, files, notes, cluster)) => {
            let files = files.into_iter().map(|file| file.path.display().to_string()).collect();
            Report::of_logs(collector, files, notes, cluster, config.policy.limit_advice)
        }
        Err(why) => {
            let (reason, why) = (why.to_string(), Box::new(why));
            let Some(path) = config.refusal_counts.filter(|_| arguments.log.is_empty()) else {
                return Err(AuditError::NoLog(why));
            };
            Report::of_counts(counts(&path, why)?, &path, &reason, config.policy.limit_advice)
        }
    };
    let text = match (arguments.csv, arguments.json) {
        (true, _) => text::csv(&report),
        (_, true) => json::text(&report)?,
        _ => text::lines(&report),
    };
    Ok(Answer { text, status: u8::from(report.would_be_refused > 0) })
}

/// slurmctld's own settings, or those of slurm.conf if it doesn't answer.
fn settings() -> Result<Settings, AuditError> {
    slurm::ask("scontrol", &["show", "config"]).map(|text| Settings::parse(&text)).or_else(|asked| {
        let conf = ConfFile::read_whole(&slurm::conf());
        conf.map(|conf| conf.settings()).map_err(|read| AuditError::NoSettings(asked, read))
    })
}

/// The files to read, the oldest first, and the notes about them.
fn logs(
    named: &[PathBuf],
    settings: &Settings,
    period: Period,
) -> Result<(Vec<LogFile>, Vec<String>), AuditError> {
    let standard_input = |path: &PathBuf| LogFile { written: period::now(), path: path.clone() };
    let mut notes = Vec::new();
    if named.is_empty() {
        let log = settings.get("SlurmctldLogFile");
        if !log.starts_with('/') {
            return Err(AuditError::Syslog);
        }
        let (files, packed) = files::with_rotated(Path::new(log), period.start)?;
        notes.extend(packed.iter().map(|path| {
            format!("{} can't be read: unpack it, and name all logs with --log", path.display())
        }));
        let levels = ["quiet", "fatal", "error"];
        let level = settings.get("SlurmctldDebug");
        if levels.iter().any(|word| level.eq_ignore_ascii_case(word)) {
            notes.push(format!(
                "SlurmctldDebug={level} leaves gpushare's lines out of the log: set it to info"
            ));
        }
        return Ok((files, notes));
    }
    let mut files = named
        .iter()
        .map(|path| if path == Path::new("-") { Ok(standard_input(path)) } else { LogFile::at(path) })
        .collect::<Result<Vec<_>, _>>()?;
    files.sort();
    files.dedup();
    Ok((files, notes))
}

/// The counts of slurmctld's plugin. The error says why there is nothing to read at all.
fn counts(path: &Path, why: Box<AuditError>) -> Result<Vec<u64>, AuditError> {
    counter_file::read(path, &counters::names()).map_err(|error| match error.kind() {
        ErrorKind::NotFound => AuditError::NoCounts(why, path.to_owned()),
        _ => AuditError::Counts(why, path.to_owned(), error),
    })
}

#[cfg(test)]
mod tests;
