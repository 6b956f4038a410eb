//! GPUs of this node that are out of service, `gpushare gpu drain`, and Slurm's count without them.

use gpushare_machine::local;
use gpushare_node::config::{NodeConfig, Placement};
use gpushare_node::gpu::{self, Detail, Inventory};

use super::finding::Finding;
use super::node::{GROWS, written};
use crate::slurm::Node;

const FIX: &str = "docs/placement.md, \"A GPU out of service\"; or gpushare gpu resume";

/// One line for each, and one if Slurm's count of `node` doesn't follow; then the node gets the count that it has with
/// all GPUs, for the other checks. `full` is what slurm.conf says: when no GPU is drained, and that fits, somebody may
/// have set slurmctld's lower count, and not taken it back.
pub fn drained(config: &NodeConfig, gpus: &Inventory, node: Option<&mut Node>, full: u64) -> Vec<Finding> {
    let about = "drained";
    let one = |detail: &Detail| {
        let said = format!("GPU {} is {}", detail.index, local::drained(detail.drain()?, local::now()));
        Some(match config.placement {
            Placement::Follow => Finding::wrong(about, format!("{said}; jobs fail there"), FIX),
            _ => Finding::unknown(about, said),
        })
    };
    let mut found: Vec<Finding> = gpus.details.iter().filter_map(one).collect();
    let (back, units) = (found.is_empty(), gpu::units_of(config, gpus));
    let fits = units.is_some_and(|units| units.iter().map(|units| u64::from(*units)).sum::<u64>() == full);
    let is_low = |node: &Node| fits && super::local::sum(&node.gres, &config.share_gres) < full;
    let said = node.filter(|node| !back || is_low(node)).and_then(|node| recount(config, node, gpus));
    let fix = format!("that command, if a GPU was resumed; otherwise {GROWS}");
    let finding =
        |said| if back { Finding::wrong("UnitsPerGpu", said, fix) } else { Finding::unknown(about, said) };
    found.extend(said.map(finding));
    found
}

/// The command with which Slurm counts the units of the GPUs in service, if it counts others. It refuses another count
/// of a GRES with `File=`, so only under `own`. Sets the node's count to that of all GPUs.
pub fn recount(config: &NodeConfig, node: &mut Node, gpus: &Inventory) -> Option<String> {
    let units = gpu::units_of(config, gpus).filter(|_| config.placement == Placement::Own)?;
    let in_service = units.iter().zip(&gpus.details).filter(|(_, detail)| detail.drain().is_none());
    let left = in_service.map(|(units, _)| u64::from(*units)).sum();
    let mut its = node.gres.iter().enumerate().filter(|(_, (name, ..))| *name == config.share_gres);
    let (Some((at, _)), None) = (its.next(), its.next()) else { return None }; // by type: nobody knows which
    let counted = std::mem::replace(&mut node.gres.get_mut(at)?.2, left);
    let (name, share, gres) = (&node.name, &config.share_gres, written(node));
    let said = format!(
        "Slurm counts {counted} {share} here, and the GPUs in service have {left}; until slurmctld restarts or is \
         reconfigured: scontrol update NodeName={name} Gres={gres}"
    );
    node.gres.get_mut(at)?.2 = units.iter().map(|units| u64::from(*units)).sum();
    (counted != left).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Status;
    use gpushare_machine::config::Config;
    use gpushare_node::gpu::{Drain, Unfit};

    fn gpus(drained: &[u32]) -> Inventory {
        let drain = |index: u32| Drain {
            uuid: format!("GPU-{index}"),
            place: format!("nvidia{index}"),
            since: local::now() - 12 * 86_400,
            user: "root".to_owned(),
            reason: "the fan is broken".to_owned(),
        };
        let gpu = |index| Detail {
            index,
            path: format!("/dev/nvidia{index}").into(),
            number: None,
            uuid: None,
            pci: None,
            model: None,
            gres_type: None,
            unfit: drained.contains(&index).then(|| Unfit::Drained(Box::new(drain(index)))),
        };
        Inventory { details: (0..4).map(gpu).collect() }
    }

    #[test]
    fn slurms_count_follows_where_slurm_only_counts() {
        let own = "Placement=own\nShareGRES=gpushare\nUnitsPerGpu=80";
        let (follow, over) = ("Placement=follow\nUnitsPerGpu=100", "Placement=override\nUnitsPerGpu=80");
        for (rules, gres, full, drained, unknown, wrong, then) in [
            (own, "gpushare:320", 320, &[][..], 0, 0, 320),
            (own, "gpushare:320", 320, &[2], 2, 0, 320),
            (own, "gpushare:240", 320, &[2], 1, 0, 320),
            (own, "gpushare:240", 320, &[1, 2], 3, 0, 320),
            // All are back, and the count isn't.
            (own, "gpushare:240", 320, &[], 0, 1, 320),
            // That is a mistake of another kind.
            (own, "gpushare:300", 300, &[], 0, 0, 300),
            (over, "mps:1280", 1280, &[2], 1, 0, 1280),
            (own, "gpushare:400", 320, &[], 0, 0, 400),
            (over, "mps:960", 1280, &[], 0, 0, 960),
            (follow, "mps:400", 400, &[0, 2], 0, 2, 400),
        ] {
            let config = Config::parse(rules).unwrap().of_node("n1").clone();
            let mut node = Node::read(&format!("NodeName=n1 Gres=nic:a:2,{gres} State=IDLE")).unwrap();
            let found = super::drained(&config, &gpus(drained), Some(&mut node), full);
            let count = |is: fn(&Status) -> bool| found.iter().filter(|finding| is(&finding.status)).count();
            assert_eq!(
                count(|status| *status == Status::Unknown),
                unknown,
                "{rules} {gres} {drained:?}: {found:?}"
            );
            assert_eq!(
                count(|status| matches!(status, Status::Wrong(_))),
                wrong,
                "{rules} {gres} {drained:?}"
            );
            assert_eq!(node.gres[1].2, then, "{rules} {gres} {drained:?}");
        }
        let config = Config::parse(own).unwrap().of_node("n1").clone();
        let mut node = Node::read("NodeName=n1 Gres=nic:a:2,gpushare:320 State=IDLE").unwrap();
        let found = super::drained(&config, &gpus(&[2]), Some(&mut node), 0);
        let said = &found[0].said;
        assert!(
            said.starts_with("GPU 2 is drained for 12-00:00:0")
                && said.ends_with(" by root: the fan is broken"),
            "{said}"
        );
        let command = "scontrol update NodeName=n1 Gres=nic:a:2,gpushare:240";
        assert!(
            found[1].said.starts_with("Slurm counts 320 gpushare here") && found[1].said.ends_with(command)
        );
        assert_eq!(recount(&config, &mut node, &gpus(&[])), None, "all are back");
        let mut node = Node::read("NodeName=n1 Gres=gpushare:a:160,gpushare:b:160 State=IDLE").unwrap();
        assert_eq!(recount(&config, &mut node, &gpus(&[2])), None, "of which type?");
    }
}
