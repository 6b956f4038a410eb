//! Why a request is refused, or was changed: data for the message and the log, without any wording.

use super::{Amount, PerGpu, shortened};
use crate::submit::grammar::{self, Gres, Spelling};
use crate::submit::request::{Amounts, Field};

/// How much of a user's text a refusal keeps.
pub const QUOTED: usize = 120;

/// Why a request is refused, and what the message needs to help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that was broken.
    pub rule: Rule,
    /// Whose rule it is.
    pub ground: Ground,
    /// The token at fault, without Slurm's prefix; at most [`QUOTED`] bytes.
    pub asked: Vec<u8>,
    /// Where the token stood.
    pub field: Field,
    /// The GRES at fault, such as `gpu`.
    pub gres: Vec<u8>,
    /// The cluster's type that Slurm would take the one asked for for.
    pub resembles: Vec<u8>,
    /// Units asked for by the token.
    pub count: u64,
    /// What could be asked for instead.
    pub offer: Offer,
    /// The GPUs that the whole job asks for, where that is more than is offered of any type.
    pub beyond: Option<u64>,
    /// The whole command that would be accepted, if there is one.
    pub correction: Option<Box<Correction>>,
    /// What the user did.
    pub command: Command,
}

/// A command that would be accepted: all of it that asks for GPUs, and what belongs to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// How its strings are written.
    pub spelling: Spelling,
    /// The QOS to name. Here and below `None` is what the command needn't say.
    pub qos: Option<Vec<u8>>,
    /// The account to name.
    pub account: Option<Vec<u8>>,
    /// The partition to name.
    pub partition: Option<Vec<u8>>,
    /// The reservation to name.
    pub reservation: Option<Vec<u8>>,
    /// The strings with Slurm's prefix, empty if an update clears one.
    pub tres: Vec<(Field, Vec<u8>)>,
    /// `--cpus-per-gpu`, with Slurm's prefix.
    pub cpus_per_tres: Option<Vec<u8>>,
    /// `--mem-per-gpu`, with Slurm's prefix.
    pub mem_per_tres: Option<Vec<u8>>,
    /// `--ntasks-per-gpu`
    pub ntasks_per_tres: Option<u16>,
    /// `--ntasks`
    pub num_tasks: Option<u32>,
    /// The fewest nodes.
    pub min_nodes: Option<u32>,
    /// The most nodes.
    pub max_nodes: Option<u32>,
    /// `--cpus-per-task`
    pub cpus_per_task: Option<u16>,
    /// `--sockets-per-node`
    pub sockets_per_node: Option<u16>,
    /// `--ntasks-per-node`
    pub ntasks_per_node: Option<u16>,
    /// CPUs and memory, where they are to be changed.
    pub amounts: Amounts,
    /// Other options as they stood in the QOS's name.
    pub options: Vec<Vec<u8>>,
    /// More GPUs in all than any type has, as the user asked for.
    pub(super) beyond: Option<u64>,
    /// What only the user knows: the text that was judged, and the word that stands for it.
    pub(super) open: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What made the rule apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The QOS as Slurm names it, or as it was asked for where it doesn't exist.
    Qos(Vec<u8>),
    /// The partition; empty if Slurm will choose it by the reservation.
    Partition(Vec<u8>),
    /// An association that the job is charged to.
    Account {
        /// The account.
        name: Vec<u8>,
        /// The limit is the user's own in that account, not the account's.
        own: bool,
        /// What the corrected command must name again, and its value: what was named.
        named: Option<(&'static str, Vec<u8>)>,
    },
    /// A rule of the site, for every job.
    Site,
}

/// What a message can offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Types that the QOS or the account has limits for, and how many at once; `None` if only minutes are limited.
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
        /// Which.
        amount: Amount,
        /// So much.
        cap: PerGpu,
        /// What the job asks for; `None` for all that its nodes have.
        wanted: Option<u64>,
    },
    /// Nothing.
    Nothing,
}

/// How the request came, which decides how a corrected command looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// sbatch, salloc, srun.
    Submit,
    /// `scontrol update`.
    Update {
        /// The job as the user named it.
        job: Vec<u8>,
        /// How this Slurm spells a GRES.
        spelling: Spelling,
    },
}

