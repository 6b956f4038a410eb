//! Why a request is refused or was changed: data for the message and the log, without wording.

use super::{Amount, PerGpu};
use crate::submit::grammar::{self, Gres, Spelling};
use crate::submit::request::{Description, Field};

/// How many bytes of a user's text a refusal keeps.
pub const QUOTED: usize = 120;

/// Why a request is refused, and the data that the message needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that was broken.
    pub rule: Rule,
    /// Where the rule comes from.
    pub ground: Ground,
    /// The wrong token, without Slurm's prefix; at most [`QUOTED`] bytes.
    pub asked: Vec<u8>,
    /// Where the token was.
    pub field: Field,
    /// The wrong GRES, such as `gpu`.
    pub gres: Vec<u8>,
    /// The cluster's type that Slurm would take for the requested one.
    pub resembles: Vec<u8>,
    /// The units that the token requests.
    pub count: u64,
    /// What could be requested instead.
    pub offer: Offer,
    /// A GRES, and how many of it the whole job requests, if no type has that many.
    pub beyond: Option<(Vec<u8>, u64)>,
    /// Whether Slurm will refuse it too (`DenyOnLimit`).
    pub denied: bool,
    /// The whole command that would be accepted, if there is one.
    pub correction: Option<Box<Correction>>,
    /// The user's command.
    pub command: Command,
}

/// What is wrong with a request.
pub(super) type Fault = Box<Refusal>;

/// Declares functions that set a member.
macro_rules! setters {
    ($($member:ident: $type:ty,)*) => { $(
        #[cold]
        pub(super) fn $member(mut self: Fault, $member: $type) -> Fault {
            self.$member = $member;
            self
        }
    )* };
}

impl Refusal {
    /// A refusal with empty values.
    #[cold]
    pub(crate) fn new(rule: Rule, ground: Ground, command: Command) -> Fault {
        Box::new(Refusal {
            rule,
            ground,
            asked: Vec::new(),
            field: Field::Node,
            gres: super::GPU.to_vec(),
            resembles: Vec::new(),
            count: 1,
            offer: Offer::Nothing,
            beyond: None,
            denied: false,
            correction: None,
            command,
        })
    }

    setters! {
        asked: Vec<u8>, field: Field, gres: Vec<u8>, count: u64, offer: Offer, resembles: Vec<u8>, denied: bool,
    }
}

/// A command that would be accepted: all its parts that request GPUs, and what belongs to them. What is `None` needn't
/// be named; an update clears an empty string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// What the command says. CPUs and memory only if they must change.
    pub said: Description<Vec<u8>>,
    /// Other options that were in the QOS's name.
    pub options: Vec<Vec<u8>>,
    /// A GRES, and how many of it were requested, if no type has that many.
    pub(super) beyond: Option<(Vec<u8>, u64)>,
    /// Values that only the user knows: the text that was checked, and its placeholder.
    pub(super) open: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What made the rule apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The QOS in Slurm's spelling, or as it was requested if it doesn't exist.
    Qos(Vec<u8>),
    /// The partition; empty if Slurm will choose it through the reservation.
    Partition(Vec<u8>),
    /// An association to charge.
    Account {
        /// The account.
        name: Vec<u8>,
        /// Whether the limit is the user's own in that account, not the account's.
        own: bool,
        /// The key and the value that the corrected command must repeat.
        named: Option<(&'static str, Vec<u8>)>,
    },
    /// A rule of the site, for every job.
    Site,
}

/// What a message can suggest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Types for which the QOS or the account has limits, and how many at once; `None` if only minutes are limited.
    OfQos(Vec<(Vec<u8>, Option<u64>)>),
    /// All types that the cluster has.
    OfCluster(Vec<Vec<u8>>),
    /// Parts of the names of reservations.
    Reservations(Vec<String>),
    /// Sizes of a share.
    Sizes(Vec<u64>),
    /// The units of a whole GPU, which no share can exceed.
    UpTo(u64),
    /// Sizes of a share: MiB of GPU memory, and units.
    Memory(Vec<(u64, u64)>),
    /// CPUs or memory for each GPU.
    PerGpu {
        /// CPUs or memory.
        amount: Amount,
        /// The cap.
        cap: PerGpu,
        /// What the job requests; `None` for everything on its nodes.
        wanted: Option<u64>,
    },
    /// Nothing.
    Nothing,
}

/// The kind of command, which determines the form of a corrected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// sbatch, salloc or srun.
    Submit,
    /// `scontrol update`.
    Update {
        /// The job as the user named it.
        job: Vec<u8>,
        /// Whether that is a whole array.
        array: bool,
        /// How this Slurm spells a GRES.
        spelling: Spelling,
    },
}

/// Declares the rules: each with its number in messages and in `gpushare explain`, and with what is said of it.
macro_rules! rules {
    ($($rule:ident = $number:literal [$($trait:ident)*],)+) => {
        crate::names! {
            /// The rules, each with its number in messages and in `gpushare explain`.
            pub enum Rule: number { $($rule = $number,)+ }
        }

        impl Rule {
            /// Whether this is said of it.
            pub fn is(self, wanted: Trait) -> bool {
                let said: &[Trait] = match self { $(Rule::$rule => &[$(Trait::$trait),*],)+ };
                said.contains(&wanted)
            }
        }
    };
}

