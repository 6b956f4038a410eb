//! slurm.conf and cgroup.conf, as slurmctld has them, against what gpushare.conf and the QOSes need: pure.

use gpushare::config::{Config, Placement};
use gpushare::policy::Governed;

use super::finding::Finding;
use super::settings::Settings;

/// What slurmctld's database says, as far as it was asked.
#[derive(Debug, Default)]
pub struct Accounting {
    /// QOSes with a limit on a type of a governed GRES.
    pub governed: Vec<String>,
    /// QOSes that preempt others.
    pub preempting: Vec<String>,
    /// Whether QOSes differ in priority.
    pub priorities: bool,
}

/// A node, as `scontrol show node` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmNode {
    /// Its name.
    pub name: String,
    /// `(gpu, Some(a40), 4)`
    pub gres: Vec<(String, Option<String>, u64)>,
}

/// Reads a line of `scontrol -o show node`.
pub fn slurm_node(line: &str) -> Option<SlurmNode> {
    let value =
        |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let gres = |text: &str| {
        // gpu:a40:4(S:0-1)
        let mut words = text.split('(').next()?.split(':');
        let (name, next) = (words.next()?.to_owned(), words.next());
        match (next, words.next()) {
            (Some(kind), Some(count)) => Some((name, Some(kind.to_owned()), count.parse().ok()?)),
            (Some(count), None) => Some((name, None, count.parse().ok()?)),
            (None, _) => Some((name, None, 1)),
        }
    };
    let list = value("Gres").filter(|list| *list != "(null)").unwrap_or_default();
    Some(SlurmNode {
        name: value("NodeName")?.to_owned(),
        gres: list.split(',').filter(|word| !word.is_empty()).filter_map(gres).collect(),
    })
}

/// Everything that concerns submission.
pub fn submission(settings: &Settings, config: &Config, accounting: &Accounting) -> Vec<Finding> {
    let mut findings = vec![order(settings), enforcement(settings), governed(config, accounting)];
    findings.extend(preemption(settings, accounting));
    findings.extend(priority(settings, accounting));
    findings
}

fn order(settings: &Settings) -> Finding {
    let about = "JobSubmitPlugins";
    let plugins = settings.list(about);
    let others: Vec<&str> = plugins.iter().copied().filter(|name| *name != "gpushare").collect();
    let right = [others.as_slice(), &["gpushare"]].concat().join(",");
    let right = format!("JobSubmitPlugins={right}");
    match plugins.iter().position(|name| *name == "gpushare") {
        None => Finding::wrong(about, "it doesn't name gpushare: no job is looked at", right),
        Some(at) if at + 1 == plugins.len() => Finding::ok(about, plugins.join(",")),
        Some(_) => Finding::wrong(
            about,
            format!("'{}': what comes after gpushare can change what it has judged", plugins.join(",")),
            right,
        ),
    }
}

fn enforcement(settings: &Settings) -> Finding {
    let about = "AccountingStorageEnforce";
    let all = settings.has(about, "all");
    let missing: Vec<&str> = ["associations", "limits", "qos"]
        .into_iter()
        .filter(|word| !all && !settings.has(about, word))
        .collect();
    if missing.is_empty() {
        return Finding::ok(about, settings.get(about));
    }
    Finding::wrong(
        about,
        format!(
            "'{}' lacks {}: limits of QOSes don't hold, or anybody may use any",
            settings.get(about),
            missing.join(" and ")
        ),
        "AccountingStorageEnforce=associations,limits,qos",
    )
}

fn governed(config: &Config, accounting: &Accounting) -> Finding {
    let about = "GovernedQOS";
    let found = &accounting.governed;
    match (&config.policy.governed, found.is_empty()) {
        (Governed::Auto, true) => {
            Finding::unknown(about, "auto, and no QOS has a limit on a GPU type: nothing is governed")
        }
        (Governed::Auto, false) => Finding::ok(about, format!("auto: {}", listed(found))),
        (Governed::Names(_), _) => Finding::ok(about, "a list of names"),
    }
}

/// The first few.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
}

fn preemption(settings: &Settings, accounting: &Accounting) -> Option<Finding> {
    let about = "PreemptType";
    if accounting.preempting.is_empty() {
        return None;
    }
    let (kind, mode) = (settings.get("PreemptType"), settings.get("PreemptMode"));
    let off = mode.is_empty() || settings.has("PreemptMode", "OFF");
    Some(if kind == "preempt/qos" && !off {
        Finding::ok(about, format!("{kind}, PreemptMode={mode}"))
    } else {
        Finding::wrong(
            about,
            format!(
                "QOSes preempt others ({}), and nothing is preempted with PreemptType='{kind}' PreemptMode='{mode}'",
                listed(&accounting.preempting)
            ),
            "PreemptType=preempt/qos and PreemptMode=REQUEUE",
        )
    })
}

