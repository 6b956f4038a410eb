//! Sums the lines of slurmctld's log: by user, place, message and form of request. There may be millions of lines, with
//! any text from users, so the number of sums is limited.

use std::collections::{HashMap, VecDeque};

use gpushare::submit::counters::Outcome;
use gpushare::submit::log_line::{Key, LogLine, PREFIX};
use serde::{Serialize, Serializer};

use super::evidence::{self, Doubt, Evidence, Loaded};
use super::moment::Clock;
use super::stamp::{self, Line, Way};
use gpushare_period::{Period, exact};
use gpushare_slurm_text::text;

/// How many forms of requests are kept apart. Of further ones, only the user and the message's number are kept.
const MOST: usize = 20_000;
/// How many job names are kept for each.
const NAMES: usize = 3;
/// How far apart the two lines of one message can be, in lines of gpushare's and in seconds.
const APART: usize = 64;
const SECONDS: u32 = 5;
/// What slurmctld before 25.05 sends to syslog of a longer message (src/common/log.c: `_log_msg`).
const CUT: usize = 500;
/// By how much a message can be shorter, because a level or a name is before it.
const SHORTER: usize = 50;

/// Requests with the same values are summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Form {
    /// Empty if slurmctld knows no association of that user.
    pub user: String,
    /// `None` for counts.
    pub user_id: Option<u32>,
    /// The message's.
    pub number: String,
    /// The part of the request that breaks the rule.
    pub request: String,
    pub account: String,
    pub qos: String,
    pub partition: String,
    /// Options that would be accepted, if gpushare knows some.
    pub instead: Option<String>,
}

/// A sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub warned: u64,
    pub audited: u64,
    pub refused: u64,
    pub exempt: u64,
    /// `None` for lines without a time.
    #[serde(serialize_with = "exactly")]
    pub first: Option<u32>,
    #[serde(serialize_with = "exactly")]
    pub last: Option<u32>,
    /// Names of its jobs, and whether there were more.
    pub jobs: Vec<String>,
    pub more_jobs: bool,
}

fn exactly<S: Serializer>(time: &Option<u32>, to: S) -> Result<S::Ok, S::Error> {
    time.map(exact).serialize(to)
}

impl Sum {
    /// Requests that were accepted although they break a rule.
    pub fn accepted(&self) -> u64 {
        self.warned + self.audited
    }

    /// Adds some with this outcome.
    pub fn add(&mut self, outcome: Outcome, count: u64) {
        match outcome {
            Outcome::Refused => self.refused += count,
            Outcome::Warned => self.warned += count,
            Outcome::Audited => self.audited += count,
            Outcome::Exempt => self.exempt += count,
            // It breaks no rule.
            Outcome::Changed => {}
        }
    }
}

/// Sums lines one by one.
#[derive(Default)]
pub struct Collector {
    pub period: Period,
    pub forms: HashMap<Form, Sum>,
    pub evidence: Evidence,
    /// Lines that begin like the plugin's but can't be read; and those of them about accepted requests.
    pub unreadable: u64,
    pub unreadable_accepted: u64,
    /// Lines without a time.
    pub timeless: u64,
    /// Messages whose other line may follow, if standard error and syslog both lead into this log.
    single: VecDeque<(Way, u32, Vec<u8>)>,
}

impl Collector {
    pub fn new(period: Period) -> Collector {
        Collector { period, evidence: Evidence::new(period), ..Collector::default() }
    }

    /// Takes any line of slurmctld's log.
    pub fn take(&mut self, line: &[u8], clock: &Clock) {
        let prefix = PREFIX.as_bytes();
        let is_ours = evidence::has(line, prefix);
        if !self.evidence.wants(line, is_ours) {
            return;
        }
        let Some(line) = stamp::split(line, clock) else {
            self.evidence.pass(line, is_ours);
            return;
        };
        self.evidence.take(&line);
        let (Some(message), time) = (line.message.as_deref(), line.time) else { return };
        let Some(rest) = message.strip_prefix(prefix) else { return };
        if !rest.starts_with(b"refused ") && !rest.starts_with(b"accepted ") {
            return;
        }
        let inside = |time: u32| (self.period.start..self.period.end).contains(&time);
        if !time.is_none_or(inside) || self.is_second(&line) {
            return;
        }
        let Some(read) = super::line::parse(message) else {
            self.unreadable += 1;
            // Only syslog cuts. Another one is the rest of a message with a user's line break.
            let is_cut = line.way == Way::Syslog && message.len() + SHORTER >= CUT;
            self.unreadable_accepted += u64::from(is_cut && evidence::is_accepted(rest));
            return;
        };
        self.timeless += u64::from(time.is_none());
        self.add(&read, time);
    }

    /// Why these lines can't tell that no request was accepted.
    pub fn doubts(&self, loaded: &Loaded) -> Vec<Doubt> {
        let cut = Some(self.unreadable_accepted).filter(|lines| *lines > 0).map(Doubt::Cut);
        self.evidence.doubt(loaded).into_iter().chain(cut).collect()
    }

    /// Whether a message has been read already, because it reached this log in two ways.
    fn is_second(&mut self, line: &Line) -> bool {
        let (Some(time), Some(message), true) = (line.time, &line.message, line.way != Way::Own) else {
            return false;
        };
        let other = self.single.iter().position(|(way, then, text)| {
            *way != line.way && then.abs_diff(time) <= SECONDS && is_same(text, message)
        });
        if let Some(other) = other {
            self.single.remove(other);
            return true;
        }
        self.single.push_back((line.way, time, message.to_vec()));
        if self.single.len() > APART {
            self.single.pop_front();
        }
        false
    }

    fn add(&mut self, line: &LogLine, time: Option<u32>) {
        let said = |key| line.text(key).map(text);
        let of = |key| said(key).unwrap_or_default();
        let (user, user_id, number) = (of(Key::User), Some(line.user_id), line.number.clone());
        let mut form = Form {
            user,
            user_id,
            number,
            request: said(Key::Request).unwrap_or_else(|| of(Key::Asked)),
            account: of(Key::Account),
            qos: of(Key::Qos),
            partition: of(Key::Partition),
            instead: said(Key::Try),
        };
        if self.forms.len() >= MOST && !self.forms.contains_key(&form) {
            let Form { user, user_id, number, .. } = form;
            form = Form { user, user_id, number, request: "other requests".to_owned(), ..Form::default() };
        }
        let sum = self.forms.entry(form).or_default();
        sum.add(Outcome::of(line.passed), 1);
        sum.first = [sum.first, time].into_iter().flatten().min();
        sum.last = sum.last.max(time);
        let Some(name) = said(Key::Name).filter(|name| !sum.jobs.contains(name)) else { return };
        match sum.jobs.len() < NAMES {
            true => sum.jobs.push(name),
            false => sum.more_jobs = true,
        }
    }
}

/// Whether two texts are the same message, which syslog may have cut.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    short == long || (short.len() == CUT && long.starts_with(short))
}
