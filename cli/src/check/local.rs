//! This node's own cgroup.conf and gres.conf. `scontrol show config` shows slurmctld's cgroup.conf, and slurmctld never
//! sees the flags of a node's gres.conf: only the files here determine how GPUs are fenced and divided here.

use std::path::Path;

use gpushare::text::gres::{self, NodeGres};
use gpushare::text::hostlist;
use gpushare_machine::config::Config;
use gpushare_node::config::{NodeConfig, Placement, gpu_files};
use gpushare_node::fence::locate::Hierarchy;

use super::cluster::setting;
use super::finding::{Finding, Status};
use super::fix::{Fix, Then};
use crate::requirements::{self, File, hierarchy, mounts};
use crate::slurm::file::{ConfFile, last};
use crate::slurm::{Settings, Slurm};

/// What must be right before a slurmd starts with other fixes.
pub const CGROUP_PLUGIN: &str = "CgroupPlugin";
const HERE: &str = "restart slurmd on this node";

/// Checks what Slurm's own fence needs on this node: in cgroup.conf by its file, in slurm.conf as slurmctld has it.
pub fn cgroup(config: &Config, slurm: &Slurm, path: &Path, (node, answered): (&str, bool)) -> Vec<Finding> {
    let own = ConfFile::read(path).unwrap_or_default().settings();
    // Slurm's parse_config.c reads a boolean in this way.
    let plain = |value: &str| match value.to_ascii_lowercase().as_str() {
        "yes" | "up" | "true" | "1" => "yes".to_owned(),
        _ => value.to_owned(),
    };
    let is_v2 = hierarchy(own.get("CgroupPlugin"), &mounts()) == Hierarchy::Unified;
    let mut judged = requirements::fence(config, slurm, is_v2);
    // Only slurmctld's answer has all settings.
    judged.retain(|requirement| requirement.file == File::Cgroup || answered);
    // `scontrol show config` shows nothing of a cgroup.conf with it.
    let disabled = own.has("CgroupPlugin", "disabled") && config.of_node(node).placement != Placement::Off;
    let shown = path.display();
    let fix = |line: &str| Fix::file(path, line).then(Then::Restart(format!("restart slurmd on {node}")));
    let disabled = disabled.then(|| {
        let said =
            format!("{shown}: 'disabled': no job can be fenced, and slurmd ends if slurm.conf needs cgroups");
        Finding::wrong(CGROUP_PLUGIN, said, fix("CgroupPlugin=autodetect"))
    });
    disabled
        .into_iter()
        .chain(judged.iter().map(|requirement| {
            if requirement.file == File::Slurm {
                return setting(requirement, &slurm.settings);
            }
            let value = plain(own.get(requirement.key));
            let mut finding =
                setting(requirement, &Settings::of(std::iter::once((requirement.key, value.as_str()))));
            finding.said = format!("{shown}: {}", finding.said);
            if let Status::Wrong(advice) = &mut finding.status {
                *advice = fix(&format!("{}=yes", requirement.key));
            }
            finding
        }))
        .collect()
}

/// What gres.conf defines for the node, and slurm.conf.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OwnGres {
    /// How many GPUs; `None` if slurmd finds them itself, or the file names none.
    gpus: Option<u64>,
    /// The same by type; without one it is empty.
    types: Vec<(String, u64)>,
    /// The lines of the share's GRES.
    shares: Vec<Share>,
    /// What slurm.conf says.
    promised: Vec<NodeGres>,
}

/// A line about shares.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    /// `Count`; `None` if unknown.
    count: Option<u64>,
    /// `Flags=all_sharing`
    all: bool,
}

impl OwnGres {
    /// What the files say about this node's GPUs and shares.
    pub fn of((conf, slurm_conf): (&ConfFile, &ConfFile), node: &str, share: &str) -> OwnGres {
        let mut found = OwnGres { promised: promised(slurm_conf, node), ..OwnGres::default() };
        let mut detects = false;
        for fields in conf.fields() {
            let get = |key: &str| last(&fields, key);
            if get("NodeName").is_some_and(|list| hostlist::contains(list, node) == Some(false)) {
                continue;
            }
            detects |= get("AutoDetect").is_some_and(|word| !word.eq_ignore_ascii_case("off"));
            let files =
                get("File").or_else(|| get("Files")).map(|files| gpu_files::paths(files).unwrap_or_default());
            let files = files.map(|files| u64::try_from(files.len()).unwrap_or(u64::MAX));
            let count = get("Count").and_then(|count| gres::read(&format!("x:{count}")).pop());
            let count = count.map(|(.., count)| count);
            match get("Name") {
                Some(name) if name.eq_ignore_ascii_case("gpu") => {
                    let count = files.or(count).unwrap_or(1);
                    *found.gpus.get_or_insert(0) += count;
                    found.types.push((get("Type").unwrap_or_default().to_owned(), count));
                }
                Some(name) if name.eq_ignore_ascii_case(share) => {
                    let flags = get("Flags").unwrap_or_default();
                    let all = flags.split(',').any(|flag| flag.eq_ignore_ascii_case("all_sharing"));
                    let count = count.filter(|_| files.is_none_or(|files| files == 1));
                    found.shares.push(Share { count, all });
                }
                _ => {}
            }
        }
        if detects {
            found.gpus = None;
        }
        found
    }

