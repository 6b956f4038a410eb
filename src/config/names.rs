//! The names of all keys of gpushare.conf. Each reader declares only its own keys, and must tell the others' from those
//! that nobody knows; a test of the command, which has all sections, compares these lists with theirs.

/// A kind of line that has several settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// `QOS=NAMES …`
    Qos,
    /// `PartitionName=NAMES …`
    Partition,
    /// `NodeName=LIST …`
    Node,
}

/// Keys of lines that are no records, but for those that a `NodeName=` line can have too.
const TOP: &str = "\
    GovernedQOS GovernedPartitions GovernedAccounts GovernedGRES ForeignTypes LimitAdvice Mode \
    ExemptUsers ExemptAccounts ExemptPartitions ExemptReservations ShareReservations ShareSizes \
    ShareOnlyPartitions GpuWeight GpuPartitions MaxCPUsPerGpu MaxMemPerGpu GetUserEnv ShareGRES \
    MemoryGRES RefusalCounts Guard IdleWarn IdleLimit IdleAction IdleGrace IdleExemptUsers";

/// The settings of nodes.
const OF_NODES: &str = "\
    Placement UnitsPerGpu GpuFile Packing UserMix OnCollision FenceDrm VisibleDevices FrameworkEnv \
    MemPerUnit Nvml NvmlTimeout Mps MpsWholeGpus MpsControl MpsDir MpsTimeout OnMpsFailure ComputeMode Overcommit \
    ForeignProcesses JobstatsDir DcgmJobMappingDir";

const OF_PARTITIONS: &str = "MaxCPUsPerGpu MaxMemPerGpu IdleWarn IdleLimit IdleAction IdleGrace";

/// The keys of a `QOS=` line that gpushare itself has.
const OF_QOSES: &str = "\
    Mode DefaultType Requeue OpenMode ArrayTasks ArrayTasksOver MaxCPUsPerGpu MaxMemPerGpu Account Users \
    GPUs CPUs Mem Burst BurstTime BurstGraceTime IdleWarn IdleLimit IdleAction IdleGrace";

/// The settings of a QOS in Slurm's database that a `QOS=` line can have, each with sacctmgr's other names. The last
/// ten are the names of 2009.
const FIELDS: &str = "\
    GrpTRES GrpTRESMins GrpTRESRunMins GrpJobs GrpJobsAccrue GrpSubmitJobs|GrpSubmit GrpWall \
    MaxTRESPerJob|MaxTRES|MaxTRESPJ MaxTRESPerNode|MaxTRESPN MaxTRESMinsPerJob|MaxTRESMins|MaxTRESMinsPJ \
    MaxWallDurationPerJob|MaxWall|MaxWallPJ MaxTRESPerUser|MaxTRESPU MaxJobsPerUser|MaxJobsPU|MaxJobs \
    MaxJobsAccruePerUser|MaxJobsAccruePU MaxSubmitJobsPerUser|MaxSubmitPU|MaxSubmitJobsPU|MaxSubmitJobs \
    MaxTRESRunMinsPerUser|MaxTRESRunMinsPU MaxTRESPerAccount|MaxTRESPA MaxJobsPerAccount|MaxJobsPA \
    MaxJobsAccruePerAccount|MaxJobsAccruePA MaxSubmitJobsPerAccount|MaxSubmitPA|MaxSubmitJobsPA \
    MaxTRESRunMinsPerAccount|MaxTRESRunMinsPA MinTRESPerJob|MinTRES MinPrioThreshold|MinPrioThres \
    Priority Preempt|Preempts PreemptMode PreemptExemptTime GraceTime Flags UsageFactor \
    UsageThreshold|UsageThres LimitFactor GrpCpus GrpCPUMins GrpCPURunMins GrpMemory GrpNodes \
    MaxCpusPerJob MaxCPUMinsPerJob MaxNodesPerJob MaxCpusPerUser MaxNodesPerUser";

impl Record {
    const ALL: [Record; 3] = [Record::Qos, Record::Partition, Record::Node];

