//! `gpushare qos`: makes Slurm's database match the QOSes that gpushare.conf defines.
//!
//! Read → decide → apply: it reads the file and the database, [`gpushare_qos`] makes the plan, and `apply` carries it
//! out, one sacctmgr call after another. After each call, the next plan can continue from the database's state.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use gpushare_qos::{Plan, table};

use gpushare_terminal::json::text as to_text;
use gpushare_terminal::{Table, print};

mod apply;
mod ask;
pub(crate) mod error;
mod json;
mod show;
pub(crate) mod site;
pub(crate) mod write;

use error::{MENDS, QosError};
use site::Site;

/// Longer than slurmctld needs, and longer than 22.05 needs to reconnect to slurmdbd.
const PATIENCE: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(200);

/// The command line of `gpushare qos`.
#[derive(Args)]
pub struct Arguments {
    /// The file with the QOSes [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH", global = true)]
    conf: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the differences between the file and Slurm's database; change nothing
    #[command(
        after_help = "Exit status: 0, or 2 if it can't make a plan; with --detailed-exitcode 1 if there is something \
                      to do."
    )]
    Plan {
        /// Plan to remove QOSes that an earlier apply made and that are no longer in the file
        #[arg(long)]
        prune: bool,
        /// Exit with 1 if there is something to do
        #[arg(long)]
        detailed_exitcode: bool,
        /// All of it as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make Slurm's database match the file, after showing the plan and asking
    #[command(
        after_help = "Exit status: 0 if all is done; 1 if some of it is not done (running it again does the rest), or \
                      if the answer was no; 2 if it can't make a plan, or can't ask."
    )]
    Apply {
        /// Remove QOSes that an earlier apply made, that are no longer in the file and that no job or partition uses
        #[arg(long)]
        prune: bool,
        /// Don't ask, like sacctmgr's -i
        #[arg(long, short)]
        immediate: bool,
    },
    /// Show each managed QOS as Slurm's database has it: members, limits, what is in use, and where the file differs
    Show {
        /// All of it as one JSON object
        #[arg(long)]
        json: bool,
        /// Only these
        #[arg(value_name = "QOS")]
        names: Vec<String>,
    },
    /// Print the users' table: name, group limit, and options that work
    Docs {
        /// As Markdown [default: text]
        #[arg(long)]
        markdown: bool,
    },
}

/// Runs the command. Returns the exit status.
///
/// # Errors
/// Nothing was done.
pub fn run(arguments: &Arguments) -> Result<u8, QosError> {
    let conf = arguments.conf.as_deref();
    match &arguments.command {
        Command::Plan { prune, detailed_exitcode, json } => {
            let (_, plan) = plan(conf, *prune)?;
            // Not every user may see it.
            let missed = site::missed().ok().flatten();
            if *json {
                print(&to_text(&json::plan(&plan, missed.as_deref())))?;
            } else {
                print(&write::plan(&plan))?;
                if let Some(missed) = missed {
                    print(&format!("! {missed}; to correct that: {MENDS}\n"))?;
                }
            }
            let pending = *detailed_exitcode && !plan.changes.is_empty();
            Ok(pending.into())
        }
        Command::Apply { prune, immediate } => {
            let (site, plan) = plan(conf, *prune)?;
            if !immediate && !plan.changes.is_empty() && !ask::consent(&plan)? {
                return Ok(1);
            }
            let done = carry_out(&plan, site, *prune).and_then(|()| wait_for_slurmctld());
            match done {
                Ok(()) => Ok(0),
                // Some of it is done; an error of this function would mean that nothing was tried.
                Err(error) => {
                    gpushare_terminal::complain(error);
                    Ok(1)
                }
            }
        }
        Command::Show { names, json } => {
            let shown = show::show(conf, names)?;
            print(&if *json { to_text(&serde_json::json!({"qoses": shown})) } else { show::text(&shown) })?;
            Ok(0)
        }
        Command::Docs { markdown } => {
            let (_, qoses) = site::qoses(conf)?;
            let rows: Vec<_> = table::published(&qoses).map(|one| table::row(one).to_vec()).collect();
            let table = if *markdown {
                table::markdown(&qoses)
            } else if rows.is_empty() {
                table::TITLES.join("  ") + "\n"
            } else {
                Table { head: table::TITLES.to_vec(), rows, ..Table::default() }.text("", usize::MAX, "")
            };
            print(&table)?;
            Ok(0)
        }
    }
}

/// Makes all changes but removals, and then those, with the database as it then is: up to 23.11 the way to remove a QOS
/// depends on the others of a list, and grants change those.
fn carry_out(plan: &Plan, site: Site, prune: bool) -> Result<(), QosError> {
    if !prune {
        return apply::apply(plan, 0).and_then(|()| confirm(plan, site));
    }
    let first = gpushare_qos::plan(&site.qoses, &site.actual, &site.cluster, None).changes;
    apply::changes(&first, 0, plan.changes.len())?;
    let site = if first.is_empty() { site } else { site.read_again()? };
    let second = gpushare_qos::plan(&site.qoses, &site.actual, &site.cluster, Some(&site::used()?));
    apply::apply(&second, first.len())?;
    confirm(plan, site)
}

/// Up to at least 22.05, sacctmgr reports some changes as done when they aren't, so this reads the database again.
fn confirm(done: &Plan, site: Site) -> Result<(), QosError> {
    if done.changes.is_empty() {
        return Ok(());
    }
    let site = site.read_again()?;
    let left = gpushare_qos::plan(&site.qoses, &site.actual, &site.cluster, None);
    match left.changes.iter().flat_map(|change| &change.lines).next() {
        None => Ok(()),
        Some((_, line)) => Err(QosError::StillToDo(line.clone())),
    }
}

/// slurmctld learns about a change a moment after the database has it or, without slurmdbd, never.
fn wait_for_slurmctld() -> Result<(), QosError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match site::missed()? {
            None => return Ok(()),
            Some(_) if Instant::now() < end => std::thread::sleep(PAUSE),
            Some(missed) => return Err(QosError::Missed(missed)),
        }
    }
}

/// Prints mistakes and old names in the lines first; stops if one of them is an error.
fn plan(conf: Option<&std::path::Path>, prune: bool) -> Result<(Site, Plan), QosError> {
    let site = Site::read(conf)?;
    let findings = site.findings();
    write::remarks(&site, &findings);
    let errors = findings.iter().filter(|finding| finding.is_error).count();
    if errors > 0 {
        return Err(QosError::Mistakes(site.path, errors));
    }
    let used = prune.then(site::used).transpose()?;
    let plan = gpushare_qos::plan(&site.qoses, &site.actual, &site.cluster, used.as_ref());
    Ok((site, plan))
}
