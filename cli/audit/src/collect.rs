//! Sums the lines of slurmctld's log: by user, place, message and form of request. There may be millions of lines, with
//! any text from users, so the number of sums is limited.

use std::collections::{HashMap, VecDeque};

use gpushare::submit::counters::Outcome;
use gpushare::submit::log_line::{Key, LogLine, PREFIX};

use super::evidence::{self, Doubt, Evidence, Loaded};
use super::moment::Clock;
use super::stamp::{self, Line, Way};
use gpushare_period::Period;

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    pub user_id: u32,
    pub number: String,
    /// It stands for all further requests, after [`MOST`] forms.
    pub is_rest: bool,
    pub user: Vec<u8>,
    pub account: Vec<u8>,
    pub qos: Vec<u8>,
    pub partition: Vec<u8>,
    pub request: Vec<u8>,
    pub instead: Vec<u8>,
}

/// A sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub warned: u64,
    pub audited: u64,
    pub refused: u64,
    pub exempt: u64,
    /// `None` for lines without a time.
    pub first: Option<u32>,
    pub last: Option<u32>,
    /// Names of its jobs, and whether there were more.
    pub names: Vec<Vec<u8>>,
    pub more_names: bool,
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
        let text = |key: Key| line.text(key).unwrap_or_default().to_vec();
        let mut form = Form {
            user_id: line.user_id,
            number: line.number.clone(),
            is_rest: false,
            user: text(Key::User),
            account: text(Key::Account),
            qos: text(Key::Qos),
            partition: text(Key::Partition),
            request: line.text(Key::Request).or(line.text(Key::Asked)).unwrap_or_default().to_vec(),
            instead: text(Key::Try),
        };
        if self.forms.len() >= MOST && !self.forms.contains_key(&form) {
            let (user, number) = (form.user, form.number);
            form = Form { is_rest: true, user, number, user_id: line.user_id, ..Form::default() };
        }
        let sum = self.forms.entry(form).or_default();
        *match Outcome::of(line.passed) {
            Outcome::Refused => &mut sum.refused,
            Outcome::Warned => &mut sum.warned,
            Outcome::Exempt => &mut sum.exempt,
            Outcome::Audited | Outcome::Changed => &mut sum.audited,
        } += 1;
        sum.first = [sum.first, time].into_iter().flatten().min();
        sum.last = sum.last.max(time);
        let Some(name) = line.text(Key::Name) else { return };
        if sum.names.iter().all(|known| known != name) {
            match sum.names.len() < NAMES {
                true => sum.names.push(name.to_vec()),
                false => sum.more_names = true,
            }
        }
    }
}

/// Whether two texts are the same message, which syslog may have cut.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    short == long || (short.len() == CUT && long.starts_with(short))
}
