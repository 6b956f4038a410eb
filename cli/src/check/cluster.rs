//! Compares slurm.conf and cgroup.conf, as slurmctld has them, with what gpushare.conf and the QOSes need. Pure;
//! [`crate::requirements`] says what they need.

use gpushare::submit::policy::{Governed, GovernedAccounts};
use gpushare::text::pattern::{Case, Patterns};
use gpushare_machine::config::Config;
use gpushare_node::config::{Mps, Placement};

use super::finding::{Finding, listed};
use super::{memory, names, outside, plugins};
use crate::requirements::{self, Met, Must, Requirement};
use crate::slurm::{Accounts, ProgramError, Qoses, Reach, Settings, Slurm};
use gpushare_slurm_text::version::Version;

/// The findings about slurmctld's and slurmdbd's answers. `hooks`: plugstack.conf has spank_gpushare_prolog.so.
/// `on_node`: this is a node with shares, whose own version of cgroups and cgroup.conf count ([`local::cgroup`]).
pub fn findings(config: &Config, slurm: &Slurm, reach: &Reach, hooks: bool, on_node: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if reach.slurmctld.is_ok() {
        findings.extend(settings(config, slurm, hooks, on_node));
    }
    let has_database = slurm.has_accounting() && reach.slurmdbd.is_ok();
    if !slurm.has_accounting() {
        findings.push(without_accounting(config));
    }
    if has_database {
        findings.extend(governed(config, &slurm.qoses));
        findings.extend(governed_accounts(config, &slurm.accounts));
        findings.extend(names::of_database(config, slurm));
    }
    if reach.slurmctld.is_ok() {
        findings.extend(outside::findings(config, slurm));
        findings.extend(names::of_slurmctld(config, slurm));
        findings.extend(billing(config, slurm));
        findings.extend(spread(config, slurm));
        findings.extend(login_shells(config, &slurm.settings));
        findings.extend(epilogs_as_users(config, &slurm.settings));
        findings.extend(device_memory(config, &slurm.settings));
        findings.extend(memory::defaults(config, slurm));
    }
    findings
}

/// One finding for each daemon that doesn't answer.
pub fn daemons(reach: &Reach) -> Vec<Finding> {
    let line = |about, result: &Result<(), ProgramError>, unit: &str, lost: &str| {
        let reason = result.as_ref().err()?;
        // Of slurmctld itself; munge's socket may say the like.
        let denied = about == "slurmctld" && reason.to_string().ends_with("Access/permission denied");
        let fix = match denied {
            true => "run this as root: PrivateData in slurm.conf hides nodes from users".to_owned(),
            false => format!("see systemctl status {unit} and its log; is its host reachable, and munge up?"),
        };
        let what = if denied { "tell you" } else { "answer" };
        Some(Finding::wrong(about, format!("it doesn't {what}, so {lost} not checked: {reason}"), fix))
    };
    let slurmctld = "Slurm's settings, nodes and partitions are";
    let lines = [
        line("slurmctld", &reach.slurmctld, "slurmctld", slurmctld),
        line("slurmdbd", &reach.slurmdbd, "slurmdbd", "QOSes and accounts are"),
    ];
    lines.into_iter().flatten().collect()
}

/// A cluster may have no database, and gpushare then has no limits to guard.
fn without_accounting(config: &Config) -> Finding {
    let mut said =
        "none by design (AccountingStorageType): there are no QOSes, accounts or limits to check".to_owned();
    let policy = &config.policy;
    let named = [
        ("GovernedQOS", matches!(policy.governed, Governed::Names(_))),
        ("GovernedAccounts", matches!(policy.accounts, GovernedAccounts::Names(_))),
        ("QOS", !policy.records.is_empty() || !config.qoses.is_empty()),
        ("GpuWeight", !config.gpu_weights.is_empty()),
    ];
    let named = names::set(&named);
    if !named.is_empty() {
        said += &format!("; without effect: {}", named.join(", "));
    }
    Finding::unknown("slurmdbd", said)
}

fn settings(config: &Config, slurm: &Slurm, hooks: bool, on_node: bool) -> Vec<Finding> {
    let requirements = requirements::requirements(config, slurm, hooks);
    let judged = requirements.iter().filter(|requirement| !matches!(requirement.must, Must::Choice(_)));
    let judged = judged.filter(|requirement| !(on_node && requirements::is_of_fence(requirement)));
    let by_node = requirements::fence(config, slurm, true).is_empty()
        && !slurm.settings.has("CgroupPlugin", "cgroup/v1");
    let mut findings: Vec<Finding> = judged
        .map(|requirement| match setting(requirement, &slurm.settings) {
            wrong if by_node && wrong.is_wrong() && requirements::is_of_fence(requirement) => {
                let said = format!("{}, on nodes with cgroup v1, as `gpushare check` there says", wrong.said);
                Finding::unknown(requirement.key, said)
            }
            finding => finding,
        })
        .collect();
    if hooks {
        let said = "spank_gpushare_prolog.so in plugstack.conf replaces it";
        findings.extend(["Prolog", "Epilog"].map(|about| Finding::ok(about, said)));
    }
    let is_counted = |requirement: &Requirement| requirement.key == "AccountingStorageTRES";
    if slurm.has_accounting() && !requirements.iter().any(is_counted) {
        findings.push(Finding::unknown("AccountingStorageTRES", "no node has GPUs"));
    }
    findings
}

