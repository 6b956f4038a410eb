//! The administrator's rules of submission, from gpushare.conf.

use super::LargestGpu;
use super::per_gpu::Caps;
use crate::mend::mended;
use crate::text::pattern::{Case, Patterns};
use crate::word::words;

/// All rules. The default governs every QOS and every association with a limit on a GPU type, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// `GovernedQOS`
    pub governed: Governed,
    /// `GovernedPartitions`: those whose own QOS has a limit on a type. The plugin doesn't look that QOS up.
    pub partitions: Patterns,
    /// `GovernedAccounts`
    pub accounts: GovernedAccounts,
    /// `GovernedGRES`
    pub gres: GovernedGres,
    /// `ForeignTypes`
    pub foreign_types: ForeignTypes,
    /// `LimitAdvice`
    pub limit_advice: LimitAdvice,
    /// `Mode`, unless a record sets another.
    pub mode: Mode,
    /// `QOS=…` records, in the order of the file.
    pub records: Vec<QosRecord>,
    /// `PartitionName=…` records, in the order of the file.
    pub partition_records: Vec<PartitionRecord>,
    /// `MaxCPUsPerGpu` and `MaxMemPerGpu`, unless a record sets others.
    pub caps: Caps,
    /// Whether the file or a record has such a cap.
    pub has_caps: bool,
    /// `GpuPartitions`: every job there must request a GPU or a share.
    pub gpu_partitions: Patterns,
    /// `Exempt…`
    pub exempt: Exempt,
    /// Rules on shares of a GPU, under any QOS.
    pub shares: ShareRules,
    /// `ShareGRES`, whose count is recorded for the node, like that of mps and shard.
    pub share_gres: ShareGres,
    /// `MemoryGRES`: the GRES name with which users request a share by its GPU memory.
    pub memory_gres: Option<String>,
    /// `GetUserEnv=drop`: slurmd runs no user's login shell, which would run outside of all jobs.
    pub drops_user_env: bool,
    /// GPU types in the spelling of the file's other keys: `GPUs`, `DefaultType`, `GpuWeight`.
    pub types: Vec<String>,
}

impl Policy {
    /// The GRES for shares of a GPU, the site's own first.
    pub(super) fn share_names(&self) -> impl Iterator<Item = &[u8]> {
        const SLURMS: [&[u8]; 2] = [b"mps", b"shard"];
        let own = self.share_gres.0.as_bytes();
        std::iter::once(own).chain(SLURMS.into_iter().filter(move |name| *name != own))
    }

    pub(super) fn is_share(&self, name: &[u8]) -> bool {
        self.share_names().any(|known| known == name)
    }

    /// A type in the nodes' spelling, if the file shows it. Slurm's database has every type in lowercase, and limits
    /// count it in this form, but Slurm finds nodes by the exact spelling.
    pub(super) fn written<'a>(&'a self, gres_type: &'a [u8]) -> &'a [u8] {
        self.written_so(gres_type).unwrap_or(gres_type)
    }

    /// Whether a user's text is a type of Slurm's database. If the file doesn't show the nodes' spelling, Slurm decides
    /// whether the case is right; in either case the limit on the type counts.
    pub(super) fn is_type(&self, gres_type: &[u8], asked: &[u8]) -> bool {
        self.written_so(gres_type)
            .map_or_else(|| gres_type.eq_ignore_ascii_case(asked), |gres_type| gres_type == asked)
    }

    fn written_so(&self, gres_type: &[u8]) -> Option<&[u8]> {
        self.types.iter().map(String::as_bytes).find(|known| known.eq_ignore_ascii_case(gres_type))
    }
}

/// The GRES for shares of one GPU; `mps` by default.
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
    /// Every QOS that has a limit on `gres/gpu:TYPE` or on a type of a share, or that allows a number of shares at once
    /// and has no limit on GPUs. Under one that only limits all GPUs, requests of which Slurm counts too few GPUs are
    /// refused.
    #[default]
    Auto,
    /// The QOSes whose name matches.
    Names(Patterns),
}

/// Under which accounts GPUs must be typed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum GovernedAccounts {
    /// If an association that is charged for the job has a limit on a type of GPU or of a share.
    #[default]
    Auto,
    /// Under none.
    Off,
    /// If one of the job's accounts, up to root, has a matching name.
    Names(Patterns),
}

/// The GRES to which the rules apply: `gpu`, and shares of it, which Slurm does not count as GPUs. Unless the file sets
/// them, the GRES of `ShareGRES` is one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernedGres(pub Vec<String>);

impl Default for GovernedGres {
    fn default() -> Self {
        GovernedGres(["gpu", "mps", "shard"].map(str::to_owned).to_vec())
    }
}

impl GovernedGres {
    /// Whether the rules apply to this GRES.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|known| known.as_bytes() == name)
    }
}

words! {
    /// Whether a governed QOS may be used for a GPU type without a limit in the QOS.
    pub enum ForeignTypes: "deny or allow" {
        /// It may not: the QOS is only for the types in its limits.
        #[default]
        Deny = "deny",
        /// It may, for any type that Slurm knows.
        Allow = "allow",
    }
}