    /// As many GPUs as in slurm.conf, but not those of its types: slurmd then has no device for some, and slurmctld
    /// drains the node ("count reported lower than configured"). With mps or shard slurmd ends.
    fn untyped(&self, path: &Path) -> Option<Finding> {
        self.gpus.filter(|gpus| *gpus == sum(&self.promised, "gpu"))?;
        let of = |wanted: &str| -> u64 {
            let its = self.types.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            its.map(|(_, count)| count).sum()
        };
        let typed = self.promised.iter().filter(|(name, ..)| name == "gpu");
        let mut typed = typed.filter_map(|(_, gres_type, count)| Some((gres_type.as_deref()?, *count)));
        let (gres_type, count) = typed.find(|(gres_type, count)| of(gres_type) < *count)?;
        let said = format!(
            "{} has {} gpu of type {gres_type} for this node, but its Gres= in slurm.conf has {count}",
            path.display(),
            of(gres_type)
        );
        let fix = Fix::file(path, format!("Type={gres_type} in the lines of {count} gpu"));
        Some(Finding::wrong("gres.conf", said, fix.then(Then::Restart(HERE.into()))))
    }
}

/// What the slurm.conf here defines for the node: its `Gres=`, or that of `NodeName=DEFAULT` before it.
fn promised(conf: &ConfFile, node: &str) -> Vec<NodeGres> {
    let (mut default, mut found) = ("", "");
    for fields in conf.fields() {
        match (last(&fields, "NodeName"), last(&fields, "Gres")) {
            (Some(names), Some(text)) if names.eq_ignore_ascii_case("DEFAULT") => default = text,
            (Some(names), text) if hostlist::contains(names, node) == Some(true) => {
                found = text.unwrap_or(default)
            }
            _ => {}
        }
    }
    gres::read(found)
}

/// How many of the GRES `name` there are.
fn sum(all: &[NodeGres], name: &str) -> u64 {
    all.iter().filter(|(found, ..)| found == name).map(|(.., count)| count).sum()
}

