//! Checks the device filter for every possible request, and that blinded programs become readable.

use super::interpreter::{Asked, allows};
use super::program::{ALLOW_ALL, Instruction, ProgramError, in_front_of};
use super::rules::DeviceRules;
use super::slurm::{Line, answer, blinded, character, program};
use super::unblind::unblind;
use crate::fence::Fence;
use crate::gpu::{Device, DeviceNumber};

fn devices(numbers: &[(u32, u32)]) -> Vec<Device> {
    let device = |(major, minor): &(u32, u32)| {
        let number = DeviceNumber { major: *major, minor: *minor };
        Device { path: format!("/dev/{number}").into(), number }
    };
    numbers.iter().map(device).collect()
}

fn fence(open: &[(u32, u32)], closed: &[(u32, u32)], widens: bool) -> Fence {
    Fence { open: devices(open), closed: devices(closed), widens }
}

/// What a fence should answer, written from its definition.
fn expected(fence: &Fence, slurm: &[Line], asked: Asked) -> bool {
    let Asked { kind, major, minor, .. } = asked;
    let is_in = |list: &[Device]| list.iter().any(|device| device.number == DeviceNumber { major, minor });
    let by_slurm = answer(slurm, kind, major, minor);
    if kind != 2 {
        by_slurm
    } else if is_in(&fence.closed) {
        false
    } else if is_in(&fence.open) {
        fence.widens || by_slurm
    } else {
        by_slurm && !(major == 195 && minor <= 253)
    }
}

fn fences() -> Vec<Fence> {
    let open: [&[(u32, u32)]; 6] =
        [&[], &[(195, 2)], &[(195, 0), (195, 253)], &[(195, 255)], &[(226, 128), (195, 1)], &[(234, 0)]];
    let closed: [&[(u32, u32)]; 5] =
        [&[], &[(195, 0), (195, 1)], &[(226, 128), (226, 1)], &[(195, 255), (120, 0)], &[(195, 2), (234, 3)]];
    let mut all = Vec::new();
    for open in open {
        for closed in closed {
            all.extend([false, true].map(|widens| fence(open, closed, widens)));
        }
    }
    all
}

fn slurm_lines() -> Vec<Vec<Line>> {
    let allocated =
        |allocated| (0..4).map(|minor| character(195, minor, minor == allocated)).collect::<Vec<_>>();
    vec![
        vec![],
        allocated(0),
        allocated(2),
        allocated(9),
        [allocated(1), vec![character(120, 0, false), character(226, 128, true)]].concat(),
        vec![Line(Some(1), Some(195), None, false), Line(Some(2), Some(226), None, false)],
        vec![Line(None, Some(120), Some(1), false), Line(Some(2), None, Some(3), false)],
    ]
}

fn questions() -> Vec<Asked> {
    let mut all = Vec::new();
    for kind in [1, 2, 3] {
        for major in [1, 120, 195, 226, 234] {
            for minor in [0, 1, 2, 3, 4, 5, 128, 250, 251, 252, 253, 254, 255, 256, 0xfffff] {
                all.extend([1, 2, 4, 6, 7].map(|access| Asked { kind, access, major, minor }));
            }
        }
    }
    all
}

#[test]
fn a_filter_in_front_of_any_program_of_slurms_answers_as_the_fence_means() {
    for fence in fences() {
        for lines in slurm_lines() {
            let filter = in_front_of(&DeviceRules::of(&fence), &program(&lines)).unwrap();
            for asked in questions() {
                let expected = expected(&fence, &lines, asked);
                assert_eq!(allows(&filter, asked), expected, "{asked:?} {fence:?} {lines:?}");
            }
        }
    }
}

#[test]
fn a_filter_that_stands_beside_slurms_narrows_only() {
    for fence in fences().into_iter().filter(|fence| !fence.widens) {
        let filter = in_front_of(&DeviceRules::of(&fence), &ALLOW_ALL).unwrap();
        for lines in slurm_lines() {
            let slurm = program(&lines);
            for asked in questions() {
                let both = allows(&slurm, asked) && allows(&filter, asked);
                assert_eq!(both, expected(&fence, &lines, asked), "{asked:?} {fence:?} {lines:?}");
            }
        }
    }
}

