//! The message numbers, and the longer text of each, for `gpushare explain GS101` and docs/messages.md.

use crate::submit::policy::{Change, Rule};

/// One numbered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number, such as `GS101`.
    pub number: &'static str,
    /// What happened, in a few words.
    pub title: &'static str,
    /// What the rule is for and what to do.
    pub text: &'static str,
}

/// Every message, in the order of the numbers.
pub const PAGES: [Page; 32] = [
    Page {
        number: "GS101",
        title: "a GPU type is missing",
        text: "The QOS guarantees its group GPUs of certain types, or the job's account has a limit on some. Slurm \
               counts a request against either only when the request names the type, so here every GPU option must \
               name one: --gres=gpu:TYPE:COUNT, --gpus=TYPE:COUNT, --gpus-per-node=TYPE:COUNT, \
               --gpus-per-task=TYPE:COUNT or --gpus-per-socket=TYPE:COUNT.",
    },
    Page {
        number: "GS102",
        title: "the GPU type does not exist",
        text: "The type named is not one that Slurm counts on this cluster (AccountingStorageTRES has no gres/gpu:TYPE \
               of that name). Types are written exactly as in the message, capitals included.",
    },
    Page {
        number: "GS103",
        title: "the QOS has no GPUs of that type",
        text: "The type exists, but the QOS has no GPUs of it: it has no limit on the type, or a limit of 0. Choose a \
               type that the QOS has, or another QOS. An administrator can allow any type with ForeignTypes=allow in \
               gpushare.conf; Slurm still enforces a limit of 0, and the job then waits (GS114).",
    },
    Page {
        number: "GS104",
        title: "the request can't be read",
        text: "Part of the request is not in the plain form NAME[:TYPE][:COUNT], so gpushare can't tell whether it \
               asks for GPUs, and of which type. Write it in that form.",
    },
    Page {
        number: "GS105",
        title: "--ntasks-per-gpu without GPUs",
        text: "--ntasks-per-gpu without a GPU option makes Slurm add GPUs of no particular type. Say which GPUs as \
               well, for example --gpus=TYPE:COUNT.",
    },
    Page {
        number: "GS106",
        title: "a QOS with guaranteed GPUs in a list of QOSes",
        text: "With a list of QOSes, Slurm chooses one of them later. If a QOS guarantees GPUs, name it alone.",
    },
    Page {
        number: "GS107",
        title: "an option inside --qos",
        text: "A comma joined the next option to --qos, so Slurm took both as the name of a QOS. Separate options by a \
               space, or put them on #SBATCH lines of their own.",
    },
    Page {
        number: "GS108",
        title: "longer than Slurm accepts",
        text: "A part of the request is longer than Slurm accepts (1024 characters for a list of resources or a name). \
               Ask for each kind of resource once.",
    },
    Page {
        number: "GS109",
        title: "shares that the QOS doesn't count",
        text: "Slurm does not count shares of GPUs (gres/mps, gres/shard) as GPUs, and this QOS has no limit on them: \
               they would come on top of what it guarantees. Ask for whole GPUs under this QOS, or for shares under \
               another. An administrator can give the QOS a limit, such as GrpTRES=gres/mps=200, or remove the name \
               from GovernedGRES in gpushare.conf.",
    },
    Page {
        number: "GS110",
        title: "moving a job without naming its GPUs",
        text: "To move a pending job under a QOS, a partition or an account that guarantees or limits GPUs by type, \
               name its GPUs and their type again in the same command, because Slurm does not show every part of the \
               old request that it keeps. The same holds when a job leaves a partition, reservation or account that \
               gpushare.conf exempts. You can't move a job without GPUs: cancel it and submit it again. If the \
               command to try says COUNT, Slurm doesn't show how many GPUs the job asked for: put the number there.",
    },
    Page {
        number: "GS111",
        title: "a type that Slurm would mistake for another",
        text: "The cluster has no such type. But Slurm compares types by a hash of their letters, and this name has \
               the same hash as an existing type: the job would get GPUs of that type, and no limit would count \
               them. Write the type's exact name.",
    },
    Page {
        number: "GS112",
        title: "a type in --cpus-per-gpu or --mem-per-gpu that the job doesn't ask for",
        text: "--cpus-per-gpu and --mem-per-gpu need no type. If you name one there (CpusPerTres or MemPerTres in an \
               update), it must be exactly one of those that the job asks for: Slurm turns it into an entry that can \
               hide the job's GPUs from a limit.",
    },
    Page {
        number: "GS113",
        title: "more nodes than GPUs",
        text: "Slurm counts GPUs for the whole job (--gpus, TresPerJob) once, but puts at least one of each type on \
               every node of the job. So the job can have no more nodes than GPUs of a type. Ask for more GPUs, for \
               fewer nodes, or for GPUs per node.",
    },
    Page {
        number: "GS114",
        title: "more GPUs than the QOS allows at once",
        text: "The job asks for more GPUs of a type than the QOS lets run at once, so Slurm keeps it waiting until \
               somebody raises the limit (squeue shows QOSGrpGRES or another limit of the QOS). Ask for fewer, or \
               cancel the job. LimitAdvice in gpushare.conf says whether this is a warning or a refusal.",
    },
    Page {
        number: "GS115",
        title: "an update can't change this job",
        text: "Up to Slurm 22.05 an update keeps those parts of a job's old GPU request that it doesn't name, and \
               Slurm doesn't show them. So on these releases you can't move a job under a QOS that guarantees GPUs, \
               or change a job's GPU types under one. Cancel the job and submit it again.",
    },
    Page {
        number: "GS116",
        title: "GPUs counted in two ways",
        text: "Slurm counts GPUs for the whole job (--gpus), per node (--gres, --gpus-per-node), per task and per \
               socket, and miscounts if a job mixes them: with --gpus it doesn't add up GPUs of another type, and what \
               it picks per socket isn't what it counted per job or task. Ask for all GPUs in one way, such as \
               --gres=gpu:TYPE:COUNT. You may combine --gpus with --gpus-per-node or --gpus-per-task of the same type.",
    },
    Page {
        number: "GS117",
        title: "moving a job needs a command of its own",
        text: "Slurm applies the fields of an update one by one, the GPUs last, and keeps the earlier ones when it \
               refuses a later one. So a command that moves a job under a QOS (or partition) that guarantees GPUs may \
               name only its QOS, account, partition, reservation and GPUs. Change the rest in a second command.",
    },
    Page {
        number: "GS121",
        title: "shares are only for certain reservations",
        text: "This cluster keeps shares of GPUs (gres/mps, gres/shard) for reservations, such as those of courses. \
               Name the reservation that you were given with --reservation; `scontrol show reservation` lists them. \
               The list is ShareReservations in gpushare.conf.",
    },
    Page {
        number: "GS122",
        title: "no share of that size",
        text: "A share is a part of one GPU, so it can't have more units than a GPU (UnitsPerGpu in gpushare.conf), or \
               than the GPUs of a node that the job names (--nodelist). Some sites allow only certain sizes \
               (ShareSizes), so that shares fill a GPU exactly, and only per node.",
    },
    Page {
        number: "GS123",
        title: "no whole GPUs in this partition",
        text: "The partition is for shares of GPUs only (ShareOnlyPartitions in gpushare.conf): neither whole GPUs nor \
               whole nodes. Ask for a share, or for another partition. A job that names a reservation must name its \
               partition too, since the reservation may be in such a partition.",
    },
    Page {
        number: "GS124",
        title: "the size of a share can't be changed",
        text: "The node learns the size of this kind of share when the job is submitted, and an update does not reach \
               it. So an update can't change it, add a share or take one away. Cancel the job and submit it again.",
    },
    Page {
        number: "GS125",
        title: "ask for a share once, and per node",
        text: "The node learns the size of this kind of share from the request alone, so ask for one share with one \
               option, as a number of units for each node: --gres=NAME:UNITS. Don't ask per task or per job, or for \
               several parts.",
    },
    Page {
        number: "GS126",
        title: "no GPU in a partition for jobs with GPUs",
        text: "The partition is for jobs that have a GPU or a share of one (GpuPartitions in gpushare.conf). Ask for \
               one, such as --gres=gpu:1, or submit the job to another partition. --exclusive or --ntasks-per-gpu \
               alone asks for no GPU. A job without a GPU that names a reservation must name its partition too, \
               since the reservation may be in such a partition.",
    },
    Page {
        number: "GS127",
        title: "too many CPUs for the GPUs",
        text: "A job may have only a limited number of CPUs for each of its GPUs (MaxCPUsPerGpu in gpushare.conf), so \
               that the node's other GPUs can have some. Ask for fewer CPUs or for more GPUs. For a GPU without a type \
               the lowest number counts: name the type. With GPUs for the whole job (--gpus) the job may get one node \
               for each GPU: say how many nodes, for example -N1. With --gres-flags=enforce-binding Slurm may give all \
               CPUs of a node: say --cpus-per-gpu too, or leave the flag out. With a share you must leave it out. \
               Slurm changes a job's CPUs before its GPUs, so in an update ask for more GPUs first, in a command of \
               its own.",
    },
    Page {
        number: "GS128",
        title: "too much memory for the GPUs",
        text: "A job may have only a limited amount of memory for each of its GPUs (MaxMemPerGpu in gpushare.conf). \
               Ask for less memory or for more GPUs. --mem counts for each node, and --mem=0 means all memory of the \
               node. A job that names no memory would get all of it too, unless its partition or slurm.conf has a \
               default. The rest is as for CPUs (GS127).",
    },
    Page {
        number: "GS129",
        title: "no share has that much GPU memory",
        text: "You can ask for a share by its GPU memory (MemoryGRES in gpushare.conf), and get the smallest share \
               with at least that much. No share here is that large: ask for one of the sizes in the message, or for \
               whole GPUs.",
    },
    Page {
        number: "GS151",
        title: "a GPU type was added",
        text: "The request named no GPU type. The QOS has one type for such requests (Mode=default in gpushare.conf), \
               and gpushare accepted the request with that type, as the message says.",
    },
    Page {
        number: "GS152",
        title: "the job will be requeued",
        text: "Jobs of this QOS may be preempted. Slurm then puts the job back into the queue, and it starts again, as \
               with --requeue. Say --no-requeue if it must not.",
    },
    Page {
        number: "GS153",
        title: "output is appended",
        text: "Jobs of this QOS may be preempted and start again. Slurm then appends the output to the same files, as \
               with --open-mode=append, instead of overwriting them. Say --open-mode=truncate if it must overwrite \
               them.",
    },
    Page {
        number: "GS154",
        title: "fewer tasks of the array at once",
        text: "Long tasks of an array hold resources that other users of this free QOS wait for, so only some of \
               them run at once (the number after % in --array). Tasks with a shorter time limit are not held back: \
               set one with --time.",
    },
    Page {
        number: "GS155",
        title: "no login shell before the job",
        text: "With --get-user-env, with an --export that is neither ALL nor NIL, and in scrontab, Slurm starts the \
               user's login shell on the node before the job, outside of the job and its GPUs. This cluster doesn't \
               do that (GetUserEnv in gpushare.conf): the job has only the variables that you exported. With \
               --export=ALL,NAME=VALUE the job has all variables of your shell. Instead of --export=NONE say \
               --export=HOME,USER,PATH, and begin the script with #!/bin/bash -l if it needs what the login shell \
               sets.",
    },
    Page {
        number: "GS156",
        title: "GPU memory became a share",
        text: "The request named GPU memory, such as --gres=gpumem:20G (MemoryGRES in gpushare.conf). The job has the \
               smallest share with that memory, as the message says, and Slurm shows the share. A number without a \
               unit is MiB. Inside the job, srun needs no such option: its steps have the job's share.",
    },
];

/// The page for a number such as `GS101`, ignoring case.
pub fn page(number: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.number.eq_ignore_ascii_case(number))
}

impl Rule {
    /// Whether the QOS is wrong rather than the GPU request; decides which of Slurm's errors goes with the message.
    pub const fn is_about_qos(self) -> bool {
        matches!(self, Rule::QosList | Rule::OptionInsideQos)
    }

    /// Whether no mode and no exemption lets the request pass: Slurm itself would refuse it with a shorter message, or
    /// slurmctld or the node would take it for another request.
    pub const fn holds_in_every_mode(self) -> bool {
        matches!(
            self,
            Rule::OptionInsideQos
                | Rule::TooLong
                | Rule::TypeResembles
                | Rule::ShareFixed
                | Rule::ShareForm
                | Rule::ShareMemory
        )
    }
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
}
