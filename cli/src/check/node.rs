//! This node: its GPUs and Slurm's count of them, the ledger, and NVML.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpushare::word::Word;
use gpushare_machine::local;
use gpushare_node::config::{self, NodeConfig, Placement, units};
use gpushare_node::gpu::{self, Detail, Inventory, Roots};
use gpushare_node::ledger::Ledger;
use gpushare_node::nvml::Nvml;
use gpushare_node::supervise::{LEAST_TIMEOUT, LONGEST};
use rustix::fs::statvfs;

use super::finding::Finding;
use super::fix::Then::{Grows, Shrinks};
use super::mps;
use crate::slurm::{Node, Settings};

/// How many more files, each of a block, the ledger needs at least.
const LEAST_ROOM: u64 = 4;
/// How shares of running jobs stay out of a change of gpushare.conf, which a node follows at once.
const DRAINED: &str = "when the node is drained and has no job";

/// Compares what Slurm says about this node with `Placement` and `UnitsPerGpu`. `elsewhere`: another node has shares,
/// so this one may be for whole GPUs only.
pub fn gres(config: &NodeConfig, node: &Node, elsewhere: bool, gpus: Option<&Inventory>) -> Vec<Finding> {
    let about = "Placement";
    let has = |name: &str| node.gres.iter().any(|(found, ..)| found == name);
    let share = config.share_gres.as_str();
    if config.placement == Placement::Off {
        return vec![Finding::ok(about, "off: gpushare neither places nor fences jobs on this node")];
    }
    let word = config.placement.word();
    let units = gpus.and_then(|gpus| gpu::units_of(config, gpus));
    let units = units.as_deref();
    let (is_own, name) = (config.placement == Placement::Own, &node.name);
    let found = if gpus.is_none() && is_without(config, node) {
        Finding::ok(about, format!("{word}: no GPUs and no shares here"))
    } else if !has(share) && has("gpu") && elsewhere && !is_own {
        Finding::ok(about, format!("{word}: {}, whole GPUs only", written(node)))
    } else if !has(share) && is_own {
        let number = units.map_or("N".to_owned(), |units| sum(units).to_string());
        let fix = format!("slurm.conf: NodeName={name} … Gres={share}:{number}; then {Grows}");
        Finding::wrong(about, format!("{word}, but node {name} has no gres/{share}"), fix)
    } else if !has(share) {
        let fix = format!(
            "slurm.conf: NodeName={name} … Gres=…,{share}:N, and gres.conf: its lines (gpushare conf gres prints \
             both); then {Grows}. Or gpushare.conf: another ShareGRES, {DRAINED}"
        );
        Finding::wrong(about, format!("{word}, but node {name} has no gres/{share}"), fix)
    } else if is_own && has("gpu") {
        let said = format!("own, but Slurm itself allocates GPUs of node {name} (gres/gpu)");
        let fix = format!("slurm.conf: Gres= of the node without gpu; then {Shrinks}");
        Finding::wrong(about, said, format!("{fix}. Or gpushare.conf: Placement=follow, {DRAINED}"))
    } else if !is_own && !has("gpu") {
        let fix = format!("slurm.conf: Gres=gpu:… for the node; then {Grows}");
        let fix = format!("{fix}. Or gpushare.conf: Placement=own, {DRAINED}");
        Finding::wrong(about, format!("{word}, but node {name} has no gres/gpu"), fix)
    } else {
        Finding::ok(about, format!("{word}: {}", written(node)))
    };
    let mut findings = vec![found];
    findings.extend(no_units(config, gpus, units));
    findings.extend(capacity(config, node, units));
    findings
}

/// Whether Slurm counts neither GPUs nor shares there: one gpushare.conf may be for nodes with and without GPUs.
fn is_without(config: &NodeConfig, node: &Node) -> bool {
    !node.has("gpu") && !node.has(&config.share_gres)
}

/// Its GRES as `Gres=` has them.
pub fn written(node: &Node) -> String {
    let one = |(name, gres_type, count): &(String, Option<String>, u64)| match gres_type {
        Some(gres_type) => format!("{name}:{gres_type}:{count}"),
        None => format!("{name}:{count}"),
    };
    node.gres.iter().map(one).collect::<Vec<_>>().join(",")
}

fn sum(units: &[u32]) -> u64 {
    units.iter().map(|units| u64::from(*units)).sum()
}

