//! Tests of the choice: tables with one case per line, and properties that hold for any GPUs.

use proptest::prelude::*;

use super::*;

const RULES: PlacementRules =
    PlacementRules { packing: Packing::Spread, user_mix: UserMix::Allow, overcommit: Overcommit::Allow };
const PACK: PlacementRules = PlacementRules { packing: Packing::Pack, ..RULES };
const AVOID: PlacementRules = PlacementRules { user_mix: UserMix::Avoid, ..RULES };
const DENY: PlacementRules = PlacementRules { user_mix: UserMix::Deny, ..RULES };
const REFUSE: PlacementRules = PlacementRules { overcommit: Overcommit::Refuse, ..RULES };
const DENY_REFUSE: PlacementRules = PlacementRules { user_mix: UserMix::Deny, ..REFUSE };

fn gpu(assigned: u64) -> Candidate {
    Candidate {
        index: 0,
        capacity: 80,
        assigned,
        users: 0,
        foreign: false,
        held: false,
        healthy: true,
        memory: None,
        load: None,
    }
}

fn held() -> Candidate {
    Candidate { held: true, ..gpu(0) }
}

fn ill() -> Candidate {
    Candidate { healthy: false, ..gpu(0) }
}

fn foreign(assigned: u64) -> Candidate {
    Candidate { foreign: true, users: 1, ..gpu(assigned) }
}

/// A GPU with 80 GiB; `memory` is the percentage in use.
fn busy(assigned: u64, memory: u64, utilization: u32) -> Candidate {
    sized(assigned, 80, Some((memory * 80 * 1024 / 100, utilization)))
}

fn sized(assigned: u64, gib: u64, load: Option<(u64, u32)>) -> Candidate {
    let load = load.map(|(memory, utilization)| Load { memory, utilization });
    Candidate { memory: Some(gib * 1024), load, ..gpu(assigned) }
}

fn numbered(gpus: Vec<Candidate>) -> Vec<Candidate> {
    (0..).zip(gpus).map(|(index, gpu)| Candidate { index, ..gpu }).collect()
}

/// The chosen GPU, and the reason.
fn chosen(gpus: Vec<Candidate>, units: u32, rules: PlacementRules) -> (u32, Reason) {
    let choice = choose(&numbered(gpus.clone()), units, rules).unwrap();
    assert!(!choice.overcommitted, "{gpus:?}");
    (choice.index, choice.reason)
}

fn users(users: u32) -> Candidate {
    Candidate { users, ..gpu(40) }
}

#[test]
fn the_first_step_that_tells_gpus_apart_decides() {
    for (gpus, expected) in [
        (vec![gpu(0)], (0, Reason::Only)),
        (vec![gpu(0), held(), ill()], (0, Reason::Only)),
        (vec![ill(), held(), gpu(40)], (2, Reason::Only)),
        (vec![gpu(70), gpu(60)], (1, Reason::Only)),
        (vec![gpu(40), gpu(20), gpu(30)], (1, Reason::Assigned)),
        (vec![gpu(40), gpu(20), gpu(20)], (1, Reason::Index)),
        (vec![busy(20, 0, 0), busy(0, 90, 90)], (1, Reason::Assigned)),
        (vec![busy(20, 0, 0), busy(1, 90, 90)], (0, Reason::Load)),
        (vec![busy(20, 5, 5), busy(1, 5, 5)], (1, Reason::Assigned)),
        (vec![busy(20, 50, 0), busy(20, 40, 0)], (1, Reason::Load)),
        (vec![busy(20, 50, 0), busy(20, 40, 60)], (0, Reason::Load)),
        (vec![busy(20, 50, 60), busy(20, 40, 60)], (1, Reason::Load)),
        (vec![busy(20, 50, 10), busy(20, 50, 5)], (1, Reason::Load)),
        (vec![busy(20, 50, 0), busy(20, 0, 30)], (1, Reason::Load)),
        (vec![users(2), users(1)], (1, Reason::Users)),
        (vec![users(1), users(1)], (0, Reason::Index)),
    ] {
        assert_eq!(chosen(gpus.clone(), 20, RULES), expected, "{gpus:?}");
    }
}

