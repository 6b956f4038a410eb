//! What gpushare.conf says about jobs that don't use their GPUs: `IdleWarn`, `IdleLimit`, `IdleAction` and `IdleGrace`,
//! for all jobs or on a line `QOS=` or `PartitionName=`, and `IdleExemptUsers`. Only `gpushare idle` and
//! `gpushare check` read them.

use std::fmt;
use std::path::Path;

use gpushare::config::names::Record;
use gpushare::config::values::{Key, NAMES, QOSES, keys};
use gpushare::config::{ConfigError, LoadError, Problem, Section, load, read};
use gpushare::text::pattern::{Case, Patterns};
use gpushare::text::time;
use gpushare::word::{Word, words};

use gpushare_slurm_text::running::Running;

words! {
    /// What happens to a job that is idle for too long.
    pub enum IdleAction: "warn, requeue or cancel" {
        /// Its user is warned, and it runs on.
        #[default]
        Warn = "warn",
        /// It is requeued, or cancelled if it can't be requeued.
        Requeue = "requeue",
        /// It is cancelled.
        Cancel = "cancel",
    }
}

/// When a job's user is warned, and what happens then. Times are seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The warnings, rising.
    pub warn: Vec<u64>,
    /// The end, above all warnings.
    pub limit: u64,
    /// What happens then.
    pub action: IdleAction,
    /// How much longer an interactive job may be idle.
    pub grace: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// By QOS; `None` for `IdleLimit=off`.
    pub qoses: Vec<(Patterns, Option<Rule>)>,
    /// By partition.
    pub partitions: Vec<(Patterns, Option<Rule>)>,
    /// For all other jobs.
    pub others: Option<Rule>,
    /// `IdleExemptUsers`
    pub exempt: Patterns,
}

impl Rules {
    /// Reads a text.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str) -> Result<Rules, ConfigError> {
        let mut draft = Draft::default();
        read(text, &mut [&mut draft])?;
        draft.rules.others = draft.all.finish().map_err(Problem::of_file)?.flatten();
        Ok(draft.rules)
    }

    /// Reads a file; no rules if it doesn't exist.
    ///
    /// # Errors
    /// The file can't be read, or has a mistake.
    pub fn load(path: &Path) -> Result<Rules, LoadError> {
        Ok(load(path, Rules::parse)?.map(|(rules, _)| rules).unwrap_or_default())
    }

    /// Whether any job may be warned.
    pub fn are_none(&self) -> bool {
        let mut lines = self.qoses.iter().chain(&self.partitions);
        self.others.is_none() && !lines.any(|(_, rule)| rule.is_some())
    }

    /// The rule for a job: that of its QOS, otherwise of its partition, otherwise the file's.
    pub fn of(&self, told: &Running) -> Option<Rule> {
        let job = &told.job;
        let find = |lines: &[(Patterns, Option<Rule>)], name: &str, case| {
            lines
                .iter()
                .find(|(names, _)| names.match_name(name.as_bytes(), case))
                .map(|(_, rule)| rule.clone())
        };
        let user = [job.user.clone(), job.user_id.to_string()];
        // So squeue prints a user whom the name service doesn't know now.
        let is_unnamed = ["", "nobody", user[1].as_str()].contains(&job.user.as_str());
        if is_unnamed && self.exempt.iter().any(|name| name.parse::<u32>().is_err()) {
            return None;
        }
        if user.iter().any(|name| self.exempt.match_name(name.as_bytes(), Case::Ignored)) {
            return None;
        }
        let of_partition = || find(&self.partitions, &job.partition, Case::Counts);
        let rule = find(&self.qoses, &job.qos, Case::Ignored).or_else(of_partition);
        let rule = rule.unwrap_or_else(|| self.others.clone())?;
        let grace = if told.is_batch { 0 } else { rule.grace };
        let warn = rule.warn.iter().map(|at| at + grace).collect();
        Some(Rule { warn, limit: rule.limit + grace, ..rule })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let warn: Vec<String> = self.warn.iter().copied().map(time::text).collect();
        let (limit, action) = (time::text(self.limit), self.action.word());
        write!(out, "IdleWarn={} IdleLimit={limit} IdleAction={action}", warn.join(","))
    }
}

