//! Compares `GpuWeight` with the partitions: in Slurm it is `TRESBillingWeights`, a setting of each partition.

use gpushare_machine::config::Config;

use crate::slurm::{Partition, Slurm};

/// A partition with GPUs, and what it must bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    /// Its name.
    pub partition: String,
    /// Whether it already bills in this way.
    pub met: bool,
    /// `TRESBillingWeights=…`; keeps what it bills besides GPUs.
    pub line: String,
}

/// Every partition that has nodes with GPUs; for a cluster that doesn't exist yet, `DEFAULT`. Empty if gpushare.conf
/// has no weights.
pub fn billing(config: &Config, slurm: &Slurm) -> Vec<Bill> {
    let weights: Vec<String> = config.gpu_weights.iter().map(ToString::to_string).collect();
    if weights.is_empty() || !slurm.has_accounting() {
        return Vec::new();
    }
    let with_gpus = |partition: &&Partition| {
        let nodes = slurm.nodes.iter().filter(|node| node.partitions.contains(&partition.name));
        nodes.flat_map(|node| &node.gres).any(|(name, ..)| name == "gpu")
    };
    let all = Partition { name: "DEFAULT".to_owned(), ..Partition::default() };
    let partitions: Vec<&Partition> = if slurm.partitions.is_empty() {
        vec![&all]
    } else {
        slurm.partitions.iter().filter(with_gpus).collect()
    };
    partitions.into_iter().map(|partition| bill(partition, &weights)).collect()
}

fn bill(partition: &Partition, weights: &[String]) -> Bill {
    // A weight for the sum over the types would count each GPU twice.
    let of_gpus = |word: &String| {
        let name = word.split('=').next().unwrap_or_default().to_ascii_lowercase();
        name == "gres/gpu" || name.starts_with("gres/gpu:")
    };
    let (now, others): (Vec<String>, Vec<String>) = partition.billing.iter().cloned().partition(of_gpus);
    let line = format!("TRESBillingWeights={}", [others.as_slice(), weights].concat().join(","));
    Bill { partition: partition.name.clone(), met: normal(&now) == normal(weights), line }
}

/// The words in lowercase, with parsed numbers, sorted.
fn normal(words: &[String]) -> Vec<(String, Option<u64>)> {
    let mut normal: Vec<(String, Option<u64>)> = words
        .iter()
        .map(|word| {
            let (name, number) = word.split_once('=').unwrap_or((word, ""));
            (name.to_ascii_lowercase(), gpushare_qos::config::value::factor(number))
        })
        .collect();
    normal.sort();
    normal
}