#[test]
fn load_counts_only_where_every_gpu_that_could_be_given_has_it() {
    let blind = || sized(20, 80, None);
    for (gpus, expected) in [
        (vec![busy(20, 90, 90), blind()], (0, Reason::Index)),
        (vec![blind(), busy(20, 0, 0)], (0, Reason::Index)),
        (vec![busy(20, 90, 90), busy(20, 0, 0), blind()], (0, Reason::Index)),
        (vec![busy(20, 90, 90), busy(20, 0, 0), sized(80, 80, None)], (0, Reason::Index)),
        (vec![busy(20, 90, 90), busy(20, 0, 0), held(), ill()], (1, Reason::Load)),
        // No memory sizes: utilization, then MiB in use.
        (vec![loaded(500, 20), loaded(900, 10)], (1, Reason::Load)),
        (vec![loaded(900, 20), loaded(500, 20)], (1, Reason::Load)),
        (vec![loaded(900, 20), busy(20, 0, 20)], (1, Reason::Load)),
    ] {
        assert_eq!(chosen(gpus.clone(), 20, RULES), expected, "{gpus:?}");
    }
}

fn loaded(memory: u64, utilization: u32) -> Candidate {
    Candidate { load: Some(Load { memory, utilization }), ..gpu(20) }
}

#[test]
fn packing_takes_the_fullest_on_which_the_share_fits_and_keeps_large_ones_empty() {
    for (gpus, expected) in [
        (vec![gpu(0), gpu(20), gpu(60)], (2, Reason::Assigned)),
        (vec![gpu(0), gpu(20), gpu(61)], (1, Reason::Assigned)),
        (vec![gpu(0), gpu(0)], (0, Reason::Index)),
        (vec![sized(0, 80, None), sized(0, 40, None)], (1, Reason::Size)),
        (vec![sized(20, 80, None), sized(0, 40, None)], (0, Reason::Assigned)),
        (vec![busy(20, 90, 90), busy(0, 0, 0)], (0, Reason::Assigned)),
        (vec![busy(20, 90, 90), busy(20, 0, 0)], (1, Reason::Load)),
    ] {
        assert_eq!(chosen(gpus.clone(), 20, PACK), expected, "{gpus:?}");
    }
}

#[test]
fn a_larger_gpu_gets_more_but_not_twice_as_much() {
    let small = |capacity, assigned| Candidate { capacity, ..gpu(assigned) };
    for (gpus, expected) in [
        // Half the memory counts as three quarters of the units.
        (vec![sized(0, 40, None), sized(0, 80, None)], 1),
        (vec![sized(0, 40, None), sized(20, 80, None)], 0),
        (vec![sized(20, 40, None), sized(20, 80, None)], 1),
        (vec![sized(28, 40, None), sized(44, 80, None)], 0),
        (vec![sized(29, 40, None), sized(44, 80, None)], 1),
        // Within a sixteenth of the largest, sizes count as equal.
        (vec![sized(0, 76, None), sized(0, 80, None)], 0),
        (vec![sized(0, 74, None), sized(0, 80, None)], 1),
        // One GPU doesn't report its memory.
        (vec![sized(0, 40, None), sized(0, 80, None), gpu(0)], 0),
        (vec![sized(0, 40, None), sized(0, 80, None), sized(0, 0, None)], 0),
        // With different capacities, only those count.
        (vec![small(40, 0), small(80, 0)], 1),
        (vec![small(40, 10), small(80, 40)], 0),
        (
            vec![
                Candidate { memory: Some(9), ..small(40, 0) },
                Candidate { memory: Some(2), ..small(80, 15) },
            ],
            1,
        ),
    ] {
        assert_eq!(chosen(gpus.clone(), 20, RULES).0, expected, "{gpus:?}");
    }
}

