//! Ways around limits that no plugin sees, but that Slurm's own settings can close: whole-node jobs under
//! `ForeignTypes=deny`, a partition's QOS that replaces the job's limits, types of shares that slurmctld doesn't count,
//! exempt jobs that leave the reason of their exemption, a reservation that ends; and limits on types where GPUs have
//! none, or of a GRES that gpushare.conf doesn't name. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpushare::submit::policy::GovernedAccounts;
use gpushare::submit::whole_nodes::keeps_to_its_types;
use gpushare::text::pattern::Case;
use gpushare_machine::config::Config;

use super::finding::{Finding, listed};
use super::fix::Fix;
use super::names::may_govern;
use crate::slurm::{Node, Slurm};

/// Empty if there is nothing to bypass.
pub fn findings(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let mut findings = whole_nodes(config, slurm);
    findings.extend(untyped(config, slurm));
    findings.extend(ungoverned(config, slurm));
    findings.extend(partitions(config, slurm));
    findings.extend(uncounted(config, slurm));
    findings.extend(reservations(config, slurm));
    findings
}

/// A job that takes whole nodes gets all of their GPUs, and any user can request `--exclusive`. A type stays out of
/// reach only if the job's QOS has a limit on it (`gpushare_qos::foreign`).
fn whole_nodes(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let about = "ForeignTypes";
    // A partition's QOS applies to all users' jobs there, so the site decides which types it must not have.
    let of_partition = |qos: &String| slurm.partitions.iter().any(|one| one.own.as_ref() == Some(qos));
    let is_one = |qos: &String| keeps_to_its_types(&config.policy, qos.as_bytes()) && !of_partition(qos);
    let in_file = |qos: &str| config.qoses.iter().any(|managed| managed.name.eq_ignore_ascii_case(qos));
    let mut open: BTreeMap<(bool, Vec<String>), Vec<String>> = BTreeMap::new();
    let mut closed = false;
    for (qos, limited) in slurm.qoses.typed.iter().filter(|(qos, _)| is_one(qos)) {
        let others: BTreeSet<String> = within_reach(slurm, qos);
        let missing: Vec<String> = others.difference(&limited.gres_types).cloned().collect();
        if missing.is_empty() {
            closed |= others.len() > 1;
        } else {
            open.entry((in_file(qos), missing)).or_default().push(qos.clone());
        }
    }
    if open.is_empty() && closed {
        return vec![Finding::ok(about, "deny: whole-node jobs get no GPUs of types that their QOS lacks")];
    }
    let finding = |((in_file, gres_types), names): ((bool, Vec<String>), Vec<String>)| {
        let all: Vec<String> = gres_types.iter().map(|gres_type| format!("gres/gpu:{gres_type}")).collect();
        let said = format!(
            "QOS {}: without a limit on {} a job that takes whole nodes (--exclusive) gets these GPUs too",
            listed(&names),
            all.join(", ")
        );
        let (names, zeros) = (names.join(","), all.join("=0,"));
        let by_hand = format!("sacctmgr modify qos where name={names} set GrpTRES={zeros}=0");
        Finding::wrong(about, said, if in_file { Fix::qos_apply() } else { by_hand.into() })
    };
    open.into_iter().map(finding).collect()
}

/// GPUs of no type, for which no limit on a type counts, under the same QOSes. slurmctld takes the type from slurm.conf
/// alone, and whole nodes need none.
fn untyped(config: &Config, slurm: &Slurm) -> Option<Finding> {
    let mut open: BTreeSet<&String> = BTreeSet::new();
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    for qos in slurm.qoses.typed.keys() {
        let limits_all = slurm.qoses.most.get(qos).is_some_and(|most| most.contains_key("gres/gpu"));
        if limits_all || !keeps_to_its_types(&config.policy, qos.as_bytes()) {
            continue;
        }
        for node in nodes_of(slurm, qos).filter(|node| node.has_untyped_gpus()) {
            open.insert(qos);
            nodes.insert(node.name.clone());
        }
    }
    (!nodes.is_empty()).then(|| {
        let said = format!(
            "the GPUs of {} have no type: a job that takes whole nodes (--exclusive) gets them under QOS {}, beyond \
             every limit on a type",
            listed(&nodes.into_iter().collect::<Vec<_>>()),
            listed(&open.into_iter().cloned().collect::<Vec<_>>())
        );
        let fix = "slurm.conf: Gres=gpu:TYPE:N, and gres.conf: Type=TYPE there; then restart slurmd there, then \
                   slurmctld; or give these QOSes a limit on gres/gpu";
        Finding::wrong("Gres", said, fix)
    })
}

