//! A job that names no memory gets all that its nodes have, unless Slurm has a default. If jobs' memory is limited,
//! gpushare refuses such a job (GS128), or it uses up its QOS's memory. Pure.

use gpushare::config::Config;

use super::finding::{Finding, listed};
use crate::requirements::limits_memory;
use crate::slurm::Slurm;

/// Nothing if Slurm doesn't count memory, has a default, or nothing limits it.
pub fn defaults(config: &Config, slurm: &Slurm) -> Option<Finding> {
    let counted = slurm.settings.get("SelectTypeParameters").to_ascii_uppercase().contains("_MEMORY");
    if !counted || slurm.settings.gives_memory() {
        return None;
    }
    let finding = |effect: &str| {
        let said = format!(
            "neither DefMemPerCPU, DefMemPerNode nor DefMemPerGPU is set: a job with GPUs that names no memory {effect}"
        );
        Some(Finding::unknown("DefMemPerGPU", said))
    };
    // The plugin looks at slurm.conf's own defaults alone, not at a partition's.
    let policy = &config.policy;
    let of_qoses = policy.records.iter().map(|record| &record.caps);
    let of_partitions = policy.partition_records.iter().map(|record| &record.caps);
    if of_qoses.chain(of_partitions).chain([&policy.caps]).any(|caps| caps.mem.is_some()) {
        return finding("is refused where MaxMemPerGpu holds (GS128)");
    }
    if !limits_memory(config) {
        return None;
    }
    let has_gpus = |name: &String| {
        let mut nodes = slurm.nodes.iter().filter(|node| node.partitions.contains(name));
        nodes.any(|node| node.gres.iter().any(|(gres, ..)| gres == "gpu" || *gres == config.node.share_gres))
    };
    let open =
        slurm.partitions.iter().filter(|partition| !partition.gives_memory && has_gpus(&partition.name));
    let names: Vec<String> = open.map(|partition| partition.name.clone()).collect();
    if names.is_empty() {
        return None;
    }
    finding(&format!(
        "gets all of its nodes' in partition {}, and counts as that against Mem= of its QOS",
        listed(&names)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Status;
    use crate::slurm::{self, Settings};

    const COUNTED: &str = "SelectTypeParameters = CR_CORE_MEMORY\n";

    fn said(rules: &str, settings: &str, partitions: [&str; 2]) -> Option<String> {
        let partition = |name, more: &str| slurm::partition(&format!("PartitionName={name} {more}"));
        let [gpu, cpu] = partitions;
        let slurm = Slurm {
            settings: Settings::parse(settings),
            nodes: ["NodeName=n1 Gres=gpu:a40:4 Partitions=gpu", "NodeName=n2 Gres=(null) Partitions=cpu"]
                .into_iter()
                .filter_map(slurm::node)
                .collect(),
            partitions: [partition("gpu", gpu), partition("cpu", cpu)].into_iter().flatten().collect(),
            ..Slurm::default()
        };
        let found = defaults(&Config::parse(rules).unwrap(), &slurm)?;
        assert_eq!((found.about, found.status), ("DefMemPerGPU", Status::Unknown));
        Some(found.said)
    }

    #[test]
    fn a_quota_of_memory_needs_a_default_where_there_are_gpus() {
        let quota = "QOS=x GPUs=a40:4 Mem=100G";
        let none = "JobDefaults=(null) DefMemPerNode=UNLIMITED";
        let shown = said(quota, COUNTED, [none, none]).unwrap();
        assert!(shown.contains("in partition gpu, and counts"), "{shown}");
        for (rules, settings, partition) in [
            ("QOS=x GPUs=a40:4", COUNTED, none),
            (quota, "SelectTypeParameters = CR_CORE", none),
            (quota, &format!("{COUNTED}DefMemPerCPU = 4000"), none),
            (quota, &format!("{COUNTED}DefMemPerNode = 4000"), none),
            (quota, &format!("{COUNTED}JobDefaults = DefCpuPerGPU=2,DefMemPerGPU=4000"), none),
            (quota, COUNTED, "DefMemPerCPU=4000"),
            (quota, COUNTED, "DefMemPerNode=4000"),
            (quota, COUNTED, "JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=4000"),
        ] {
            assert_eq!(said(rules, settings, [partition, none]), None, "{rules} {settings} {partition}");
        }
        let unlimited = format!("{COUNTED}DefMemPerNode = UNLIMITED\nJobDefaults = DefCpuPerGPU=2");
        assert!(said(quota, &unlimited, ["JobDefaults=DefCpuPerGPU=2", none]).is_some());
    }

    #[test]
    fn a_cap_on_memory_needs_a_default_of_slurm_conf() {
        let of_partition = "DefMemPerCPU=4000";
        for cap in
            ["MaxMemPerGpu=a40:8G", "PartitionName=gpu MaxMemPerGpu=8G", "QOS=x GPUs=a40:4 MaxMemPerGpu=8G"]
        {
            let shown = said(cap, COUNTED, [of_partition; 2]).unwrap();
            assert!(shown.ends_with("(GS128)"), "{shown}");
            assert_eq!(said(cap, &format!("{COUNTED}DefMemPerCPU = 4000"), [""; 2]), None, "{cap}");
        }
        assert_eq!(said("MaxCPUsPerGpu=4", COUNTED, [""; 2]), None);
    }
}
