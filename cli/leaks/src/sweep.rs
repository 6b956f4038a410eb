//! How many GPUs jobs held under a limit, over time: pure sums over the jobs' starts and ends.

use gpushare_period::{Period, exact};
use serde::{Serialize, Serializer};

/// How many parts the period has, each with the maximum held in it.
const COLUMNS: usize = 900;

/// The GPUs of one type that one job had, counted under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The sum to which it belongs.
    pub series: u32,
    pub start: u32,
    pub end: u32,
    /// The request; an index in the causes.
    pub cause: u32,
    /// GPUs for certain, at most, and those of the latter that the limit was not tested with.
    pub sure: u16,
    pub most: u16,
    pub unseen: u16,
}

/// What was held at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub sure: u32,
    pub most: u32,
    /// Of the certain ones.
    pub unseen: u32,
}

/// A time during which the limit was exceeded without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    #[serde(serialize_with = "exactly")]
    pub start: u32,
    #[serde(serialize_with = "exactly")]
    pub end: u32,
    /// The maximum of GPUs held during it, and when that was first so.
    #[serde(rename = "most_held")]
    pub held: u32,
    #[serde(skip)]
    pub at: u32,
}

fn exactly<S: Serializer>(time: &u32, to: S) -> Result<S::Ok, S::Error> {
    exact(*time).serialize(to)
}

/// By how much a limit was exceeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Over {
    pub intervals: Vec<Interval>,
    /// GPUs above the limit, times seconds.
    pub above: u64,
    /// The part of it that requests which the limit didn't see don't explain.
    pub unexplained: u64,
}

impl Over {
    pub fn seconds(&self) -> u64 {
        self.intervals.iter().map(|one| u64::from(one.end - one.start)).sum()
    }

    /// The interval with the most GPUs.
    pub fn worst(&self) -> Option<&Interval> {
        self.intervals.iter().rev().max_by_key(|one| one.held)
    }

    /// How many seconds of a job's time fall into intervals in which the limit was exceeded. Looks only at the
    /// intervals in that time.
    pub fn within(&self, start: u32, end: u32) -> u64 {
        let first = self.intervals.partition_point(|one| one.end <= start);
        let rest = self.intervals.get(first..).unwrap_or_default().iter().take_while(|one| one.start < end);
        rest.map(|one| u64::from(one.end.min(end) - one.start.max(start))).sum()
    }

    fn add(&mut self, (start, end): (u32, u32), held: u32, limit: u32, unseen: u32) {
        if held <= limit {
            return;
        }
        let seconds = u64::from(end - start);
        self.above += seconds * u64::from(held - limit);
        self.unexplained += seconds * u64::from((held - limit).saturating_sub(unseen));
        match self.intervals.last_mut().filter(|last| last.end == start) {
            Some(last) => {
                last.end = end;
                if held > last.held {
                    (last.held, last.at) = (held, start);
                }
            }
            None => self.intervals.push(Interval { start, end, held, at: start }),
        }
    }
}

/// Shows each time between two changes, with what was held. A GPU that is handed over within a second counts once.
pub fn segments(holds: &[Hold], mut show: impl FnMut(u32, u32, Sum)) {
    // The times of changes, and by how much each of the three sums changes.
    let mut changes: Vec<(u32, [i32; 3])> = Vec::with_capacity(2 * holds.len());
    for hold in holds {
        let sure = hold.unseen.min(hold.sure);
        let counts = [hold.sure, hold.most, sure].map(i32::from);
        changes.push((hold.start, counts));
        changes.push((hold.end, counts.map(|count| -count)));
    }
    changes.sort_unstable_by_key(|(time, _)| *time);
    let mut now = [0_i32; 3];
    let mut since = 0;
    for (time, by) in changes {
        if time > since {
            let [sure, most, unseen] = now.map(|count| u32::try_from(count).unwrap_or(0));
            if most > 0 {
                show(since, time, Sum { sure, most, unseen });
            }
            since = time;
        }
        now.iter_mut().zip(by).for_each(|(count, by)| *count += by);
    }
}

/// Sums for what is certain, and for what is possible.
pub fn over(holds: &[Hold], limit: u32) -> (Over, Over) {
    let (mut sure, mut most) = (Over::default(), Over::default());
    segments(holds, |start, end, sum| {
        sure.add((start, end), sum.sure, limit, sum.unseen);
        most.add((start, end), sum.most, limit, u32::MAX);
    });
    (sure, most)
}

/// The same for a limit that tests each job separately: one interval for each job.
pub fn over_each(holds: &[Hold], limit: u32) -> (Over, Over) {
    let (mut sure, mut most) = (Over::default(), Over::default());
    for one in holds.chunks(1).map(|one| over(one, limit)) {
        for (all, one) in [(&mut sure, one.0), (&mut most, one.1)] {
            all.above += one.above;
            all.unexplained += one.unexplained;
            all.intervals.extend(one.intervals);
        }
    }
    for over in [&mut sure, &mut most] {
        over.intervals.sort_unstable_by_key(|one| (one.start, one.end));
    }
    (sure, most)
}

