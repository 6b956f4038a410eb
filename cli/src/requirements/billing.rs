//! `GpuWeight` against the partitions: Slurm has it as `TRESBillingWeights`, a setting of each partition.

use gpushare::config::Config;

use crate::slurm::{Partition, Slurm};

/// A partition that has GPUs, and what it must bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    /// Its name.
    pub partition: String,
    /// It bills so already.
    pub met: bool,
    /// `TRESBillingWeights=…`: what it bills besides GPUs stays.
    pub line: String,
}

/// Every partition that has nodes with GPUs; of a cluster that there isn't yet, `DEFAULT`. Nothing if gpushare.conf
/// has no weights.
pub fn billing(config: &Config, slurm: &Slurm) -> Vec<Bill> {
    let weights: Vec<String> = config.gpu_weights.iter().map(ToString::to_string).collect();
    if weights.is_empty() {
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
    // The sum over the types would count a second time.
    let of_gpus = |word: &String| {
        let name = word.split('=').next().unwrap_or_default().to_ascii_lowercase();
        name == "gres/gpu" || name.starts_with("gres/gpu:")
    };
    let (now, others): (Vec<String>, Vec<String>) = partition.billing.iter().cloned().partition(of_gpus);
    let line = format!("TRESBillingWeights={}", [others.as_slice(), weights].concat().join(","));
    Bill { partition: partition.name.clone(), met: normal(&now) == normal(weights), line }
}

/// In small letters, with numbers as numbers, in order.
fn normal(words: &[String]) -> Vec<(String, Option<u64>)> {
    let mut normal: Vec<(String, Option<u64>)> = words
        .iter()
        .map(|word| {
            let (name, number) = word.split_once('=').unwrap_or((word, ""));
            (name.to_ascii_lowercase(), gpushare::config::qos::value::factor(number))
        })
        .collect();
    normal.sort();
    normal
}