fn priority(settings: &Settings, accounting: &Accounting) -> Option<Finding> {
    let about = "PriorityWeightQOS";
    if !accounting.priorities {
        return None;
    }
    Some(if settings.get("PriorityType") == "priority/multifactor" && settings.number(about) > 0 {
        Finding::ok(about, settings.get(about))
    } else {
        Finding::wrong(
            about,
            "QOSes differ in priority, and it counts for nothing",
            "PriorityType=priority/multifactor and PriorityWeightQOS=10000",
        )
    })
}

/// What slurm.conf and cgroup.conf need for shares on nodes. `hooks`: plugstack.conf has spank_gpushare_prolog.so.
pub fn nodes(settings: &Settings, config: &Config, hooks: bool) -> Vec<Finding> {
    if config.node.placement == Placement::Off {
        return Vec::new();
    }
    let one_of = |key: &'static str, word: &str, why: &str| {
        if settings.has(key, word) {
            Finding::ok(key, settings.get(key))
        } else {
            let before = settings.get(key);
            let comma =
                if before.is_empty() || before == "(none)" { String::new() } else { format!("{before},") };
            Finding::wrong(key, format!("'{before}' lacks {word}: {why}"), format!("{key}={comma}{word}"))
        }
    };
    let mut findings = vec![
        one_of("GresTypes", &config.node.share_gres, "Slurm counts no shares"),
        one_of("TaskPlugin", "task/cgroup", "there is no cgroup of a step to fence"),
        one_of(
            "PrologFlags",
            "Contain",
            "ssh sessions have no step, and the share's size is not the prolog's to trust",
        ),
    ];
    if settings.get("ProctrackType") == "proctrack/cgroup" {
        findings.push(Finding::ok("ProctrackType", "proctrack/cgroup"));
    } else {
        findings.push(Finding::wrong(
            "ProctrackType",
            format!("'{}': steps have no cgroup", settings.get("ProctrackType")),
            "ProctrackType=proctrack/cgroup",
        ));
    }
    findings.extend(devices(settings, config));
    findings.push(program(settings, "Prolog", hooks));
    findings.push(program(settings, "Epilog", hooks));
    findings
}

fn devices(settings: &Settings, config: &Config) -> Option<Finding> {
    let about = "ConstrainDevices";
    let v2 = settings.get("CgroupPlugin") == "cgroup/v2";
    let needed = config.node.placement != Placement::Own || !v2;
    if settings.get(about) == "yes" {
        return Some(Finding::ok(about, "yes"));
    }
    needed.then(|| {
        Finding::wrong(
            about,
            "Slurm doesn't fence devices, which this Placement rests on",
            "cgroup.conf: ConstrainDevices=yes",
        )
    })
}

/// Prolog= and Epilog= may be scripts of the site's that call ours.
fn program(settings: &Settings, key: &'static str, hooks: bool) -> Finding {
    let wanted = format!("gpushare-{}", key.to_ascii_lowercase());
    let named = settings.list(key);
    if named.iter().any(|path| path.rsplit('/').next() == Some(&wanted)) {
        return Finding::ok(key, named.join(","));
    }
    if hooks {
        return Finding::ok(key, "spank_gpushare_prolog.so in plugstack.conf does its work");
    }
    if named.is_empty() {
        return Finding::wrong(
            key,
            "there is none: no job gets its share",
            format!("{key}=/usr/sbin/{wanted}"),
        );
    }
    Finding::unknown(key, format!("'{}' must call /usr/sbin/{wanted}", named.join(",")))
}

/// The types of GPUs on nodes against AccountingStorageTRES: what isn't counted can't be limited.
pub fn counted(settings: &Settings, config: &Config, nodes: &[SlurmNode]) -> Finding {
    let about = "AccountingStorageTRES";
    let mut wanted: Vec<String> = Vec::new();
    for (name, kind, _) in nodes.iter().flat_map(|node| &node.gres) {
        let is_share = config.node.placement != Placement::Off && *name == config.node.share_gres;
        if name == "gpu" || is_share {
            let typed = kind.as_ref().filter(|_| name == "gpu").map(|kind| format!("gres/{name}:{kind}"));
            wanted.extend([format!("gres/{name}")].into_iter().chain(typed));
        }
    }
    wanted.sort();
    wanted.dedup();
    let missing: Vec<String> = wanted.iter().filter(|tres| !settings.has(about, tres)).cloned().collect();
    if wanted.is_empty() {
        return Finding::unknown(about, "no node has GPUs");
    }
    if missing.is_empty() {
        return Finding::ok(about, wanted.join(","));
    }
    Finding::wrong(
        about,
        format!("it lacks {}: no QOS can limit that", missing.join(", ")),
        format!("AccountingStorageTRES={}", wanted.join(",")),
    )
}

#[cfg(test)]
mod tests;