/// Compares `UnitsPerGpu` with the existing GPUs.
fn no_units(config: &NodeConfig, gpus: Option<&Inventory>, units: Option<&[u32]>) -> Option<Finding> {
    let about = "UnitsPerGpu";
    let (gpus, listed) = (gpus?.count(), config.units_per_gpu.as_ref().and_then(units::listed));
    let (said, fix) = match (units, listed) {
        (None, Some(listed)) => (
            format!("a list for {listed} GPUs, but this node has {gpus}"),
            "a line NodeName= for this node, with a number for each of its GPUs",
        ),
        (Some(units), _) if units.iter().all(|units| *units == 0) => (
            format!("no type matches one of this node's {gpus} GPUs"),
            "UnitsPerGpu with the types as in gres.conf, or with parts of the names that nvidia-smi -L shows",
        ),
        _ => return None,
    };
    let said = format!("{said}: every job with a share fails");
    Some(Finding::wrong(about, said, format!("gpushare.conf: {fix}")))
}

/// Checks how many units a GPU has. Under `override` Slurm's count says nothing about this, because it allocates all
/// shares on one GPU.
fn capacity(config: &NodeConfig, node: &Node, units: Option<&[u32]>) -> Option<Finding> {
    let about = "UnitsPerGpu";
    if config.placement == Placement::Override {
        return None;
    }
    let share = &config.share_gres;
    let (all, wanted, written) = (node.count(share), sum(units?), units::written(units?));
    if all == 0 {
        return None;
    }
    let then = if wanted > all { Grows } else { Shrinks };
    let fix =
        format!("slurm.conf: Gres={share}:{wanted} for the node, and gres.conf: the same count; then {then}");
    Some(if all == wanted {
        Finding::ok(about, format!("{written}, as Slurm counts"))
    } else {
        let said = format!("{written} are {wanted}, but Slurm counts {all} {share}");
        Finding::wrong(about, said, format!("{fix}. Or gpushare.conf: another UnitsPerGpu, {DRAINED}"))
    })
}

/// Whether slurmd leaves prologs and epilogs the time that they may need. Slurm shows 65534 for none, and from 25.11 on
/// two keys if they differ.
pub fn time(settings: &Settings) -> Option<Finding> {
    let keys = ["PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout"];
    let set = |key: &&'static str| Some((*key, settings.get(key).split(' ').next()?.parse::<u64>().ok()?));
    let (key, seconds) = keys.iter().filter_map(set).min_by_key(|(_, seconds)| *seconds)?;
    let (least, most) = (LEAST_TIMEOUT.as_secs(), LONGEST.as_secs());
    let said = format!(
        "{seconds} s, but gpushare ends a prolog or epilog after {most} s and then needs some more: slurmd may drain \
         the node before"
    );
    let fix = format!("slurm.conf: {key}={} or more, then scontrol reconfigure", least + 5);
    (seconds < least).then(|| Finding::wrong(key, said, fix))
}

/// The GPUs as the prolog finds them.
pub fn gpus(config: &NodeConfig, name: &str, node: Option<&Node>) -> (Finding, Option<Inventory>) {
    let about = "GpuFile";
    let found = match local::inventory(config, name) {
        Err(_) if node.is_some_and(|node| is_without(config, node)) => {
            return (Finding::ok(about, "no GPU, and Slurm counts none"), None);
        }
        Err(error) => {
            let fix = "see the driver; or gpushare.conf: GpuFile=/dev/nvidia[0-3]";
            return (Finding::wrong(about, error.to_string(), fix), None);
        }
        Ok(found) => found,
    };
    let why = |detail: &Detail| Some(format!("{}: {}", detail.path.display(), detail.unfit.as_ref()?));
    let in_service = found.details.iter().filter(|detail| detail.drain().is_none());
    let unfit: Vec<String> = in_service.filter_map(why).collect();
    let is_nameless = |detail: &&Detail| detail.unfit.is_none() && detail.uuid.is_none();
    let (nameless, count) = (found.details.iter().filter(is_nameless).count(), found.count());
    let finding = if !unfit.is_empty() {
        let said = format!("{count} GPUs; no share on {}", unfit.join(", "));
        Finding::wrong(about, said, "see the driver's log; or gpushare.conf: GpuFile without them")
    } else if nameless > 0 && config.runs_daemons() {
        let said = format!("{count} GPUs; the driver shows no UUID for {nameless} of them, and MPS needs it");
        Finding::wrong(about, said, "load NVIDIA's driver; or gpushare.conf: Mps=off MpsWholeGpus=no")
    } else {
        let gpus: Vec<String> = found.details.iter().map(described).collect();
        Finding::ok(about, gpus.join(", "))
    };
    (finding, Some(found))
}

