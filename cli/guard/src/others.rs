//! What isn't a limit of Slurm's: GPUs of a type that the request doesn't name, under a governed QOS; more CPUs or
//! memory than the site gives with a job's GPUs; jobs without a GPU where each must have one; GPUs beside shares that
//! alone are limited, and the other way round; GPUs without a type where only types are limited; shares outside their
//! reservations; borrowed GPUs that no owner gets back; jobs whose devices a user's text hides, or whose AllocTRES
//! Slurm's command cuts; and limits that an account's name hides.

use std::collections::HashSet;

use gpushare::submit::policy::{Caps, ForeignTypes, Governed, PerGpu};
use gpushare::text::pattern::Case;
use gpushare_slurm_text::{Job, Kind, Snapshot, State, Trust};

use crate::held::Held;
use crate::{ALLOC_TRES, ASSOCIATIONS, CountedBy, Finding, Member, Rules, What};

/// What is wrong with the jobs. Jobs with a handle in `staying` have a component that gives way to nobody.
pub(crate) fn findings(
    jobs: &[(&Job, Held)],
    staying: &HashSet<&str>,
    now: &Snapshot,
    rules: &Rules,
) -> Vec<Finding> {
    let one = |what, whose: String, tres: &str, (held, limit): (u64, u64), jobs| {
        let (of, tres, counted_by) = (String::new(), tres.to_owned(), CountedBy::Devices);
        Finding { what, kind: None, whose, of, tres, held, limit, counted_by, completing: 0, jobs }
    };
    let hidden = |line: &String| one(What::Unclear, line.clone(), ASSOCIATIONS, (0, 0), Vec::new());
    let mut found: Vec<Finding> = now.associations.odd.iter().map(hidden).collect();
    let limits = now.qoses.values().flat_map(|qos| Kind::ALL.map(|kind| qos.limits.of(kind)));
    let limited: HashSet<&str> = limits.flat_map(|limits| limits.iter().map(|(tres, _)| tres)).collect();
    for (job, held) in jobs.iter().filter(|(job, _)| job.state == State::Runs) {
        let mut add = |what, whose: String, tres: &str, counts: (u64, u64)| {
            found.push(one(what, whose, tres, counts, vec![Member::of(job, counts.0)]));
        };
        if job.record.trust == Trust::Unclear {
            add(What::Unclear, format!("user {}", job.user), "", (0, 0));
        }
        let whole = job.record.whole_nodes
            || now.partitions.get(&job.partition).is_some_and(|known| known.whole_nodes);
        if job.allocated.is_none() {
            add(What::Unclear, format!("user {}", job.user), ALLOC_TRES, (0, 0));
        }
        if governs(job, now, rules) {
            unnamed(job, held, whole, (&limited, now), &mut add);
        }
        if !whole {
            uncounted(job, held, now, rules, &mut add);
        }
        over_caps(job, held, whole, now, rules, &mut add);
        let has = |name: &str| held.gpus().of(&format!("gres/{name}")).unwrap_or(0);
        let gpu_there = has("gpu") > 0 || rules.shares.iter().any(|share| has(share) > 0);
        if !gpu_there && rules.policy.gpu_partitions.match_name(job.partition.as_bytes(), Case::Counts) {
            add(What::NoGpu, format!("partition {}", job.partition), "gres/gpu", (0, 1));
        }
        if rules.loans.0.contains(&job.qos) && staying.contains(job.handle()) && has("gpu") > 0 {
            add(What::Kept, format!("QOS {}", job.qos), "gres/gpu", (has("gpu"), 0));
        }
        let only = &rules.policy.shares.reservations;
        if !only.is_empty() && !only.occur_in(job.reservation.as_bytes(), Case::Counts) {
            for share in rules.shares.iter().filter(|share| has(share) > 0) {
                let whose = "ShareReservations".to_owned();
                add(What::OutsideReservation, whose, &format!("gres/{share}"), (has(share), 0));
            }
        }
    }
    found
}

/// Adds what is wrong: what, whose, of which TRES, and how many there are and may be.
type Add<'a> = &'a mut dyn FnMut(What, String, &str, (u64, u64));

/// Whether GPUs must be typed under the job's QOS or in its partition.
fn governs(job: &Job, now: &Snapshot, rules: &Rules) -> bool {
    rules.policy.partitions.match_name(job.partition.as_bytes(), Case::Counts) || qos_governs(job, now, rules)
}

fn qos_governs(job: &Job, now: &Snapshot, rules: &Rules) -> bool {
    match &rules.policy.governed {
        Governed::Names(names) => names.match_name(job.qos.as_bytes(), Case::Ignored),
        Governed::Auto => now.qoses.get(&job.qos).is_some_and(|qos| {
            let mut limited = Kind::ALL.iter().flat_map(|kind| qos.limits.of(*kind).iter());
            limited.any(|(tres, _)| tres.starts_with("gres/gpu:"))
        }),
    }
}

