//! Sums over time what each group used, lent and left idle.
//!
//! At every moment, of a group and a type: owned = kept + lent + idle, and used = kept + borrowed. `kept` are jobs on
//! the group's own GPUs; `borrowed` is what its jobs had beyond what it owns. Slurm counts the seconds of GPUs in the
//! same way: a job that is suspended keeps them (src/plugins/accounting_storage/mysql/as_mysql_rollup.c:
//! _add_tres_time_2_list), and each run of a requeued job counts.

use std::collections::{BTreeMap, HashMap};

use gpushare_period::Period;
use gpushare_qos::config::{ManagedQos, lending as pairs};
use gpushare_qos::lending::{self, Loan};
use gpushare_qos::usage::Usage;
use gpushare_slurm_text::sacct::{self, Row};
use gpushare_slurm_text::text;

use super::groups::{ANY, Database, Group, Of};

/// How many parts of the period a plot has.
pub const COLUMNS: usize = 240;

/// GPU-seconds of a group and a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub used: u64,
    pub borrowed: u64,
    pub lent: u64,
    pub idle: u64,
}

/// What is summed of a group, and its GPUs now, by type; the last one is any type.
#[derive(Clone, Debug, Default)]
pub struct OfGroup {
    pub types: Vec<Sums>,
    /// GPU-seconds in each part of the period: kept, borrowed, lent.
    pub columns: Vec<[u64; 3]>,
    /// How long each job that started waited.
    pub waits: Vec<u32>,
    owned: Vec<u64>,
    used_now: Vec<u64>,
    lent_now: Vec<u64>,
}

/// GPUs that a job takes or gives back.
#[derive(Clone, Copy, Debug)]
struct Event {
    time: u32,
    place: usize,
    gres_type: usize,
    /// Negative if it gives them back.
    count: i64,
}

/// What jobs of a QOS and an account count for.
#[derive(Clone, Debug)]
pub struct Place {
    qos: String,
    pub account: String,
    /// The groups' numbers.
    pub groups: Vec<usize>,
}

/// Sums jobs day by day.
pub struct Summer<'d> {
    pub database: &'d Database,
    pub groups: &'d [Group],
    /// GPU types in lowercase, and then [`ANY`].
    pub types: Vec<String>,
    pub period: Period,
    day: Period,
    lenders: Vec<ManagedQos>,
    gpus: BTreeMap<String, u64>,
    usages: HashMap<String, Usage>,
    pub places: Vec<Place>,
    by_place: HashMap<Vec<u8>, usize>,
    events: Vec<Event>,
    loans: Vec<Loan>,
    all_now: Vec<u64>,
    key: Vec<u8>,
    pub of: Vec<OfGroup>,
    /// GPU-seconds by place, user and type.
    pub users: BTreeMap<(usize, String, usize), u64>,
    /// GPU-seconds by lender, borrower and type.
    pub lent: BTreeMap<(String, String, String), u64>,
    /// GPU-seconds by type in each part of the period.
    pub columns: Vec<Vec<u64>>,
    /// Runs of jobs that started with GPUs, and those that count for a group.
    pub started: [u64; 2],
}