/// Index, device, PCI address, NUMA node and type: facts that an administrator would have to look up in five places.
fn described(detail: &Detail) -> String {
    let numa = detail.pci.as_deref().and_then(|pci| gpu::pci::numa(&Roots::system(), pci));
    let numa = numa.map(|numa| format!("NUMA {numa}"));
    let words = [Some(detail.path.display().to_string()), detail.pci.clone(), numa, detail.model.clone()];
    let known: Vec<String> = words.into_iter().flatten().collect();
    format!("{}: {}", detail.index, known.join(" "))
}

/// Who may change the ledger, and what is in it but shouldn't be.
pub fn ledger(ledger: &Ledger, path: &Path) -> Vec<Finding> {
    let about = "ledger";
    let shown = path.display();
    if let Some(full) = full(path) {
        return vec![full];
    }
    let Ok(found) = path.symlink_metadata() else {
        return vec![Finding::ok(about, format!("{shown} does not exist; the first prolog makes it"))];
    };
    if !found.is_dir() || found.uid() != 0 || found.mode() & 0o022 != 0 {
        let said = format!("{shown} is not a directory that only root can change");
        // Its entries are of running jobs, so it stays where it is.
        let fix = if found.is_dir() {
            format!("chown root {shown} && chmod go-w {shown}")
        } else {
            format!("drain the node; when its jobs have ended, rm {shown}")
        };
        return vec![Finding::wrong(about, said, fix)];
    }
    match ledger.list() {
        Err(error) => vec![Finding::wrong(about, error.to_string(), "see the file system")],
        Ok(listing) if !listing.garbage.is_empty() => {
            let names: Vec<&str> = listing.garbage.iter().take(5).map(|one| one.name.as_str()).collect();
            let said = format!("{shown}/jobs has files that can't be read as entries: {}", names.join(", "));
            let fix = "the next prolog sets aside files that are not entries; entries of another version, or \
                       unreadable ones, go when their jobs end";
            vec![Finding::wrong(about, said, fix)]
        }
        Ok(listing) => vec![Finding::ok(about, format!("{} jobs", listing.entries.len()))],
    }
}

/// Whether its file system takes no more entries. One that doesn't count its inodes says 0 for all of them.
fn full(path: &Path) -> Option<Finding> {
    let found = path.ancestors().find_map(|path| statvfs(path).ok())?;
    let (shown, inodes) = (path.display(), found.f_files > 0 && found.f_favail < LEAST_ROOM);
    let said = format!("{shown} has no {} left: jobs fail", if inodes { "inodes" } else { "space" });
    let fix = "df /run; df -i /run; remove what fills it".to_owned();
    (inodes || found.f_bavail < LEAST_ROOM).then(|| Finding::wrong("ledger", said, fix))
}