/// The machines that slurmctld may run on, without their addresses.
pub fn controllers(settings: &Settings) -> Vec<&str> {
    let names = settings.list("SlurmctldHost").into_iter();
    names.map(|name| name.split_once('(').map_or(name, |(name, _)| name)).collect()
}

/// The controllers that take over from `host`, or from which it takes over; they can't be checked from here. `None` if
/// it is the only one.
pub fn other_controllers(controllers: &[&str], host: &str) -> Option<Finding> {
    let others: Vec<&&str> = controllers.iter().filter(|name| **name != host).collect();
    let said = format!(
        "{}: its plugins can't be seen from here; gpushare check --nodes {} --via ssh compares them",
        listed(&others),
        controllers.join(",")
    );
    (!others.is_empty()).then(|| Finding::unknown("SlurmctldHost", said))
}

/// Checks a setting.
pub fn setting(requirement: &Requirement, settings: &Settings) -> Finding {
    match requirement.met(settings) {
        Met::Yes => match &requirement.must {
            // Slurm adds some TRES of its own, which don't matter here.
            Must::Words(words) if requirement.key == "AccountingStorageTRES" => {
                Finding::ok(requirement.key, words.join(","))
            }
            _ => Finding::ok(requirement.key, settings.all(requirement.key).join(", ")),
        },
        Met::No(said) => {
            let (file, line) = (requirement.file.name(), requirement.line(settings).unwrap_or_default());
            // slurmctld ends if a plugin isn't there.
            let missing = requirement.key == "JobSubmitPlugins" && !plugins::has_job_submit(settings);
            let first = if missing { "with gpushare-slurmctld installed on every controller, " } else { "" };
            let fix = format!("{file}: {line}; then {first}{}", requirement.restart());
            Finding::wrong(requirement.key, format!("{said}: {}", requirement.why), fix)
        }
        Met::Perhaps(said) => Finding::unknown(requirement.key, said),
    }
}

fn governed(config: &Config, qoses: &Qoses) -> Option<Finding> {
    let about = "GovernedQOS";
    let found = &qoses.governed;
    match (&config.policy.governed, found.is_empty()) {
        (Governed::Auto, true) => {
            let said = "auto, and no QOS has a limit on a GPU type: nothing is governed";
            Some(Finding::unknown(about, said))
        }
        (Governed::Auto, false) => Some(Finding::ok(about, format!("auto: {}", listed(found)))),
        (Governed::Names(patterns), _) => named(about, patterns, qoses.names.iter()),
    }
}

fn governed_accounts(config: &Config, accounts: &Accounts) -> Option<Finding> {
    let about = "GovernedAccounts";
    let found = &accounts.limited;
    Some(match (&config.policy.accounts, found.is_empty()) {
        (GovernedAccounts::Off, true) => Finding::ok(about, "off, and no account has a limit on a GPU type"),
        (GovernedAccounts::Off, false) => {
            let said = format!("off: requests without a type bypass the limits of {}", listed(found));
            Finding::unknown(about, said)
        }
        (GovernedAccounts::Auto, true) => Finding::ok(about, "auto: no account has a limit on a GPU type"),
        (GovernedAccounts::Auto, false) => Finding::ok(about, format!("auto: {}", listed(found))),
        (GovernedAccounts::Names(patterns), _) => return named(about, patterns, accounts.names.iter()),
    })
}

/// Those that the names mean. [`names`] has the names that mean none.
fn named<'n>(about: &'static str, list: &Patterns, all: impl Iterator<Item = &'n String>) -> Option<Finding> {
    let meant: Vec<&String> = all.filter(|name| list.match_name(name.as_bytes(), Case::Ignored)).collect();
    (!meant.is_empty()).then(|| Finding::ok(about, listed(&meant)))
}

