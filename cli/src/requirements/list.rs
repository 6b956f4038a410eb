//! Which settings gpushare.conf and the QOSes need.

use gpushare_machine::config::Config;
use gpushare_node::config::Placement;
use gpushare_qos::config::ManagedQos;
use gpushare_qos::config::value::{self, Value};

use super::{File, Must, Requirement};
use crate::slurm::{Node, Slurm};
use gpushare_slurm_text::version::{Release, Version};

/// All settings, in the order in which an administrator would read slurm.conf. `hooks`: plugstack.conf has
/// spank_gpushare_prolog.so.
pub fn requirements(config: &Config, slurm: &Slurm, hooks: bool) -> Vec<Requirement> {
    let mut requirements = vec![Requirement::slurm(
        "JobSubmitPlugins",
        Must::Last("gpushare"),
        "gpushare checks no job, or a later plugin can change jobs that it has checked",
    )];
    if slurm.has_accounting() {
        requirements.push(enforcement());
        requirements.extend(counted(config, slurm));
        requirements.extend(preemption(config, slurm));
        requirements.extend(priority(config, slurm));
    }
    // The default of 22.05.
    if slurm.settings.has("SelectType", "select/linear") {
        let why = "Slurm counts no GPU of any job: no limit on GPUs holds, and no step gets one";
        requirements.push(Requirement::slurm("SelectType", Must::Be("select/cons_tres"), why));
    }
    requirements.extend(select(config, slurm));
    requirements.extend(nodes(config, slurm, hooks));
    requirements
}

fn owned(words: &[&str]) -> Must {
    Must::Words(words.iter().map(|word| (*word).to_owned()).collect())
}

fn enforcement() -> Requirement {
    Requirement::slurm(
        "AccountingStorageEnforce",
        owned(&["associations", "limits", "qos"]),
        "Slurm does not enforce limits of QOSes, or anybody may use any QOS (with it, users without an association \
         can't submit, and their waiting jobs don't start: check 'sacctmgr show assoc' first)",
    )
}

/// Types of GPUs and the GRES of shares: Slurm can only limit what it counts.
fn counted(config: &Config, slurm: &Slurm) -> Option<Requirement> {
    let mut wanted = Vec::new();
    for (name, gres_type, _) in slurm.nodes.iter().flat_map(|node| &node.gres) {
        if name == "gpu" {
            wanted.push("gres/gpu".to_owned());
            wanted.extend(gres_type.iter().map(|gres_type| format!("gres/gpu:{gres_type}")));
        }
    }
    // Includes what the file names: slurmctld doesn't start if a weight is for something that it doesn't count.
    let named = types(config);
    let has_gpus = !named.is_empty() || slurm_has_gpus(config, slurm);
    if has_gpus && (slurm.nodes.is_empty() || !named.is_empty()) {
        wanted.push("gres/gpu".to_owned());
    }
    // Needed even before a node has it: adding one needs a restart of slurmctld, and earlier shares are never counted.
    if config.places_anywhere() {
        wanted.push(format!("gres/{}", config.node.share_gres));
    }
    // Nodes may have a type in uppercase.
    let typed = named.iter().map(|gres_type| format!("gres/gpu:{gres_type}"));
    for tres in typed.chain(slurm.accounts.tres_of(config).map(str::to_owned)) {
        if !wanted.iter().any(|word| word.eq_ignore_ascii_case(&tres)) {
            wanted.push(tres);
        }
    }
    wanted.sort();
    wanted.dedup();
    let why = "QOSes and accounts can't limit what is missing, and fair-share can't count it (a new one needs a \
               restart of slurmctld)";
    (!wanted.is_empty()).then(|| Requirement::slurm("AccountingStorageTRES", Must::Words(wanted), why))
}

/// The types that GPU quotas and weights name.
pub fn types(config: &Config) -> Vec<&str> {
    let shares =
        config.qoses.iter().flat_map(|managed| &managed.gpus).map(|(gres_type, _)| gres_type.as_str());
    shares.chain(config.gpu_weights.iter().map(|weight| weight.gres_type.as_str())).collect()
}

