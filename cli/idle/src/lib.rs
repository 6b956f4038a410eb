//! `gpushare idle`: one look at the jobs of this node that don't use their GPUs. A timer runs it every minute. It warns
//! their users, and ends the jobs as gpushare.conf says (`IdleLimit` and others).
//!
//! Look → ask → decide → act: `look` reads NVML, `ask` asks slurmctld about jobs that look idle, `act` tells users and
//! ends jobs, `state` keeps what the next look must know. Whatever can't be read ends no job.
#![forbid(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use gpushare::config::LoadError;
use gpushare::submit::policy::QosRecord;
use gpushare_machine::config::Config;
use gpushare_machine::local;
use gpushare_node::config::{Placement, RUN_DIR};
use gpushare_node::ledger::Ledger;
use gpushare_slurm_run::{self as slurm, ProgramError, control};
use gpushare_slurm_text::running::Running;
use gpushare_terminal::{Answer, complain, json};

mod act;
mod ask;
pub mod config;
mod decide;
mod look;
mod state;
mod write;

use ask::Said;
use config::{IdleAction, Rule, Rules};
use decide::{Decision, History, Look, Now, Step, Usage, decide};
use state::{State, StateError};

/// The command line of `gpushare idle`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 no job exceeds its limit, 1 a job exceeds it or was ended, 2 something can't be read \
                        or done. Run it as root, by gpushare-idle.timer: it counts no time across longer gaps."
)]
pub struct Arguments {
    /// Tell nobody, end no job and keep nothing: print which jobs are idle, and what would be done
    #[arg(long)]
    dry_run: bool,
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
    pub enum IdleError {
        NotRoot => "run it as root: other users don't see all processes";
    } from {
        Load(LoadError), State(StateError)
    }
}

/// An idle job.
struct One {
    told: Running,
    rule: Option<Rule>,
    idle: u64,
    warned: usize,
    step: Step,
    done: Option<&'static str>,
    error: Option<String>,
}

impl One {
    /// What is to be done.
    fn what(&self) -> &'static str {
        match self.step {
            Step::None | Step::Warn(_) | Step::Over => "warned",
            Step::End(IdleAction::Requeue) => "requeued",
            Step::End(_) => "cancelled",
        }
    }
}

/// Adds to the configuration that `gpushare check` reads the QOSes that only these keys name.
///
/// # Errors
/// A value of one of these keys isn't allowed.
pub fn names(path: &Path, config: &mut Config) -> Result<(), LoadError> {
    let records = &mut config.policy.records;
    for (names, _) in Rules::load(path)?.qoses {
        if records.iter().all(|record| record.names != names) {
            records.push(QosRecord { names, ..QosRecord::default() });
        }
    }
    Ok(())
}

/// The report.
///
/// # Errors
/// gpushare.conf can't be used, another run isn't over, or nothing can be kept.
pub fn run(arguments: &Arguments) -> Result<Answer, IdleError> {
    let conf = arguments.conf.as_deref();
    let (path, config) = local::config_there(conf)?;
    let (rules, ledger, node) = (Rules::load(&path)?, Ledger::system(), slurm::host());
    let nobody = |why: &str| {
        let empty = || json::text(&write::object(&node, &[], arguments.dry_run));
        Ok(Answer::from(if arguments.json { empty() } else { why.to_owned() }))
    };
    if rules.are_none() {
        return nobody("no IdleLimit in gpushare.conf\n");
    }
    if config.of_node(&node).placement == Placement::Off {
        return nobody("Placement=off: it is unknown which GPUs a job has, so none is idle\n");
    }
    if gpushare_node::user_id() != Some(0) {
        return Err(IdleError::NotRoot);
    }
    // No job has had a GPU since boot, or this machine is no node.
    if !ledger.is_there() {
        return nobody("");
    }
    let state = State::at(Path::new(RUN_DIR));
    let _lock: Option<File> = if arguments.dry_run { None } else { Some(state.lock()?) };
    let (known, garbage) = state.read()?;
    for name in &garbage {
        if let (false, Ok(id)) = (arguments.dry_run, name.parse()) {
            let _ = state.remove(id);
        }
        complain(format!("{RUN_DIR}/idle/{name} can't be read, so job {name} counts from now"));
    }
    let is_dry = arguments.dry_run;
    let (mut job, mut ask) = (ask::job, control::ask);
    let mut write = |history: &History| {
        state.write(history).map_err(|error| format!("{RUN_DIR}/idle/{}: {error}", history.job.0))
    };
    let mut run = Run {
        node,
        is_dry,
        job: &mut job,
        ask: &mut ask,
        write: &mut write,
        failures: Vec::new(),
        all: Vec::new(),
    };
    match look::take(conf, &ledger) {
        Ok(looks) => {
            let kept = run.each(&known, &looks, &rules, &state::now(Path::new("/proc"))?);
            if !is_dry {
                run.keep(&state, &known, &kept);
            }
        }
        Err(error) => run.fail(&error.to_string()),
    }
    let Run { node, failures, all, .. } = run;
    failures.iter().for_each(complain);
    let text = if arguments.json {
        json::text(&write::object(&node, &all, is_dry))
    } else {
        write::text(&all, is_dry)
    };
    let is_over = all.iter().any(|one| matches!(one.step, Step::Over | Step::End(_)));
    Ok(Answer { text, status: if !failures.is_empty() { 2 } else { u8::from(is_over) } })
}