#[test]
fn other_users_are_avoided_or_denied() {
    for (rules, gpus, expected) in [
        (RULES, vec![gpu(20), foreign(0)], Ok((1, false, Reason::Assigned))),
        (AVOID, vec![gpu(20), foreign(0)], Ok((0, false, Reason::UserMix))),
        (AVOID, vec![gpu(70), foreign(0)], Ok((1, false, Reason::Only))),
        (AVOID, vec![gpu(70), foreign(70)], Ok((0, true, Reason::UserMix))),
        (AVOID, vec![gpu(71), foreign(70)], Ok((1, true, Reason::Assigned))),
        (DENY, vec![gpu(20), foreign(0)], Ok((0, false, Reason::Only))),
        (DENY, vec![gpu(70), foreign(0)], Ok((0, true, Reason::Only))),
        (DENY, vec![foreign(70), foreign(0)], Err(NothingFits::OtherUsers)),
        (DENY, vec![foreign(70), foreign(70)], Err(NothingFits::OtherUsers)),
        (DENY_REFUSE, vec![gpu(70), foreign(0)], Err(NothingFits::OtherUsers)),
        (DENY_REFUSE, vec![gpu(70), foreign(70)], Err(NothingFits::Full)),
    ] {
        let found = choose(&numbered(gpus.clone()), 20, rules);
        let found = found.map(|choice| (choice.index, choice.overcommitted, choice.reason));
        assert_eq!(found, expected, "{rules:?} {gpus:?}");
    }
}

#[test]
fn what_fits_nowhere_is_refused_or_goes_where_it_does_least_harm() {
    let small = |assigned| Candidate { capacity: 40, ..gpu(assigned) };
    let pack_refuse = PlacementRules { packing: Packing::Pack, ..REFUSE };
    for (rules, gpus, expected) in [
        (REFUSE, vec![gpu(61)], Err(NothingFits::Full)),
        (REFUSE, vec![gpu(61), held(), ill()], Err(NothingFits::Full)),
        (pack_refuse, vec![gpu(61)], Err(NothingFits::Full)),
        (REFUSE, vec![], Err(NothingFits::NoneLeft)),
        (REFUSE, vec![held(), ill()], Err(NothingFits::NoneLeft)),
        (RULES, vec![held(), ill()], Err(NothingFits::NoneLeft)),
        (DENY, vec![held(), ill()], Err(NothingFits::NoneLeft)),
        (RULES, vec![held(), gpu(99), ill()], Ok(1)),
        (RULES, vec![gpu(99), gpu(80), gpu(90)], Ok(1)),
        (PACK, vec![gpu(99), gpu(80), gpu(90)], Ok(1)),
        // 60 of 40 exceeds 100 of 80, although both are 20 units over.
        (RULES, vec![small(40), gpu(80)], Ok(1)),
        (RULES, vec![small(30), gpu(90)], Ok(0)),
        // Load and memory don't count before that.
        (RULES, vec![busy(80, 90, 90), busy(81, 0, 0)], Ok(0)),
        (RULES, vec![busy(80, 90, 90), busy(80, 0, 0)], Ok(1)),
        (RULES, vec![sized(70, 40, None), sized(71, 80, None)], Ok(0)),
    ] {
        let found = choose(&numbered(gpus.clone()), 20, rules);
        assert!(found.is_err() || found.unwrap().overcommitted);
        assert_eq!(found.map(|choice| choice.index), expected, "{rules:?} {gpus:?}");
    }
}

#[test]
fn two_hundred_and_fifty_six_shares_on_eight_gpus_differ_by_one_at_most_and_fill_none() {
    for units in [2, 10, 16, 20, 80] {
        let mut gpus = numbered(vec![gpu(0); 8]);
        for _ in 0..256 {
            let choice = choose(&gpus, units, RULES).unwrap();
            let full = gpus.iter().all(|gpu| gpu.assigned + u64::from(units) > 80);
            assert_eq!(choice.overcommitted, full);
            gpus[choice.index as usize].assigned += u64::from(units);
            assert!(imbalance(&gpus) <= u64::from(units));
        }
    }
}

