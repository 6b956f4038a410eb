//! Which of this node's GPUs a job may have, by what Slurm says about the job and how Slurm counts here (`Placement`).
//!
//!  placement | what shows a share | what Slurm says about it |
//! |---|---|---|
//! | follow, mps | the percentage that gres/mps sets | the GPU that has it |
//! | follow, shard | our note, since a prolog is told nothing else | the GPU that has it |
//! | own | our note | nothing: the node has no `gpu` GRES |
//! | override | the percentage, or our note for another GRES | the GPU that it allocated |
//!
//! A job with GPUs and no share has whole GPUs. If what Slurm says contradicts the placement, that is a [`Mismatch`].

use crate::config::{NodeConfig, Placement};
use crate::job::NodeJob;
use crate::ledger::{Entry, Holding};
use gpushare::word::Word;

/// What a job may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Nothing, or nothing that gpushare has a say in.
    Nothing,
    /// A share of one GPU.
    Share {
        /// The share's units.
        units: u32,
        /// Slurm's index of the GPU that it allocated.
        allocated_gpu: Option<u32>,
        /// The units noted at submission, if Slurm's own count contradicts them.
        contradicted: Option<u32>,
    },
    /// These GPUs, by Slurm's index.
    Whole(Vec<u32>),
}

gpushare::errors! {
    /// `Placement` doesn't match how this node's Slurm is configured.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mismatch {
        NoGpuAllocated(placement: Placement) =>
            "Placement={} does not fit: Slurm allocated a share but names no GPU for it (is the share GRES CountOnly \
             in gres.conf?)", placement.word();
        GpuUnderOwn =>
            "Placement=own does not fit: Slurm gave the job GPUs, so this node has a gpu GRES; use follow or \
             override";
        SeveralGpus =>
            "Slurm spread the share over several GPUs; SelectTypeParameters=MULTIPLE_SHARING_GRES_PJ is not supported";
    }
}

impl Allocation {
    /// Whether this allocation led to that entry.
    pub fn is_of(&self, entry: &Entry) -> bool {
        match (self, &entry.holding) {
            (
                Allocation::Share { units, allocated_gpu, .. },
                Holding::Share { units: had, allocated_gpu: was, .. },
            ) => units == had && allocated_gpu == was,
            (Allocation::Whole(indices), Holding::Whole) => {
                indices.len() == entry.gpus.len() && entry.gpus.iter().all(|gpu| indices.contains(&gpu.index))
            }
            _ => false,
        }
    }

    /// Reads the allocation of a job. `units` are the units of each of the node's GPUs.
    ///
    /// # Errors
    /// Slurm gave the job a share without a GPU that `Placement` needs, a share of several GPUs, or under `own` any
    /// GPU.
    pub fn of(job: &NodeJob, config: &NodeConfig, units: &[u32]) -> Result<Allocation, Mismatch> {
        let share = share_units(job, config, units);
        match (config.placement, share) {
            (Placement::Off, _) => Ok(Allocation::Nothing),
            (Placement::Own, _) if !job.gpus.is_empty() || job.percent.is_some() => {
                Err(Mismatch::GpuUnderOwn)
            }
            (Placement::Own, Some((units, _))) => {
                Ok(Allocation::Share { units, allocated_gpu: None, contradicted: None })
            }
            (Placement::Own, None) => Ok(Allocation::Nothing),
            (Placement::Follow | Placement::Override, None) if job.gpus.is_empty() => Ok(Allocation::Nothing),
            (Placement::Follow | Placement::Override, None) => Ok(Allocation::Whole(job.gpus.clone())),
            (placement, Some((units, contradicted))) => match (placement, job.gpus.as_slice()) {
                (_, [allocated_gpu]) => {
                    Ok(Allocation::Share { units, allocated_gpu: Some(*allocated_gpu), contradicted })
                }
                (_, [_, _, ..]) => Err(Mismatch::SeveralGpus),
                (Placement::Override, []) if job.percent.is_none() => {
                    Ok(Allocation::Share { units, allocated_gpu: None, contradicted })
                }
                (placement, []) => Err(Mismatch::NoGpuAllocated(placement)),
            },
        }
    }
}

/// The units of the job's share, and the noted units if Slurm's percentage contradicts them.
fn share_units(job: &NodeJob, config: &NodeConfig, of_gpus: &[u32]) -> Option<(u32, Option<u32>)> {
    let noted = job.noted.as_ref().filter(|noted| noted.gres == config.share_gres).map(|noted| noted.units);
    match job.percent {
        Some(percent) if config.share_gres == "mps" => {
            // Under `override` Slurm charges one GPU for all, so that GPU has all units of the node.
            let total = match (config.placement, job.gpus.first()) {
                (Placement::Override, _) | (_, None) => of_gpus.iter().map(|units| u64::from(*units)).sum(),
                (_, Some(index)) => usize::try_from(*index)
                    .ok()
                    .and_then(|at| of_gpus.get(at))
                    .map_or(0, |units| (*units).into()),
            };
            Some(units(percent, noted, total))
        }
        _ if config.share_gres == "mps" => None,
        _ => noted.map(|units| (units, None)),
    }
}