/// Compares the file with what slurmctld counts on the node, and with what the placement needs. `gpus` is how many
/// exist.
pub fn gres(config: &NodeConfig, own: &OwnGres, gres: &[NodeGres], path: &Path, gpus: usize) -> Vec<Finding> {
    let about = "gres.conf";
    let shown = path.display();
    let share = config.share_gres.as_str();
    let mut findings: Vec<Finding> = own.untyped(path).into_iter().collect();
    let own_gpus = own.gpus.filter(|_| findings.is_empty());
    let shares: Option<u64> = own.shares.iter().map(|share| share.count).sum();
    let shares = shares.filter(|_| !own.shares.is_empty());
    for (name, here) in [("gpu", own_gpus), (share, shares)] {
        let there = sum(gres, name);
        if let Some(here) = here.filter(|here| *here != there) {
            // Where slurmctld hasn't read slurm.conf yet, its number isn't the right one; but it decides which order
            // drains nothing.
            let order = match sum(&own.promised, name) {
                agreed if agreed == there => Then::Restart(HERE.into()),
                _ if here < there => Then::Shrinks,
                _ => Then::Grows,
            };
            let (change, order) = if name == "gpu" && there > u64::try_from(gpus).unwrap_or(u64::MAX) {
                (format!("{gpus} gpu for this node, and its Gres= in slurm.conf the same"), Then::Shrinks)
            } else {
                (format!("as many {name} as Gres= of this node in slurm.conf has"), order)
            };
            let said = format!("{shown} has {here} {name} for this node, but slurmctld counts {there}");
            findings.push(Finding::wrong(about, said, Fix::file(path, change).then(order)));
        }
    }
    let needs_all =
        config.placement == Placement::Follow && share == "mps" && gpus > 1 && sum(gres, share) > 0;
    if needs_all && (own.shares.is_empty() || own.shares.iter().any(|share| !share.all)) {
        let lacks = format!("{shown} has no Flags=all_sharing for {share}");
        let said = format!("{lacks}: Slurm gives shares on one GPU of this node at a time");
        let fix = Fix::file(path, format!("Flags=all_sharing in each line with Name={share}"));
        findings.push(Finding::wrong(about, said, fix.then(Then::Restart(HERE.into()))));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(about, format!("{shown}, as slurmctld counts")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(text: &str) -> ConfFile {
        ConfFile { files: Vec::new(), lines: text.lines().map(str::to_owned).collect(), unread: None }
    }

    #[test]
    fn a_nodes_gres_conf_is_compared_with_what_slurmctld_counts() {
        let follow = "Placement=follow\nUnitsPerGpu=100";
        let own = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80";
        let good = "AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=a40 File=/dev/nvidia[0-3]\n";
        let shares = |line: &str| format!("{good}NodeName=n1 Name=mps {line}");
        for (rules, text, gres, wrong) in [
            (follow, shares("Count=400 Flags=all_sharing"), "gpu:a40:4,mps:a40:400", vec![]),
            (follow, shares("Count=400"), "gpu:a40:4,mps:a40:400", vec!["no Flags=all_sharing"]),
            (
                follow,
                shares("Count=400 Flags=one_sharing"),
                "gpu:a40:4,mps:400",
                vec!["no Flags=all_sharing"],
            ),
            (follow, shares("Count=400 Flags=nvidia_gpu_env,ALL_SHARING"), "gpu:a40:4,mps:400", vec![]),
            (follow, good.to_owned(), "gpu:a40:4,mps:400", vec!["no Flags=all_sharing"]),
            // A node for whole GPUs only.
            (follow, good.to_owned(), "gpu:a40:4", vec![]),
            (follow, shares("Count=300 Flags=all_sharing"), "gpu:4,mps:400", vec!["has 300 mps"]),
            (follow, good.to_owned(), "gpu:a40:3", vec!["has 4 gpu"]),
            (follow, good.replace("off", "nvml"), "gpu:a40:3", vec![]),
            (follow, good.replace("n[1-2]", "n[2-3]"), "gpu:a40:4", vec![]),
            (
                follow,
                format!(
                    "{good}Name=mps Count=1K File=/dev/nvidia0 Flags=all_sharing\nName=mps Count=76 File=/dev/nvidia1"
                ),
                "gpu:4,mps:1100",
                vec!["no Flags=all_sharing"],
            ),
            (
                "Placement=follow\nShareGRES=shard\nUnitsPerGpu=8",
                format!("{good}Name=shard Count=32"),
                "gpu:4,shard:32",
                vec![],
            ),
            ("Placement=override\nUnitsPerGpu=80", shares("Count=1280"), "gpu:4,mps:1280", vec![]),
            (own, "Name=gpushare Count=320 Flags=CountOnly".to_owned(), "gpushare:320", vec![]),
            (
                own,
                "Name=gpushare Count=80 Flags=CountOnly".to_owned(),
                "gpushare:320",
                vec!["has 80 gpushare"],
            ),
            (own, String::new(), "gpushare:320", vec![]),
        ] {
            let config = Config::parse(rules).unwrap().of_node("n1").clone();
            let read = OwnGres::of((&conf(&text), &conf("")), "n1", &config.share_gres);
            let counted = gres::read(gres);
            let found = super::gres(&config, &read, &counted, Path::new("gres.conf"), 4);
            let found: Vec<&Finding> = found.iter().filter(|finding| finding.is_wrong()).collect();
            assert_eq!(found.len(), wrong.len(), "{text} {gres}: {found:?}");
            for (finding, words) in found.iter().zip(wrong) {
                assert!(finding.said.contains(words), "{finding:?}");
            }
        }
    }

    #[test]
    fn gpus_of_a_type_need_lines_with_the_type() {
        let config = Config::parse("# none").unwrap().of_node("n1").clone();
        let file = "File=/dev/nvidia";
        for (gres_conf, gres, said) in [
            (format!("Name=gpu {file}[0-3]"), "gpu:a40:4", Some("has 0 gpu of type a40 ")),
            (
                format!("Name=gpu Type=a40 {file}[0-1]\nName=gpu {file}[2-3]"),
                "gpu:a40:4",
                Some("has 2 gpu of type a40 "),
            ),
            (
                format!("Name=gpu Type=a40 {file}[0-3]"),
                "gpu:a40:2,gpu:h100:2",
                Some("has 0 gpu of type h100 "),
            ),
            (format!("Name=gpu Type=A40 {file}[0-3]"), "gpu:a40:4", None),
            (format!("Name=gpu Type=a40 {file}[0-3]"), "gpu:4", None),
            ("AutoDetect=nvml\nName=gpu".to_owned(), "gpu:a40:4", None),
            (String::new(), "gpu:a40:4", None),
        ] {
            let slurm_conf = conf(&format!("NodeName=n1 Gres={gres}"));
            let own = OwnGres::of((&conf(&gres_conf), &slurm_conf), "n1", "mps");
            // slurmctld may count what is in slurm.conf, or what slurmd said.
            let counted: &[_] = if said.is_none() { &[gres] } else { &[gres, "gpu:a40:2"] };
            for counted in counted {
                let found = super::gres(&config, &own, &gres::read(counted), Path::new("gres.conf"), 4);
                let [finding] = found.as_slice() else { panic!("{found:?}") };
                assert_eq!(finding.status == Status::Ok, said.is_none(), "{gres_conf} {finding:?}");
                assert!(said.is_none_or(|said| finding.said.contains(said)), "{finding:?}");
            }
        }
    }

    #[test]
    fn a_count_is_corrected_in_the_order_that_drains_nothing() {
        let slurm_conf = |gres: &str| conf(&format!("NodeName=DEFAULT Gres=mps:400\nNodeName=n[1-2] {gres}"));
        let config = Config::parse("Placement=follow\nUnitsPerGpu=100").unwrap().of_node("n1").clone();
        for (slurm_conf, count, there, order) in [
            (slurm_conf("CPUs=4"), 300, 400, Then::Restart(HERE.into())),
            (slurm_conf("Gres=mps:400"), 500, 400, Then::Restart(HERE.into())),
            (slurm_conf("Gres=gpu:4,mps:200"), 200, 400, Then::Shrinks),
            (slurm_conf("Gres=gpu:4,mps:800"), 800, 400, Then::Grows),
            (conf("NodeName=n3 Gres=mps:400"), 300, 400, Then::Shrinks),
        ] {
            let share = Share { count: Some(count), all: true };
            let own =
                OwnGres { shares: vec![share], promised: promised(&slurm_conf, "n1"), ..OwnGres::default() };
            let counted = gres::read(&format!("mps:{there}"));
            let found = super::gres(&config, &own, &counted, Path::new("gres.conf"), 1);
            let [Finding { status: Status::Wrong(fix), .. }] = found.as_slice() else { panic!("{found:?}") };
            let expected =
                Fix::file(Path::new("gres.conf"), "as many mps as Gres= of this node in slurm.conf has");
            assert_eq!(*fix, expected.then(order), "{count} of {there}");
        }
    }

    #[test]
    fn the_nodes_own_cgroup_conf_counts_whatever_slurmctld_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cgroup.conf");
        let config = Config::parse("Placement=follow\nUnitsPerGpu=100").unwrap();
        let slurm = Slurm {
            settings: Settings::parse("ConstrainDevices = yes\nCgroupPlugin = cgroup/v2\n"),
            ..Slurm::default()
        };
        let status = || {
            let found = cgroup(&config, &slurm, &path, ("n1", false));
            let [finding] = found.as_slice() else { return None };
            assert_eq!(finding.about, "ConstrainDevices");
            Some(finding.status == Status::Ok)
        };
        assert_eq!(status(), Some(false), "no file");
        for (text, ok) in [
            ("ConstrainDevices=yes", true),
            ("constraindevices = TRUE # x", true),
            ("# ConstrainDevices=yes", false),
            ("ConstrainDevices=no", false),
            ("ConstrainDevices=yes\nConstrainDevices=no", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(status(), Some(ok), "{text}");
        }
    }

    #[test]
    fn a_nodes_own_version_of_cgroups_decides_what_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cgroup.conf");
        let config = Config::parse("Placement=own\nUnitsPerGpu=80").unwrap();
        for (own, expected) in
            [("cgroup/v1", vec!["TaskPlugin", "ConstrainDevices"]), ("cgroup/v2", Vec::new())]
        {
            std::fs::write(&path, format!("CgroupPlugin={own}\n")).unwrap();
            for of_slurmctld in ["cgroup/v1", "cgroup/v2", "autodetect"] {
                let settings = format!("TaskPlugin = task/affinity\nCgroupPlugin = {of_slurmctld}\n");
                let slurm = Slurm { settings: Settings::parse(&settings), ..Slurm::default() };
                let found = cgroup(&config, &slurm, &path, ("n1", true));
                let found: Vec<&str> = found.iter().map(|finding| &*finding.about).collect();
                assert_eq!(found, expected, "{own} {of_slurmctld}");
                // From 24.11 on, scontrol shows no value for none.
                let bare = Slurm { settings: Settings::default(), ..slurm };
                let found = cgroup(&config, &bare, &path, ("n1", true));
                assert_eq!(found.iter().filter(|finding| finding.is_wrong()).count(), expected.len());
            }
        }
    }
}