fn has(managed: &ManagedQos, field: &str) -> bool {
    managed.settings.contains_key(field)
}

/// Whether the QOS's jobs are preempted in this way.
fn is_preempted_by(managed: &ManagedQos, mode: &str) -> bool {
    value::names(&managed.settings, "PreemptMode").contains(mode)
}

/// Whether a QOS of the file has a limit on memory.
pub fn limits_memory(config: &Config) -> bool {
    let is_limited = |value: &Value| matches!(value, Value::Tres(limits) if limits.contains_key("mem"));
    config.qoses.iter().flat_map(|managed| managed.settings.values()).any(is_limited)
}

/// Limits on memory count what jobs are allocated, and Slurm allocates no memory unless it is a consumable resource.
/// Where Slurm chooses a share's GPU, it fills one before the next unless it is told otherwise.
fn select(config: &Config, slurm: &Slurm) -> Option<Requirement> {
    let memory = slurm.has_accounting() && limits_memory(config);
    let version = Version::parse(slurm.settings.get("SLURM_VERSION"));
    let spread = config.every_node().any(|node| node.placement == Placement::Follow)
        && version.is_some_and(|version| version.release >= Release(23, 11));
    let counts_memory = slurm.settings.get("SelectTypeParameters").to_ascii_uppercase().contains("_MEMORY");
    let why = match (memory, spread) {
        (false, false) => return None,
        (true, _) if !(counts_memory && spread) => {
            "limits on memory have no effect (with it, a job that names no memory gets all of a node's: set \
             DefMemPerCPU or DefMemPerGPU too)"
        }
        (_, _) => "Slurm fills one GPU with shares before it uses the next",
    };
    Some(Requirement::slurm("SelectTypeParameters", Must::Select { memory, spread }, why))
}

fn preemption(config: &Config, slurm: &Slurm) -> Vec<Requirement> {
    if slurm.qoses.preempting.is_empty() && !config.qoses.iter().any(|managed| has(managed, "Preempt")) {
        return Vec::new();
    }
    let is_suspended = |one: &ManagedQos| ["suspend", "gang"].iter().any(|mode| is_preempted_by(one, mode));
    let (mode, why) = if config.qoses.iter().any(is_suspended) {
        (Must::Be("SUSPEND,GANG"), "no job can be suspended (a suspended job keeps its GPUs)")
    } else {
        (Must::NotOff("REQUEUE"), "nothing is preempted, whatever PreemptMode a QOS has")
    };
    let mut requirements = vec![
        Requirement::slurm("PreemptType", Must::Be("preempt/qos"), "no QOS preempts another"),
        Requirement::slurm("PreemptMode", mode, why),
    ];
    if config.qoses.iter().any(|one| is_preempted_by(one, "requeue") && !one.requeues) {
        let why = "a preempted batch job ends for good, unless it was submitted with --requeue";
        requirements.push(Requirement::slurm("JobRequeue", Must::Be("1"), why));
    }
    requirements
}

fn priority(config: &Config, slurm: &Slurm) -> Vec<Requirement> {
    let by_qos = slurm.qoses.priorities || config.qoses.iter().any(|managed| has(managed, "Priority"));
    let by_use = !config.gpu_weights.is_empty();
    let mut requirements = Vec::new();
    if by_qos || by_use {
        let why = "jobs start in the order of their submission";
        requirements.push(Requirement::slurm("PriorityType", Must::Be("priority/multifactor"), why));
    }
    if by_qos {
        let why = "the priorities of QOSes have no effect";
        requirements.push(Requirement::slurm("PriorityWeightQOS", Must::Positive(100_000), why));
    }
    if by_use {
        requirements.extend(fair_share(config));
    }
    requirements
}

