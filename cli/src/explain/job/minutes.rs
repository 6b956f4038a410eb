//! Limits on minutes: how many a job needs, whether enough are left, and when enough have decayed.
//!
//! This follows slurmctld (Slurm: src/slurmctld/acct_policy.c, `acct_policy_job_runnable_post_select`;
//! src/plugins/priority/multifactor, `_apply_decay`). A job needs its count times its time limit.
//! `GrpTRESMins` stops all jobs when it is used up. With `AccountingStorageEnforce=safe` it stops a job that needs more
//! than is left, less what running jobs may still use. The other limits are on what running jobs may still use, and on
//! each job. Until `PriorityCalcPeriod` ends, slurmctld doesn't count what running jobs have used.

use serde::Serialize;

use gpushare_slurm_run::{Snapshot, ask};
use gpushare_slurm_text::queue::Row;
use gpushare_slurm_text::{Partition, past};

/// slurm.h's INFINITE, by which slurmctld multiplies if a job has no time limit.
pub const NO_LIMIT: u64 = u32::MAX as u64;
/// The field that counts what all jobs have used.
pub const USED: &str = "GrpTRESMins";
/// The field that limits a job's time limit.
pub const WALL: &str = "MaxWallPJ";

/// What counts for a job's minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The job's time limit in minutes.
    time: u64,
    /// `UsageFactor` of the job's QOS, in thousandths.
    pub factor: u64,
    /// Whether the factor counts for the time limit, too.
    scales: bool,
    safe: bool,
    /// In seconds; 0 if nothing decays.
    half_life: u64,
    /// `PriorityCalcPeriod` in seconds: when slurmctld counts what was used, and lets it decay.
    period: u64,
    /// `PriorityUsageResetPeriod`; empty if there is none.
    reset: String,
}

/// What a limit on minutes has beside a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Minutes {
    /// What running jobs may still use, if it is kept for them (`safe`).
    pub kept: u64,
    /// In how many seconds slurmctld will at the latest find that enough has decayed, if no other job starts.
    pub enough_in: Option<u64>,
    /// When Slurm sets what is used to 0, such as `MONTHLY`; empty if never.
    pub reset: String,
    /// In how many seconds half of what is used decays; 0 if nothing does.
    pub half_life: u64,
    /// The longest time limit, in minutes, with which the job would fit now.
    #[serde(skip)]
    pub longest: u64,
}

/// Whether the job fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    #[default]
    Fits,
    /// The job waits until this much more is free.
    Waits { for_more: u64 },
    /// The job requests more than the limit.
    Never,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            time: NO_LIMIT,
            factor: 1000,
            scales: false,
            safe: false,
            half_life: 0,
            period: 1,
            reset: String::new(),
        }
    }
}

impl Rules {
    /// What counts for a job in a partition.
    pub fn of(job: &Row, partition: Option<&Partition>, snapshot: &Snapshot) -> Rules {
        let mut rules = Rules { time: job.time_limit.unwrap_or(NO_LIMIT), ..Rules::default() };
        // Of a job without --time, squeue shows MaxTime, but slurmctld uses DefaultTime.
        if let Some(time) =
            partition.filter(|one| one.max_time == job.time_limit).and_then(|one| one.default_time)
            && job.id > 0
            && has_no_time(job.id)
        {
            rules.time = time;
        }
        if let Ok(settings) = snapshot.settings() {
            rules.safe = settings.is_safe();
            (rules.half_life, rules.period) =
                ["PriorityDecayHalfLife", "PriorityCalcPeriod"].map(|key| settings.seconds(key)).into();
            let reset = settings.get("PriorityUsageResetPeriod");
            rules.reset = if reset == "NONE" { String::new() } else { reset.to_owned() };
        }
        let mut qoses = snapshot.qoses().unwrap_or_default().iter();
        if let Some(qos) = qoses.find(|qos| qos.name.eq_ignore_ascii_case(&job.qos)) {
            (rules.factor, rules.scales) = (qos.usage_factor, qos.scales_time_limits);
        }
        rules
    }

    /// How much of what a field limits a job needs that asks for a count.
    pub fn asks(&self, field: &str, count: u64) -> u64 {
        if field.contains("Mins") { count.saturating_mul(self.scaled()) } else { count }
    }

    /// The time limit as it counts.
    pub fn scaled(&self) -> u64 {
        self.scaled_of(self.time)
    }

    /// The same of another time.
    pub fn scaled_of(&self, time: u64) -> u64 {
        let scales = self.scales && (time < NO_LIMIT || self.factor < 1000);
        if scales { time.saturating_mul(self.factor) / 1000 } else { time }
    }

    /// When used minutes come back.
    pub fn come_back(&self, decays: bool) -> Minutes {
        let half_life = if decays { self.half_life } else { 0 };
        Minutes { reset: self.reset.clone(), half_life, ..Minutes::default() }
    }

