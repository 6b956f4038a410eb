//! Slurm's own limit of a share's memory, and the variables that name the share's size: for slurmstepd alone.

use super::{MEMORY, MPS_MEMORY};
use crate::gpu::is_same_pci;

/// Slurm 26.11 sets this where it limits the memory of shards (`ConstrainDeviceMemory=yes`), as in
/// `0000:c1:00.0=3002M`, with a comma before each further GPU.
pub const SHARD_MEMORY: &str = "SLURM_SHARD_MEM_PER_GPU";

/// Makes the variables agree with Slurm's limit in [`SHARD_MEMORY`], for a share of the GPU at `pci`. If Slurm's limit
/// is smaller, programs learn that size, since they can't get more. A limit on another GPU, which Slurm allocated and
/// gpushare replaced, doesn't apply to this job.
pub fn agree(variables: &mut Vec<(String, String)>, slurms: &str, pci: &str) {
    let own = variables.iter().find(|(name, _)| name == MEMORY).and_then(|(_, mib)| mib.parse::<u32>().ok());
    let sizes = slurms.split(',').filter_map(|one| one.trim().rsplit_once('='));
    let Some((_, size)) = { sizes }.find(|(address, _)| is_same_pci(address, pci)) else {
        let told = own.map(|mib| format!("{pci}={mib}M")).unwrap_or_default();
        variables.push((SHARD_MEMORY.to_owned(), told));
        return;
    };
    let size = size.strip_suffix('M').and_then(|mib| mib.parse::<u32>().ok());
    let Some(smaller) = size.filter(|size| own.is_some_and(|own| *size < own)) else { return };
    for (name, value) in variables {
        match name.as_str() {
            MEMORY => *value = smaller.to_string(),
            MPS_MEMORY => *value = format!("0={smaller}M"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Mps, NodeConfig};
    use crate::environment::tests::entry;
    use crate::environment::variables;
    use crate::fake::share;
    use crate::ledger::Entry;

    #[test]
    fn slurms_own_limit_is_never_contradicted() {
        let share = Entry { holding: share(40, Some(4096)), ..entry(40, None) };
        let config = NodeConfig { mps: Mps::PerUser, ..NodeConfig::default() };
        let before = variables(&share, &config);
        let with = |slurms: &str| {
            let mut found = before.clone();
            agree(&mut found, slurms, "0000:c1:00.0");
            let value =
                |wanted| found.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            [MEMORY, MPS_MEMORY, SHARD_MEMORY].map(|name| value(name).unwrap_or_else(|| "-".to_owned()))
        };
        for (slurms, expected) in [
            ("0000:c1:00.0=3002M", ["3002", "0=3002M", "-"]),
            ("0000:17:00.0=8M,00000000:C1:00.0=3002M", ["3002", "0=3002M", "-"]),
            // Ours is smaller; both limits apply.
            ("0000:c1:00.0=5000M", ["4096", "0=4096M", "-"]),
            ("0000:c1:00.0=much", ["4096", "0=4096M", "-"]),
            // Slurm's limit is for the GPU that it allocated.
            ("0000:17:00.0=3002M", ["4096", "0=4096M", "0000:c1:00.0=4096M"]),
            ("", ["4096", "0=4096M", "0000:c1:00.0=4096M"]),
        ] {
            assert_eq!(with(slurms), expected, "{slurms}");
        }
        let mut found = variables(&entry(40, None), &config);
        agree(&mut found, "0000:17:00.0=3002M", "0000:c1:00.0");
        assert!(found.contains(&(SHARD_MEMORY.to_owned(), String::new())), "a share without a size");
    }
}