/// The count noted at submission, if Slurm's percentage of `total` confirms it. Otherwise the count that matches the
/// percentage, to the nearest unit.
fn units(percent: u32, noted: Option<u32>, total: u64) -> (u32, Option<u32>) {
    let slurms = |units: u32| (u64::from(units) * 100).checked_div(total).unwrap_or(0).max(1);
    match noted {
        Some(units) if slurms(units) == u64::from(percent) => (units, None),
        contradicted => {
            let estimate = (u64::from(percent) * total + 50) / 100;
            (u32::try_from(estimate.max(1)).unwrap_or(u32::MAX), contradicted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobKey, Noted};

    fn config(placement: Placement, gres: &str) -> NodeConfig {
        NodeConfig { placement, share_gres: gres.to_owned(), ..NodeConfig::default() }
    }

    fn job(percent: Option<u32>, noted: Option<(&str, u32)>, gpus: &[u32]) -> NodeJob {
        let noted = noted.map(|(gres, units)| Noted { gres: gres.to_owned(), units });
        let (key, gpus) = (JobKey { id: 1, restart: 0 }, gpus.to_vec());
        NodeJob { key, user_id: 1, percent, noted, gpus, gpu_mps: false }
    }

    fn share(units: u32, allocated_gpu: Option<u32>) -> Result<Allocation, Mismatch> {
        Ok(Allocation::Share { units, allocated_gpu, contradicted: None })
    }

    #[test]
    fn each_placement_reads_what_slurm_says_in_its_own_way() {
        use Placement::{Follow, Off, Override, Own};
        for (placement, gres, job, expected) in [
            (Off, "mps", job(Some(50), None, &[0]), Ok(Allocation::Nothing)),
            (Follow, "mps", job(Some(50), None, &[3]), share(40, Some(3))),
            (Follow, "mps", job(None, Some(("mps", 40)), &[]), Ok(Allocation::Nothing)),
            (Follow, "mps", job(None, None, &[1, 2]), Ok(Allocation::Whole(vec![1, 2]))),
            (Follow, "mps", job(Some(50), None, &[]), Err(Mismatch::NoGpuAllocated(Follow))),
            (Follow, "mps", job(Some(50), None, &[0, 1]), Err(Mismatch::SeveralGpus)),
            (Follow, "shard", job(None, Some(("shard", 2)), &[3]), share(2, Some(3))),
            (Follow, "shard", job(None, None, &[3]), Ok(Allocation::Whole(vec![3]))),
            (Own, "gpushare", job(None, Some(("gpushare", 20)), &[]), share(20, None)),
            (Own, "gpushare", job(None, Some(("mps", 20)), &[]), Ok(Allocation::Nothing)),
            (Own, "gpushare", job(None, None, &[]), Ok(Allocation::Nothing)),
            (Own, "gpushare", job(None, None, &[0]), Err(Mismatch::GpuUnderOwn)),
            (Override, "mps", job(Some(12), Some(("mps", 40)), &[0]), share(40, Some(0))),
            (Override, "mps", job(Some(12), Some(("mps", 39)), &[0]), share(39, Some(0))),
            (Override, "mps", job(Some(12), None, &[0]), share(38, Some(0))),
            (Override, "mps", job(Some(1), Some(("mps", 1)), &[0]), share(1, Some(0))),
            (Override, "mps", job(Some(100), None, &[0]), share(320, Some(0))),
            (Override, "mps", job(None, None, &[2]), Ok(Allocation::Whole(vec![2]))),
            (Override, "mps", job(Some(12), None, &[]), Err(Mismatch::NoGpuAllocated(Override))),
            (Override, "gpushare", job(None, Some(("gpushare", 4)), &[]), share(4, None)),
            (Override, "gpushare", job(Some(12), Some(("gpushare", 4)), &[0]), share(4, Some(0))),
        ] {
            assert_eq!(
                Allocation::of(&job, &config(placement, gres), &[80; 4]),
                expected,
                "{placement:?} {gres} {job:?}"
            );
        }
    }

    #[test]
    fn an_entry_is_of_the_allocation_that_it_shows() {
        use crate::fake::gpu;
        let entry =
            |holding, gpus| Entry { holding, gpus, ..Entry::without_gpus(JobKey { id: 1, restart: 0 }, 1) };
        let held = |units, allocated_gpu| {
            entry(Holding::Share { units, capacity: 80, allocated_gpu, memory: None }, vec![gpu(2)])
        };
        let whole =
            |indices: &[u32]| entry(Holding::Whole, indices.iter().map(|index| gpu(*index)).collect());
        let asked = |units| share(units, Some(2)).unwrap();
        for (allocation, entry, expected) in [
            (asked(40), held(40, Some(2)), true),
            (asked(40), held(39, Some(2)), false),
            (asked(40), held(40, Some(1)), false),
            (asked(40), held(40, None), false),
            (asked(40), whole(&[2]), false),
            (Allocation::Whole(vec![2]), held(40, Some(2)), false),
            (Allocation::Whole(vec![1, 2]), whole(&[2, 1]), true),
            (Allocation::Whole(vec![1, 2]), whole(&[1]), false),
            (Allocation::Whole(vec![1, 2]), whole(&[1, 3]), false),
            (Allocation::Nothing, whole(&[]), false),
        ] {
            assert_eq!(allocation.is_of(&entry), expected, "{allocation:?} {entry:?}");
        }
    }

    #[test]
    fn a_note_that_slurm_contradicts_is_not_believed_and_told() {
        let found = Allocation::of(
            &job(Some(12), Some(("mps", 320)), &[0]),
            &config(Placement::Override, "mps"),
            &[80; 4],
        );
        assert_eq!(
            found,
            Ok(Allocation::Share { units: 38, allocated_gpu: Some(0), contradicted: Some(320) })
        );
        let no_gpus = Allocation::of(&job(Some(50), None, &[0]), &config(Placement::Override, "mps"), &[]);
        assert_eq!(no_gpus, share(1, Some(0)));
    }
}
