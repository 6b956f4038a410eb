//! `MemoryGRES`: converts GPU memory to units. A plugin in slurmctld doesn't know which node a job will get, so a unit
//! must have the same memory on every node that takes shares.

use super::{Placement, Problem, Sizes, UnitsPerGpu};
use crate::submit::policy::MemoryGres;

const KEY: &str = "MemoryGRES";

/// The rule for a GRES of that name, with all settings of nodes, and the name of shares.
///
/// # Errors
/// The name is that of a share, no node takes shares, or the nodes that do have no `MemPerUnit` or not the same one.
pub(super) fn rule(sizes: &[Sizes], share_gres: &str, name: String) -> Result<MemoryGres, Problem> {
    let own = [share_gres, "mps", "shard"];
    if own.contains(&name.as_str()) {
        return Err(Problem::Against { setting: KEY, needs: "a name that is not a share's" });
    }
    let nodes: Vec<_> = sizes.iter().filter(|node| node.placement != Placement::Off).collect();
    let first = nodes.first().ok_or(Problem::Missing { key: "Placement", because: KEY })?;
    let mem_per_unit = first.mem_per_unit.ok_or(Problem::Missing { key: "MemPerUnit", because: KEY })?;
    if nodes.iter().any(|node| node.mem_per_unit != first.mem_per_unit) {
        return Err(Problem::Against { setting: KEY, needs: "the same MemPerUnit on all nodes" });
    }
    let mut types: Vec<(String, u64)> = Vec::new();
    for node in &nodes {
        let Some(UnitsPerGpu::ByType(of_node)) = &node.units_per_gpu else { continue };
        for (gres_type, units) in of_node {
            let known = types.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(gres_type));
            match known {
                Some((_, most)) => *most = (*most).max(u64::from(*units)),
                None => types.push((gres_type.clone(), u64::from(*units))),
            }
        }
    }
    Ok(MemoryGres { name, mem_per_unit: u64::from(mem_per_unit).max(1), types })
}
