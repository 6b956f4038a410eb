//! `gpushare audit`: which requests Mode=audit and Mode=warn have let pass, which were refused or exempt, whose they
//! were, and what would have been accepted. Nothing is changed.
//!
//! Read → sum → print: the lines that slurmctld's plugin has written into slurmctld's log (`files`, `stamp`) are summed
//! by user and form of request (`collect`), judged and printed (`report`, `text`). Where no log can be read, the counts
//! of `RefusalCounts` say less.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use gpushare::config::Config;
use gpushare::counter_file;
use gpushare::submit::{counters, seal};
use jiff::tz::TimeZone;

mod collect;
mod files;
mod report;
mod stamp;
mod text;

use crate::json;
use crate::period::{self, Period};
use crate::slurm::{self, Settings};
use crate::status::local;
use collect::Collector;
use files::LogFile;
use report::Report;
use stamp::Clock;

/// The command line of `gpushare audit`.
#[derive(Args)]
#[command(
    after_help = "Reads slurmctld's log, so run it on the controller, as root or SlurmUser. Times: 2026-10-31, \
                  2026-10-31T12:00,\nnow, now-7days. Exit status: 0 no accepted request breaks a rule, 1 some do, 2 it \
                  can't be told."
)]
pub struct Arguments {
    /// From when [default: 7 days before the end]
    #[arg(long, short = 'S', value_name = "TIME")]
    start: Option<String>,
    /// Until when [default: now]
    #[arg(long, short = 'E', value_name = "TIME")]
    end: Option<String>,
    /// Logs to read, also packed by gzip; - is standard input [default: SlurmctldLogFile and what logrotate has made of
    /// it]
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    log: Vec<PathBuf>,
    /// What proves that gpushare wrote a line: gpushare_log_key of the controller whose logs these are [default: that
    /// in StateSaveLocation]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log_key: Option<PathBuf>,
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

/// How long the period is by default.
const DAYS: u32 = 7;

/// What is said, and whether an accepted request breaks a rule.
pub struct Answer {
    pub text: String,
    pub passed: bool,
}

/// An error is one line: why it could not be told.
pub fn run(arguments: &Arguments) -> Result<Answer, String> {
    let now = period::now();
    let mut period = Period::parse(arguments.start.as_deref(), arguments.end.as_deref(), now, DAYS)?;
    if arguments.end.is_none() {
        // This second, too.
        period.end = period.end.saturating_add(1);
    }
    let conf = local::conf_path(arguments.conf.as_deref());
    let config = Config::load(&conf).map_err(|error| error.to_string())?.unwrap_or_default();
    let settings = if arguments.log.is_empty() { settings() } else { Ok(of_file().unwrap_or_default()) };
    let found = settings.and_then(|settings| {
        let (files, mut notes) = logs(&arguments.log, &settings, period)?;
        let key = key(arguments.log_key.as_deref(), &settings);
        notes.extend(key.as_ref().err().map(|reason| {
            format!("whether gpushare wrote these lines can't be told: {reason}; users can put such lines into the log")
        }));
        let mut collector = Collector::new(period, key.ok().map(seal::Judge::new));
        for file in &files {
            let clock = Clock { zone: TimeZone::system(), latest: file.written.saturating_add(86_400) };
            files::lines(&file.path, |line| collector.take(line, &clock))?;
        }
        let cluster = if arguments.log.is_empty() { settings.get("ClusterName") } else { "" };
        Ok((collector, files, notes, cluster.to_owned()))
    });
    let report = match found {
        Ok((collector, files, notes, cluster)) => {
            let files = files.into_iter().map(|file| file.path.display().to_string()).collect();
            Report::of_logs(collector, files, notes, cluster, config.policy.limit_advice)
        }
        Err(reason) => {
            let path = config.refusal_counts.filter(|_| arguments.log.is_empty()).ok_or_else(|| {
                format!("{reason}. Run this on the controller as root or SlurmUser, or name a log with --log")
            })?;
            Report::of_counts(counts(&path, &reason)?, &path, &reason, config.policy.limit_advice)
        }
    };
    let text = match (arguments.csv, arguments.json) {
        (true, _) => text::csv(&report),
        (_, true) => json::text(&report)?,
        _ => text::lines(&report),
    };
    Ok(Answer { text, passed: report.would_be_refused > 0 })
}

/// slurmctld's own settings, or those of slurm.conf while it doesn't answer.
fn settings() -> Result<Settings, String> {
    slurm::ask("scontrol", &["show", "config"])
        .map(|text| Settings::parse(&text))
        .or_else(|reason| of_file().map_err(|error| format!("{reason}; {error}")))
}

/// Those of slurm.conf.
fn of_file() -> Result<Settings, String> {
    let path = slurm::conf();
    let lines = Settings::lines(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Settings::parse(&lines))
}

/// What the plugin's lines are sealed with; an error says why it can't be had.
fn key(named: Option<&Path>, settings: &Settings) -> Result<seal::Key, String> {
    let folder = settings.get("StateSaveLocation");
    let path = match named {
        Some(path) => path.to_owned(),
        None if folder.is_empty() => {
            return Err("slurm.conf has no StateSaveLocation here (--log-key)".to_owned());
        }
        None => seal::path(Path::new(folder)),
    };
    seal::read(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Which files to read, the oldest first, and what is to say about them.
fn logs(
    named: &[PathBuf],
    settings: &Settings,
    period: Period,
) -> Result<(Vec<LogFile>, Vec<String>), String> {
    let standard_input = |path: &PathBuf| LogFile { written: period::now(), path: path.clone() };
    let mut notes = Vec::new();
    if named.is_empty() {
        let log = settings.get("SlurmctldLogFile");
        if !log.starts_with('/') {
            return Err(
                "SlurmctldLogFile is not set, so slurmctld writes to syslog: 'journalctl -u slurmctld -o short-iso | \
                 gpushare audit --log -' reads that"
                    .to_owned(),
            );
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

/// The counts of slurmctld's plugin; an error says why there is nothing to read at all.
fn counts(path: &Path, reason: &str) -> Result<Vec<u64>, String> {
    counter_file::read(path, &counters::names()).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{reason}; RefusalCounts={}: no such file. Run this on the controller", path.display())
        }
        _ => format!("{reason}; RefusalCounts={}: {error}", path.display()),
    })
}

#[cfg(test)]
mod tests;
