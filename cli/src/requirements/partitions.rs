//! What gpushare.conf needs of partitions, whose lines belong to the site: `TRESBillingWeights` for `GpuWeight`, and
//! `LLN` where Slurm chooses a share's node and gpushare its GPU.

use std::collections::BTreeSet;

use gpushare_machine::config::Config;
use gpushare_node::config::{NodeConfig, Placement, UnitsPerGpu, units as units_of};
use gpushare_qos::config::GpuWeight;
use gpushare_qos::config::value::{decimal, factor};

use crate::slurm::{Node, Partition, Slurm};

/// A partition with GPUs or shares, and what it must bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    /// Its name.
    pub partition: String,
    /// Whether it already bills in this way.
    pub met: bool,
    /// `TRESBillingWeights=…`; keeps what it bills besides GPUs and shares.
    pub line: String,
    /// Whether it has shares of GPUs whose weight can't be told, and none of the site's for them.
    pub unknown: bool,
}

/// Every partition that has nodes with GPUs, or with shares that gpushare knows of; for a cluster that doesn't exist
/// yet, `DEFAULT`. Empty if gpushare.conf has no weights.
pub fn billing(config: &Config, slurm: &Slurm) -> Vec<Bill> {
    if config.gpu_weights.is_empty() || !slurm.has_accounting() {
        return Vec::new();
    }
    if slurm.partitions.is_empty() {
        let all = Partition { name: "DEFAULT".to_owned(), ..Partition::default() };
        let placing = config.every_node().filter(|node| node.placement != Placement::Off);
        let units: BTreeSet<Option<u64>> = placing.map(|node| sole_unit(config, node)).collect();
        return bill(config, &all, true, &units).into_iter().collect();
    }
    let bill = |partition: &Partition| {
        let nodes: Vec<&Node> = slurm.nodes_of(&partition.name).collect();
        let has_gpus = nodes.iter().any(|node| node.has("gpu"));
        let places = |node: &&&Node| {
            node.has(&config.node.share_gres) && config.of_node(&node.name).placement != Placement::Off
        };
        let units: BTreeSet<Option<u64>> =
            nodes.iter().filter(places).map(|node| unit(config, node)).collect();
        bill(config, partition, has_gpus, &units)
    };
    slurm.partitions.iter().filter_map(bill).collect()
}

/// `units`: what a unit weighs on each node with shares, in millionths. A partition has one weight for all of them, so
/// the dearest counts. Weights of shares by their type are the site's. `None` if there is nothing to say.
fn bill(config: &Config, partition: &Partition, gpus: bool, units: &BTreeSet<Option<u64>>) -> Option<Bill> {
    let gres = config.node.share_gres.as_str();
    let of_shares = || partition.billing.iter().filter(|word| is_of(word, gres));
    let is_typed = |word: &String| name(word).contains(':');
    let by_type = of_shares().next().is_some() && of_shares().all(is_typed);
    let unit = units.iter().copied().flatten().max().filter(|_| !by_type);
    let is_paid = |word: &String| factor(word.split('=').nth(1).unwrap_or_default()).unwrap_or(0) > 0;
    let unknown = units.contains(&None) && !of_shares().any(is_paid);
    let mut weights: Vec<String> = Vec::new();
    if gpus {
        weights.extend(config.gpu_weights.iter().map(ToString::to_string));
    }
    weights.extend(unit.map(|millionths| format!("GRES/{gres}={}", decimal(millionths))));
    // A weight for the sum over the types would count each GPU twice.
    let is_ours = |word: &String| gpus && is_of(word, "gpu") || unit.is_some() && is_of(word, gres);
    let (now, others): (Vec<String>, Vec<String>) = partition.billing.iter().cloned().partition(is_ours);
    let line = format!("TRESBillingWeights={}", [others.as_slice(), &weights].concat().join(","));
    let met = normal(&now) == normal(&weights);
    (unknown || !weights.is_empty()).then(|| Bill { partition: partition.name.clone(), met, line, unknown })
}

/// The TRES of a weight, in lowercase.
fn name(word: &str) -> String {
    word.split('=').next().unwrap_or_default().to_ascii_lowercase()
}

