//! Chooses the GPU for a share: pure, from what is assigned already.
//!
//! Among the GPUs on which the share fits: the one with the least assigned units, then the fewest jobs, then the lowest
//! index. Units are summed, not jobs counted, so shares of different sizes stay balanced.

use crate::config::Overcommit;

/// How much of a GPU is given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Slurm's index of the GPU.
    pub index: u32,
    /// Units assigned; may exceed the capacity where overcommit is allowed.
    pub assigned: u64,
    /// Jobs that have these units.
    pub jobs: u32,
}

/// The GPU for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Choice {
    /// Slurm's index of the GPU.
    pub index: u32,
    /// The share didn't fit there, nor anywhere else.
    pub overcommitted: bool,
}

/// The share fits nowhere and must not be overcommitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingFits;

/// Chooses among `gpus`, each of which holds `capacity` units. No GPUs at all is [`NothingFits`] too.
pub fn choose(
    gpus: &[Occupancy],
    units: u32,
    capacity: u32,
    overcommit: Overcommit,
) -> Result<Choice, NothingFits> {
    let least = |fitting: bool| {
        gpus.iter()
            .filter(|gpu| !fitting || gpu.assigned + u64::from(units) <= u64::from(capacity))
            .min_by_key(|gpu| (gpu.assigned, gpu.jobs, gpu.index))
    };
    match (least(true), overcommit) {
        (Some(gpu), _) => Ok(Choice { index: gpu.index, overcommitted: false }),
        (None, Overcommit::Refuse) => Err(NothingFits),
        (None, Overcommit::Allow) => {
            least(false).map(|gpu| Choice { index: gpu.index, overcommitted: true }).ok_or(NothingFits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(assigned: &[u64]) -> Vec<Occupancy> {
        (0..)
            .zip(assigned)
            .map(|(index, assigned)| Occupancy { index, assigned: *assigned, jobs: u32::from(*assigned > 0) })
            .collect()
    }

    #[test]
    fn the_least_assigned_gpu_that_fits_is_chosen() {
        for (assigned, units, expected) in [
            ([0, 0, 0, 0], 40, Ok((0, false))),
            ([40, 0, 0, 0], 40, Ok((1, false))),
            ([40, 40, 20, 40], 40, Ok((2, false))),
            ([80, 80, 80, 41], 40, Ok((3, true))),
            ([80, 80, 80, 40], 40, Ok((3, false))),
        ] {
            let choice = choose(&gpus(&assigned), units, 80, Overcommit::Allow);
            assert_eq!(choice.map(|choice| (choice.index, choice.overcommitted)), expected, "{assigned:?}");
        }
    }

    #[test]
    fn units_are_summed_rather_than_jobs_counted() {
        let mut gpus = gpus(&[60, 40]);
        gpus[1].jobs = 4;
        assert_eq!(choose(&gpus, 20, 80, Overcommit::Refuse), Ok(Choice { index: 1, overcommitted: false }));
    }

    #[test]
    fn nothing_is_overcommitted_where_that_is_refused() {
        assert_eq!(choose(&gpus(&[80, 41]), 40, 80, Overcommit::Refuse), Err(NothingFits));
        assert_eq!(choose(&[], 40, 80, Overcommit::Allow), Err(NothingFits));
    }

    proptest::proptest! {
        #[test]
        fn equal_shares_spread_evenly(count in 1_usize..9, shares in 1_usize..64) {
            let mut gpus = gpus(&vec![0; count]);
            for _ in 0..shares {
                let choice = choose(&gpus, 1, 1000, Overcommit::Refuse).unwrap();
                let gpu = &mut gpus[choice.index as usize];
                gpu.assigned += 1;
                gpu.jobs += 1;
            }
            let most = gpus.iter().map(|gpu| gpu.assigned).max().unwrap();
            let least = gpus.iter().map(|gpu| gpu.assigned).min().unwrap();
            proptest::prop_assert!(most - least <= 1);
        }
    }
}