impl<'d> Summer<'d> {
    pub fn new(
        database: &'d Database,
        groups: &'d [Group],
        types: &[String],
        gpus: BTreeMap<String, u64>,
        period: Period,
    ) -> Summer<'d> {
        let types: Vec<String> = types.iter().cloned().chain([ANY.to_owned()]).collect();
        let zeros = vec![0; types.len()];
        let of = groups.iter().map(|group| {
            let of = |name: &String| group.owned.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            OfGroup {
                types: vec![Sums::default(); types.len()],
                columns: vec![[0; 3]; COLUMNS],
                owned: types.iter().map(|name| of(name).map_or(0, |(_, count)| *count)).collect(),
                used_now: zeros.clone(),
                lent_now: zeros.clone(),
                waits: Vec::new(),
            }
        });
        let lenders = database.lenders();
        Summer {
            database,
            groups,
            period,
            day: Period::default(),
            lenders: if pairs::is_on(&lenders) { lenders } else { Vec::new() },
            gpus,
            usages: HashMap::new(),
            places: Vec::new(),
            by_place: HashMap::new(),
            events: Vec::new(),
            loans: Vec::new(),
            all_now: zeros.clone(),
            key: Vec::new(),
            of: of.collect(),
            users: BTreeMap::new(),
            lent: BTreeMap::new(),
            columns: vec![zeros; COLUMNS],
            started: [0; 2],
            types,
        }
    }

    /// The jobs that follow are those of this day.
    pub fn day(&mut self, day: Period) {
        self.day = day;
    }

    /// Takes a run of a job.
    pub fn take(&mut self, row: &Row) {
        let Some(begin) = row.start.filter(|_| !row.is_elsewhere()) else { return };
        let (start, end) = (begin.max(self.day.start), row.end.unwrap_or(u32::MAX).min(self.day.end));
        let starts = (self.day.start..self.day.end).contains(&begin);
        if start >= end && !starts {
            return;
        }
        let counts = self.counts(row.given);
        if counts.is_empty() {
            return;
        }
        let place = self.place(row);
        let groups = self.places.get(place).map(|place| place.groups.clone()).unwrap_or_default();
        if starts {
            let [all, of_groups] = &mut self.started;
            *all += 1;
            *of_groups += u64::from(!groups.is_empty());
            let wait = row.eligible.map_or(0, |eligible| begin.saturating_sub(eligible));
            for at in &groups {
                self.of.get_mut(*at).into_iter().for_each(|of| of.waits.push(wait));
            }
        }
        if start >= end {
            return;
        }
        let user = text(row.user);
        for (gres_type, count) in counts {
            *self.users.entry((place, user.clone(), gres_type)).or_default() +=
                u64::from(end - start) * count;
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.events.push(Event { time: start, place, gres_type, count });
            self.events.push(Event { time: end, place, gres_type, count: -count });
        }
    }

    /// After the last job of the day: sums it.
    pub fn close(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_unstable_by_key(|event| event.time);
        let mut from = self.day.start;
        for run in events.chunk_by(|a, b| a.time == b.time) {
            let time = run.first().map_or(from, |event| event.time);
            self.pass(from, time);
            run.iter().for_each(|event| self.change(event));
            self.lend();
            from = time;
        }
        self.pass(from, self.day.end);
        events.clear();
        self.events = events;
    }

    /// The number of any type.
    pub fn any(&self) -> usize {
        self.types.len().saturating_sub(1)
    }

    /// The GPUs of a job by type, and in total.
    fn counts(&self, given: &[u8]) -> Vec<(usize, u64)> {
        let (mut counts, mut any, mut typed) = (Vec::new(), 0, 0);
        for (name, count) in sacct::gpus(given) {
            let count = u64::from(count);
            let Some(name) = name else {
                any = count;
                continue;
            };
            typed += count;
            let is_it = |known: &String| known.as_bytes().eq_ignore_ascii_case(name);
            counts.extend(self.types.iter().position(is_it).map(|at| (at, count)));
        }
        counts.extend(Some((self.any(), any.max(typed))).filter(|(_, count)| *count > 0));
        counts
    }

    fn place(&mut self, row: &Row) -> usize {
        self.key.clear();
        self.key.extend([row.qos, b"\0", row.account].concat());
        if let Some(found) = self.by_place.get(&self.key) {
            return *found;
        }
        let [qos, account] = [row.qos, row.account].map(text);
        let counts = |group: &Group| match group.of {
            Of::Qos => {
                [Some(&group.name), group.burst.as_ref()].into_iter().flatten().any(|name| *name == qos)
            }
            Of::Account => self.database.is_within(&account, &group.name),
        };
        let groups = (0..).zip(self.groups).filter(|(_, group)| counts(group)).map(|(at, _)| at).collect();
        let at = self.places.len();
        self.places.push(Place { qos, account, groups });
        self.by_place.insert(self.key.clone(), at);
        at
    }

    fn change(&mut self, event: &Event) {
        let Event { place, gres_type, count, .. } = *event;
        let add = |sum: &mut u64| *sum = sum.saturating_add_signed(count);
        self.all_now.get_mut(gres_type).into_iter().for_each(add);
        let Some(place) = self.places.get(place) else { return };
        for at in &place.groups {
            self.of.get_mut(*at).and_then(|of| of.used_now.get_mut(gres_type)).into_iter().for_each(add);
        }
        let is_any = gres_type == self.any();
        if let Some(name) = self.types.get(gres_type).filter(|_| !is_any && !self.lenders.is_empty()) {
            let usage = self.usages.entry(place.qos.clone()).or_default();
            add(usage.tres.entry(format!("gres/gpu:{name}")).or_default());
        }
    }

    /// Who has whose GPUs from now on.
    fn lend(&mut self) {
        if self.lenders.is_empty() {
            return;
        }
        self.of.iter_mut().for_each(|of| of.lent_now.fill(0));
        self.loans = lending::loans(&self.lenders, &self.usages, &self.gpus);
        for loan in &self.loans {
            let is_type = |known: &String| known.eq_ignore_ascii_case(&loan.gres_type);
            let is_lender = |group: &Group| group.of == Of::Qos && group.name == loan.lender;
            let lender = self.groups.iter().position(is_lender).and_then(|at| self.of.get_mut(at));
            if let (Some(of), Some(gres_type)) = (lender, self.types.iter().position(is_type)) {
                of.lent_now.get_mut(gres_type).into_iter().for_each(|sum| *sum += loan.number);
            }
        }
    }

    /// Nothing changes from one time to the other.
    fn pass(&mut self, from: u32, to: u32) {
        let seconds = u64::from(to.saturating_sub(from));
        if seconds == 0 {
            return;
        }
        for of in &mut self.of {
            let mut shown = [0; 3];
            let any = of.owned.len().saturating_sub(1);
            let owns_any = of.owned.last().is_some_and(|count| *count > 0);
            let owns = of.owned.iter().any(|count| *count > 0);
            let now = of.owned.iter().zip(&of.used_now).zip(&of.lent_now);
            for (at, (sums, ((owned, used), lent))) in (0..).zip(of.types.iter_mut().zip(now)) {
                // Who owns nothing borrows nothing either.
                let kept = if owns { (*used).min(owned.saturating_sub(*lent)) } else { *used };
                let (borrowed, idle) = (used - kept, owned.saturating_sub(lent + kept));
                sums.used += used * seconds;
                sums.borrowed += borrowed * seconds;
                sums.lent += lent * seconds;
                sums.idle += idle * seconds;
                if (at == any) == owns_any {
                    shown = [shown[0] + kept, shown[1] + borrowed, shown[2] + lent];
                }
            }
            parts(self.period, from, to, |at, seconds| {
                let column = of.columns.get_mut(at).into_iter().flatten();
                column.zip(shown).for_each(|(sum, count)| *sum += count * seconds);
            });
        }
        for Loan { lender, borrower, gres_type, number } in &self.loans {
            let key = (lender.clone(), borrower.clone(), gres_type.clone());
            *self.lent.entry(key).or_default() += number * seconds;
        }
        parts(self.period, from, to, |at, seconds| {
            let column = self.columns.get_mut(at).into_iter().flatten();
            column.zip(&self.all_now).for_each(|(sum, count)| *sum += count * seconds);
        });
    }
}

/// When a part of the period begins.
pub fn begin(period: Period, part: usize) -> u32 {
    let length = u64::from(period.seconds());
    let past = (part as u64 * length).div_ceil(COLUMNS as u64);
    period.start.saturating_add(u32::try_from(past).unwrap_or(u32::MAX))
}

/// Splits a time into the seconds of each part of the period.
fn parts(period: Period, mut from: u32, to: u32, mut show: impl FnMut(usize, u64)) {
    let length = u64::from(period.seconds().max(1));
    while from < to {
        let at = u64::from(from.saturating_sub(period.start)) * COLUMNS as u64 / length;
        let at = usize::try_from(at).unwrap_or(COLUMNS);
        let end = begin(period, at + 1).min(to).max(from + 1);
        show(at, u64::from(end - from));
        from = end;
    }
}