fn imbalance(gpus: &[Candidate]) -> u64 {
    let assigned = || gpus.iter().map(|gpu| gpu.assigned);
    assigned().max().unwrap() - assigned().min().unwrap()
}

fn any_amount() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..100_u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

prop_compose! {
    fn any_gpu()(
        capacity in prop_oneof![5 => Just(80), 1 => any::<u32>()],
        assigned in any_amount(),
        users in 0..4_u32,
        foreign: bool,
        held in prop::bool::weighted(0.2),
        healthy in prop::bool::weighted(0.8),
        memory in prop::option::weighted(0.8, any_amount()),
        load in prop::option::weighted(0.9, (any_amount(), prop_oneof![5 => 0..=100_u32, 1 => any::<u32>()])),
    ) -> Candidate {
        let load = load.map(|(memory, utilization)| Load { memory, utilization });
        Candidate { index: 0, capacity, assigned, users, foreign, held, healthy, memory, load }
    }
}

fn any_gpus() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(any_gpu(), 0..9).prop_map(numbered)
}

fn any_units() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..100_u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn any_rules() -> impl Strategy<Value = PlacementRules> {
    let packing = prop::sample::select(vec![Packing::Spread, Packing::Pack]);
    let user_mix = prop::sample::select(vec![UserMix::Allow, UserMix::Avoid, UserMix::Deny]);
    let overcommit = prop::sample::select(vec![Overcommit::Allow, Overcommit::Refuse]);
    (packing, user_mix, overcommit).prop_map(|(packing, user_mix, overcommit)| PlacementRules {
        packing,
        user_mix,
        overcommit,
    })
}

fn fits(gpu: &Candidate, units: u32) -> bool {
    u128::from(gpu.assigned) + u128::from(units) <= u128::from(gpu.capacity)
}

