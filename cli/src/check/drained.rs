//! GPUs of this node that are out of service, `gpushare gpu drain`, and Slurm's count without them.

use gpushare_machine::local;
use gpushare_node::config::{NodeConfig, Placement};
use gpushare_node::gpu::{self, Detail, Inventory};

use super::finding::Finding;
use super::node::written;
use crate::slurm::Node;

const FIX: &str = "docs/placement.md, \"A GPU out of service\"; or gpushare gpu resume";

/// One line for each, and one if Slurm's count of `node` doesn't follow; then the node gets the count that it has with
/// all GPUs, with which `UnitsPerGpu` is compared.
pub fn drained(config: &NodeConfig, gpus: &Inventory, node: Option<&mut Node>) -> Vec<Finding> {
    let one = |detail: &Detail| {
        let said = format!("GPU {} is {}", detail.index, local::drained(detail.drain()?, local::now()));
        Some(match config.placement {
            Placement::Follow => Finding::wrong("drained", format!("{said}; jobs fail there"), FIX),
            _ => Finding::unknown("drained", said),
        })
    };
    let mut found: Vec<Finding> = gpus.details.iter().filter_map(one).collect();
    let said = node.filter(|_| !found.is_empty()).and_then(|node| recount(config, node, gpus));
    found.extend(said.map(|said| Finding::unknown("drained", said)));
    found
}

/// How Slurm counts only the units of the GPUs in service, if it counts others: in the files, because once `scontrol
/// update` has changed the count, Slurm drains the node when slurmd registers again while shares run (22.05 to 26.05).
/// It refuses another count of a GRES with `File=`, so only under `own`. Sets the node's count to that of all GPUs.
pub fn recount(config: &NodeConfig, node: &mut Node, gpus: &Inventory) -> Option<String> {
    let units = gpu::units_of(config, gpus).filter(|_| config.placement == Placement::Own)?;
    let in_service = units.iter().zip(&gpus.details).filter(|(_, detail)| detail.drain().is_none());
    let left = in_service.map(|(units, _)| u64::from(*units)).sum();
    let mut its = node.gres.iter().enumerate().filter(|(_, (name, ..))| *name == config.share_gres);
    let (Some((at, _)), None) = (its.next(), its.next()) else { return None }; // by type: nobody knows which
    let counted = std::mem::replace(&mut node.gres.get_mut(at)?.2, left);
    let (name, share, gres) = (&node.name, &config.share_gres, written(node));
    // Jobs survive both: no job's share becomes smaller.
    let order = if counted < left { "slurmd here, then slurmctld" } else { "slurmctld, then slurmd here" };
    let said = format!(
        "Slurm counts {counted} {share} here, and the GPUs in service have {left}; slurm.conf: Gres={gres} for {name}, \
         and gres.conf: Count={left}; then restart {order}"
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
        for (rules, gres, drained, unknown, wrong, then) in [
            (own, "gpushare:320", &[][..], 0, 0, 320),
            (own, "gpushare:320", &[2], 2, 0, 320),
            (own, "gpushare:240", &[2], 1, 0, 320),
            (own, "gpushare:240", &[1, 2], 3, 0, 320),
            // All are back, and the count isn't: the line UnitsPerGpu says so.
            (own, "gpushare:240", &[], 0, 0, 240),
            (over, "mps:1280", &[2], 1, 0, 1280),
            (own, "gpushare:400", &[], 0, 0, 400),
            (over, "mps:960", &[], 0, 0, 960),
            (follow, "mps:400", &[0, 2], 0, 2, 400),
        ] {
            let config = Config::parse(rules).unwrap().of_node("n1").clone();
            let mut node = Node::read(&format!("NodeName=n1 Gres=nic:a:2,{gres} State=IDLE")).unwrap();
            let found = super::drained(&config, &gpus(drained), Some(&mut node));
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
        let found = super::drained(&config, &gpus(&[2]), Some(&mut node));
        let said = &found[0].said;
        assert!(
            said.starts_with("GPU 2 is drained for 12-00:00:0")
                && said.ends_with(" by root: the fan is broken"),
            "{said}"
        );
        assert_eq!(
            found[1].said,
            "Slurm counts 320 gpushare here, and the GPUs in service have 240; slurm.conf: Gres=nic:a:2,gpushare:240 \
             for n1, and gres.conf: Count=240; then restart slurmctld, then slurmd here"
        );
        assert_eq!(recount(&config, &mut node, &gpus(&[])), None, "all are back");
        let mut node = Node::read("NodeName=n1 Gres=gpushare:240 State=IDLE").unwrap();
        let said = recount(&config, &mut node, &gpus(&[])).unwrap();
        assert!(said.ends_with("Count=320; then restart slurmd here, then slurmctld"), "{said}");
        let mut node = Node::read("NodeName=n1 Gres=gpushare:a:160,gpushare:b:160 State=IDLE").unwrap();
        assert_eq!(recount(&config, &mut node, &gpus(&[2])), None, "of which type?");
    }
}
