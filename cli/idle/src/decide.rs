//! Decides what happens to a job that doesn't use its GPUs. Pure: the time, what NVML showed and what Slurm says are
//! arguments.
//!
//! A job's idle time grows only from a look that saw it idle to the next one that did, if these are at most [`FAR`]
//! apart. Otherwise it begins anew, and so do the warnings. A look that saw nothing changes nothing. A job ends only
//! after all warnings were delivered by earlier looks, and after the time that each of them promised.

use gpushare::text::hostlist;
use gpushare_node::job::JobKey;

use gpushare_slurm_text::running::Running;
use serde::{Deserialize, Serialize};

use crate::ask::Said;
use crate::config::{IdleAction, Rule, Rules};

/// The most seconds between two looks: a timer's run each minute may fail or be late.
pub const FAR: u64 = 180;

/// Whether a job used its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It used none of them.
    Idle,
    /// It used one of them, or that is in doubt.
    Busy,
    /// NVML says nothing of one of them.
    Unknown,
}

/// What a look saw of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The job, and which of its starts.
    pub key: JobKey,
    /// Slurm's name for the node that gave it its GPUs.
    pub node: Option<String>,
    /// When it got its GPUs, in seconds since 1970.
    pub since: u64,
    /// Whether it used them.
    pub usage: Usage,
    /// The processes on its GPUs that are its own, or may be, each with its start.
    pub processes: Vec<(u32, u64)>,
}

/// The time of a look, which no change of the clock moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Now {
    /// The kernel's name for this boot.
    pub boot: String,
    /// Seconds since then.
    pub seconds: u64,
}

/// What earlier looks know of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The job's number, and which of its starts.
    pub job: (u32, u32),
    /// When it got its GPUs, in seconds since 1970.
    pub since: u64,
    /// When it started, as Slurm says.
    pub start: u64,
    /// The boot of the last look that saw it idle, and when that was.
    pub looked: Now,
    /// For how many seconds it has been idle.
    pub idle: u64,
    /// The rule under which its user was told.
    pub rule: String,
    /// How long it had been idle at each warning that was delivered, and when its user was told of the end.
    pub told: Vec<u64>,
    /// Its processes at the last look.
    pub processes: Vec<(u32, u64)>,
}

/// What is to be done about a job now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    None,
    /// The warning with this number, from 0.
    Warn(usize),
    /// Nothing, although its limit is over: the rule, or its GPUs elsewhere, allow no more.
    Over,
    /// It is requeued or cancelled.
    End(IdleAction),
}

/// What becomes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// For the next look; `None` if it begins anew.
    pub history: Option<History>,
    /// The rule that counts, with the grace of an interactive job.
    pub rule: Option<Rule>,
    /// What to do.
    pub step: Step,
}

/// Decides about one job. `said` only matters for a job that looks idle.
pub fn decide(known: Option<&History>, look: &Look, said: &Said, rules: &Rules, now: &Now) -> Decision {
    let nothing = |history| Decision { history, rule: None, step: Step::None };
    let same = known.filter(|known| known.is_of(look, now));
    let told = match (look.usage, said) {
        (Usage::Busy, _) | (Usage::Idle, Said::RunsNot) => return nothing(None),
        (Usage::Unknown, _) | (Usage::Idle, Said::Nothing) => return nothing(same.cloned()),
        (Usage::Idle, Said::Runs(told)) if !look.is_of(told) => return nothing(None),
        (Usage::Idle, Said::Runs(told)) => told,
    };
    let before = same.filter(|known| known.goes_on(look, told, now));
    let idle = before.map_or(0, |known| known.idle.saturating_add(known.age(now)));
    let rule = rules.of(told);
    let shown = rule.as_ref().map(Rule::to_string).unwrap_or_default();
    let delivered = before.filter(|known| known.rule == shown).map(|known| known.told.clone());
    let delivered = delivered.unwrap_or_default();
    let step = rule.as_ref().map_or(Step::None, |rule| next(rule, idle, &delivered, told.is_on_one_node()));
    let history = History {
        job: (look.key.id, look.key.restart),
        since: look.since,
        start: told.job.start,
        looked: now.clone(),
        idle,
        rule: shown,
        told: delivered,
        processes: look.processes.clone(),
    };
    Decision { history: Some(history), rule, step }
}

/// What comes next under a rule: each of its times counts from when the one before it really was.
fn next(rule: &Rule, idle: u64, told: &[u64], is_on_one_node: bool) -> Step {
    let time = |index: usize| rule.warn.get(index).copied().unwrap_or(rule.limit);
    let number = told.len();
    let promised = match (number.checked_sub(1), told.last()) {
        (Some(last), Some(at)) => at.saturating_add(time(number).saturating_sub(time(last))),
        _ => 0,
    };
    if idle < promised.max(time(number)) {
        Step::None
    } else if number < rule.warn.len() {
        Step::Warn(number)
    } else if rule.action == IdleAction::Warn || !is_on_one_node {
        Step::Over
    } else {
        Step::End(rule.action)
    }
}

impl Look {
    /// Whether the start that Slurm tells of is this one. The ledger keeps an entry whose epilog never ran.
    fn is_of(&self, told: &Running) -> bool {
        let is_here = |node: &String| hostlist::contains(&told.nodes, node) == Some(true);
        self.key.restart == told.restarts && self.node.as_ref().is_some_and(is_here)
    }
}

impl History {
    /// Whether it is of this start of the job, and of this boot.
    fn is_of(&self, look: &Look, now: &Now) -> bool {
        (self.job, self.since) == ((look.key.id, look.key.restart), look.since)
            && self.looked.boot == now.boot
            && self.looked.seconds <= now.seconds
    }

    /// Whether the job has been idle since the last look.
    fn goes_on(&self, look: &Look, told: &Running, now: &Now) -> bool {
        self.start == told.job.start && self.processes == look.processes && self.age(now) <= FAR
    }

    fn age(&self, now: &Now) -> u64 {
        now.seconds.saturating_sub(self.looked.seconds)
    }
}