proptest! {
    #[test]
    fn the_choice_is_one_that_the_rules_allow(gpus in any_gpus(), units in any_units(), rules in any_rules()) {
        let usable = |gpu: &&Candidate| gpu.healthy && !gpu.held && gpu.capacity >= units;
        let allowed = |gpu: &&Candidate| usable(gpu) && !(gpu.foreign && rules.user_mix == UserMix::Deny);
        let room = gpus.iter().filter(allowed).any(|gpu| fits(gpu, units));
        match choose(&gpus, units, rules) {
            Ok(choice) => {
                let gpu = &gpus[choice.index as usize];
                prop_assert!(allowed(&gpu));
                prop_assert_eq!(choice.overcommitted, !room);
                prop_assert_eq!(choice.overcommitted, !fits(gpu, units));
                prop_assert!(!choice.overcommitted || rules.overcommit == Overcommit::Allow);
                let own = gpus.iter().filter(allowed).any(|gpu| !gpu.foreign && fits(gpu, units));
                prop_assert!(rules.user_mix != UserMix::Avoid || !own || !gpu.foreign);
            }
            Err(NothingFits::NoneLeft) => prop_assert!(!gpus.iter().any(|gpu| usable(&gpu))),
            Err(why) => {
                // Without the rule that each reason names, a GPU would be eligible.
                let without = match why {
                    NothingFits::Full => {
                        PlacementRules { overcommit: Overcommit::Allow, user_mix: UserMix::Allow, ..rules }
                    }
                    _ => PlacementRules { user_mix: UserMix::Allow, ..rules },
                };
                prop_assert_ne!(without, rules);
                prop_assert!(choose(&gpus, units, without).is_ok());
            }
        }
    }

    #[test]
    fn the_order_of_gpus_has_no_influence(
        (gpus, other) in any_gpus().prop_flat_map(|gpus| (Just(gpus.clone()), Just(gpus).prop_shuffle())),
        units in any_units(),
        rules in any_rules(),
    ) {
        prop_assert_eq!(choose(&gpus, units, rules), choose(&other, units, rules));
    }

    #[test]
    fn less_on_the_chosen_gpu_leaves_it_chosen(
        gpus in any_gpus(), units in any_units(), less in any_amount(), of_load in any_amount(), user_mix in 0..3_usize,
    ) {
        let rules = [RULES, AVOID, DENY][user_mix];
        let Ok(choice) = choose(&gpus, units, rules) else { return Ok(()) };
        let mut fewer = gpus.clone();
        let gpu = &mut fewer[choice.index as usize];
        gpu.assigned = gpu.assigned.saturating_sub(less);
        gpu.load.iter_mut().for_each(|load| load.memory = load.memory.saturating_sub(of_load));
        prop_assert_eq!(choose(&fewer, units, rules).map(|choice| choice.index), Ok(choice.index));
    }

    #[test]
    fn without_load_more_on_another_gpu_leaves_the_choice(
        gpus in any_gpus(), units in any_units(), more in any_amount(), at in 0..9_usize,
    ) {
        let mut gpus = gpus;
        gpus.iter_mut().for_each(|gpu| gpu.load = None);
        let Ok(choice) = choose(&gpus, units, RULES) else { return Ok(()) };
        let Some(other) = gpus.get_mut(at).filter(|gpu| gpu.index != choice.index) else { return Ok(()) };
        other.assigned = other.assigned.saturating_add(more);
        prop_assert_eq!(choose(&gpus, units, RULES).map(|choice| choice.index), Ok(choice.index));
    }

    #[test]
    fn equal_shares_spread_over_equal_gpus_differ_by_one_at_most_whatever_the_load(
        loads in prop::collection::vec((0..8_usize, 0..90_000_u64, 0..=100_u32), 1..64),
        count in 1..9_usize,
        units in 1..81_u32,
    ) {
        let mut gpus = numbered(vec![busy(0, 0, 0); count]);
        for (at, memory, utilization) in loads {
            gpus[at % count].load = Some(Load { memory, utilization });
            let choice = choose(&gpus, units, RULES).unwrap();
            gpus[choice.index as usize].assigned += u64::from(units);
            prop_assert!(imbalance(&gpus) <= u64::from(units));
        }
    }

    #[test]
    fn unequal_shares_spread_over_equal_gpus_differ_by_less_than_two_of_the_largest(
        shares in prop::collection::vec((1..40_u32, 0..=100_u32), 1..64),
    ) {
        let mut gpus = numbered(vec![Candidate { capacity: u32::MAX, ..busy(0, 0, 0) }; 4]);
        let largest = shares.iter().map(|(units, _)| u64::from(*units)).max().unwrap();
        for (units, utilization) in shares {
            gpus[utilization as usize % 4].load = Some(Load { memory: 0, utilization });
            let choice = choose(&gpus, units, RULES).unwrap();
            gpus[choice.index as usize].assigned += u64::from(units);
            prop_assert!(imbalance(&gpus) < 2 * largest);
        }
    }

    #[test]
    fn nothing_is_less_overcommitted_than_the_choice(gpus in any_gpus(), units in any_units(), rules in any_rules()) {
        let Ok(choice) = choose(&gpus, units, rules) else { return Ok(()) };
        let over = |gpu: &Candidate| Fraction::of(gpu.with(units), u128::from(gpu.capacity));
        let least = over(&gpus[choice.index as usize]);
        let denied = |gpu: &Candidate| gpu.foreign && rules.user_mix == UserMix::Deny;
        if choice.overcommitted {
            let unfit = |gpu: &Candidate| !gpu.healthy || gpu.held || gpu.capacity < units || denied(gpu);
            prop_assert!(gpus.iter().all(|gpu| unfit(gpu) || over(gpu) >= least));
        }
    }
}

#[test]
fn a_load_has_both_figures() {
    let state = |used, utilization| GpuState { used, utilization, ..GpuState::default() };
    assert_eq!(Load::of(&state(Some(1210), Some(37))), Some(Load { memory: 1210, utilization: 37 }));
    assert_eq!(Load::of(&state(None, Some(37))), None);
    assert_eq!(Load::of(&state(Some(1210), None)), None);
}