/// Whether NVML reports what the GPUs are doing; who drained one knows its fault.
pub fn nvml(config: &NodeConfig, gpus: Option<&Inventory>) -> Vec<Finding> {
    let about = "Nvml";
    if config.nvml == config::Nvml::Off {
        return Vec::new();
    }
    let fix = "see the driver; or gpushare.conf: Nvml=off, and MemPerUnit for memory limits";
    let found = match Nvml::start(config, &Ledger::system(), &Roots::system(), false).measured() {
        Ok(measured) => {
            let state = |detail: &Detail| measured.of(&detail.drain().and(detail.gpu())?);
            let details = gpus.iter().flat_map(|gpus| &gpus.details);
            let drained: Vec<_> = details.filter_map(state).collect();
            let mut others = measured.gpus.iter().filter(|state| !drained.contains(state));
            let fault = others.find_map(|gpu| Some((&gpu.uuid, gpu.fault.as_ref()?)));
            let found = match fault {
                Some((uuid, fault)) => {
                    let said = format!("{uuid} takes no shares: {fault}");
                    Finding::wrong(about, said, "gpushare gpu drain; repair it")
                }
                None => Finding::ok(about, format!("{} GPUs measured", measured.gpus.len())),
            };
            return std::iter::once(found).chain(mps::compute_mode(config, &measured.gpus)).collect();
        }
        // The ledger alone decides, and an explicit MemPerUnit limits memory.
        Err(trouble) if trouble.is_absence() => {
            Finding::unknown(about, format!("{trouble}: shares are placed by the ledger alone"))
        }
        Err(trouble) => Finding::wrong(about, trouble.to_string(), fix),
    };
    vec![found]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Status;
    use gpushare_machine::config::Config;

    fn verdicts(lines: &str, gres: &str, elsewhere: bool, gpus: u32) -> Vec<&'static str> {
        let config = Config::parse(lines).unwrap().of_node("n1").clone();
        let node = Node::read(&format!("NodeName=n1 Arch=x86_64 Gres={gres} State=IDLE")).unwrap();
        let word = |finding: Finding| match finding.status {
            Status::Ok => "ok",
            Status::Wrong(_) => "wrong",
            Status::Unknown => "unknown",
        };
        let gpu = |index| Detail {
            index,
            path: "/dev/nvidia0".into(),
            number: None,
            uuid: None,
            pci: None,
            model: None,
            gres_type: Some("a40".to_owned()),
            unfit: None,
        };
        let gpus = Inventory { details: (0..gpus).map(gpu).collect() };
        let found = (gpus.count() > 0).then_some(&gpus);
        super::gres(&config, &node, elsewhere, found).into_iter().map(word).collect()
    }

    #[test]
    fn slurmd_must_wait_longer_than_a_prolog_may_take() {
        for (shown, expected) in [
            ("PrologEpilogTimeout = 65534\n", None),
            ("PrologEpilogTimeout = 55\n", None),
            ("PrologEpilogTimeout = 54\n", Some("PrologEpilogTimeout")),
            ("EpilogTimeout = 30\nPrologTimeout = 65534\n", Some("EpilogTimeout")),
            ("", None),
        ] {
            assert_eq!(
                time(&Settings::parse(shown)).map(|finding| finding.about),
                expected.map(Into::into),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_placement_fits_what_slurm_counts() {
        let own = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80";
        let follow = "Placement=follow\nUnitsPerGpu=100";
        let over = "Placement=override\nUnitsPerGpu=80";
        for (lines, gres, expected) in [
            ("Placement=off", "(null)", vec!["ok"]),
            (own, "gpushare:320", vec!["ok", "ok"]),
            (own, "gpushare:160", vec!["ok", "wrong"]),
            (own, "(null)", vec!["wrong"]),
            ("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=24,24,12,0", "gpushare:60", vec!["ok", "ok"]),
            ("Placement=own\nShareGRES=gpushare\nUnitsPerGpu=24,24,12", "gpushare:60", vec!["ok", "wrong"]),
            (
                "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=v100:12",
                "gpushare:60",
                vec!["ok", "wrong", "wrong"],
            ),
            ("NodeName=n[1-3] Placement=follow UnitsPerGpu=a40:24", "gpu:a40:4,mps:96", vec!["ok", "ok"]),
            ("Placement=follow\nUnitsPerGpu=24\nNodeName=n1 Placement=off", "gpu:a40:4", vec!["ok"]),
            (own, "gpu:a40:4,gpushare:320", vec!["wrong", "ok"]),
            (follow, "gpu:a40:4(S:0-1),mps:a40:400", vec!["ok", "ok"]),
            (follow, "gpu:4,mps:800", vec!["ok", "wrong"]),
            (follow, "mps:400", vec!["wrong", "ok"]),
            (follow, "gpu:a40:4", vec!["wrong"]),
            (over, "gpu:titanrtx:4,mps:titanrtx:1280", vec!["ok"]),
        ] {
            assert_eq!(verdicts(lines, gres, false, 4), expected, "{lines} {gres}");
        }
        for (lines, gres, expected) in [
            (follow, "gpu:a40:4", "ok"),
            (over, "gpu:a40:4", "ok"),
            (follow, "(null)", "wrong"),
            (own, "gpu:a40:4", "wrong"),
        ] {
            assert_eq!(verdicts(lines, gres, true, 4), [expected], "{lines} {gres}, and others have shares");
        }
        assert_eq!(verdicts(own, "nic:2", true, 0), ["ok"]);
        assert_eq!(verdicts(own, "gpu:4", true, 0), ["wrong"]);
    }
}