fn billing(config: &Config, slurm: &Slurm) -> Vec<Finding> {
    let about = "TRESBillingWeights";
    let bills = requirements::billing(config, slurm);
    let mut findings: Vec<Finding> = Vec::new();
    let gres = &config.node.share_gres;
    findings.extend(bills.iter().filter(|bill| bill.unknown).map(|bill| {
        let said = format!(
            "partition {} has shares of GPUs whose weight isn't known (no type in Gres=, or none in GpuWeight): they \
             cost nothing in fair-share unless you add GRES/{gres}=, a GPU's weight divided by UnitsPerGpu",
            bill.partition
        );
        Finding::unknown(about, said)
    }));
    let (met, unmet): (Vec<_>, Vec<_>) =
        bills.into_iter().filter(|bill| !(bill.met && bill.unknown)).partition(|bill| bill.met);
    if !met.is_empty() && unmet.is_empty() {
        let names: Vec<String> = met.into_iter().map(|bill| bill.partition).collect();
        findings.push(Finding::ok(about, format!("as GpuWeight says, in {}", listed(&names))));
    }
    findings.extend(unmet.into_iter().map(|bill| {
        let said = format!("partition {} doesn't bill GPUs as GpuWeight says", bill.partition);
        let fix =
            format!("slurm.conf: PartitionName={} … {}; then restart slurmctld", bill.partition, bill.line);
        Finding::wrong(about, said, fix)
    }));
    findings
}

/// Partitions in which shares meet on a full node while another is empty.
fn spread(config: &Config, slurm: &Slurm) -> Option<Finding> {
    let partitions = requirements::filled_in_order(config, slurm);
    let said = format!(
        "not set for {}: Slurm fills one node with shares before the next, and the last ones find no GPU with enough \
         units; LLN=YES in the partition's line of slurm.conf spreads them, and its other jobs, over the nodes",
        listed(&partitions)
    );
    (!partitions.is_empty()).then(|| Finding::unknown("LLN", said))
}

/// Whether users' processes run outside of all jobs. `None` if gpushare fences nothing.
fn login_shells(config: &Config, settings: &Settings) -> Option<Finding> {
    let about = "GetUserEnv";
    if !config.places_anywhere() {
        return None;
    }
    // Up to 24.11.
    let never = settings.get("GetEnvTimeout").split(' ').next() == Some("0");
    Some(match (config.policy.drops_user_env, never) {
        (true, _) => Finding::ok(about, "drop: slurmd runs no user's login shell"),
        (false, true) => Finding::ok(about, "GetEnvTimeout=0: slurmd runs no user's login shell"),
        (false, false) => {
            let said = "allow: slurmd runs login shells of users outside of jobs, where they can open every GPU; \
                        GetUserEnv=drop in gpushare.conf ends that";
            Finding::unknown(about, said)
        }
    })
}

/// Slurm's own limit of GPU memory (26.11), which is for shards: which of the limits applies.
fn device_memory(config: &Config, settings: &Settings) -> Option<Finding> {
    let about = "ConstrainDeviceMemory";
    if !config.places_anywhere() || !settings.get(about).eq_ignore_ascii_case("yes") {
        return None;
    }
    let shards =
        || config.every_node().filter(|node| node.placement != Placement::Off && node.share_gres == "shard");
    if shards().any(|node| node.placement == Placement::Override) {
        let said = "yes: Slurm limits and reserves a shard's memory on the GPU that it allocated, but \
                    Placement=override may put the job on another";
        let fix = "cgroup.conf on each node: ConstrainDeviceMemory=no; then restart slurmd there";
        return Some(Finding::wrong(about, said, fix));
    }
    let mut said = match shards().next() {
        Some(_) => "yes: Slurm limits the memory of shards, so gpushare sets no limit for the job".to_owned(),
        None => "yes: Slurm limits only shards; gpushare limits its own shares".to_owned(),
    };
    if shards().any(|node| node.mps != Mps::Off) {
        said += "; MPS also limits each program: the smaller limit applies";
    }
    Some(Finding::ok(about, said))
}

/// Whether Slurm may start an epilog as the job's user. From 24.11 to 25.11, a thread of slurmstepd that shuts down X11
/// forwarding takes root's rights from the whole process for a moment (`_shutdown_x11_forward` in slurmstepd/mgr.c).
fn epilogs_as_users(config: &Config, settings: &Settings) -> Option<Finding> {
    let about = "PrologFlags";
    let is_in_job = settings.list(about).iter().any(|word| word.eq_ignore_ascii_case("RunInJob"));
    let version = Version::parse(settings.get("SLURM_VERSION"))?;
    let said = format!(
        "RunInJob: Slurm {version} may start an epilog as the job's user; a later job's prolog then releases the share"
    );
    let may = config.places_anywhere() && is_in_job && version.is_from_to((24, 11), (25, 11));
    may.then(|| Finding::unknown(about, said))
}

#[cfg(test)]
mod tests;