/// These weights come from a cluster with GPUs of several types whose administrators published them.
fn fair_share(config: &Config) -> Vec<Requirement> {
    let choice = |key, value: &str, why: &str| Requirement::slurm(key, Must::Choice(value.to_owned()), why);
    let gres = &config.node.share_gres;
    let shares = if config.places_anywhere() { format!(",GRES/{gres}=20000") } else { String::new() };
    let why = "the billing weights of GPUs have no effect on priority";
    vec![
        Requirement::slurm("PriorityWeightFairshare", Must::Positive(100_000), why),
        choice("PriorityWeightAge", "10000", "Points of a job that has waited for PriorityMaxAge or longer"),
        choice("PriorityMaxAge", "5-0", "After this time a job's points for waiting no longer grow"),
        choice(
            "PriorityWeightTRES",
            &format!("GRES/gpu=20000{shares}"),
            "Points of a job that asks for all GPUs or units of its partition",
        ),
        choice(
            "PriorityWeightPartition",
            "10000",
            "Points of a job in the partition with the highest PriorityJobFactor",
        ),
        choice("PriorityDecayHalfLife", "60-0", "After this time, use counts half"),
    ]
}

/// Whether Slurm itself allocates GPUs.
fn slurm_has_gpus(config: &Config, slurm: &Slurm) -> bool {
    let is_not_own = |node: &Node| config.of_node(&node.name).placement != Placement::Own;
    config.every_node().any(|node| matches!(node.placement, Placement::Follow | Placement::Override))
        || slurm.nodes.iter().any(|node| node.has("gpu") && is_not_own(node))
}

const TASK_PLUGIN: &str = "TaskPlugin";

/// What Slurm's own fence needs. On v2 gpushare's filter is enough if Slurm knows no GPUs.
pub fn fence(config: &Config, slurm: &Slurm, is_v2: bool) -> Vec<Requirement> {
    if is_v2 && !slurm_has_gpus(config, slurm) {
        return Vec::new();
    }
    let why = "a job can use GPUs that Slurm gave to others";
    vec![
        Requirement::slurm(TASK_PLUGIN, owned(&["task/cgroup"]), "a step's devices can't be fenced"),
        Requirement { file: File::Cgroup, ..Requirement::slurm("ConstrainDevices", Must::Be("yes"), why) },
    ]
}

/// Whether it is one of [`fence`].
pub fn is_of_fence(requirement: &Requirement) -> bool {
    requirement.file == File::Cgroup || requirement.key == TASK_PLUGIN
}

fn nodes(config: &Config, slurm: &Slurm, hooks: bool) -> Vec<Requirement> {
    let placed = config.places_anywhere();
    let named = slurm.nodes.iter().flat_map(|node| &node.gres).any(|(name, ..)| name == "gpu");
    let gpus = named || !types(config).is_empty() || slurm_has_gpus(config, slurm);
    let mut gres: Vec<String> = gpus.then(|| "gpu".to_owned()).into_iter().collect();
    if placed {
        gres.push(config.node.share_gres.clone());
    }
    // Slurm must know the name, or it refuses the request before its plugins see it.
    gres.extend(config.policy.memory_gres.clone());
    if gres.is_empty() {
        return Vec::new();
    }
    let mut all =
        vec![Requirement::slurm("GresTypes", Must::Words(gres), "Slurm does not know these resources")];
    // With autodetect each node has the version that it mounts, which only a check of that node knows.
    let fence = fence(config, slurm, slurm.settings.has("CgroupPlugin", "cgroup/v2"));
    let (of_slurm, of_cgroup): (Vec<_>, Vec<_>) =
        fence.into_iter().partition(|requirement| requirement.file == File::Slurm);
    all.extend(of_slurm);
    if placed {
        let why = "processes can outlive their job and keep its GPU";
        all.push(Requirement::slurm("ProctrackType", Must::Be("proctrack/cgroup"), why));
        let why = "ssh sessions are in no step, and the prolog can't trust the share's size";
        all.push(Requirement::slurm("PrologFlags", owned(&["Contain"]), why));
        if !hooks {
            all.push(Requirement::slurm("Prolog", Must::Run("gpushare-prolog"), "no job gets its share"));
            all.push(Requirement::slurm("Epilog", Must::Run("gpushare-epilog"), "no share is released"));
        }
    }
    all.extend(of_cgroup);
    all
}
