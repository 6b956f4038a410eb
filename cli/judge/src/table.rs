//! The options that sbatch accepts from 22.05 to 26.05, and the variables that replace options.
//!
//! From sbatch(1) and the answers of each release to `sbatch --OPTION=`. The table lacks options of a site's SPANK
//! plugins, since it can't know whether the next word belongs to one.

use std::sync::LazyLock;

use gpushare_slurm_text::version::Release;

/// Whether an option takes a value, in getopt_long(3)'s terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// No value.
    Flag,
    /// A value, but only in the same word.
    Optional,
    /// A value, in the same word or the next.
    Required,
}

/// An option of sbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Without its dashes.
    pub name: &'static str,
    /// Its letter, if it has one.
    pub short: Option<u8>,
    /// Whether it takes a value.
    pub arity: Arity,
    since: Release,
    until: Release,
}

/// The options of one release, by name.
pub fn options(release: Release) -> impl Iterator<Item = &'static Spec> + Clone {
    ALL.iter().filter(move |spec| spec.since <= release && release <= spec.until)
}

static ALL: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let mut all: Vec<Spec> = PLAIN.split(' ').map(required).chain(OTHERS.iter().copied()).collect();
    all.sort_by_key(|spec| spec.name);
    all
});

/// Those that need a value, have no letter, and are in each release.
const PLAIN: &str = "\
    acctg-freq batch bb bbf cluster cluster-constraint comment container context cores-per-socket cpu-freq \
    cpus-per-gpu deadline delay-boot export export-file gid gpu-bind gpu-freq gpus-per-node gpus-per-socket \
    gpus-per-task gres gres-flags hint kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind \
    mem-per-cpu mem-per-gpu mincpus network ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket \
    ntasks-per-tres open-mode prefer priority profile reservation signal sockets-per-node switches \
    tasks-per-node thread-spec threads-per-core time-min tmp uid wait-all-nodes wckey wrap";

const fn spec(name: &'static str, arity: Arity) -> Spec {
    Spec { name, short: None, arity, since: Release(0, 0), until: Release(u8::MAX, 0) }
}

const fn flag(name: &'static str) -> Spec {
    spec(name, Arity::Flag)
}

const fn optional(name: &'static str) -> Spec {
    spec(name, Arity::Optional)
}

const fn required(name: &'static str) -> Spec {
    spec(name, Arity::Required)
}

impl Spec {
    const fn short(self, letter: u8) -> Spec {
        Spec { short: Some(letter), ..self }
    }

    const fn since(self, year: u8, month: u8) -> Spec {
        Spec { since: Release(year, month), ..self }
    }

    const fn until(self, year: u8, month: u8) -> Spec {
        Spec { until: Release(year, month), ..self }
    }
}

const OTHERS: &[Spec] = &[
    required("account").short(b'A'),
    required("array").short(b'a'),
    required("autocomplete").since(23, 2),
    required("begin").short(b'b'),
    required("chdir").short(b'D'),
    required("clusters").short(b'M'),
    flag("consolidate-segments").since(25, 11),
    required("constraint").short(b'C'),
    required("container-id").since(23, 2),
    required("container-type").since(26, 5),
    flag("contiguous"),
    required("core-spec").short(b'S'),
    required("cpus-per-task").short(b'c'),
    required("dependency").short(b'd'),
    required("distribution").short(b'm'),
    required("error").short(b'e'),
    required("exclude").short(b'x'),
    optional("exclusive"),
    flag("external").since(25, 5),
    required("extra").since(23, 2),
    required("extra-node-info").short(b'B'),
    optional("get-user-env").until(24, 11),
    flag("get-user-env").since(25, 5),
    required("gpus").short(b'G'),
    flag("help").short(b'h'),
    flag("hold").short(b'H'),
    flag("ignore-pbs"),
    required("input").short(b'i'),
    required("job-name").short(b'J'),
    required("licenses").short(b'L'),
    required("mem-update").since(26, 5),
    optional("nice"),
    optional("no-kill").short(b'k'),
    flag("no-requeue"),
    required("nodefile").short(b'F'),
    required("nodelist").short(b'w'),
    required("nodes").short(b'N'),
    required("ntasks").short(b'n'),
    optional("oom-kill-step").since(24, 11),
    required("output").short(b'o'),
    flag("overcommit").short(b'O'),
    flag("oversubscribe").short(b's'),
    flag("parsable"),
    required("partition").short(b'p'),
    required("power").until(23, 11),
    optional("propagate"),
    required("qos").short(b'q'),
    flag("quiet").short(b'Q'),
    flag("reboot"),
    flag("requeue").until(25, 5),
    optional("requeue").since(25, 11),
    required("resources").since(25, 11),
    optional("resv-ports").since(24, 5),
    required("segment").since(24, 5),
    flag("spread-job"),
    flag("spread-segments").since(25, 11),
    flag("stepmgr").since(24, 5),
    flag("test-only"),
    required("time").short(b't'),
    required("tres-bind").since(23, 11),
    required("tres-per-task").since(23, 2),
    flag("usage"),
    flag("use-min-nodes"),
    flag("verbose").short(b'v'),
    flag("version").short(b'V'),
    flag("wait").short(b'W'),
];

/// The variables that matter here and their options, in the order in which sbatch reads them: the second of
/// `SBATCH_NO_REQUEUE` and `SBATCH_REQUEUE` wins.
pub const VARIABLES: &[(&str, &str)] = &[
    ("SBATCH_IGNORE_PBS", "ignore-pbs"),
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_ARRAY_INX", "array"),
    ("SBATCH_CLUSTERS", "clusters"),
    ("SLURM_CLUSTERS", "clusters"),
    ("SBATCH_CPUS_PER_GPU", "cpus-per-gpu"),
    ("SBATCH_EXCLUSIVE", "exclusive"),
    ("SBATCH_EXPORT", "export"),
    ("SBATCH_GET_USER_ENV", "get-user-env"),
    ("SBATCH_GRES", "gres"),
    ("SBATCH_GPUS", "gpus"),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node"),
    ("SBATCH_GPUS_PER_SOCKET", "gpus-per-socket"),
    ("SBATCH_GPUS_PER_TASK", "gpus-per-task"),
    ("SBATCH_GRES_FLAGS", "gres-flags"),
    ("SBATCH_MEM_PER_CPU", "mem-per-cpu"),
    ("SBATCH_MEM_PER_GPU", "mem-per-gpu"),
    ("SBATCH_MEM_PER_NODE", "mem"),
    ("SBATCH_NO_REQUEUE", "no-requeue"),
    ("SBATCH_OPEN_MODE", "open-mode"),
    ("SBATCH_PARTITION", "partition"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_REQUEUE", "requeue"),
    ("SBATCH_RESERVATION", "reservation"),
    ("SBATCH_TIMELIMIT", "time"),
    ("SBATCH_TRES_PER_TASK", "tres-per-task"),
];