/// What is said of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// It is about how GPUs are asked for and counted, and not about names or a site's rules.
    Gpus,
    /// It is about one GRES in one option, which the log names.
    Token,
    /// The QOS is wrong rather than the GPU request; decides which of Slurm's errors goes with the message.
    Qos,
    /// No mode and no exemption lets the request pass: Slurm itself would refuse it with a shorter message, or
    /// slurmctld or the node would take it for another request.
    Always,
}

rules! {
    TypeMissing = "GS101" [Gpus Token],
    TypeUnknown = "GS102" [Gpus Token],
    TypeForeign = "GS103" [Gpus Token],
    Unreadable = "GS104" [Gpus],
    NtasksPerGpuAlone = "GS105" [Gpus],
    QosList = "GS106" [Qos],
    OptionInsideQos = "GS107" [Qos Always],
    TooLong = "GS108" [Always],
    ShareUncounted = "GS109" [Gpus Token],
    NotRestated = "GS110" [Gpus],
    TypeResembles = "GS111" [Always],
    TypeOfNone = "GS112" [Gpus],
    TooManyNodes = "GS113" [Gpus],
    BeyondLimit = "GS114" [Gpus],
    OldRequestStays = "GS115" [Gpus],
    CountedTwoWays = "GS116" [Gpus],
    NotAlone = "GS117" [Gpus],
    TasksUneven = "GS118" [Gpus],
    GpuUncounted = "GS119" [Gpus Token],
    TooMuchAtOnce = "GS120" [Gpus Always],
    ShareReservation = "GS121" [Token],
    ShareSize = "GS122" [Token],
    WholeGpu = "GS123" [],
    ShareFixed = "GS124" [Always],
    ShareForm = "GS125" [Always],
    GpuMissing = "GS126" [],
    TooManyCpus = "GS127" [],
    TooMuchMemory = "GS128" [],
    ShareMemory = "GS129" [Always],
}

/// A change to an accepted request, in the user's interest; the user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// GS151: a type was added.
    Type {
        /// The QOS that has the type.
        qos: Vec<u8>,
        /// The new strings.
        fields: Vec<(Field, Vec<u8>)>,
        /// The first token before the change, without Slurm's prefix.
        asked: Vec<u8>,
        /// The same token with its type.
        given: Vec<u8>,
    },
    /// GS152: the job is requeued.
    Requeue {
        /// The QOS that sets this.
        qos: Vec<u8>,
    },
    /// GS153: output is appended.
    Append {
        /// The QOS that sets this.
        qos: Vec<u8>,
    },
    /// GS154: fewer tasks of an array run at once.
    Throttle {
        /// The QOS that sets this.
        qos: Vec<u8>,
        /// The new `--array`.
        array: Vec<u8>,
        /// The number of tasks at once.
        tasks: u32,
        /// It applies to jobs with a longer time limit than this.
        over_minutes: u32,
    },
    /// GS156: a share that was requested by its memory.
    Share {
        /// The new string for GRES per node.
        text: Vec<u8>,
        /// The request, without Slurm's prefix.
        asked: Vec<u8>,
        /// The share, without Slurm's prefix.
        given: Vec<u8>,
        /// Its GPU memory.
        mebibytes: u64,
    },
    /// GS155: the login shell's variables are not requested.
    UserEnv,
}

impl Change {
    /// The number that messages and `gpushare explain` use.
    pub const fn number(&self) -> &'static str {
        match self {
            Change::Type { .. } => "GS151",
            Change::Requeue { .. } => "GS152",
            Change::Append { .. } => "GS153",
            Change::Throttle { .. } => "GS154",
            Change::UserEnv => "GS155",
            Change::Share { .. } => "GS156",
        }
    }

    /// Every number that a change may have.
    pub const NUMBERS: [&str; 6] = ["GS151", "GS152", "GS153", "GS154", "GS155", "GS156"];
}

/// A remark about an accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The request breaks a rule but passes.
    Passed(Box<Refusal>, Because),
    /// The request was changed.
    Changed(Change),
}

crate::names! {
    /// Why a request passes although it breaks a rule, as the log says it.
    pub enum Because: word {
        /// `Mode=warn`
        Warn = "warn",
        /// `Mode=audit`
        Audit = "audit",
        /// `ExemptUsers`
        User = "exempt user",
        /// `ExemptAccounts`
        Account = "exempt account",
        /// `ExemptPartitions`
        Partition = "exempt partition",
        /// `ExemptReservations`
        Reservation = "exempt reservation",
    }
}

/// As much of a user's text as a refusal keeps.
pub(super) fn shortened(text: &[u8]) -> Vec<u8> {
    text.iter().copied().take(QUOTED).collect()
}

/// The token as a user would type it after `--gres=`.
pub(super) fn plain(gres: Gres) -> Vec<u8> {
    shortened(&grammar::plain(gres))
}
