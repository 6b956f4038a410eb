//! A job that requests no memory gets all that its nodes have, unless Slurm has a default. If jobs' memory is limited,
//! gpushare refuses such a job (GS128), or it uses up its QOS's memory. Pure.

use gpushare_machine::config::Config;

use super::finding::{Finding, listed};
use crate::requirements::limits_memory;
use crate::slurm::{Partition, Slurm};

/// `None` if Slurm doesn't count memory, if nothing limits it, or if every partition with GPUs or shares has a default.
pub fn defaults(config: &Config, slurm: &Slurm) -> Option<Finding> {
    if !slurm.settings.get("SelectTypeParameters").to_ascii_uppercase().contains("_MEMORY") {
        return None;
    }
    let policy = &config.policy;
    let of_qoses = policy.records.iter().map(|record| &record.caps);
    let of_partitions = policy.partition_records.iter().map(|record| &record.caps);
    let is_capped = of_qoses.chain(of_partitions).chain([&policy.caps]).any(|caps| caps.mem.is_some());
    if !(is_capped || slurm.has_accounting() && limits_memory(config)) {
        return None;
    }
    let conf = slurm.settings.default_memory();
    let has = |partition: &Partition, gres: &str| slurm.nodes_of(&partition.name).any(|node| node.has(gres));
    let is_open = |partition: &&Partition| {
        let memory = partition.memory.over(conf);
        let gpus = has(partition, "gpu") && !memory.is_given(true);
        gpus || has(partition, &config.node.share_gres) && !memory.is_given(false)
    };
    let open: Vec<&Partition> = slurm.partitions.iter().filter(is_open).collect();
    let names: Vec<&String> = open.iter().map(|partition| &partition.name).collect();
    if names.is_empty() {
        return None;
    }
    let effect = match is_capped {
        true => "is refused where MaxMemPerGpu applies (GS128)",
        false => "gets all memory of its nodes, which counts against Mem= of its QOS",
    };
    let missing = match open.iter().all(|one| one.memory.over(conf).is_given(true)) {
        true => {
            "DefMemPerGPU gives no memory to a job with a share, and neither DefMemPerCPU nor DefMemPerNode is set"
        }
        false => "neither DefMemPerCPU, DefMemPerNode nor DefMemPerGPU is set",
    };
    let place = format!("in partition {} a job with GPUs that names no memory", listed(&names));
    Some(Finding::unknown("DefMemPerGPU", format!("{missing}: {place} {effect}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Status;
    use crate::slurm::{self, Settings};

    const COUNTED: &str = "SelectTypeParameters = CR_CORE_MEMORY\n";

    fn said(rules: &str, settings: &str, partitions: [&str; 2]) -> Option<String> {
        said_on("gpu:a40:4", rules, settings, partitions)
    }

    fn said_on(gres: &str, rules: &str, settings: &str, partitions: [&str; 2]) -> Option<String> {
        let partition = |name, more: &str| slurm::Partition::read(&format!("PartitionName={name} {more}"));
        let [gpu, cpu] = partitions;
        let slurm = Slurm {
            settings: Settings::parse(settings),
            nodes: [
                &format!("NodeName=n1 Gres={gres} Partitions=gpu"),
                "NodeName=n2 Gres=(null) Partitions=cpu",
            ]
            .into_iter()
            .filter_map(slurm::Node::read)
            .collect(),
            partitions: [partition("gpu", gpu), partition("cpu", cpu)].into_iter().flatten().collect(),
            ..Slurm::default()
        };
        let found = defaults(&Config::parse(rules).unwrap(), &slurm)?;
        assert_eq!((&*found.about, found.status), ("DefMemPerGPU", Status::Unknown));
        Some(found.said)
    }

    #[test]
    fn a_quota_of_memory_needs_a_default_where_there_are_gpus() {
        let quota = "QOS=x GPUs=a40:4 Mem=100G";
        let none = "JobDefaults=(null) DefMemPerNode=UNLIMITED";
        let shown = said(quota, COUNTED, [none, none]).unwrap();
        assert!(
            shown.contains("in partition gpu a job")
                && shown.ends_with("which counts against Mem= of its QOS"),
            "{shown}"
        );
        for (rules, settings, partition) in [
            ("QOS=x GPUs=a40:4", COUNTED, none),
            (quota, &format!("{COUNTED}AccountingStorageType = accounting_storage/none"), none),
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
    fn a_cap_on_memory_needs_one_too() {
        let of_partition = "DefMemPerCPU=4000";
        for cap in
            ["MaxMemPerGpu=a40:8G", "PartitionName=gpu MaxMemPerGpu=8G", "QOS=x GPUs=a40:4 MaxMemPerGpu=8G"]
        {
            let shown = said(cap, COUNTED, ["", of_partition]).unwrap();
            assert!(shown.contains("in partition gpu a job") && shown.ends_with("(GS128)"), "{shown}");
            assert_eq!(said(cap, COUNTED, [of_partition, ""]), None, "{cap}");
            assert_eq!(said(cap, &format!("{COUNTED}DefMemPerCPU = 4000"), [""; 2]), None, "{cap}");
        }
        assert_eq!(said("MaxCPUsPerGpu=4", COUNTED, [""; 2]), None);
    }

    #[test]
    fn a_default_for_gpus_is_none_for_shares_and_a_partition_can_take_it_away() {
        let gpus = format!("{COUNTED}JobDefaults = DefMemPerGPU=4000");
        assert_eq!(said("MaxMemPerGpu=8G", &gpus, [""; 2]), None);
        assert!(said("MaxMemPerGpu=8G", &gpus, ["JobDefaults=DefMemPerGPU=0", ""]).is_some());
        let shares = |partition| said_on("gpu:a40:4,mps:400", "MaxMemPerGpu=8G", &gpus, [partition, ""]);
        // The other partition's default doesn't matter.
        let others = ["JobDefaults=DefMemPerGPU=4000", ""];
        let shown = said_on("gpu:a40:4,mps:400", "MaxMemPerGpu=8G", COUNTED, others).unwrap();
        assert!(shown.starts_with("DefMemPerGPU gives no memory to a job with a share"), "{shown}");
        let shown = shares("").unwrap();
        assert!(shown.starts_with("DefMemPerGPU gives no memory to a job with a share"), "{shown}");
        assert_eq!(shares("DefMemPerCPU=4000"), None);
    }
}
