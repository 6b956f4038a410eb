//! GRES and types of GPUs in gpushare.conf: those that no node has, and those that nodes spell otherwise. Slurm's
//! database has types in small letters, but finds nodes by their own spelling. Pure.

use std::collections::BTreeMap;

use gpushare::submit::policy::Caps;
use gpushare::text::pattern::Case;
use gpushare_node::config::UnitsPerGpu;

use super::{Finding, Kind, Loss, may_govern, meant};
use crate::slurm::qoses::Typed;
use crate::slurm::{Node, Slurm};
use gpushare_machine::config::Config;

/// The findings.
pub fn findings(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let all = slurm.nodes.iter().flat_map(|node| &node.gres).filter(|(name, ..)| name == "gpu");
    let all: Vec<Option<&str>> = all.map(|(_, gres_type, _)| gres_type.as_deref()).collect();
    let known: Vec<&str> = all.iter().copied().flatten().collect();
    // A type that is no node's may be one of later, or of GPUs that slurmd finds without a type.
    let some_untyped = all.contains(&None);
    let mut keys: BTreeMap<(&'static str, bool), Vec<&str>> = BTreeMap::new();
    for (key, gres_type) in named(config) {
        let is_near = !some_untyped && meant(gres_type, &known).is_some();
        let types = keys.entry((key, is_near)).or_default();
        let is_known = known.iter().any(|known| known.eq_ignore_ascii_case(gres_type));
        let is_new = !types.iter().any(|known: &&str| known.eq_ignore_ascii_case(gres_type));
        if !is_known && is_new {
            types.push(gres_type);
        }
    }
    let kind = Kind { word: "node has GPUs of type", names: known.clone(), case: Case::Ignored };
    let finding = |((about, is_near), types): ((&'static str, bool), Vec<&str>)| {
        kind.without(about, &types, if is_near { Loss::Rule } else { Loss::Nothing })
    };
    let mut findings: Vec<Finding> = keys.into_iter().filter_map(finding).collect();
    findings.extend(spelling(config, slurm, &known));
    findings.extend(gres(config, slurm));
    findings
}

/// `GovernedGRES` and `MemoryGRES`: a rule for a GRES that Slurm doesn't know applies to nothing, and one that nodes
/// have can't stand for memory.
fn gres(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let mut known = slurm.settings.list("GresTypes");
    known.extend(slurm.nodes.iter().flat_map(|node| &node.gres).map(|(name, ..)| name.as_str()));
    // Without GovernedGRES these are governed, whatever the cluster has.
    known.extend(["gpu", "mps", "shard", &config.node.share_gres]);
    let unknown: Vec<&str> =
        config.policy.gres.0.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    let kind = Kind { word: "GRES", names: known, case: Case::Counts };
    let mut findings: Vec<Finding> = kind.without("GovernedGRES", &unknown, Loss::Rule).into_iter().collect();
    let by_memory = config.policy.memory_gres.as_deref();
    let has = |node: &&Node| node.gres.iter().any(|(name, ..)| by_memory == Some(name));
    if let (Some(name), Some(node)) = (by_memory, slurm.nodes.iter().find(has)) {
        let lost = "requests for it become shares, so no job gets it";
        let said = format!("node {} has gres/{name}: {lost}", node.name);
        let fix = "gpushare.conf: MemoryGRES with a name that no node has; then the same name in GresTypes of \
                   slurm.conf";
        findings.push(Finding::wrong("MemoryGRES", said, fix));
    }
    findings
}

/// Each key with its types. `GPUs` has its own check (`gpushare_qos::check`).
fn named(config: &Config) -> impl Iterator<Item = (&'static str, &str)> {
    let policy = &config.policy;
    let caps = std::iter::once(&policy.caps)
        .chain(policy.records.iter().map(|record| &record.caps))
        .chain(policy.partition_records.iter().map(|record| &record.caps));
    let caps = caps.flat_map(|Caps { cpus, mem }| [("MaxCPUsPerGpu", cpus), ("MaxMemPerGpu", mem)]);
    let caps =
        caps.flat_map(|(key, cap)| cap.iter().flat_map(|cap| &cap.types).map(move |one| (key, &*one.0)));
    let units = config.every_node().flat_map(|node| match &node.units_per_gpu {
        Some(UnitsPerGpu::ByType(types)) => types.as_slice(),
        _ => &[],
    });
    let units = units.map(|(gres_type, _)| ("UnitsPerGpu", gres_type.as_str()));
    let weights = config.gpu_weights.iter().map(|weight| ("GpuWeight", weight.gres_type.as_str()));
    let defaults =
        policy.records.iter().filter_map(|record| Some(("DefaultType", record.default_type.as_deref()?)));
    caps.chain(units).chain(weights).chain(defaults)
}

/// What gpushare would tell a user to write, and Slurm would refuse: `gpu:h100`, where nodes have `Type=H100`.
fn spelling(config: &Config, slurm: &Slurm, known: &[&str]) -> Option<Finding> {
    let mut said: Vec<String> = Vec::new();
    let mut fixes: Vec<String> = Vec::new();
    let mut types: Vec<&str> = known.to_vec();
    types.sort_unstable();
    types.dedup();
    for gres_type in &types {
        let is_same = |other: &&&str| other.eq_ignore_ascii_case(gres_type) && other != &gres_type;
        if types.iter().any(|other| is_same(&other)) {
            continue;
        }
        match config.policy.types.iter().find(|written| written.eq_ignore_ascii_case(gres_type)) {
            Some(written) if written == gres_type => {}
            Some(written) => {
                said.push(format!("nodes spell '{gres_type}', gpushare.conf '{written}'"));
                fixes.push(format!("{gres_type} instead of {written}"));
            }
            None if gres_type.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                let lowercase = gres_type.to_ascii_lowercase();
                let limited = slurm.qoses.typed.iter();
                let may = |typed: &Typed| {
                    typed.gres_types.contains(&lowercase) && !typed.none_of.contains(&lowercase)
                };
                let limited = limited.filter(|(qos, typed)| may_govern(config, qos) && may(typed));
                // Of several types none is the default.
                let (one, more): (Vec<_>, Vec<_>) = limited.partition(|(_, typed)| typed.only().is_some());
                if !one.is_empty() {
                    let names: Vec<&str> = one.iter().map(|(qos, _)| qos.as_str()).collect();
                    fixes.push(format!("QOS={} DefaultType={gres_type}", names.join(",")));
                } else if !more.is_empty() {
                    fixes.push(format!("spell it {gres_type} in GpuWeight=, or in GPUs= of a QOS= line"));
                }
                if !one.is_empty() || !more.is_empty() {
                    said.push(format!("nodes spell '{gres_type}', limits '{lowercase}'"));
                }
            }
            None => {}
        }
    }
    let what = "Slurm refuses requests that gpushare writes or advises";
    let (all, fix) = (format!("{}: {what}", said.join("; ")), format!("gpushare.conf: {}", fixes.join("; ")));
    (!said.is_empty()).then(|| Finding::wrong("GPU types", all, fix))
}
