//! What gpushare.conf needs of partitions, whose lines belong to the site: `TRESBillingWeights` for `GpuWeight`, and
//! `LLN` where Slurm chooses a share's node and gpushare its GPU.

use std::collections::BTreeSet;

use gpushare_machine::config::Config;
use gpushare_node::config::Placement;
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
    /// Shares whose GPUs' type Slurm can't tell, and which have no weight yet.
    pub unknown: bool,
}

/// Every partition that has nodes with GPUs or shares; for a cluster that doesn't exist yet, `DEFAULT`. Empty if
/// gpushare.conf has no weights.
pub fn billing(config: &Config, slurm: &Slurm) -> Vec<Bill> {
    if config.gpu_weights.is_empty() || !slurm.has_accounting() {
        return Vec::new();
    }
    if slurm.partitions.is_empty() {
        let all = Partition { name: "DEFAULT".to_owned(), ..Partition::default() };
        let unit = config.places_anywhere().then(|| sole_unit(config)).flatten();
        let bill = bill(config, &all, true, &unit.into_iter().collect());
        return vec![Bill { unknown: config.places_anywhere() && unit.is_none(), ..bill }];
    }
    let bill = |partition: &Partition| {
        let nodes: Vec<&Node> = slurm.nodes_of(&partition.name).collect();
        let has = |name: &str| nodes.iter().any(|node| node.has(name));
        let shares = nodes.iter().filter(|node| node.has(&config.node.share_gres));
        let units: BTreeSet<Option<u64>> = shares.map(|node| unit(config, node)).collect();
        let billed = has("gpu") || units.iter().any(Option::is_some);
        let known: BTreeSet<u64> = units.iter().copied().flatten().collect();
        let unknown = units.contains(&None) && known.is_empty() && config.places_anywhere();
        (billed || unknown).then(|| {
            let bill = bill(config, partition, has("gpu"), &known);
            let weighed = partition.billing.iter().any(|word| is_of(word, &config.node.share_gres));
            Bill { unknown: unknown && !weighed, ..bill }
        })
    };
    slurm.partitions.iter().filter_map(bill).collect()
}

/// A partition has one weight for all units in it, so the dearest counts.
fn bill(config: &Config, partition: &Partition, has_gpus: bool, units: &BTreeSet<u64>) -> Bill {
    let gres = &config.node.share_gres;
    let mut weights: Vec<String> = Vec::new();
    if has_gpus {
        weights.extend(config.gpu_weights.iter().map(ToString::to_string));
    }
    weights.extend(units.last().map(|millionths| format!("GRES/{gres}={}", decimal(*millionths))));
    // A weight for the sum over the types would count each GPU twice.
    let is_ours = |word: &String| has_gpus && is_of(word, "gpu") || !units.is_empty() && is_of(word, gres);
    let (now, others): (Vec<String>, Vec<String>) = partition.billing.iter().cloned().partition(is_ours);
    let line = format!("TRESBillingWeights={}", [others.as_slice(), &weights].concat().join(","));
    Bill { partition: partition.name.clone(), met: normal(&now) == normal(&weights), line, unknown: false }
}

/// Whether a weight is one of this GRES or of a type of it.
fn is_of(word: &str, gres: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default().to_ascii_lowercase();
    name.strip_prefix("gres/").is_some_and(|name| name.split(':').next() == Some(gres))
}

/// What a unit of a share weighs on this node, in millionths: a GPU's weight, divided by the units that fill it. If
/// GPUs differ, the dearest unit counts. `None` if Slurm can't tell the GPUs' types.
fn unit(config: &Config, node: &Node) -> Option<u64> {
    let units = config.of_node(&node.name).units_per_gpu.as_ref()?;
    let weight = |gres_type: &str| {
        config.gpu_weights.iter().find(|weight| weight.gres_type.eq_ignore_ascii_case(gres_type))
    };
    let of = |weight: &GpuWeight, units: u32| weight.millionths.checked_div(units.into());
    let each = node.gres.iter().filter(|(name, ..)| name == "gpu");
    let each = each.flat_map(|(_, gres_type, count)| (0..*count).map(move |_| gres_type.as_deref()));
    let of_gpus = (0..)
        .zip(each)
        .filter_map(|(index, gres_type)| of(weight(gres_type?)?, units.of_gpu(index, gres_type, None)));
    let of_shares = node.gres.iter().filter(|(name, ..)| *name == config.node.share_gres);
    let of_shares = of_shares.filter_map(|(_, gres_type, _)| {
        let gres_type = gres_type.as_deref()?;
        // A list is by index.
        let units =
            if units.listed().is_some() { units.most() } else { units.of_gpu(0, Some(gres_type), None) };
        of(weight(gres_type)?, units)
    });
    of_gpus.max().or_else(|| of_shares.max()).or_else(|| sole_unit(config).filter(|_| !node.has("gpu")))
}

/// The same where all GPUs are of one type.
fn sole_unit(config: &Config) -> Option<u64> {
    let [weight] = config.gpu_weights.as_slice() else { return None };
    let units = config.every_node().filter_map(|node| node.units_per_gpu.as_ref());
    weight.millionths.checked_div(units.map(|units| units.most()).min()?.into())
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
/// share of a full node then finds no GPU with enough units, while other nodes are empty. `LLN=YES` prevents that.
pub fn filled_in_order<'s>(config: &Config, slurm: &'s Slurm) -> Vec<&'s str> {
    if slurm.settings.has("SelectTypeParameters", "CR_LLN") {
        return Vec::new();
    }
    let gpushare_chooses = |node: &&Node| {
        let placement = config.of_node(&node.name).placement;
        matches!(placement, Placement::Own | Placement::Override) && node.has(&config.node.share_gres)
    };
    let several = |partition: &&Partition| {
        !partition.least_loaded && slurm.nodes_of(&partition.name).filter(gpushare_chooses).nth(1).is_some()
    };
    slurm.partitions.iter().filter(several).map(|partition| partition.name.as_str()).collect()
}

#[cfg(test)]
mod tests;
