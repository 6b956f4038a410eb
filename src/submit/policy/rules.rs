//! The administrator's rules of submission, as gpushare.conf gives them.

use super::per_gpu::{Caps, MemoryGres};
use super::{LargestGpu, SHARES};
use crate::text::pattern::{Case, Patterns};
use crate::word::words;

/// All of them. The default governs every QOS and every association with a typed GPU limit, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// `GovernedQOS`
    pub governed: Governed,
    /// `GovernedPartitions`: those whose own QOS carries a typed limit, which accounting data doesn't show to a plugin.
    pub partitions: Patterns,
    /// `GovernedAccounts`
    pub accounts: GovernedAccounts,
    /// `GovernedGRES`
    pub gres: GovernedGres,
    /// `ForeignTypes`
    pub foreign_types: ForeignTypes,
    /// `LimitAdvice`
    pub limit_advice: LimitAdvice,
    /// `Mode`, where no record says otherwise.
    pub mode: Mode,
    /// `QOS=…` records, in the order of the file.
    pub records: Vec<QosRecord>,
    /// `PartitionName=…` records, in the order of the file.
    pub partition_records: Vec<PartitionRecord>,
    /// `MaxCPUsPerGpu` and `MaxMemPerGpu`, where no record says otherwise.
    pub caps: Caps,
    /// Whether these or a record have such a cap.
    pub has_caps: bool,
    /// `GpuPartitions`: every job there asks for a GPU or a share.
    pub gpu_partitions: Patterns,
    /// `Exempt…`
    pub exempt: Exempt,
    /// Rules on shares of a GPU, whatever the QOS.
    pub shares: ShareRules,
    /// `ShareGRES`, whose count the node is told, as it is of mps and shard.
    pub share_gres: ShareGres,
    /// `MemoryGRES`: by which name a share is asked for by its GPU memory.
    pub memory_gres: Option<MemoryGres>,
    /// `GetUserEnv=drop`: slurmd runs no user's login shell, which would run outside of all jobs.
    pub drops_user_env: bool,
    /// Types of GPUs as the file's other lines write them: `Share`, `GpuWeight`.
    pub types: Vec<String>,
}

impl Policy {
    /// The GRES that are shares of a GPU.
    pub(super) fn share_names(&self) -> impl Iterator<Item = &[u8]> {
        let own = self.share_gres.0.as_bytes();
        SHARES.into_iter().chain(Some(own).filter(|own| !SHARES.contains(own)))
    }

    pub(super) fn is_share(&self, name: &[u8]) -> bool {
        self.share_names().any(|known| known == name)
    }

    /// A type as nodes have it, as far as the file tells. Slurm's database has every type in small letters, and limits
    /// count it so, but nodes are found letter by letter.
    pub(super) fn written<'a>(&'a self, gres_type: &'a [u8]) -> &'a [u8] {
        self.written_so(gres_type).unwrap_or(gres_type)
    }

    /// Whether what a user wrote is a type of Slurm's database. Capitals are for Slurm to judge where the file doesn't
    /// tell how nodes have it: whatever it says then, the limit on the type counts.
    pub(super) fn is_type(&self, gres_type: &[u8], asked: &[u8]) -> bool {
        self.written_so(gres_type)
            .map_or_else(|| gres_type.eq_ignore_ascii_case(asked), |gres_type| gres_type == asked)
    }

    fn written_so(&self, gres_type: &[u8]) -> Option<&[u8]> {
        self.types.iter().map(String::as_bytes).find(|known| known.eq_ignore_ascii_case(gres_type))
    }
}

/// The GRES whose counts are shares of one GPU; `mps` by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareGres(pub String);

impl Default for ShareGres {
    fn default() -> Self {
        ShareGres("mps".to_owned())
    }
}

/// Under which QOSes GPUs must be typed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Governed {
    /// Every QOS that carries a limit on `gres/gpu:TYPE`, or on a type of a share.
    #[default]
    Auto,
    /// Those whose name matches.
    Names(Patterns),
}

/// Under which accounts GPUs must be typed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum GovernedAccounts {
    /// Wherever an association that the job is charged to has a limit on a type of GPU or of a share.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// Wherever one of the job's accounts, up to root, has such a name.
    Names(Patterns),
}

/// Which GRES are policed: `gpu`, and shares of it, which Slurm does not count as GPUs. Where the file doesn't say, the
/// GRES of `ShareGRES` is one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernedGres(pub Vec<String>);

impl Default for GovernedGres {
    fn default() -> Self {
        GovernedGres(["gpu", "mps", "shard"].map(str::to_owned).to_vec())
    }
}