    /// What a limit on minutes means for a job that needs `asks`; `None` if it is no such limit. `running` jobs may
    /// still use so many of its minutes.
    pub fn of_limit(
        &self,
        field: &str,
        (limit, used, running): (u64, u64, u64),
        asks: u64,
        decays: bool,
    ) -> Option<(Minutes, Verdict)> {
        if !field.contains("Mins") {
            return None;
        }
        // Slurm takes nothing as used where it costs nothing.
        let used = if self.factor == 0 && field != "MaxTRESRunMinsPU" { 0 } else { used };
        let is_of_used = field == USED;
        let mut minutes = if is_of_used { self.come_back(decays) } else { Minutes::default() };
        if is_of_used && self.safe && self.factor > 0 {
            minutes.kept = running;
        }
        let left = limit.saturating_sub(used.saturating_add(minutes.kept));
        let is_all_used = is_of_used && used >= limit;
        let tests_job = !is_of_used || self.safe;
        let count = asks.checked_div(self.scaled()).unwrap_or(0).max(1);
        let factor = if self.scales { self.factor.max(1) } else { 1000 };
        minutes.longest = match (is_all_used, tests_job) {
            (true, _) => 0,
            (false, true) => (left / count).saturating_mul(1000) / factor,
            (false, false) => u64::MAX,
        };
        let all = used.saturating_add(minutes.kept).saturating_add(asks);
        let verdict = if (is_of_used && limit == 0) || (tests_job && asks > limit) {
            Verdict::Never
        } else if tests_job && all > limit {
            Verdict::Waits { for_more: all - limit }
        } else if is_all_used {
            Verdict::Waits { for_more: (used - limit).saturating_add(1) }
        } else {
            Verdict::Fits
        };
        if let (true, Verdict::Waits { .. }) = (is_of_used, verdict) {
            let most =
                if self.safe { limit.checked_sub(minutes.kept.saturating_add(asks)) } else { Some(limit) };
            // Even where the job needs nothing, less than the limit must be used.
            let most = most.map(|most| most.min(limit - 1));
            let most = most.filter(|_| minutes.half_life > 0);
            let until = |most| until(self.half_life, used, most).next_multiple_of(self.period.max(1));
            minutes.enough_in = most.map(until);
        }
        Some((minutes, verdict))
    }
}

