//! `gpushare report`: what groups own, use, borrow, lend and leave idle in a month, how long their jobs waited, and
//! which requests were refused; for all groups and the cluster, or for one group with its users. It changes nothing.
//!
//! Read → sum → print: owners come from Slurm's database (`groups`), jobs from sacct as a stream. `sum` adds them up as
//! slurmdbd does, `report` compares the result with sreport's and names every difference, `text` and `page` print it.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use gpushare_history::source::Cluster;
use gpushare_history::{privacy, stream};
use gpushare_period::span::Span;
use gpushare_period::{Period, hours};
use gpushare_slurm_run::run as programs;
use gpushare_slurm_text::sacct::{Row, Wanted};
use gpushare_slurm_text::{sreport, tres};
use gpushare_terminal::format::Format;
use gpushare_terminal::{Answer, write_file};

mod error;
mod groups;
mod page;
mod report;
mod sum;
mod text;

use error::ReportError;
use groups::{ANY, Database, Group};
use report::{Account, Gpus, More, Refused, Report, Reserved, Told};
use sum::Summer;

/// The command line of `gpushare report`.
#[derive(Args)]
#[command(
    after_help = "Reads sacct, sreport, sacctmgr and scontrol, and changes nothing. Without --qos and --account: all \
                  groups, and the cluster. Times: 2026-10-31,\n2026-10-31T12:00, now, now-30days, in full hours; by \
                  default this month. Exit status: 0, or 2 if it can't tell."
)]
pub struct Arguments {
    #[command(flatten)]
    span: Span,
    /// A month, such as 2026-10 [default: this month]
    #[arg(long, value_name = "YYYY-MM", conflicts_with_all = ["start", "end"])]
    month: Option<String>,
    /// Only the group of this QOS, with its users; may be repeated
    #[arg(long, value_name = "NAME")]
    qos: Vec<String>,
    /// Only the group of this account and those below it, with its users; may be repeated
    #[arg(long, value_name = "NAME")]
    account: Vec<String>,
    /// Count refused requests in slurmctld's log; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Vec<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// The report. `refused` reads logs, and says what these may leave out.
///
/// # Errors
/// There is no report; why.
pub fn run<E: Display>(
    arguments: &Arguments,
    refused: impl FnOnce(&[PathBuf], Period) -> Result<(Refused, Vec<String>), E>,
) -> Result<Answer, ReportError> {
    let period = hours::parse(arguments.month.as_deref(), &arguments.span, gpushare_period::now())?;
    let asked = Cluster::ask(privacy::WITH_SUMS)?;
    let mut remarks = vec![
        "owned: the limits in Slurm's database now; it doesn't keep earlier ones. Borrowed: what a group used beyond \
         that"
            .to_owned(),
    ];
    remarks.extend(asked.remarks);
    let cluster = asked.name;
    let database = Database::ask(&cluster, &asked.partitions)?;
    let is_of_some = !(arguments.qos.is_empty() && arguments.account.is_empty());
    let groups = match is_of_some {
        true => database.named(&arguments.qos, &arguments.account, &cluster)?,
        false => database.groups(),
    };
    if !is_of_some {
        remarks.extend(database.twice().into_iter().map(|(account, qoses)| {
            format!(
                "account {account} has limits on GPUs too: it is shown as {}; --account shows all its jobs",
                qoses.join(", ")
            )
        }));
    }
    if !(is_of_some || database.of_partitions.is_empty()) {
        let names = database.of_partitions.join(", ");
        remarks
            .push(format!("QOSes of partitions are no groups: {names}. --qos shows jobs that request them"));
    }
    let refused = match arguments.log.as_slice() {
        [] => None,
        logs => {
            let (requests, said) = refused(logs, period).map_err(|why| ReportError::Log(why.to_string()))?;
            remarks.extend(said);
            Some(requests)
        }
    };
    let types = types()?;
    let told = told(&types, period, &mut remarks)?;
    let more = More { cluster, period, is_of_some, refused, remarks };
    let report = summed(&database, &groups, &types, told, more, |day, show| {
        Ok(stream::rows(Wanted::Jobs, day, show)?)
    })?;
    if let Some(path) = &arguments.html {
        let page = page::html(&report, is_of_some).map_err(ReportError::Plot)?;
        write_file(path, &page)?;
    }
    Ok(Answer::from(arguments.format.text(&report, text::lines, text::csv)))
}

/// The GPU types that accounting has.
fn types() -> Result<Vec<String>, ReportError> {
    let names = tres::names(&programs::question(tres::ALL, &[])?);
    if !names.iter().any(|name| name == "gres/gpu") {
        return Err(ReportError::NoGpus);
    }
    Ok(names.iter().filter_map(|name| name.strip_prefix("gres/gpu:")).map(str::to_owned).collect())
}

/// Asks sreport.
fn told(types: &[String], period: Period, remarks: &mut Vec<String>) -> Result<Told, ReportError> {
    let tres = types.iter().map(|name| format!("gres/gpu:{name}")).chain(["gres/gpu".to_owned()]);
    let tres: Vec<String> = tres.collect();
    let (start, end) = (period.start, period.end);
    let ask = |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        programs::text(sreport::PROGRAM, &arguments)
    };
    let unreadable = |line: &str| ReportError::Line(line.chars().take(80).collect());
    let text = ask(sreport::of_cluster(&tres, start, end))?;
    let gpus = sreport::cluster(&text).map_err(unreadable)?;
    let text = ask(sreport::of_accounts(&tres, start, end))?;
    let accounts = sreport::accounts(&text).map_err(unreadable)?;
    let name = |tres: &str| tres.strip_prefix("gres/gpu:").unwrap_or(ANY).to_owned();
    let account = |(account, user, tres, used): (&str, &str, &str, u64)| Account {
        account: account.to_owned(),
        user: Some(user.to_owned()).filter(|user| !user.is_empty()),
        gpu_type: name(tres),
        used,
    };
    // With PrivateData=reservations in slurmdbd.conf, only administrators get an answer.
    let asked = ask(sreport::of_reservations(&tres, start, end));
    let untold = |error| format!("can't tell reservations' idle GPUs, which sreport counts as used: {error}");
    remarks.extend(asked.as_ref().err().map(untold));
    let text = asked.unwrap_or_default();
    let reserved = sreport::reservations(&text).map_err(unreadable)?.into_iter();
    let reserved = reserved.filter(|(.., idle)| *idle > 0).map(|(reservation, tres, idle)| Reserved {
        reservation: reservation.to_owned(),
        gpu_type: name(tres),
        idle,
    });
    Ok(Told {
        reserved: reserved.collect(),
        accounts: accounts.into_iter().map(account).collect(),
        gpus: gpus.into_iter().map(|(tres, used)| Gpus { gpu_type: name(&tres), used }).collect(),
    })
}

/// Sums what `ask` shows of each day.
fn summed(
    database: &Database,
    groups: &[Group],
    types: &[String],
    told: Told,
    more: More,
    mut ask: impl FnMut(Period, &mut dyn FnMut(&Row)) -> Result<u64, ReportError>,
) -> Result<Report, ReportError> {
    let gpus = told.gpus.iter().map(|one| (one.gpu_type.clone(), one.used.count)).collect();
    let mut summer = Summer::new(database, groups, types, gpus, more.period);
    let unread = stream::days(more.period, |day| {
        summer.day(day);
        let unread = ask(day, &mut |row| summer.take(row))?;
        summer.close();
        Ok::<u64, ReportError>(unread)
    })?;
    let mut report = report::of(&summer, told, more);
    report.remarks.extend(unread);
    Ok(report)
}

#[cfg(test)]
mod tests;
