//! `gpushare guard`: limits by outcome. Which running jobs are beyond a limit, whatever way they came there; with
//! `--act`, what `Guard=` of gpushare.conf does about them; with `--waiting`, which jobs in the queue today's rules
//! would refuse.
//!
//! Ask → decide → print, and with `--act`: wait, ask and check again, act on what both looks say. The checker is the
//! crate `gpushare-guard`, and what it reads is `gpushare-slurm-text`.

use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use gpushare::config::LoadError;
use gpushare_guard::{Rules, Verdict, agree, any_to_act_on, judge};
use gpushare_machine::config::Config;
use gpushare_qos::config::{Guard, lending};
use gpushare_slurm_text::{Snapshot, State, limits};

use gpushare_machine::textfile::{self, TextfileError};
use gpushare_slurm_run::ProgramError;
use gpushare_slurm_text::version::ReleaseError;
use gpushare_terminal::{Answer, complain, json};

use gpushare_machine::local;

mod act;
mod ask;
mod figures;
mod waiting;
mod write;

use figures::Figures;

/// How far apart two looks are: longer than slurmctld needs to end or to start a job.
const APART: Duration = Duration::from_secs(20);

/// The command line of `gpushare guard`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 no limit is exceeded, 1 a limit is exceeded or a rule broken (with --waiting: a job \
                        would be refused), 2 the check failed. Run as root or SlurmUser: others may not see every job."
)]
pub struct Arguments {
    /// Do what Guard= in gpushare.conf says about jobs beyond a limit, after a second look 20 seconds later
    #[arg(long, conflicts_with = "waiting")]
    act: bool,
    /// Instead of what runs: jobs that wait, are held or requeued, or are scrontab's, and that today's rules would
    /// refuse, each with the command that helps
    #[arg(long)]
    waiting: bool,
    /// Write metrics for Prometheus to this file, all at once; its name must end in .prom
    #[arg(long, value_name = "FILE", conflicts_with = "waiting")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]
    #[arg(long, value_name = "PATH")]
    conf: Option<PathBuf>,
}

gpushare::errors! {
    /// Why it couldn't look.
    #[derive(Debug)]
    pub enum GuardError {
        /// A command succeeded, and printed something that it never prints.
        Odd { program: &'static str, said: String } =>
            "what {program} printed can't be read, so nothing is checked: '{}'", said.escape_debug();
        /// It must see all jobs to act.
        NotAll(user: u32) =>
            "--act: Slurm may hide jobs from user {user}; run it as root or SlurmUser";
    } from {
        Conf(LoadError), Program(ProgramError), Release(ReleaseError), Out(TextfileError)
    }
}

/// What is over, what ends, and what was done.
struct Report {
    verdict: Verdict,
    /// How many jobs run.
    running: usize,
    guard: Guard,
    acted: Vec<act::Deed>,
}

/// The report.
///
/// # Errors
/// gpushare.conf or Slurm can't be read, or the metrics can't be written.
pub fn run(arguments: &Arguments) -> Result<Answer, GuardError> {
    let conf = arguments.conf.as_deref();
    if arguments.waiting {
        return waiting::run(conf, arguments.json);
    }
    if let Some(out) = &arguments.out {
        textfile::check_name(out)?;
    }
    let report = report(arguments);
    // What was done is said, even if the metrics can't be written.
    let unwritten = arguments.out.as_ref().and_then(|out| {
        let figures = report.as_ref().ok().map(Figures::of);
        let success = if figures.is_some() {
            Some(local::now())
        } else {
            textfile::last_success(out, figures::LAST_SUCCESS)
        };
        textfile::write(out, &figures::text(figures.as_ref(), success)).err()
    });
    if let Some(error) = &unwritten {
        complain(error);
    }
    let report = report?;
    let text = if arguments.json { json::text(&write::object(&report)) } else { write::text(&report) };
    // On a machine without node_exporter its directory is missing: the check is none the worse for that.
    let failed = unwritten
        .is_some_and(|error| !matches!(&error, TextfileError::Write(_, why) if why.kind() == NotFound));
    let status = if failed { 2 } else { u8::from(!report.verdict.over.is_empty()) };
    Ok(Answer { text, status })
}

fn report(arguments: &Arguments) -> Result<Report, GuardError> {
    let conf = arguments.conf.as_deref();
    let (config, now) = (config(conf)?, look(arguments.act)?);
    let rules = Rules::of(&config.policy, lending::gives_way(&config.qoses));
    limits::not_judged(now.qoses.values()).iter().for_each(complain);
    let acts = arguments.act && config.guard != Guard::Report;
    let verdict = judge(&now, &rules);
    if arguments.act && !acts {
        complain("--act does nothing: gpushare.conf has Guard=report");
    }
    if !acts || !any_to_act_on(&now, &verdict) {
        return Ok(Report::of(&now, verdict, config.guard, Vec::new()));
    }
    thread::sleep(APART);
    // Rules and limits may have changed, too.
    let (config, then) = (self::config(conf)?, look(true)?);
    let rules = Rules::of(&config.policy, lending::gives_way(&config.qoses));
    // One more than it acts on tells that there are more.
    let acted = act::all(&agree(&now, &then, &rules, act::MOST + 1), config.guard);
    Ok(Report::of(&then, judge(&then, &rules), config.guard, acted))
}

fn config(conf: Option<&Path>) -> Result<Config, GuardError> {
    Ok(local::config(conf)?.unwrap_or_default())
}

/// Asks Slurm. Only root and SlurmUser see all jobs in every cluster; others may look, but not act.
fn look(acts: bool) -> Result<Snapshot, GuardError> {
    let now = ask::snapshot()?;
    let user = gpushare_node::user_id().unwrap_or(u32::MAX);
    if user != 0 && now.settings.slurm_user() != Some(user) {
        if acts {
            return Err(GuardError::NotAll(user));
        }
        complain(format!("Slurm may hide jobs from user {user}: run it as root or SlurmUser"));
    }
    if !now.settings.enforces_limits() {
        let setting = "AccountingStorageEnforce has no 'limits'";
        complain(format!("{setting}: Slurm holds no job to a limit, and guard acts on none"));
    }
    Ok(now)
}

impl Report {
    fn of(now: &Snapshot, verdict: Verdict, guard: Guard, acted: Vec<act::Deed>) -> Report {
        let running = now.jobs.iter().filter(|job| job.state == State::Runs).count();
        Report { verdict, running, guard, acted }
    }
}
