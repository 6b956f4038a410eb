//! Every limit and option of a QOS in Slurm's database: its name in gpushare.conf and for sacctmgr, and what its values
//! mean.
//!
//! Names are those of sacctmgr(1) from 22.05 to 26.05. `column` is the name that `show qos format=` and
//! `modify qos set` accept in all of them: some releases accept a longer name in only one of the two.

/// What kind of value a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Count,
    /// A time limit; a number alone means minutes, as for sacctmgr.
    Minutes,
    /// A time; a number alone means minutes.
    Time,
    /// A time; a number alone means seconds. sacctmgr accepts only a number, and reads `1:00:00` as one second.
    Seconds,
    /// A number with a fraction, in millionths.
    Factor,
    /// Some of [`FLAGS`].
    Flags,
    /// Names of QOSes.
    Names,
    /// Some of [`MODES`].
    Modes,
    /// Numbers of TRES.
    Tres,
}

/// A limit or option.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in gpushare.conf and in output: sacctmgr's longest one.
    pub name: &'static str,
    /// sacctmgr's name.
    pub column: &'static str,
    /// Other current names.
    pub also: &'static [&'static str],
    /// What its values are.
    pub kind: Kind,
    /// The value if the field was never set, and the value that resets it; TRES are reset one by one.
    pub unset: &'static str,
}

const fn limit(name: &'static str, column: &'static str, also: &'static [&'static str], kind: Kind) -> Field {
    Field { name, column, also, kind, unset: "-1" }
}

/// Every field that gpushare.conf can set, in the order in which they are shown. A field that is not in the file is
/// unset.
pub static FIELDS: [Field; 32] = [
    limit("GrpTRES", "GrpTRES", &[], Kind::Tres),
    limit("GrpTRESMins", "GrpTRESMins", &[], Kind::Tres),
    limit("GrpTRESRunMins", "GrpTRESRunMins", &[], Kind::Tres),
    limit("GrpJobs", "GrpJobs", &[], Kind::Count),
    limit("GrpJobsAccrue", "GrpJobsAccrue", &[], Kind::Count),
    limit("GrpSubmitJobs", "GrpSubmit", &["GrpSubmit"], Kind::Count),
    limit("GrpWall", "GrpWall", &[], Kind::Minutes),
    limit("MaxTRESPerJob", "MaxTRES", &["MaxTRES", "MaxTRESPJ"], Kind::Tres),
    limit("MaxTRESPerNode", "MaxTRESPerNode", &["MaxTRESPN"], Kind::Tres),
    limit("MaxTRESMinsPerJob", "MaxTRESMins", &["MaxTRESMins", "MaxTRESMinsPJ"], Kind::Tres),
    limit("MaxWallDurationPerJob", "MaxWall", &["MaxWall", "MaxWallPJ"], Kind::Minutes),
    limit("MaxTRESPerUser", "MaxTRESPU", &["MaxTRESPU"], Kind::Tres),
    limit("MaxJobsPerUser", "MaxJobsPU", &["MaxJobsPU", "MaxJobs"], Kind::Count),
    limit("MaxJobsAccruePerUser", "MaxJobsAccruePU", &["MaxJobsAccruePU"], Kind::Count),
    limit(
        "MaxSubmitJobsPerUser",
        "MaxSubmitJobsPU",
        &["MaxSubmitPU", "MaxSubmitJobsPU", "MaxSubmitJobs"],
        Kind::Count,
    ),
    limit("MaxTRESRunMinsPerUser", "MaxTRESRunMinsPU", &["MaxTRESRunMinsPU"], Kind::Tres),
    limit("MaxTRESPerAccount", "MaxTRESPA", &["MaxTRESPA"], Kind::Tres),
    limit("MaxJobsPerAccount", "MaxJobsPA", &["MaxJobsPA"], Kind::Count),
    limit("MaxJobsAccruePerAccount", "MaxJobsAccruePA", &["MaxJobsAccruePA"], Kind::Count),
    limit("MaxSubmitJobsPerAccount", "MaxSubmitJobsPA", &["MaxSubmitPA", "MaxSubmitJobsPA"], Kind::Count),
    limit("MaxTRESRunMinsPerAccount", "MaxTRESRunMinsPA", &["MaxTRESRunMinsPA"], Kind::Tres),
    limit("MinTRESPerJob", "MinTRES", &["MinTRES"], Kind::Tres),
    limit("MinPrioThreshold", "MinPrioThres", &["MinPrioThres"], Kind::Count),
    Field { name: "Priority", column: "Priority", also: &[], kind: Kind::Count, unset: "0" },
    Field { name: "Preempt", column: "Preempt", also: &["Preempts"], kind: Kind::Names, unset: "" },
    Field { name: "PreemptMode", column: "PreemptMode", also: &[], kind: Kind::Modes, unset: "cluster" },
    limit("PreemptExemptTime", "PreemptExemptTime", &[], Kind::Time),
    Field { name: "GraceTime", column: "GraceTime", also: &[], kind: Kind::Seconds, unset: "0" },
    Field { name: "Flags", column: "Flags", also: &[], kind: Kind::Flags, unset: "-1" },
    Field { name: "UsageFactor", column: "UsageFactor", also: &[], kind: Kind::Factor, unset: "1" },
    limit("UsageThreshold", "UsageThres", &["UsageThres"], Kind::Factor),
    limit("LimitFactor", "LimitFactor", &[], Kind::Factor),
];