/// Limits on types of a GRES that `GovernedGRES` lacks: requests without a type pass them.
fn ungoverned(config: &Config, slurm: &Slurm) -> Option<Finding> {
    let is_there =
        |gres: &str| slurm.nodes.iter().any(|node| node.gres.iter().any(|(name, ..)| name == gres));
    let governs_accounts = config.policy.accounts != GovernedAccounts::Off;
    let qoses = slurm.qoses.ungoverned.iter().map(|(gres, names)| {
        let governed = names.iter().filter(|qos| may_govern(config, qos));
        (gres, governed.map(|qos| format!("QOS {qos}")).collect::<Vec<_>>())
    });
    let accounts = slurm.accounts.ungoverned.iter().filter(|_| governs_accounts);
    let accounts = accounts
        .map(|(gres, names)| (gres, names.iter().map(|name| format!("account {name}")).collect::<Vec<_>>()));
    let mut all: BTreeSet<&str> = BTreeSet::new();
    let mut holders: BTreeSet<String> = BTreeSet::new();
    for (gres, names) in qoses.chain(accounts).filter(|(gres, names)| is_there(gres) && !names.is_empty()) {
        all.insert(gres);
        holders.extend(names);
    }
    (!all.is_empty()).then(|| {
        let tres: Vec<String> = all.iter().map(|gres| format!("gres/{gres}")).collect();
        let said = format!(
            "requests without a type exceed the limits on types of {}: {}",
            listed(&tres),
            listed(&holders.into_iter().collect::<Vec<_>>())
        );
        let governed: Vec<&str> = config.policy.gres.0.iter().map(String::as_str).chain(all).collect();
        let fix =
            format!("gpushare.conf: GovernedGRES={}; or limit all of {}", governed.join(","), listed(&tres));
        Finding::wrong("GovernedGRES", said, fix)
    })
}

/// The nodes that a QOS's jobs can get.
fn nodes_of<'s>(slurm: &'s Slurm, qos: &'s str) -> impl Iterator<Item = &'s Node> {
    let open = slurm.partitions.iter().filter(move |partition| partition.admits(qos));
    open.flat_map(|partition| slurm.nodes_of(&partition.name))
}

/// The GPU types that a QOS's jobs can get and that Slurm counts, spelled as in its database. For others, the check of
/// `AccountingStorageTRES` reports an error.
fn within_reach(slurm: &Slurm, qos: &str) -> BTreeSet<String> {
    let tracked = slurm.settings.list("AccountingStorageTRES");
    let gpus = nodes_of(slurm, qos).flat_map(|node| &node.gres).filter(|(name, ..)| name == "gpu");
    let gres_types = gpus.filter_map(|(_, gres_type, _)| Some(gres_type.as_ref()?.to_ascii_lowercase()));
    let is = |name: &str, gres_type: &String| name.eq_ignore_ascii_case(&format!("gres/gpu:{gres_type}"));
    gres_types.filter(|gres_type| tracked.iter().any(|name| is(name, gres_type))).collect()
}

/// If a partition's QOS has a limit, Slurm ignores the same limit of the job's QOS (seen with 22.05, 24.11 and 26.05),
/// unless that QOS has the flag.
fn partitions(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let mut findings = Vec::new();
    for partition in &slurm.partitions {
        let own = partition.own.as_ref();
        let Some((own, its)) = own.and_then(|own| slurm.qoses.typed.get_key_value(own)) else { continue };
        let (mut names, mut limits) = (Vec::new(), BTreeSet::new());
        for (qos, typed) in &slurm.qoses.typed {
            let replaced =
                !slurm.qoses.over_partition.contains(qos) && !typed.limits.is_disjoint(&its.limits);
            if replaced && qos != own && may_govern(config, qos) && partition.admits(qos) {
                names.push(qos.as_str());
                limits.extend(typed.limits.intersection(&its.limits).map(String::as_str));
            }
        }
        if !names.is_empty() {
            let said = format!(
                "partition {} has QOS {own}, whose {} replaces the same limit of QOS {}",
                partition.name,
                limits.into_iter().collect::<Vec<_>>().join(", "),
                listed(&names)
            );
            // A QOS with a line in gpushare.conf loses values that are set by hand.
            let by_hand =
                format!("sacctmgr modify qos where name={} set Flags+=OverPartQOS", names.join(","));
            let fix = format!("{by_hand}; for QOSes in gpushare.conf Flags=OverPartQOS there");
            findings.push(Finding::wrong("GovernedPartitions", said, fix));
        }
    }
    findings
}