impl GovernedGres {
    pub(crate) fn add(&mut self, name: &str) {
        if !self.has(name.as_bytes()) {
            self.0.push(name.to_owned());
        }
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|known| known.as_bytes() == name)
    }
}

words! {
    /// May a governed QOS be used for a GPU type that it has no limit for?
    pub enum ForeignTypes: "deny or allow" {
        /// No: the QOS is for the types it lists.
        #[default]
        Deny = "deny",
        /// Yes, for any type that Slurm knows.
        Allow = "allow",
    }
}

words! {
    /// What becomes of a request for more GPUs than its QOS can ever give, which Slurm keeps waiting without an end.
    pub enum LimitAdvice: "warn, refuse or off" {
        /// It is accepted, and the user is told.
        #[default]
        Warn = "warn",
        /// It is refused.
        Refuse = "refuse",
        /// It is accepted.
        Off = "off",
    }
}

words! {
    /// What becomes of a job that breaks a rule.
    pub enum Mode: "enforce, warn, audit or default" {
        /// It is refused.
        #[default]
        Enforce = "enforce",
        /// It is accepted, and the user reads what is wrong with it.
        Warn = "warn",
        /// It is accepted; only the log says so.
        Audit = "audit",
        /// A GPU request without a type gets the QOS's type and the user is told; everything else is refused.
        Default = "default",
    }
}

/// A line `QOS=NAMES Key=Value…`: settings of some QOSes. Of several lines for one QOS the first that has a setting
/// counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QosRecord {
    /// `QOS`
    pub names: Patterns,
    /// `Mode`
    pub mode: Option<Mode>,
    /// `DefaultType`, for `Mode=default`; otherwise the only type that the QOS has.
    pub default_type: Option<String>,
    /// `Requeue=yes`: batch jobs are requeued when preempted, unless they say otherwise.
    pub requeue: Option<bool>,
    /// `OpenMode=append`: a requeued batch job appends to its output instead of overwriting it.
    pub append: Option<bool>,
    /// `ArrayTasks` and `ArrayTasksOver`
    pub throttle: Option<Throttle>,
    /// `MaxCPUsPerGpu` and `MaxMemPerGpu`
    pub caps: Caps,
}

/// A line `PartitionName=NAMES Key=Value…`: settings of some partitions. Of several lines for one partition the first
/// that has a setting counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PartitionRecord {
    /// `PartitionName`
    pub names: Patterns,
    /// `MaxCPUsPerGpu` and `MaxMemPerGpu`
    pub caps: Caps,
}

/// How many tasks of a long array may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Tasks at once, at least 1.
    pub tasks: u32,
    /// Only for jobs with a time limit of more minutes than this, or with none of their own.
    pub over_minutes: u32,
}

/// Jobs to which no rule applies; each is logged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Exempt {
    /// `ExemptUsers`: names, or numbers.
    pub users: Patterns,
    /// `ExemptAccounts`
    pub accounts: Patterns,
    /// `ExemptPartitions`: all that the job names.
    pub partitions: Patterns,
    /// `ExemptReservations`: all that the job names.
    pub reservations: Patterns,
}

/// Rules on shares (gres/mps, gres/shard), whatever the QOS.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ShareRules {
    /// `ShareReservations`: shares are only for reservations in whose name one of these occurs.
    pub reservations: Patterns,
    /// `ShareSizes`: the numbers of units that a job may ask for; empty if any.
    pub sizes: Vec<u64>,
    /// `ShareOnlyPartitions`: no whole GPUs there.
    pub only_partitions: Patterns,
    /// `UnitsPerGpu`, where shares have a placement: nobody can have more of one GPU.
    pub most: Option<u64>,
    /// The same for the nodes of each `NodeName=` line, in the file's order. Empty if no node has less than another.
    pub nodes: Vec<LargestGpu>,
    /// The same for nodes of no such line.
    pub elsewhere: Option<u64>,
}

impl Policy {
    /// What the records say of a QOS, the first that says something.
    pub fn of_qos<T>(&self, name: &[u8], setting: impl Fn(&QosRecord) -> Option<T>) -> Option<T> {
        let matching = |record: &&QosRecord| record.names.match_name(name, Case::Ignored);
        self.records.iter().filter(matching).find_map(setting)
    }

    /// The mode for jobs of a QOS.
    pub fn mode(&self, qos: &[u8]) -> Mode {
        self.of_qos(qos, |record| record.mode).unwrap_or(self.mode)
    }
}
