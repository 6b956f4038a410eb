//! Sums the lines of slurmctld's log: by user, place, message and form of request. There may be millions of lines, with
//! any text from users, so the number of sums is limited.

use std::collections::HashMap;

use gpushare::submit::counters::Outcome;
use gpushare::submit::log_line::{Key, LogLine, PREFIX};

use super::stamp::{self, Clock};
use crate::period::Period;

/// How many forms of requests are kept apart. Of further ones, only the user and the message's number are kept.
const MOST: usize = 20_000;
/// How many job names are kept for each.
const NAMES: usize = 3;

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
pub struct Collector {
    pub period: Period,
    pub forms: HashMap<Form, Sum>,
    /// The first time in the logs, of any line.
    pub begin: Option<u32>,
    /// Lines that begin like the plugin's but can't be read.
    pub unreadable: u64,
    /// Lines without a time.
    pub timeless: u64,
}

impl Collector {
    pub fn new(period: Period) -> Collector {
        Collector { period, forms: HashMap::new(), begin: None, unreadable: 0, timeless: 0 }
    }

    /// Takes any line of slurmctld's log.
    pub fn take(&mut self, line: &[u8], clock: &Clock) {
        let prefix = PREFIX.as_bytes();
        let is_ours = line.windows(prefix.len()).any(|part| part == prefix);
        if !is_ours && self.begin.is_some() {
            return;
        }
        let Some((time, message)) = stamp::split(line, clock) else { return };
        self.begin = [self.begin, time].into_iter().flatten().min();
        let Some(rest) = message.strip_prefix(prefix) else { return };
        if !rest.starts_with(b"refused ") && !rest.starts_with(b"accepted ") {
            return;
        }
        let inside = |time: u32| (self.period.start..self.period.end).contains(&time);
        if !time.is_none_or(inside) {
            return;
        }
        let Some(read) = LogLine::parse(message) else {
            self.unreadable += 1;
            return;
        };
        self.timeless += u64::from(time.is_none());
        self.add(&read, time);
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
        *match line.verdict.outcome() {
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
