//! Checks what runs by its outcome: which limits on GPUs and shares of GPUs are exceeded, by how many and by whom, and
//! which of the jobs are beyond. It predicts nothing: it compares what jobs have, by AllocTRES and by their devices,
//! with the limits as Slurm applies them. It runs nothing; all functions are pure.
//!
//! - `held`: what each job has. `bounds`: which limits bind it. `beyond`: which jobs of a limit are beyond it.
//! - `others`: what isn't a limit of Slurm's: types that no request names, caps, shares outside their reservations.
//! - [`agree`]: what two looks at the cluster both say, and so may be acted upon.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use gpushare::submit::policy::{Mode, Policy};
use gpushare::text::pattern::{Case, Patterns};
use gpushare_slurm_text::{Job, Kind, Snapshot, State};

mod beyond;
mod bounds;
mod held;
mod others;

use held::Held;

/// The QOSes for what groups borrow, and all that give way to every owner.
pub type Loans = (HashSet<String>, HashSet<String>);

/// The rules to check by, from gpushare.conf.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    /// The GRES of shares.
    shares: Vec<String>,
    loans: Loans,
}

impl Rules {
    /// Takes them from the file.
    pub fn of(policy: &Policy, loans: Loans) -> Rules {
        let own = &policy.share_gres.0;
        let mut shares = ["mps", "shard"].map(str::to_owned).to_vec();
        if !shares.contains(own) {
            shares.push(own.clone());
        }
        Rules { policy: policy.clone(), shares, loans }
    }

    /// Whether a limit on this TRES is one of GPUs or shares; `bills_types` if the job's partition bills types.
    fn counts(&self, tres: &str, bills_types: bool) -> bool {
        let gres = tres.strip_prefix("gres/").map(|rest| rest.split(':').next().unwrap_or_default());
        gres.is_some_and(|name| self.policy.gres.0.iter().any(|known| known == name))
            || (tres == "billing" && bills_types)
    }

    /// Whether gpushare.conf exempts a job from all rules.
    fn exempts(&self, job: &Job) -> bool {
        let exempt = &self.policy.exempt;
        let is = |patterns: &Patterns, name: &str, case| {
            !name.is_empty() && patterns.match_name(name.as_bytes(), case)
        };
        is(&exempt.partitions, &job.partition, Case::Counts)
            || is(&exempt.reservations, &job.reservation, Case::Counts)
            || is(&exempt.users, &job.user, Case::Ignored)
            || exempt.users.iter().any(|pattern| pattern == job.user_id.to_string())
            || is(&exempt.accounts, &job.account, Case::Ignored)
    }

    /// Whether something may be done to a job: under `Mode=audit` and `warn` nothing is.
    fn may_act_on(&self, job: &Job) -> bool {
        matches!(self.policy.mode(job.qos.as_bytes()), Mode::Enforce | Mode::Default)
    }
}

gpushare::names! {
    /// What is wrong.
    pub enum What: word {
        /// Running jobs have more than a limit allows.
        Limit = "limit",
        /// A job under a governed QOS has GPUs of a type that its request doesn't name.
        Unnamed = "unnamed",
        /// AllocTRES and the devices of a job under a governed QOS differ in a type.
        Miscounted = "miscounted",
        /// More CPUs than `MaxCPUsPerGpu` gives with the job's GPUs.
        Cpus = "cpus",
        /// More memory, in MiB, than `MaxMemPerGpu` gives.
        Memory = "memory",
        /// No GPU in a partition of `GpuPartitions`.
        NoGpu = "no_gpu",
        /// GPUs under a governed QOS that limits only shares, or shares under one that limits only GPUs; GPUs without a
        /// type under one that limits only types.
        Uncounted = "uncounted",
        /// Shares outside the reservations of `ShareReservations`.
        OutsideReservation = "outside_reservation",
        /// Borrowed GPUs of a heterogeneous job: Slurm preempts it only if all of its components give way.
        Kept = "kept",
        /// The devices of a job can't be told: a user's text imitates Slurm's. Or, with [`ALLOC_TRES`] as its TRES, its
        /// AllocTRES can't: it is longer than squeue's column.
        Unclear = "unclear",
    }
}

/// What Slurm's accounting counts of a job.
pub const ALLOC_TRES: &str = "AllocTRES";

/// The TRES of a finding about a line of sacctmgr in which a name hides limits.
pub const ASSOCIATIONS: &str = "associations";

gpushare::names! {
    /// How something was counted.
    pub enum CountedBy: words {
        /// As Slurm's accounting does.
        AllocTres = "AllocTRES",
        /// By node and index.
        Devices = "devices",
    }
}

/// A job, and what it has of what a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: u32,
    /// Its name, `12_3`.
    pub name: String,
    /// What scancel takes.
    pub handle: String,
    /// Its user.
    pub user: String,
    /// When it started.
    pub start: u64,
    /// How many it has.
    pub held: u64,
    /// Whether the limit would hold without it, and with those that started before it and stay.
    pub is_beyond: bool,
    /// Whether `Guard=` may act on it.
    may_act: bool,
}