#[test]
fn a_filter_uses_the_registers_that_no_program_relies_on() {
    for fence in fences() {
        let filter = in_front_of(&DeviceRules::of(&fence), &[]).unwrap();
        for instruction in filter {
            let sources = if instruction.code == 0x61 { [1].as_slice() } else { &[0] };
            assert!([0, 2, 3, 4, 5].contains(&instruction.target) && sources.contains(&instruction.source));
        }
    }
}

/// The verifier refuses a program with an unreachable instruction, and one that runs off its end.
#[test]
fn every_instruction_of_a_filter_is_reached() {
    for fence in fences() {
        let filter = in_front_of(&DeviceRules::of(&fence), &ALLOW_ALL).unwrap();
        let mut reached = vec![false; filter.len()];
        let mut ahead = vec![0];
        while let Some(at) = ahead.pop() {
            if std::mem::replace(&mut reached[at], true) || filter[at].code == 0x95 {
                continue;
            }
            ahead.push(at + 1);
            if filter[at].code & 7 == 5 {
                ahead.push((at + 1).checked_add_signed(filter[at].offset.into()).unwrap());
            }
        }
        assert!(reached.iter().all(|reached| *reached), "{fence:?}");
    }
}

#[test]
fn what_fits_no_program_is_refused() {
    let number = |minor| fence(&[], &[(226, minor)], false);
    let filter = |fence| in_front_of(&DeviceRules::of(&fence), &ALLOW_ALL);
    assert!(filter(number(u32::MAX >> 1)).is_ok());
    let too_high = DeviceNumber { major: 226, minor: u32::MAX };
    assert_eq!(filter(number(u32::MAX)), Err(ProgramError::Number(too_high)));
    let many: Vec<(u32, u32)> = (0..20_000).map(|minor| (226, minor)).collect();
    assert_eq!(filter(fence(&[], &many, false)), Err(ProgramError::TooLong));
}

#[test]
fn an_instruction_is_in_memory_as_the_kernel_has_it() {
    if cfg!(target_endian = "little") {
        let load = Instruction { code: 0x61, target: 5, source: 1, offset: 8, immediate: 0 };
        assert_eq!(load.encode(), [0x61, 0x15, 8, 0, 0, 0, 0, 0]);
        let jump = Instruction { code: 0x55, target: 4, source: 0, offset: -2, immediate: 195 };
        assert_eq!(jump.encode(), [0x55, 0x04, 0xfe, 0xff, 195, 0, 0, 0]);
    }
}

#[test]
fn what_only_resembles_a_blinded_program_is_refused() {
    let one =
        |code, target, source, offset, immediate| Instruction { code, target, source, offset, immediate };
    let good =
        [one(0xb7, 11, 0, 0, 6), one(0xa7, 11, 0, 0, 4), one(0xbf, 0, 11, 0, 0), one(0x95, 0, 0, 0, 0)];
    assert_eq!(unblind(&good), Ok(vec![one(0xb7, 0, 0, 0, 2), one(0x95, 0, 0, 0, 0)]));
    let cases = [
        (0, one(0xb4, 11, 0, 0, 6), "32 bits instead of 64"),
        (0, one(0xb7, 11, 0, 1, 6), "an offset"),
        (1, one(0xb7, 11, 0, 0, 4), "two moves"),
        (1, one(0xa7, 10, 0, 0, 4), "another register"),
        (2, one(0xbf, 11, 11, 0, 0), "into the register itself"),
        (2, one(0x7f, 0, 11, 0, 0), "a shift"),
        (2, one(0x6f, 0, 11, 0, 0), "a shift"),
        (2, one(0x7b, 10, 11, -8, 0), "a store"),
        (2, one(0xbf, 0, 11, 0, 1), "a constant besides"),
        (2, one(0xb7, 0, 11, 0, 0), "a constant, not the register"),
        (2, one(0x1d, 0, 11, 9, 0), "a jump out of the program"),
        (2, one(0x1d, 0, 11, -2, 0), "a jump between the three"),
        (3, one(0x18, 0, 0, 0, 0), "a constant of two instructions"),
        (3, one(0x85, 0, 1, 0, 0), "a call inside the program"),
        (3, one(0x06, 0, 0, 0, 0), "a far jump"),
        (3, one(0x95, 0, 11, 0, 0), "the register, and nothing behind"),
    ];
    for (at, strange, what) in cases {
        let mut program = good;
        program[at] = strange;
        let Err(strange) = unblind(&program) else { panic!("{what}") };
        let expected = format!("instruction {} is not what net.core.bpf_jit_harden=2 makes", strange.0);
        assert_eq!(strange.to_string(), expected, "{what}");
    }
}