/// One run, and what it is told by Slurm.
struct Run<'a> {
    node: String,
    is_dry: bool,
    /// Asks about a job.
    job: &'a mut dyn FnMut(u32) -> Result<Said, ProgramError>,
    /// Runs a command that tells or ends.
    ask: control::Ask<'a>,
    /// Keeps what the next look must know.
    write: &'a mut dyn FnMut(&History) -> Result<(), String>,
    /// What couldn't be read or done.
    failures: Vec<String>,
    all: Vec<One>,
}

impl Run<'_> {
    /// What the next look must know.
    fn each(&mut self, known: &[History], looks: &[Look], rules: &Rules, now: &Now) -> Vec<History> {
        let (mut kept, mut answers) = (Vec::new(), true);
        for look in looks {
            let mut said = Said::Nothing;
            if look.usage == Usage::Idle && answers {
                match (self.job)(look.key.id) {
                    Ok(found) => said = found,
                    Err(error) => {
                        self.fail(&format!(
                            "slurmctld doesn't answer, so no job counts as idle now: {error}"
                        ));
                        answers = false;
                    }
                }
            }
            let before = known.iter().find(|known| known.job.0 == look.key.id);
            let decision = decide(before, look, &said, rules, now);
            kept.extend(match said {
                Said::Runs(told) => self.act(*told, decision),
                Said::Nothing | Said::RunsNot => decision.history,
            });
        }
        kept
    }

    /// Does what was decided; the history with a warning that was delivered.
    fn act(&mut self, told: Running, decision: Decision) -> Option<History> {
        let Decision { history, mut rule, mut step } = decision;
        let mut history = history?;
        let spared = self.spare_cron(&told, rule.as_mut(), &mut step);
        let result = spared.and_then(|()| self.take(&told, rule.as_ref(), step, &mut history));
        if let Err(why) = &result {
            self.fail(&format!("job {}: {why}", told.job.name));
        }
        let (done, error) = result.map_or_else(|why| (None, Some(why)), |done| (done, None));
        let warned = rule.as_ref().map_or(0, |rule| history.told.len().min(rule.warn.len()));
        self.all.push(One { told, rule, idle: history.idle, warned, step, done, error });
        Some(history)
    }

    /// A job of scrontab is only warned: scancel refuses it, and its end would be the end of all its runs.
    fn spare_cron(&mut self, told: &Running, rule: Option<&mut Rule>, step: &mut Step) -> Result<(), String> {
        let Some(rule) = rule else { return Ok(()) };
        let is_due = matches!(step, Step::Warn(_) | Step::End(_)) && rule.action != IdleAction::Warn;
        if is_due && told.is_batch && act::is_cron(told, self.ask)? {
            rule.action = IdleAction::Warn;
            if let Step::End(_) = step {
                *step = Step::Over;
            }
        }
        Ok(())
    }

    /// Takes a step. Nobody is told what the next look wouldn't know.
    fn take(
        &mut self,
        told: &Running,
        rule: Option<&Rule>,
        step: Step,
        history: &mut History,
    ) -> Result<Option<&'static str>, String> {
        if self.is_dry {
            return Ok(None);
        }
        (self.write)(history)?;
        let Some(rule) = rule else { return Ok(None) };
        let note = act::note(told, rule, history.idle, step, &self.node);
        match step {
            Step::None | Step::Over => Ok(None),
            Step::Warn(_) => {
                let done =
                    if act::tell(told, &note, self.ask)? { "warned" } else { "has no output to warn on" };
                history.told.push(history.idle);
                (self.write)(history)?;
                Ok(Some(done))
            }
            Step::End(action) => {
                // Its user was warned; nothing depends on this line. Should the end fail, it isn't told again.
                if history.told.len() == rule.warn.len() && act::tell(told, &note, self.ask).is_ok() {
                    history.told.push(history.idle);
                    (self.write)(history)?;
                }
                act::end(told, action, self.ask).map(Some)
            }
        }
    }

    /// Removes what is known of jobs that are gone, or begin anew.
    fn keep(&mut self, state: &State, known: &[History], kept: &[History]) {
        for id in known.iter().map(|known| known.job.0) {
            if kept.iter().all(|kept| kept.job.0 != id)
                && let Err(error) = state.remove(id)
            {
                self.fail(&format!("{RUN_DIR}/idle/{id}: {error}"));
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.failures.push(why.to_owned());
    }
}

#[cfg(test)]
mod tests;
