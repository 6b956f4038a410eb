//! `MemoryGRES`: whether the settings of nodes allow to convert GPU memory to units. A unit's memory may differ between
//! nodes: a plugin in slurmctld keeps a job from nodes where its units are too little, but only if a line names them.

use super::{LargestGpu, Problem};
use crate::submit::policy::ShareRules;

const KEY: &str = "MemoryGRES";

/// Checks a GRES of that name with the settings of nodes, and the name of shares.
///
/// # Errors
/// The name is that of a share; or no node takes shares, or one that does has no `MemPerUnit`, or smaller units or
/// fewer than those with a line.
pub(super) fn check(shares: &ShareRules, share_gres: &str, name: &str) -> Result<(), Problem> {
    if [share_gres, "mps", "shard"].contains(&name) {
        return Err(Problem::Against { setting: KEY, needs: "a name that is not a share's" });
    }
    let nodes = || shares.nodes.iter().chain([&shares.elsewhere]).filter(|gpu| gpu.units.is_some());
    let mem_per_unit = |gpu: &LargestGpu| gpu.mem_per_unit;
    match nodes().map(mem_per_unit).min() {
        None => return Err(Problem::Missing { key: "Placement", because: KEY }),
        Some(0) => return Err(Problem::Missing { key: "MemPerUnit", because: KEY }),
        Some(_) => {}
    }
    let elsewhere = &shares.elsewhere;
    let larger = |gpu: &LargestGpu| gpu.mem_per_unit > elsewhere.mem_per_unit || gpu.units > elsewhere.units;
    if elsewhere.units.is_some() && nodes().any(larger) {
        return Err(Problem::Against {
            setting: KEY,
            needs: "the largest MemPerUnit and UnitsPerGpu outside of NodeName= lines",
        });
    }
    Ok(())
}