const WARN: &str = "1 to 4 rising times such as 1:00:00,1:45:00";
const LIMIT: &str = "off, or a time above IdleWarn such as 2:00:00";
const TIME: &str = "a time such as 1:00:00";

/// A line's keys, or those of the file that are on no such line.
#[derive(Clone, Debug, Default)]
struct Line {
    names: Patterns,
    warn: Option<Vec<u64>>,
    limit: Option<Option<u64>>,
    action: Option<IdleAction>,
    grace: Option<u64>,
}

const KEYS: &[Key<Line>] = keys! {
    "IdleWarn": WARN => warn = times;
    "IdleLimit": LIMIT => limit = limit;
    "IdleAction": IdleAction::ALLOWED => action = IdleAction::read;
    "IdleGrace": TIME => grace = time::seconds;
    "QOS": QOSES => names = Patterns::parse;
    "PartitionName": NAMES => names = Patterns::parse;
};

const OF_ALL: &[Key<Rules>] = keys! {
    "IdleExemptUsers": NAMES => exempt = Patterns::parse;
};

fn times(value: &str) -> Option<Vec<u64>> {
    let times: Vec<u64> = value.split(',').map(|part| time::seconds(part.trim())).collect::<Option<_>>()?;
    let rises = times.first().is_some_and(|first| *first > 0) && times.is_sorted_by(|a, b| a < b);
    (rises && times.len() <= 4).then_some(times)
}

fn limit(value: &str) -> Option<Option<u64>> {
    if value.eq_ignore_ascii_case("off") { Some(None) } else { time::seconds(value).map(Some) }
}

impl Line {
    /// The line's rule; `None` if it has none, `Some(None)` for `IdleLimit=off`.
    fn finish(self) -> Result<Option<Option<Rule>>, Problem> {
        let Line { warn, limit, action, grace, .. } = self;
        let others =
            [("IdleWarn", warn.is_some()), ("IdleAction", action.is_some()), ("IdleGrace", grace.is_some())];
        let limit = match (limit, others.into_iter().find(|(_, is_given)| *is_given)) {
            (None, None) => return Ok(None),
            (None, Some((because, _))) => return Err(Problem::Missing { key: "IdleLimit", because }),
            (Some(None), None) => return Ok(Some(None)),
            (Some(None), Some((setting, _))) => {
                return Err(Problem::Against { setting, needs: "an IdleLimit that is not off" });
            }
            (Some(Some(limit)), _) => limit,
        };
        let warn = warn.ok_or(Problem::Missing { key: "IdleWarn", because: "IdleLimit" })?;
        if warn.iter().any(|at| *at >= limit) {
            return Err(Problem::BadValue { key: "IdleLimit", value: time::text(limit), allowed: LIMIT });
        }
        let (action, grace) = (action.unwrap_or_default(), grace.unwrap_or_default());
        Ok(Some(Some(Rule { warn, limit, action, grace })))
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Draft {
    rules: Rules,
    all: Line,
    line: Line,
}

impl Section for Draft {
    fn take(&mut self, record: Option<Record>, key: &'static str, value: &str) -> Result<(), Problem> {
        if record.is_some() {
            return Key::take_of(KEYS, &mut self.line, key, value);
        }
        Key::take_of(OF_ALL, &mut self.rules, key, value)?;
        Key::take_of(KEYS, &mut self.all, key, value)
    }

    fn reads(&self, record: Record) -> bool {
        record != Record::Node
    }

    fn end(&mut self, record: Record, _: usize) -> Result<(), Problem> {
        let line = std::mem::take(&mut self.line);
        let names = line.names.clone();
        if let Some(rule) = line.finish()? {
            let qos = record == Record::Qos;
            let lines = if qos { &mut self.rules.qoses } else { &mut self.rules.partitions };
            lines.push((names, rule));
        }
        Ok(())
    }
}