crate::names! {
    /// The rules, each with its number in messages and in `gpushare explain`.
    pub enum Rule: number {
        TypeMissing = "GS101",
        TypeUnknown = "GS102",
        TypeForeign = "GS103",
        Unreadable = "GS104",
        NtasksPerGpuAlone = "GS105",
        QosList = "GS106",
        OptionInsideQos = "GS107",
        TooLong = "GS108",
        ShareUncounted = "GS109",
        NotRestated = "GS110",
        TypeResembles = "GS111",
        TypeOfNone = "GS112",
        TooManyNodes = "GS113",
        BeyondLimit = "GS114",
        OldRequestStays = "GS115",
        CountedTwoWays = "GS116",
        NotAlone = "GS117",
        ShareReservation = "GS121",
        ShareSize = "GS122",
        WholeGpu = "GS123",
        ShareFixed = "GS124",
        ShareForm = "GS125",
        GpuMissing = "GS126",
        TooManyCpus = "GS127",
        TooMuchMemory = "GS128",
        ShareMemory = "GS129",
    }
}

/// What was changed in an accepted request, for the user's good and to the user's knowledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// GS151: a type was added.
    Type {
        /// The QOS whose type it is.
        qos: Vec<u8>,
        /// The new strings.
        fields: Vec<(Field, Vec<u8>)>,
        /// The first token as it was, without Slurm's prefix.
        asked: Vec<u8>,
        /// The same with its type.
        given: Vec<u8>,
    },
    /// GS152: requeue.
    Requeue {
        /// The QOS that says so.
        qos: Vec<u8>,
    },
    /// GS153: output is appended.
    Append {
        /// The QOS that says so.
        qos: Vec<u8>,
    },
    /// GS154: fewer tasks of an array at once.
    Throttle {
        /// The QOS that says so.
        qos: Vec<u8>,
        /// The new `--array`.
        array: Vec<u8>,
        /// Tasks at once.
        tasks: u32,
        /// For jobs longer than this.
        over_minutes: u32,
    },
    /// GS156: a share that was asked for by its memory.
    Share {
        /// The new string of what is counted per node.
        text: Vec<u8>,
        /// What was asked for, without Slurm's prefix.
        asked: Vec<u8>,
        /// The share, without Slurm's prefix.
        given: Vec<u8>,
        /// Its GPU memory.
        mebibytes: u64,
    },
    /// GS155: the login shell's variables are not asked for.
    UserEnv,
}

/// Something to say about an accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It breaks a rule and passes all the same.
    Passed(Refusal, Because),
    /// It was changed.
    Changed(Change),
}

/// Why something passes that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// `Mode=warn`
    Warn,
    /// `Mode=audit`
    Audit,
    /// `ExemptUsers`
    User,
    /// `ExemptAccounts`
    Account,
    /// `ExemptPartitions`
    Partition,
    /// `ExemptReservations`
    Reservation,
}

/// The token as a user would type it after `--gres=`.
pub(super) fn plain(gres: Gres) -> Vec<u8> {
    shortened(&grammar::plain(gres))
}

/// The string that an option makes, where it asks for a GRES.
pub(super) fn meant(option: &[u8], spelling: Spelling) -> Option<(Field, Vec<u8>)> {
    let options = [
        (Field::Node, b"--gres=".as_slice(), b"".as_slice()),
        (Field::Node, b"--gpus-per-node=", b"gpu:"),
        (Field::Job, b"--gpus=", b"gpu:"),
        (Field::Task, b"--gpus-per-task=", b"gpu:"),
        (Field::Socket, b"--gpus-per-socket=", b"gpu:"),
    ];
    options.into_iter().find_map(|(field, start, gpu)| {
        let value = option.strip_prefix(start)?;
        let tokens = value.split(|byte| *byte == b',').filter(|token| !token.is_empty());
        let tokens: Vec<_> = tokens.map(|token| [spelling.prefix(), gpu, token].concat()).collect();
        Some((field, tokens.join(&b',')))
    })
}