/// The maximum in each part of the period: for certain, and at most.
pub fn columns(holds: &[Hold], period: Period) -> Vec<(u32, u32)> {
    let mut most = vec![(0, 0); COLUMNS];
    let length = u64::from(period.seconds().max(1));
    let place = |time: u32| {
        let at = u64::from(time.saturating_sub(period.start)) * COLUMNS as u64 / length;
        usize::try_from(at).unwrap_or(0).min(COLUMNS - 1)
    };
    segments(holds, |start, end, sum| {
        for (sure, could) in most.get_mut(place(start)..=place(end.saturating_sub(1))).unwrap_or_default() {
            (*sure, *could) = (sum.sure.max(*sure), sum.most.max(*could));
        }
    });
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hold(start: u32, end: u32, sure: u16, most: u16, unseen: u16) -> Hold {
        Hold { series: 0, start, end, cause: 0, sure, most, unseen }
    }

    #[test]
    fn what_is_handed_over_is_held_once() {
        let holds = [hold(0, 10, 2, 2, 0), hold(10, 20, 2, 2, 0), hold(15, 20, 1, 1, 1)];
        let (sure, most) = over(&holds, 2);
        assert_eq!(sure.intervals, [Interval { start: 15, end: 20, held: 3, at: 15 }]);
        assert_eq!((sure.above, sure.unexplained, sure.seconds()), (5, 0, 5));
        assert_eq!(sure.intervals, most.intervals);
    }

    #[test]
    fn intervals_join_and_know_their_peak() {
        let holds = [hold(0, 30, 3, 3, 3), hold(10, 20, 2, 2, 0), hold(12, 14, 0, 4, 4)];
        let (sure, most) = over(&holds, 2);
        assert_eq!(sure.intervals, [Interval { start: 0, end: 30, held: 5, at: 10 }]);
        assert_eq!(most.worst().map(|one| (one.held, one.at)), Some((9, 12)));
        assert_eq!((sure.within(5, 15), sure.within(30, 40), sure.within(0, 0)), (10, 0, 0));
        assert_eq!((sure.above, sure.unexplained), (50, 0));
    }

    #[test]
    fn jobs_that_are_tested_alone_add_up_to_nothing() {
        let (sure, most) = over_each(&[hold(5, 10, 3, 3, 1), hold(0, 10, 2, 4, 2), hold(0, 9, 2, 2, 0)], 2);
        assert_eq!(sure.intervals, [Interval { start: 5, end: 10, held: 3, at: 5 }]);
        assert_eq!((sure.above, sure.unexplained, most.above, most.intervals.len()), (5, 0, 25, 2));
    }

    #[test]
    fn what_the_limit_saw_and_let_pass_is_not_explained() {
        let (sure, _) = over(&[hold(0, 10, 3, 3, 0), hold(0, 10, 1, 1, 1)], 2);
        assert_eq!((sure.above, sure.unexplained), (20, 10));
    }

    proptest! {
        /// Counts second by second, over every job.
        #[test]
        fn sums_are_those_of_counting_by_hand(
            jobs in proptest::collection::vec((0_u32..300, 1_u32..60, 0_u16..5, 0_u16..3, 0_u16..7), 0..40),
            limit in 0_u32..8,
        ) {
            let holds: Vec<Hold> = jobs.iter().map(|(start, length, sure, more, unseen)| {
                hold(*start, start + length, *sure, sure + more, (*unseen).min(sure + more))
            }).collect();
            let (sure, most) = over(&holds, limit);
            let (mut above, mut possible, mut unexplained, mut inside) = (0, 0, 0, Vec::new());
            for second in 0..400 {
                let now = || holds.iter().filter(|one| one.start <= second && second < one.end);
                let held: u32 = now().map(|one| u32::from(one.sure)).sum();
                let could: u32 = now().map(|one| u32::from(one.most)).sum();
                let unseen: u32 = now().map(|one| u32::from(one.unseen.min(one.sure))).sum();
                above += u64::from(held.saturating_sub(limit));
                possible += u64::from(could.saturating_sub(limit));
                unexplained += u64::from(held.saturating_sub(limit).saturating_sub(unseen));
                inside.push(held > limit);
            }
            prop_assert_eq!((sure.above, most.above, sure.unexplained), (above, possible, unexplained));
            let is_in = |second: u32| sure.intervals.iter().any(|one| one.start <= second && second < one.end);
            prop_assert_eq!(&inside, &(0..400).map(is_in).collect::<Vec<_>>());
            prop_assert!(sure.intervals.windows(2).all(|pair| pair[0].end < pair[1].start));
            for one in &holds {
                let held = |second: &u32| one.start <= *second && *second < one.end;
                let slow = inside.iter().zip(0..).filter(|(over, second)| **over && held(second));
                prop_assert_eq!(sure.within(one.start, one.end), slow.count() as u64);
            }
        }
    }
}
