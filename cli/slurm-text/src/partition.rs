//! Partitions, from `scontrol -o show partition`.

use std::collections::HashMap;

use crate::Question;

/// Asks for all partitions.
pub const PARTITIONS: Question = ("scontrol", &["-a", "-o", "show", "partition"]);

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its own QOS, in lowercase as in the database.
    pub qos: Option<String>,
    /// Whether every job gets whole nodes.
    pub whole_nodes: bool,
    /// Whether `TRESBillingWeights` names a type of a GRES, so that Slurm learns a job's bill only at its start.
    pub bills_types: bool,
}

/// Reads all partitions, by name.
pub fn read(text: &str) -> HashMap<String, Partition> {
    let partition = |line: &str| {
        let name = crate::word(line, "PartitionName")?.to_owned();
        let qos = crate::word(line, "QoS").filter(|qos| !["N/A", "(null)"].contains(qos));
        let weights = crate::word(line, "TRESBillingWeights").unwrap_or_default().to_ascii_lowercase();
        let bills_types =
            weights.split(',').any(|weight| weight.starts_with("gres/") && weight.contains(':'));
        let whole_nodes = crate::word(line, "OverSubscribe") == Some("EXCLUSIVE");
        Some((name, Partition { qos: qos.map(str::to_ascii_lowercase), whole_nodes, bills_types }))
    };
    text.lines().filter_map(partition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_its_qos_and_how_it_bills() {
        let found = read(
            "PartitionName=p AllowQos=ALL QoS=N/A OverSubscribe=NO\nPartitionName=q QoS=Big OverSubscribe=EXCLUSIVE \
             TRESBillingWeights=CPU=1.0,GRES/gpu:a40=2\nPartitionName=r TRESBillingWeights=GRES/gpu=2\nNo partitions\n",
        );
        assert_eq!(found.len(), 3);
        assert_eq!(found["p"], Partition::default());
        assert_eq!(
            found["q"],
            Partition { qos: Some("big".to_owned()), whole_nodes: true, bills_types: true }
        );
        assert!(!found["r"].bills_types);
    }
}