/// If slurm.conf names no type for a node's mps or shard, slurmd adds the types of its GPUs. Then Slurm gives requests
/// for a type what they ask for, and tests each against limits on the type, but counts no running job there (seen with
/// 22.05, 24.11 and 26.05).
fn uncounted(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let of_accounts = slurm.accounts.tres_of(config).filter(|tres| slurm.accounts.of_several.contains(*tres));
    let limited: BTreeSet<&str> =
        slurm.qoses.of_several.iter().map(String::as_str).chain(of_accounts).collect();
    let tracked = slurm.settings.list("AccountingStorageTRES");
    let mut open: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for node in &slurm.nodes {
        let counts = |tres: &str| node.configured.iter().any(|(name, _)| name.eq_ignore_ascii_case(tres));
        for (gres, gres_type, _) in &node.gres {
            // CfgTRES lacks types with capitals, and types of gpu, also where Slurm counts what runs.
            let lower = |name: &&String| gres != "gpu" && **name == name.to_ascii_lowercase();
            let Some(gres_type) = gres_type.as_ref().filter(lower) else { continue };
            let tres = format!("gres/{gres}:{gres_type}");
            let is_tracked = tracked.iter().any(|name| name.eq_ignore_ascii_case(&tres));
            let is_limited = is_tracked && limited.contains(tres.as_str());
            if is_limited && counts(&format!("gres/{gres}")) && !counts(&tres) {
                open.entry((gres.as_str(), gres_type.as_str())).or_default().insert(node.name.clone());
            }
        }
    }
    let finding = |((gres, gres_type), nodes): ((&str, &str), BTreeSet<String>)| {
        let nodes: Vec<String> = nodes.into_iter().collect();
        let said = format!(
            "limits on gres/{gres}:{gres_type} don't count what runs on {}: slurm.conf names no type of {gres} there",
            listed(&nodes)
        );
        let fix = format!(
            "slurm.conf: Gres=…,{gres}:{gres_type}:N, not {gres}:N, and for nodes with several types gres.conf: Type= \
             and File= in each {gres} line; then restart slurmd there, then slurmctld"
        );
        Finding::wrong("Gres", said, fix)
    };
    open.into_iter().map(finding).collect()
}

/// With one of these flags, jobs that a rule lets pass because of their reservation start without it: those that still
/// wait at its end, or at any time and on any node. Slurm asks no plugin.
fn reservations<'s>(config: &'s Config, slurm: &'s Slurm) -> impl Iterator<Item = Finding> + 's {
    let policy = &config.policy;
    let is_exempt = |name: &[u8]| policy.exempt.reservations.match_name(name, Case::Counts);
    let has_shares = |name: &[u8]| policy.shares.reservations.occur_in(name, Case::Counts);
    // An update takes FLEX away, but not the other one (Slurm: `update_resv`).
    let flags = [
        ("NO_HOLD_JOBS_AFTER", "NO_HOLD_JOBS_AFTER_END: jobs that wait in it start after its end", false),
        ("FLEX", "FLEX: its jobs start before it begins, and on other nodes", true),
    ];
    flags.into_iter().flat_map(move |(flag, what, is_updated)| {
        let has = |one: &String| one.to_ascii_uppercase().starts_with(flag);
        let wrong = |key: &'static str, of: &dyn Fn(&[u8]) -> bool| {
            let all = slurm.reservations.iter();
            let all = all.filter(|one| of(one.name.as_bytes()) && one.flags.iter().any(has));
            let names: Vec<String> = all.map(|one| one.name.clone()).collect();
            let said = format!("{} has {what}, and pass as if they were in it", listed(&names));
            let update = |name: &String| format!("scontrol update reservationname={name} flags-={flag}");
            let fix = if is_updated {
                names.iter().map(update).collect::<Vec<_>>().join("; ")
            } else {
                "no update takes that flag away: hold the jobs that wait in it; when none runs in it, delete it and \
                 make it again without the flag"
                    .to_owned()
            };
            (!names.is_empty()).then(|| Finding::wrong(key, said, fix))
        };
        [wrong("ExemptReservations", &is_exempt), wrong("ShareReservations", &has_shares)]
            .into_iter()
            .flatten()
    })
}

#[cfg(test)]
mod tests;