/// Flags of a QOS in every release, except `Relative` (23.11), which turns the limits into percentages.
pub const FLAGS: [&str; 10] = [
    "DenyOnLimit",
    "EnforceUsageThreshold",
    "NoDecay",
    "NoReserve",
    "OverPartQOS",
    "PartitionMaxNodes",
    "PartitionMinNodes",
    "PartitionTimeLimit",
    "RequiresReservation",
    "UsageFactorSafe",
];

/// What can happen to a preempted job.
pub const MODES: [&str; 6] = ["cluster", "cancel", "requeue", "suspend", "gang", "within"];

/// A limit's name of 2009, and the current field and TRES.
#[derive(Debug, PartialEq, Eq)]
pub struct OldName {
    /// The name in the QOS page of 2009.
    pub name: &'static str,
    /// The current field.
    pub field: &'static str,
    /// The TRES that it limits.
    pub tres: &'static str,
}

const fn old(name: &'static str, field: &'static str, tres: &'static str) -> OldName {
    OldName { name, field, tres }
}

/// Limits that have another name in Slurm today; the others have kept theirs.
pub static OLD_NAMES: [OldName; 10] = [
    old("GrpCpus", "GrpTRES", "cpu"),
    old("GrpCPUMins", "GrpTRESMins", "cpu"),
    old("GrpCPURunMins", "GrpTRESRunMins", "cpu"),
    old("GrpMemory", "GrpTRES", "mem"),
    old("GrpNodes", "GrpTRES", "node"),
    old("MaxCpusPerJob", "MaxTRESPerJob", "cpu"),
    old("MaxCPUMinsPerJob", "MaxTRESMinsPerJob", "cpu"),
    old("MaxNodesPerJob", "MaxTRESPerJob", "node"),
    old("MaxCpusPerUser", "MaxTRESPerUser", "cpu"),
    old("MaxNodesPerUser", "MaxTRESPerUser", "node"),
];

/// A flag as that page spells it, and its correct name.
pub const MISSPELT_FLAG: (&str, &str) = ("RequiresReservaton", "RequiresReservation");

impl Field {
    /// Finds a field by any of its names, ignoring case.
    pub fn named(name: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.is_called(name))
    }

    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.also.iter().any(|also| also.eq_ignore_ascii_case(name))
    }
}

impl OldName {
    /// Finds an old name, ignoring case.
    pub fn named(name: &str) -> Option<&'static OldName> {
        OLD_NAMES.iter().find(|old| old.name.eq_ignore_ascii_case(name))
    }
}