/// In how many seconds of so many minutes, rounded down, only `most` are left.
fn until(half_life: u64, used: u64, most: u64) -> u64 {
    let number = |minutes: u64| f64::from(u32::try_from(minutes.saturating_add(1)).unwrap_or(u32::MAX));
    // Slurm's decay_factor is 1 - 0.693 / half_life.
    let half_lives = log2(number(used) / number(most)) * (std::f64::consts::LN_2 / 0.693);
    let seconds = half_lives.max(0.0) * f64::from(u32::try_from(half_life).unwrap_or(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let whole = seconds.ceil() as u64;
    whole
}

/// The logarithm of a number from 1 on, 0 below. The standard library's would make the command depend on libm.
fn log2(mut number: f64) -> f64 {
    let (mut found, mut bit) = (0.0, 1.0);
    while number >= 2.0 {
        number /= 2.0;
        found += 1.0;
    }
    for _ in 0..40 {
        number *= number;
        bit /= 2.0;
        if number >= 2.0 {
            number /= 2.0;
            found += bit;
        }
    }
    found
}

/// Whether a job that waits was submitted without a time limit, which only accounting knows.
fn has_no_time(id: u32) -> bool {
    let id = id.to_string();
    let question = [past::TIME.1, &["-j", &id]].concat();
    ask(past::TIME.0, &question).is_ok_and(|said| said.trim() == past::NO_TIME)
}

#[cfg(test)]
mod tests {
    use super::super::limits::concerning;
    use super::super::limits::tests::job;
    use super::super::records::{Known, known};
    use super::super::smaller::longest;
    use super::super::words::decay;
    use super::*;

    const HOUR: u64 = 3600;
    /// The output of 24.11, with fewer TRES.
    const TEXT: &str = "\
ClusterName=lab Account=acct UserName=alice(2001) Partition= ID=4 ParentAccount= GrpTRESMins=gres/gpu:a40=N(90) GrpTRESRunMins=gres/gpu:a40=200(50) MaxTRESMinsPJ=gres/gpu:a40=100 Comment=(null)
QOS=q(2) UsageRaw=0.0 GrpJobs=N(2) GrpTRESMins=cpu=N(0),gres/gpu:a40=100(90) GrpTRESRunMins=cpu=N(0),gres/gpu:a40=N(5) Account Limits=No Accounts User Limits= alice(2001)={MaxTRESRunMinsPU=gres/gpu:a40=40(30)}
";

    fn rules(time: u64, safe: bool) -> Rules {
        Rules { time, safe, half_life: HOUR, reset: "MONTHLY".into(), ..Rules::default() }
    }

    fn judged(rules: Rules, text: &str) -> Vec<(&'static str, u64, Verdict, Option<u64>)> {
        let asked = job(7, "alice", "PENDING", "gres/gpu:a40=2");
        let known = Known { minutes: rules, ..known(text, &asked, &["q"]) };
        let mut all: Vec<_> = concerning(&asked, &known, &[])
            .into_iter()
            .map(|limit| (limit.field, limit.asks, limit.verdict, limit.minutes.unwrap().enough_in))
            .collect();
        all.sort_by_key(|(field, ..)| *field);
        all
    }

    #[test]
    fn a_job_needs_its_gpus_times_its_time_limit() {
        use Verdict::{Fits, Never, Waits};
        assert_eq!(
            judged(rules(2, false), TEXT),
            [
                ("GrpTRESMins", 4, Fits, None),
                ("GrpTRESRunMins", 4, Fits, None),
                ("MaxTRESMinsPJ", 4, Fits, None),
                ("MaxTRESRunMinsPU", 4, Fits, None),
            ]
        );
        assert_eq!(
            judged(rules(60, false), TEXT),
            [
                ("GrpTRESMins", 120, Fits, None), // a job may use more than is left, and is ended then
                ("GrpTRESRunMins", 120, Fits, None),
                ("MaxTRESMinsPJ", 120, Never, None),
                ("MaxTRESRunMinsPU", 120, Never, None),
            ]
        );
        assert_eq!(judged(rules(10, false), TEXT)[3], ("MaxTRESRunMinsPU", 20, Waits { for_more: 10 }, None));
        // 90 are used and 5 kept; 75 may be used, so 91 become 76.
        let safe = judged(rules(10, true), TEXT);
        assert_eq!(safe[0], ("GrpTRESMins", 20, Waits { for_more: 15 }, Some(936)));
        assert_eq!(judged(rules(51, true), TEXT)[0], ("GrpTRESMins", 102, Never, None));
        let none = judged(Rules::default(), TEXT);
        assert_eq!((none[0].2, none[2].1, none[2].2), (Fits, 2 * NO_LIMIT, Never));
    }

    #[test]
    fn minutes_that_are_used_up_come_back_by_decay_alone() {
        use Verdict::{Fits, Never, Waits};
        let at = |used: &str| TEXT.replace("100(90)", used);
        let first = |rules: Rules, text: &str| judged(rules, text)[0];
        let (_, _, verdict, enough_in) = first(rules(1, false), &at("100(200)"));
        // A half-life and what is from 100 to less than 100, since Slurm compares whole minutes.
        assert_eq!((verdict, enough_in), (Waits { for_more: 101 }, Some(3627)));
        assert_eq!(first(rules(1, false), &at("100(100)")).3, Some(52));
        assert_eq!(first(rules(1, false), &at("0(0)")).2, Never);
        let none = Rules { half_life: 0, ..rules(1, false) };
        assert_eq!(first(none, &at("100(200)")), ("GrpTRESMins", 2, Waits { for_more: 101 }, None));
        let free = Rules { factor: 0, ..rules(1, true) };
        assert_eq!(first(free, &at("100(200)")).2, Fits);
        let half = Rules { factor: 500, scales: true, ..rules(10, true) };
        assert_eq!(first(half, TEXT), ("GrpTRESMins", 10, Waits { for_more: 5 }, Some(294)));
    }

    #[test]
    fn when_used_minutes_come_back_is_told() {
        let (rules, none) = (rules(1, false), Rules::default());
        assert_eq!(decay(&rules.come_back(true)), "half decays in 60 min, reset monthly");
        assert_eq!(decay(&rules.come_back(false)), "reset monthly");
        assert_eq!(decay(&none.come_back(true)), "used minutes don't decay");
    }

    #[test]
    fn the_longest_time_that_would_start_is_told() {
        let asked = job(7, "alice", "PENDING", "gres/gpu:a40=2");
        let of = |rules: Rules, text: &str| {
            let known = Known { minutes: rules, ..known(text, &asked, &["q"]) };
            longest(&concerning(&asked, &known, &[]))
        };
        assert_eq!(of(rules(60, false), TEXT), Some(5), "10 of a user's are left");
        assert_eq!(of(rules(60, true), TEXT), Some(2), "5 of the QOS's are left");
        assert_eq!(of(Rules { factor: 500, scales: true, ..rules(60, true) }, TEXT), Some(4));
        assert_eq!(of(rules(2, false), TEXT), None, "it fits");
        assert_eq!(of(rules(60, true), &TEXT.replace("(90)", "(100)")), None);
        assert_eq!(
            of(rules(60, true), &TEXT.replace("GrpJobs=N(2)", "GrpJobs=2(2)")),
            None,
            "its time is not all"
        );
    }
}