words! {
    /// What happens to a request for more GPUs than its QOS can ever give; Slurm would keep it waiting forever.
    pub enum LimitAdvice: "warn, refuse or off" {
        /// It is accepted, and the user gets a note.
        #[default]
        Warn = "warn",
        /// It is refused.
        Refuse = "refuse",
        /// It is accepted.
        Off = "off",
    }
}

words! {
    /// What happens to a job that breaks a rule.
    pub enum Mode: "enforce, warn, audit or default" {
        /// It is refused.
        #[default]
        Enforce = "enforce",
        /// It is accepted, and the user sees what is wrong with it.
        Warn = "warn",
        /// It is accepted; only the log mentions it.
        Audit = "audit",
        /// A GPU request without a type gets the QOS's type, and the user is told; everything else is refused.
        Default = "default",
    }
}

/// A line `QOS=NAMES Key=Value…`: settings of some QOSes. If several lines match a QOS, the first that has a setting
/// counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QosRecord {
    /// `QOS`
    pub names: Patterns,
    /// `Mode`
    pub mode: Option<Mode>,
    /// `DefaultType`, for `Mode=default`; without it, the QOS's only type.
    pub default_type: Option<String>,
    /// `Requeue=yes`: batch jobs are requeued when preempted, unless the user chose otherwise.
    pub requeue: Option<bool>,
    /// `OpenMode=append`: a requeued batch job appends to its output instead of overwriting it.
    pub append: Option<bool>,
    /// `ArrayTasks` and `ArrayTasksOver`
    pub throttle: Option<Throttle>,
    /// `MaxCPUsPerGpu` and `MaxMemPerGpu`
    pub caps: Caps,
}

impl QosRecord {
    /// Whether it sets something for batch jobs.
    pub(super) fn favours(&self) -> bool {
        self.requeue.is_some() || self.append.is_some() || self.throttle.is_some()
    }
}

/// A line `PartitionName=NAMES Key=Value…`: settings of some partitions. If several lines match a partition, the first
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
    /// The number of tasks at once, at least 1.
    pub tasks: u32,
    /// Applies only to jobs with a time limit of more minutes than this, or without their own limit.
    pub over_minutes: u32,
}

/// Jobs to which no rule applies; each is logged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Exempt {
    /// `ExemptUsers`: names, or numbers.
    pub users: Patterns,
    /// `ExemptAccounts`
    pub accounts: Patterns,
    /// `ExemptPartitions`: every partition that the job names must match.
    pub partitions: Patterns,
    /// `ExemptReservations`: every reservation that the job names must match.
    pub reservations: Patterns,
}

/// Rules on shares (gres/mps, gres/shard), under any QOS.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ShareRules {
    /// `ShareReservations`: shares are only for reservations in whose name one of these occurs.
    pub reservations: Patterns,
    /// `ShareSizes`: the numbers of units that a job may request; empty if it may request any.
    pub sizes: Vec<u64>,
    /// `ShareOnlyPartitions`: partitions without whole GPUs.
    pub only_partitions: Patterns,
    /// `UnitsPerGpu`, if shares have a placement: no job can have more of one GPU.
    pub most: Option<u64>,
    /// The same for the nodes of each `NodeName=` line, in the file's order. Empty if all nodes have the same.
    pub nodes: Vec<LargestGpu>,
    /// The same for nodes without such a line.
    pub elsewhere: LargestGpu,
}

impl Policy {
    /// A setting of a QOS, from the first record that has it.
    pub fn of_qos<'p, T>(&'p self, name: &[u8], setting: impl Fn(&'p QosRecord) -> Option<T>) -> Option<T> {
        let matching = |record: &&QosRecord| record.names.match_name(name, Case::Ignored);
        self.records.iter().filter(matching).find_map(setting)
    }

    /// Whether there is any rule on shares, partitions, or CPUs and memory.
    pub(super) fn has_site_rules(&self) -> bool {
        let shares = &self.shares;
        let on_shares = !shares.reservations.is_empty() || !shares.sizes.is_empty() || shares.most.is_some();
        let on_nodes = !shares.only_partitions.is_empty() || !shares.nodes.is_empty();
        on_shares || on_nodes || !self.gpu_partitions.is_empty() || self.has_caps
    }

    /// Whether every submission passes as it is that [names no GPU](super::Request::names_no_gpu).
    pub fn judges_only_gpus(&self) -> bool {
        !self.has_site_rules() && !self.drops_user_env && !self.records.iter().any(QosRecord::favours)
    }

    /// Whether a rule lets jobs pass because of their reservation, which may end.
    pub fn depends_on_reservations(&self) -> bool {
        let of_shares = !self.shares.reservations.is_empty() && mended("follow-reservation");
        !self.exempt.reservations.is_empty() || of_shares
    }

    /// The mode for jobs of a QOS.
    pub fn mode(&self, qos: &[u8]) -> Mode {
        self.of_qos(qos, |record| record.mode).unwrap_or(self.mode)
    }
}
