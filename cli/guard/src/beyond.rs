//! Adds up what the jobs of each limit have, and says which of them are beyond it: in the order in which they started,
//! each that doesn't fit beside those before it that do.

use std::collections::BTreeMap;

use gpushare_slurm_text::{Job, Kind, Snapshot, State};

use crate::held::Held;
use crate::{CountedBy, Finding, Member, Rules, Verdict, What, bounds};

/// What counts together: a limit and, where it is one for each job, the job.
type Key = (Kind, String, String, String, u32);

/// The jobs that one limit binds and that have something of it.
struct Group<'a> {
    limit: u64,
    jobs: Vec<&'a (&'a Job, Held)>,
}

pub(crate) fn limits(jobs: &[(&Job, Held)], now: &Snapshot, rules: &Rules) -> Verdict {
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    for one in jobs {
        let (job, held) = one;
        for bound in bounds::of(job, now, rules) {
            if held.most(&bound.tres) == 0 {
                continue;
            }
            let (id, limit) = match bound.kind {
                Kind::Grp | Kind::PerUser | Kind::PerAccount => (0, bound.limit),
                Kind::PerJob => (job.id, bound.limit),
                Kind::PerNode => (job.id, on_all_nodes(bound.limit, job.nodes)),
            };
            let key = (bound.kind, bound.whose, bound.of, bound.tres, id);
            groups.entry(key).or_insert_with(|| Group { limit, jobs: Vec::new() }).jobs.push(one);
        }
    }
    let mut verdict = Verdict::default();
    for (key, mut group) in groups {
        group.jobs.sort_by_key(|(job, _)| (job.start, job.id));
        for counted_by in CountedBy::ALL {
            if let Some(finding) = exceeded(&key, &group, counted_by, rules) {
                if finding.held > finding.limit { &mut verdict.over } else { &mut verdict.ending }
                    .push(finding);
            }
        }
    }
    verdict
}

/// Slurm compares the job's number divided by its nodes, rounded down.
fn on_all_nodes(limit: u64, nodes: u32) -> u64 {
    let nodes = u64::from(nodes.max(1));
    limit.saturating_mul(nodes).saturating_add(nodes - 1)
}

fn exceeded(key: &Key, group: &Group, counted_by: CountedBy, rules: &Rules) -> Option<Finding> {
    let (kind, whose, of, tres, _) = key;
    let (mut held, mut stays, mut completing, mut members) = (0_u64, 0_u64, 0_u64, Vec::new());
    for (job, has) in &group.jobs {
        let Some(count) = has.by(counted_by, tres).filter(|count| *count > 0) else { continue };
        let mut member = Member::of(job, count);
        if job.state == State::Completing {
            completing = completing.saturating_add(count);
        } else {
            held = held.saturating_add(count);
            let sum = stays.saturating_add(count);
            member.is_beyond = sum > group.limit;
            member.may_act = rules.may_act_on(job);
            if !member.is_beyond {
                stays = sum;
            }
        }
        members.push(member);
    }
    (held.saturating_add(completing) > group.limit).then(|| Finding {
        what: What::Limit,
        kind: Some(*kind),
        whose: whose.clone(),
        of: of.clone(),
        tres: tres.clone(),
        held,
        limit: group.limit,
        counted_by,
        completing,
        jobs: members,
    })
}