#[test]
fn around_what_was_blinded_only_distances_change() {
    let one =
        |code, target, source, offset, immediate| Instruction { code, target, source, offset, immediate };
    let (add, exit) = (one(0x0f, 1, 2, 0, 0), one(0x95, 0, 0, 0, 0));
    let blinded = [
        one(0x1d, 1, 2, 6, 0),
        one(0x05, 0, 0, 4, 0),
        add,
        one(0xb7, 11, 0, 0, 6),
        one(0xa7, 11, 0, 0, 4),
        one(0xbf, 0, 11, 0, 0),
        one(0xaf, 3, 3, 0, 0),
        exit,
    ];
    let loaded = [
        one(0x1d, 1, 2, 4, 0),
        one(0x05, 0, 0, 2, 0),
        add,
        one(0xb7, 0, 0, 0, 2),
        one(0xb7, 3, 0, 0, 0),
        exit,
    ];
    assert_eq!(unblind(&blinded), Ok(loaded.to_vec()));
}

fn any_instruction() -> impl proptest::strategy::Strategy<Value = Instruction> {
    use proptest::prelude::*;
    let codes = proptest::sample::select(vec![
        0x61, 0x54, 0x74, 0xb7, 0xb4, 0xa7, 0xbf, 0xaf, 0x15, 0x55, 0x1d, 0x95, 0x05,
    ]);
    (prop_oneof![codes, any::<u8>()], 0_u8..16, 0_u8..16, -4_i16..12, any::<i32>()).prop_map(
        |(code, target, source, offset, immediate)| Instruction { code, target, source, offset, immediate },
    )
}

fn any_line() -> impl proptest::strategy::Strategy<Value = Line> {
    use proptest::prelude::*;
    let value = || proptest::option::of(prop_oneof![0_u32..4, 119_u32..121, 194_u32..197, any::<u32>()]);
    let line = (proptest::option::of(1_u32..3), value(), value(), any::<bool>());
    line.prop_map(|(kind, major, minor, allowed)| Line(kind, major, minor, allowed))
}

proptest::proptest! {
    #[test]
    fn any_instruction_comes_back_from_memory(instruction in any_instruction()) {
        assert_eq!(Instruction::decode(instruction.encode()), instruction);
    }

    #[test]
    fn a_blinded_program_is_read_as_it_was_loaded(
        lines in proptest::collection::vec(any_line(), 0..9),
        random in proptest::collection::vec(proptest::num::u32::ANY, 97),
    ) {
        let loaded = program(&lines);
        let shown = blinded(&loaded, |at| random[at % random.len()]);
        assert_eq!(unblind(&shown), Ok(loaded.clone()));
        assert_eq!(unblind(&loaded), Ok(loaded));
    }

    #[test]
    fn a_fence_in_front_of_any_devices_of_slurms_answers_as_it_means(
        lines in proptest::collection::vec(any_line(), 0..9),
        at in 0..60_usize,
    ) {
        let fence = &fences()[at];
        let filter = in_front_of(&DeviceRules::of(fence), &program(&lines)).unwrap();
        for asked in questions() {
            assert_eq!(allows(&filter, asked), expected(fence, &lines, asked));
        }
    }

    #[test]
    fn any_program_is_unblinded_or_refused(program in proptest::collection::vec(any_instruction(), 0..40)) {
        if let Ok(shown) = unblind(&program) {
            assert!(shown.iter().all(|one| one.source < 11 && one.target < 11));
        }
    }
}