/// What the job's QOS doesn't limit in any way, although it limits shares or types of GPUs. So gpushare checks requests
/// under `ForeignTypes=deny`. Slurm gives whole nodes all that they have.
fn uncounted(job: &Job, held: &Held, now: &Snapshot, rules: &Rules, add: Add) {
    let policy = &rules.policy;
    let Some(qos) = now.qoses.get(&job.qos).filter(|_| policy.foreign_types == ForeignTypes::Deny) else {
        return;
    };
    let limited = || Kind::ALL.into_iter().flat_map(|kind| qos.limits.of(kind).iter());
    let is_of = |tres: &str, name: &str| {
        let rest = tres.strip_prefix("gres/").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let has_limit = |name: &str| limited().any(|(tres, _)| is_of(tres, name));
    let names = || rules.shares.iter().filter(|name| rules.policy.gres.0.contains(name));
    // A limit of 0 forbids shares, and says nothing of GPUs.
    let allows_shares = || {
        let mut shares = limited().filter(|(_, count)| *count > 0);
        shares.any(|(tres, _)| names().any(|name| is_of(tres, name)))
    };
    let only_shares =
        allows_shares() && !has_limit("gpu") && rules.policy.gres.0.iter().any(|name| name == "gpu");
    let types_shares =
        || limited().any(|(tres, _)| tres.contains(':') && names().any(|name| is_of(tres, name)));
    let has = |name: &str| held.most(&format!("gres/{name}"));
    let mut is_uncounted = |name: &str| {
        add(What::Uncounted, format!("QOS {}", job.qos), &format!("gres/{name}"), (has(name), 0));
    };
    if only_shares && has("gpu") > 0 {
        is_uncounted("gpu");
    }
    if only_shares || qos_governs(job, now, rules) || types_shares() {
        names().filter(|name| has(name) > 0 && !has_limit(name)).for_each(|name| is_uncounted(name));
    }
}

fn unnamed(job: &Job, held: &Held, whole: bool, (limited, now): (&HashSet<&str>, &Snapshot), add: Add) {
    if job.record.trust != Trust::Said {
        return;
    }
    let nodes = || job.record.on.iter().flat_map(|on| &on.nodes).filter_map(|node| now.nodes.get(node));
    let is_named = |gres_type: &str| {
        let mut types = job.record.types.iter().filter(|named| named.eq_ignore_ascii_case(gres_type));
        types.any(|named| named == gres_type || nodes().any(|node| node.spells(named)))
    };
    let whose = || format!("QOS {}", job.qos);
    let limits_all = || now.qoses.get(&job.qos).is_some_and(|qos| qos.lowest("gres/gpu").is_some());
    if held.untyped > 0 && !limits_all() {
        add(What::Uncounted, whose(), "gres/gpu", (held.untyped, 0));
    }
    for gres_type in held.types() {
        let tres = format!("gres/gpu:{gres_type}");
        if (job.record.is_told || whole) && !is_named(gres_type) {
            add(What::Unnamed, whose(), &tres, (held.most(&tres), 0));
        }
        let by = |counted_by| held.by(counted_by, &tres).unwrap_or(0);
        let (books, devices) = (by(CountedBy::AllocTres), by(CountedBy::Devices));
        // AllocTRES has only what AccountingStorageTRES names, as every limited type must be.
        if job.allocated.is_some() && held.typed && books != devices && limited.contains(tres.as_str()) {
            add(What::Miscounted, whose(), &tres, (devices, books));
        }
    }
}

fn over_caps(job: &Job, held: &Held, whole: bool, now: &Snapshot, rules: &Rules, add: Add) {
    if held.gpus().of("gres/gpu").unwrap_or(0) == 0 {
        return;
    }
    let policy = &rules.policy;
    let caps = |of: fn(&Caps) -> Option<&PerGpu>| {
        let qos =
            policy.records.iter().filter(|record| record.names.match_name(job.qos.as_bytes(), Case::Ignored));
        let partitions = policy.partition_records.iter();
        let partition =
            partitions.filter(|record| record.names.match_name(job.partition.as_bytes(), Case::Counts));
        let mut all =
            qos.map(|record| &record.caps).chain(partition.map(|record| &record.caps)).chain([&policy.caps]);
        all.find_map(of)
    };
    // Slurm gives whole cores, and whole nodes: docs/limits.md.
    let threads = job.record.on.iter().flat_map(|on| &on.nodes).filter_map(|node| now.nodes.get(node));
    let threads = threads.map(|node| node.threads_per_core).max().unwrap_or(1).max(1);
    if let Some(allowed) =
        caps(|caps| caps.cpus.as_ref()).filter(|_| !whole).and_then(|cap| allowed(cap, held))
    {
        let (cpus, allowed) = (held.allocated().of("cpu").unwrap_or(0), allowed.saturating_mul(threads));
        if cpus > allowed {
            add(What::Cpus, "MaxCPUsPerGpu".to_owned(), "cpu", (cpus, allowed));
        }
    }
    if let Some(allowed) = caps(|caps| caps.mem.as_ref()).and_then(|cap| allowed(cap, held)) {
        let memory = held.allocated().of("mem").unwrap_or(0);
        if memory > allowed {
            add(What::Memory, "MaxMemPerGpu".to_owned(), "mem", (memory, allowed));
        }
    }
}

/// What a cap gives with all of the job's GPUs; `None` if one of them has no cap.
fn allowed(cap: &PerGpu, held: &Held) -> Option<u64> {
    let gpus = held.gpus();
    let (mut sum, mut typed) = (0_u64, 0_u64);
    for (gres_type, count) in
        gpus.iter().filter_map(|(tres, count)| Some((tres.strip_prefix("gres/gpu:")?, count)))
    {
        sum = sum.saturating_add(cap.of(Some(gres_type.as_bytes()))?.saturating_mul(count));
        typed = typed.saturating_add(count);
    }
    // Of a GPU whose type is unknown the highest cap counts, so that nobody is told to have too much.
    let rest = gpus.of("gres/gpu").unwrap_or(0).saturating_sub(typed);
    if rest > 0 {
        let highest = cap.types.iter().map(|(_, each)| *each).chain(cap.others).max()?;
        sum = sum.saturating_add(highest.saturating_mul(rest));
    }
    Some(sum)
}