/// Whether a weight is one of this GRES or of a type of it.
fn is_of(word: &str, gres: &str) -> bool {
    let name = name(word);
    let found = name.strip_prefix("gres/").and_then(|name| name.split(':').next());
    found.is_some_and(|found| found.eq_ignore_ascii_case(gres))
}

/// What a unit of a share weighs on this node, in millionths: a GPU's weight, divided by the units that fill it. If
/// GPUs differ, the dearest unit counts. `None` if the types of its GPUs, or their weights, can't be told.
fn unit(config: &Config, node: &Node) -> Option<u64> {
    let settings = config.of_node(&node.name);
    let units = settings.units_per_gpu.as_ref()?;
    let types_of = |gres: &str| -> BTreeSet<Option<String>> {
        let found = node.gres.iter().filter(|(name, _, count)| name == gres && *count > 0);
        found.map(|(_, gres_type, _)| gres_type.as_ref().map(|name| name.to_ascii_lowercase())).collect()
    };
    let mut types = types_of("gpu");
    if types.is_empty() {
        types = types_of(&settings.share_gres);
    }
    match types.iter().flatten().collect::<Vec<_>>().as_slice() {
        [] => sole_unit(config, settings),
        // Slurm doesn't say which entry of the list is for which type.
        [_, _, ..] if units_of::listed(units).is_some() => None,
        // A GPU that takes no share has no units.
        types => {
            types.iter().filter_map(|name| weight(config, name)).filter_map(|one| part(one, units)).max()
        }
    }
}

/// The same where there is only one weight, and no type.
fn sole_unit(config: &Config, node: &NodeConfig) -> Option<u64> {
    let [weight] = config.gpu_weights.as_slice() else { return None };
    part(weight, node.units_per_gpu.as_ref()?)
}

fn weight<'c>(config: &'c Config, gres_type: &str) -> Option<&'c GpuWeight> {
    config.gpu_weights.iter().find(|weight| weight.gres_type.eq_ignore_ascii_case(gres_type))
}

/// A unit's part of a GPU's weight. Rounded up, since Slurm rounds the sum down; `None` if the type takes no share.
fn part(weight: &GpuWeight, units: &UnitsPerGpu) -> Option<u64> {
    let units = match units {
        UnitsPerGpu::ByIndex(list) => list.iter().copied().filter(|units| *units > 0).min()?,
        _ => units_of::of_gpu(units, 0, Some(&weight.gres_type), None),
    };
    (units > 0).then(|| weight.millionths.div_ceil(units.into()))
}

/// The words in lowercase, with parsed numbers, sorted.
fn normal(words: &[String]) -> Vec<(String, Option<u64>)> {
    let mut normal: Vec<(String, Option<u64>)> = words
        .iter()
        .map(|word| {
            let (name, number) = word.split_once('=').unwrap_or((word, ""));
            (name.to_ascii_lowercase(), factor(number))
        })
        .collect();
    normal.sort();
    normal
}

/// Partitions in which Slurm, which only counts units, fills one node with shares before it begins the next: the last
/// share of a full node then finds no GPU with enough units, while other nodes are empty. With `LLN=YES`, nodes of the
/// same `Weight` take turns by their idle CPUs.
pub fn filled_in_order<'s>(config: &Config, slurm: &'s Slurm) -> Vec<&'s str> {
    if slurm.settings.has("SelectTypeParameters", "CR_LLN") {
        return Vec::new();
    }
    // On a node with one GPU, a unit that is free is free on that GPU.
    let has_several = |node: &&Node| {
        let settings = config.of_node(&node.name);
        let fills = settings.units_per_gpu.as_ref().map_or(0, UnitsPerGpu::most);
        matches!(settings.placement, Placement::Own | Placement::Override)
            && node.count(&settings.share_gres) > u64::from(fills)
    };
    let is_filled = |partition: &&Partition| {
        !partition.least_loaded
            && !partition.whole_nodes
            && slurm.nodes_of(&partition.name).filter(has_several).nth(1).is_some()
    };
    slurm.partitions.iter().filter(is_filled).map(|partition| partition.name.as_str()).collect()
}

#[cfg(test)]
mod tests;
