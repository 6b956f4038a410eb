//! Which limits bind a job, as Slurm applies them (its acct_policy.c): of the job's QOS and its partition's, the one
//! that comes first limits a TRES, and the other only what that leaves open; associations only what both leave open.
//! `MaxTRES` of an association comes down from the accounts above, `GrpTRES` counts at each of them. Limits of a QOS
//! with `Relative` are percentages: they stand before others as any, and none of them is ever exceeded here.

use gpushare_slurm_text::{Job, Kind, Partition, Qos, Snapshot, Tres};

use crate::Rules;

/// A limit that binds a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub kind: Kind,
    /// `QOS qos_lafferty`
    pub whose: String,
    /// The user or account of a limit for each.
    pub of: String,
    pub tres: String,
    pub limit: u64,
}

pub(crate) fn of(job: &Job, now: &Snapshot, rules: &Rules) -> Vec<Bound> {
    let partition = now.partitions.get(&job.partition);
    let bills_types = partition.is_some_and(Partition::bills_types);
    let counts = |tres: &str| rules.counts(tres, bills_types);
    let order = qoses(job, now);
    let mut found: Vec<Bound> = Vec::new();
    for kind in Kind::ALL {
        let of = match kind {
            Kind::PerUser => format!("user {}", job.user),
            Kind::PerAccount => format!("account {}", job.account),
            Kind::Grp | Kind::PerJob | Kind::PerNode => String::new(),
        };
        for (name, qos) in &order {
            let from = found.len();
            add(&mut found, kind, qos.limits.of(kind), || (format!("QOS {name}"), of.clone()), counts);
            if qos.is_relative {
                found.iter_mut().skip(from).for_each(|bound| bound.limit = u64::MAX);
            }
        }
    }
    // What a QOS limits in one way, no association limits in that way.
    let by_qos = |found: &[Bound], kind: Kind, tres: &str| {
        found.iter().any(|bound| bound.kind == kind && bound.tres == tres && bound.whose.starts_with("QOS "))
    };
    for (name, association) in now.associations.of(&job.account, &job.user, &job.partition) {
        for (tres, limit) in association.limits.of(Kind::Grp).iter().filter(|(tres, _)| counts(tres)) {
            if !by_qos(&found, Kind::Grp, tres) {
                let (whose, tres) = (name.clone(), tres.to_owned());
                found.push(Bound { kind: Kind::Grp, whose, of: String::new(), tres, limit });
            }
        }
        for kind in [Kind::PerJob, Kind::PerNode] {
            add(&mut found, kind, association.limits.of(kind), || (name.clone(), String::new()), counts);
        }
    }
    found
}

/// Adds those limits of which there is none yet.
fn add(
    found: &mut Vec<Bound>,
    kind: Kind,
    limits: &Tres,
    name: impl Fn() -> (String, String),
    counts: impl Fn(&str) -> bool,
) {
    for (tres, limit) in limits.iter().filter(|(tres, _)| counts(tres)) {
        if !found.iter().any(|bound| bound.kind == kind && bound.tres == tres) {
            let (whose, of) = name();
            found.push(Bound { kind, whose, of, tres: tres.to_owned(), limit });
        }
    }
}

/// The QOSes whose limits count for a job, in Slurm's order.
fn qoses<'s>(job: &'s Job, now: &'s Snapshot) -> Vec<(&'s str, &'s Qos)> {
    let named = |name: &'s str| now.qoses.get(name).map(|qos| (name, qos));
    let own = named(&job.qos);
    let of_partition =
        now.partitions.get(&job.partition).and_then(|partition| named(partition.own.as_deref()?));
    let mut order: Vec<_> = [of_partition, own].into_iter().flatten().collect();
    if own.is_some_and(|(_, qos)| qos.over_partition) {
        order.reverse();
    }
    order.dedup_by_key(|(name, _)| *name);
    order
}