impl Member {
    fn of(job: &Job, held: u64) -> Member {
        Member {
            id: job.id,
            name: job.name.clone(),
            handle: job.handle().to_owned(),
            user: job.user.clone(),
            start: job.start,
            held,
            is_beyond: false,
            may_act: false,
        }
    }
}

/// Something that isn't as the limits and rules say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub what: What,
    /// Which limit, if it is one.
    pub kind: Option<Kind>,
    /// Whose limit it is: `QOS qos_lafferty`, `account group`; or which rule.
    pub whose: String,
    /// Whom a limit for each user or account concerns; else empty.
    pub of: String,
    /// Of what, such as `gres/gpu:a40`.
    pub tres: String,
    /// How many there are.
    pub held: u64,
    /// How many there may be.
    pub limit: u64,
    /// How they were counted.
    pub counted_by: CountedBy,
    /// How many more jobs have that are ending.
    pub completing: u64,
    /// The jobs, the oldest first.
    pub jobs: Vec<Member>,
}

impl Finding {
    /// What tells one limit, or rule, from another.
    pub fn key(&self) -> (What, Option<Kind>, &str, &str, &str) {
        (self.what, self.kind, &self.whose, &self.of, &self.tres)
    }
}

/// What one look at a cluster says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong.
    pub over: Vec<Finding>,
    /// Limits that only hold without the jobs that are ending, which still have their devices.
    pub ending: Vec<Finding>,
}

/// Checks one look.
pub fn judge(now: &Snapshot, rules: &Rules) -> Verdict {
    judge_without(now, rules, &HashSet::new())
}

/// Checks one look as if some jobs were gone.
fn judge_without(now: &Snapshot, rules: &Rules, gone: &HashSet<u32>) -> Verdict {
    let is_there =
        |job: &&Job| matches!(job.state, State::Runs | State::Completing) && !gone.contains(&job.id);
    let there = || now.jobs.iter().filter(is_there);
    let counted = there().filter(|job| !rules.exempts(job));
    let jobs: Vec<(&Job, Held)> = counted.map(|job| (job, Held::of(job, now, rules))).collect();
    // Also an exempt component keeps its job from giving way.
    let stays = there().filter(|job| !rules.loans.1.contains(&job.qos)).map(Job::handle).collect();
    let mut verdict = beyond::limits(&jobs, now, rules);
    verdict.over.extend(others::findings(&jobs, &stays, now, rules));
    verdict
}

/// Whether a look alone has jobs that may be acted upon.
pub fn any_to_act_on(now: &Snapshot, verdict: &Verdict) -> bool {
    let mut jobs = verdict.over.iter().flat_map(|finding| &finding.jobs);
    now.settings.enforces_limits() && jobs.any(|job| job.is_beyond && job.may_act)
}

/// The jobs to act upon, each with the limit: beyond it in both looks, and beyond it still if those that go before them
/// are gone. The oldest comes first, and there are at most `most`: each costs a check.
pub fn agree(first: &Snapshot, second: &Snapshot, rules: &Rules, most: usize) -> Vec<(Member, Finding)> {
    if !(first.settings.enforces_limits() && second.settings.enforces_limits()) {
        return Vec::new();
    }
    let before = judge(first, rules).over;
    let was_beyond = |finding: &Finding, job: &Member| {
        before.iter().any(|old| {
            let is_it = |known: &Member| known.is_beyond && (known.id, known.start) == (job.id, job.start);
            (old.key(), old.counted_by) == (finding.key(), finding.counted_by) && old.jobs.iter().any(is_it)
        })
    };
    let (mut chosen, mut gone): (Vec<(Member, Finding)>, HashSet<u32>) = (Vec::new(), HashSet::new());
    while chosen.len() < most {
        let over = judge_without(second, rules, &gone).over;
        let beyond = over.iter().flat_map(|finding| {
            finding.jobs.iter().filter(move |job| job.is_beyond && job.may_act).map(move |job| (finding, job))
        });
        let agreed = beyond.filter(|(finding, job)| was_beyond(finding, job));
        let Some((finding, next)) = agreed.min_by_key(|(_, job)| (job.start, job.id)) else { return chosen };
        // What is done to a component of a heterogeneous job is done to all of it.
        let same = second.jobs.iter().filter(|job| job.handle() == next.handle);
        gone.extend(same.map(|job| job.id));
        // One that isn't gone now would be chosen forever.
        if !gone.insert(next.id) && chosen.iter().any(|(job, _)| job.id == next.id) {
            return chosen;
        }
        chosen.push((next.clone(), finding.clone()));
    }
    chosen
}

#[cfg(test)]
mod tests;