    /// The key with which its lines begin.
    pub const fn key(self) -> &'static str {
        match self {
            Record::Qos => "QOS",
            Record::Partition => "PartitionName",
            Record::Node => "NodeName",
        }
    }

    pub(super) fn named(name: &str) -> Option<Record> {
        Record::ALL.into_iter().find(|record| record.key().eq_ignore_ascii_case(name))
    }
}

/// Every key that a line, or a record of a kind, can have; each with its other names after it.
fn keys(record: Option<Record>) -> impl Iterator<Item = &'static str> {
    let (first, lists) = match record {
        None => (None, [TOP, OF_NODES, "QOS PartitionName NodeName"]),
        Some(Record::Node) => (record, [OF_NODES, "", ""]),
        Some(Record::Partition) => (record, [OF_PARTITIONS, "", ""]),
        Some(Record::Qos) => (record, [OF_QOSES, FIELDS, ""]),
    };
    first.map(Record::key).into_iter().chain(lists.into_iter().flat_map(str::split_ascii_whitespace))
}

fn first(key: &'static str) -> &'static str {
    key.split('|').next().unwrap_or_default()
}

/// Every key that a line, or a record of a kind, can have.
pub fn all(record: Option<Record>) -> Vec<&'static str> {
    keys(record).map(first).collect()
}

/// A key's own name, by any of its names.
pub(super) fn known(record: Option<Record>, name: &str) -> Option<&'static str> {
    keys(record).find(|key| key.split('|').any(|known| known.eq_ignore_ascii_case(name))).map(first)
}

/// The key that an unknown one resembles.
pub(super) fn meant(record: Option<Record>, name: &str) -> Option<&'static str> {
    keys(record).map(first).find(|key| is_nearly(name, key))
}

/// Whether the words differ by a typing error in one place, of at most two letters.
fn is_nearly(word: &str, key: &str) -> bool {
    differing(word, key) <= 2
}

/// Between what the words have in common at their beginning and their end, the letters of the longer one; case doesn't
/// count.
pub fn differing(word: &str, key: &str) -> usize {
    let (word, key) = (word.to_ascii_lowercase(), key.to_ascii_lowercase());
    let (longer, shorter) = if word.len() < key.len() { (key, word) } else { (word, key) };
    let start = longer.bytes().zip(shorter.bytes()).take_while(|(a, b)| a == b).count();
    let ends = longer.bytes().rev().zip(shorter.bytes().rev()).take(shorter.len() - start);
    longer.len() - start - ends.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_by_what_is_between_their_common_ends() {
        for (word, key, expected) in [
            ("Mps", "mps", 0),
            ("Mpss", "Mps", 1),
            ("Mp", "Mps", 1),
            ("Pakking", "Packing", 1),
            ("Moode", "Mode", 1),
            ("Mdoe", "Mode", 2),
            ("aa", "aaa", 1),
            ("", "abc", 3),
            ("xyz", "abcd", 4),
        ] {
            assert_eq!(differing(word, key), expected, "{word} {key}");
            assert_eq!(differing(key, word), expected, "{key} {word}");
        }
        assert_eq!((meant(None, "Mdoe"), meant(None, "Mxxxode")), (Some("Mode"), None));
    }

    #[test]
    fn a_key_is_known_by_any_of_its_names_in_the_lines_that_have_it() {
        assert_eq!(known(Some(Record::Qos), "maxwallpj"), Some("MaxWallDurationPerJob"));
        assert_eq!(known(Some(Record::Qos), "QOS"), Some("QOS"));
        assert_eq!(known(Some(Record::Node), "Mode"), None);
        assert_eq!(known(Some(Record::Partition), "IdleWarn"), Some("IdleWarn"));
        assert_eq!(known(None, "PartitionName"), Some("PartitionName"));
        assert!(all(Some(Record::Node)).starts_with(&["NodeName", "Placement"]));
        assert!(all(Some(Record::Qos)).contains(&"GrpSubmitJobs"));
        assert_eq!(Record::named("partitionname"), Some(Record::Partition));
        assert_eq!(Record::named("Partition"), None);
    }
}
